"""The sink when processes die: whatever is killed and whenever, each row is there once."""

import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the spark extra")

from pyspark.errors import StreamingQueryException

from flotilla import Client
from tests.integration.spark.conftest import JAVA_FLAGS
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

    query = start(_rows(spark, servers, source), servers, tmp_path / "checkpoint", **options)
    with pytest.raises(StreamingQueryException):
        query.awaitTermination(QUERY_S_MAX)
    assert values(spark, servers, copy) == (WANTED if moment == "after-commit" else [])

    drain(_rows(spark, servers, source, minPartitions=5), servers, tmp_path / "checkpoint", **options)
    assert values(spark, servers, copy) == WANTED


#: A program with a session of its own, which is to die as a whole.
PROGRAM = """
    import sys
    from pathlib import Path
    from pyspark.sql import SparkSession
    import os

    servers, source, copy, folder, checkpoint, java_flags = sys.argv[1:]
    spark = (SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
             .config("spark.driver.extraJavaOptions", java_flags).getOrCreate())
    from tests.integration.spark.faulty import FaultySource
    spark.dataSource.register(FaultySource)
    victims = f"{spark._jvm.java.lang.ProcessHandle.current().pid()} {os.getpid()}"
    Path(folder, "after-commit").write_text(victims)
    rows = (spark.readStream.format("flotilla").option("servers", servers).option("subscribe", source)
            .option("startingOffsets", "earliest").load().select("value"))
    query = (rows.writeStream.format("faulty").option("servers", servers).option("topic", copy)
             .option("folder", folder).option("checkpointLocation", checkpoint).trigger(availableNow=True).start())
    query.awaitTermination()
"""


def test_the_driver_is_killed_after_the_brokers_have_it(
    spark: Any, servers: str, topic: Topic, source: str, tmp_path: Path
) -> None:
    copy = topic(partitions=2)
    folder = tmp_path / "faults"
    folder.mkdir()
    checkpoint = tmp_path / "checkpoint"
    program = [sys.executable, "-c", textwrap.dedent(PROGRAM)]

    # `spark` has set the environment up for it.
    words = [servers, source, copy, str(folder), str(checkpoint), JAVA_FLAGS]
    log = tmp_path / "program.log"
    with log.open("wb") as told:
        # Into a file: a pipe would stay open for as long as any process of Spark's lives.
        process = subprocess.Popen([*program, *words], stdout=told, stderr=told)
        try:
            code = process.wait(QUERY_S_MAX)
        finally:
            process.kill()
            process.wait()
    assert code == -signal.SIGKILL, log.read_text(errors="replace")[-2_000:]
    assert list((checkpoint / "commits").glob("0*")) == []

    drain(_rows(spark, servers, source, minPartitions=4), servers, checkpoint, topic=copy)
    assert values(spark, servers, copy) == WANTED
