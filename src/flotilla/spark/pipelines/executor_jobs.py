"""Small jobs for the executors: one text in, one text out, for each of a list.

What tasks do with files needs no rows in Spark: they are told which files, and answer what they found. Only such
descriptions come back to the driver, never data.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

_ANSWERS = pa.schema([("answer", pa.string())])


def run_executor_jobs(spark: SparkSession, errands: Sequence[str], work: Callable[[str], str]) -> list[str]:
    """Has `work` done for each of them by a task of its own, and returns the answers, in no order."""
    if not errands:
        return []
    asked = spark.createDataFrame([(each,) for each in errands], "errand string").repartition(len(errands), "errand")
    answered = asked.mapInArrow(_worker(work), "answer string")
    return [row.answer for row in answered.collect()]


def _worker(work: Callable[[str], str]) -> Callable[[Any], Iterator[Any]]:
    def run(batches: Any) -> Iterator[Any]:
        for batch in batches:
            answers = [work(each) for each in batch["errand"].to_pylist()]
            yield pa.RecordBatch.from_arrays([pa.array(answers, pa.string())], schema=_ANSWERS)

    return run
