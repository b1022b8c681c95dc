"""The sink when processes are killed: each row is stored once."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the spark extra")

from pyspark.errors import StreamingQueryException

from flotilla import Client
from tests.integration.spark.faulty import IN_TASK, FaultySource
from tests.integration.spark.tables import QUERY_S_MAX, drain, read_stream, start, values

Topic = Callable[..., str]

ROW_COUNT = 3_000
WANTED = sorted(str(number) for number in range(ROW_COUNT))


@pytest.fixture
def source(client: Client, topic: Topic) -> str:
    name = topic(partitions=2)
    for partition in (0, 1):
        values = [b"%d" % number for number in range(partition, ROW_COUNT, 2)]
        client.produce_many(name, values, partition=partition)
    return name


def _rows(spark: Any, servers: str, source: str, **options: object) -> Any:
    return read_stream(spark, servers, subscribe=source, startingOffsets="earliest", **options).select("value")


@pytest.mark.parametrize("guarantee", ["transactional", "idempotent"])
def test_executors_die_at_every_moment(
    spark: Any, servers: str, topic: Topic, source: str, tmp_path: Path, guarantee: str
) -> None:
    copy = topic(partitions=2)
    spark.dataSource.register(FaultySource)
    folder = tmp_path / "faults"
    folder.mkdir()
    for moment in IN_TASK:
        (folder / moment).touch()
    # Many small pieces for each task, and batches that leave early: so there is a middle.
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "100")
    try:
        drain(
            _rows(spark, servers, source),
            servers,
            tmp_path / "checkpoint",
            into="faulty",
            topic=copy,
            folder=str(folder),
            deliveryGuarantee=guarantee,
            batchBytes="1KiB",
        )
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert [path.name for path in folder.iterdir()] == []
    assert values(spark, servers, copy) == WANTED


@pytest.mark.parametrize("moment", ["before-commit", "after-commit"])
def test_the_committer_dies_and_the_query_is_run_again_with_other_tasks(
    spark: Any, servers: str, topic: Topic, source: str, tmp_path: Path, moment: str
) -> None:
    copy = topic(partitions=2)
    spark.dataSource.register(FaultySource)
    folder = tmp_path / "faults"
    folder.mkdir()
    (folder / moment).touch()
    options = {"into": "faulty", "topic": copy, "folder": str(folder)}

    while (folder / moment).exists():
        # On a busy machine a query may fail before that moment, without its Python planner.
        query = start(_rows(spark, servers, source), servers, tmp_path / "checkpoint", **options)
        with pytest.raises(StreamingQueryException):
            query.awaitTermination(QUERY_S_MAX)
    assert values(spark, servers, copy) == (WANTED if moment == "after-commit" else [])

    drain(_rows(spark, servers, source, minPartitions=5), servers, tmp_path / "checkpoint", **options)
    assert values(spark, servers, copy) == WANTED
