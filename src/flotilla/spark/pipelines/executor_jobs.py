"""Jobs for the executors that take a text and return a text.

Work on files needs no rows in Spark: a job gets the description of files and returns a description. No data comes to
the driver.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from flotilla.spark.pipelines.streaming_run import typed_error

_RESULTS = pa.schema([("result", pa.string())])


def run_executor_jobs(spark: SparkSession, jobs: Sequence[str], work: Callable[[str], str]) -> list[str]:
    """Runs `work` for each job in its own task. The results have no order. Raises errors of Spark as FlotillaError."""
    if not jobs:
        return []
    planned = spark.createDataFrame([(each,) for each in jobs], "job string").repartition(len(jobs), "job")
    done = planned.mapInArrow(_worker(work), "result string")
    try:
        return [row.result for row in done.collect()]
    except PySparkException as error:
        raise typed_error(error) from error


def _worker(work: Callable[[str], str]) -> Callable[[Any], Iterator[Any]]:
    def run(batches: Any) -> Iterator[Any]:
        for batch in batches:
            results = [work(each) for each in batch["job"].to_pylist()]
            yield pa.RecordBatch.from_arrays([pa.array(results, pa.string())], schema=_RESULTS)

    return run
