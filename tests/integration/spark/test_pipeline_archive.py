"""The archive on Spark: each record once, whatever its checkpoint says, and read without a jar, from S3 too."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from deltalake import DeltaTable

from flotilla import Client
from flotilla.client.admin.cluster import Admin
from flotilla.lake import archive as archive_module
from flotilla.lake import compaction as compaction_module
from flotilla.lake.archive import ArchiveOptions, Archiver, run_archive, run_here
from flotilla.lake.compaction import CompactionRules
from flotilla.lake.lake import Lake
from flotilla.lake.runs import Span
from flotilla.lake.verification import verify_lake, verify_table
from flotilla.spark.pipelines.archive import archive
from flotilla.spark.pipelines.executor_jobs import run_executor_jobs
from flotilla.spark.pipelines.query import flotilla_table
from flotilla.spark.pipelines.ranges import rows_in
from flotilla.spark.pipelines.session import prepare
from flotilla.spark.topic_read import topic_read
from flotilla.types.errors import FlotillaError
from flotilla.types.operations.pipelines import Pipeline
from tests.integration.spark.pipeline_ledger import PANDAS, Ledger, lake_places, places
from tests.integration.spark.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings(PANDAS)]


@pytest.fixture
def options(spark: Any, servers: str, topic: Callable[..., str], tmp_path: Path) -> Callable[..., ArchiveOptions]:
    prepare(spark)
    name = topic()
    return lambda **changes: ArchiveOptions(
        **{"servers": servers, "topics": [name], "lake": str(tmp_path / "lake"), **changes}
    )


def interrupted(_: float) -> None:
    """A continuous archive that has nothing to do ends."""
    raise KeyboardInterrupt


def test_spark_and_a_light_process_take_over_from_each_other(
    spark: Any,
    client: Client,
    options: Callable[..., ArchiveOptions],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = options(batch_rows=1_200)
    reports: list[Pipeline] = []
    send = Admin.report_pipeline

    def report(self: Admin, pipeline: Pipeline, **more: Any) -> None:
        reports.append(pipeline)
        send(self, pipeline, **more)

    monkeypatch.setattr(Admin, "report_pipeline", report)
    name, checkpoint = said.topics[0], str(tmp_path / "checkpoint")
    table = Lake(said.lake).table(name)
    ledger = Ledger(name)
    ledger.produce(client, 2_000, step_ms=10_000)
    first = archive(spark, said, checkpoint)
    assert (first.rows, first.rows_total) == (2_000, 2_000)
    assert table.snapshot().version >= 2, "1,200 rows at a time are two versions at least"
    # The listener of its query reports the lake, too, as of each batch.
    wait_until(lambda: reports != [], "the report of the first micro-batch")
    assert (reports[0].name, reports[0].lake, reports[0].group) == (f"archive {name}", said.lake, "archive")
    assert 1_200 <= reports[0].lake_rows <= 2_000
    assert reports[0].lake_bytes > 0
    days = {file.day for file in table.snapshot().files}
    assert days == {"2023-11-14", "2023-11-15"}

    ledger.produce(client, 500)
    assert run_archive(said).rows == 500
    # Spark's checkpoint is behind the table now, and writes nothing twice.
    ledger.produce(client, 100)
    assert archive(spark, said, checkpoint).rows == 100
    # A lost checkpoint costs nothing.
    ledger.produce(client, 10)
    assert archive(spark, said, str(tmp_path / "another")).rows == 10

    assert verify_table(table, partial(run_executor_jobs, spark)).spans == {0: Span(0, 1_305), 1: Span(0, 1_305)}
    assert sorted(lake_places(table)) == sorted(ledger.found)
    assert [client.committed_offset(name, "archive", number) for number in (0, 1)] == [1_305, 1_305]
    # A jar is not needed: the files of a version are a list, also while others archive and compact.
    upkeep = options(batch_rows=40, is_once=False, compaction=CompactionRules(files_min=2, every_batches=2))
    ledger.produce(client, 400)
    writer = Thread(target=run_archive, args=(upkeep,), kwargs={"wait": interrupted})
    writer.start()
    counts = []
    while True:
        is_last = not writer.is_alive()
        plain = spark.read.parquet(*DeltaTable(table.address).file_uris())
        counts.append(tuple(plain.selectExpr("count(*)", "count(DISTINCT partition, offset)").first()))
        if is_last:
            break
    assert all(rows == distinct for rows, distinct in counts)
    assert counts == sorted(counts)
    assert sorted(places(plain)) == sorted(ledger.found)

    # A checkpoint that is ahead of another lake starts that lake with the oldest record.
    elsewhere = options(topics=[name], lake=str(tmp_path / "elsewhere"), group="elsewhere")
    assert archive(spark, elsewhere, checkpoint).rows_total == 3_010


def test_a_driver_that_dies_after_the_commit_repeats_nothing(
    spark: Any, client: Client, options: Callable[..., ArchiveOptions], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = options(compaction=CompactionRules(files_min=2))
    ledger = Ledger(said.topics[0])
    ledger.produce(client, 400)
    move = archive_module.RetentionHold.move

    def die(self: Any, spans: Any) -> None:
        if spans:
            raise RuntimeError("the driver dies here")
        move(self, spans)

    with monkeypatch.context() as broken:
        broken.setattr(archive_module.RetentionHold, "move", die)
        with pytest.raises(FlotillaError, match="the driver dies here"):
            archive(spark, said, str(tmp_path / "checkpoint"))
    assert client.committed_offset(said.topics[0], "archive", 0) == 0, "the hold moves last"

    # Nor does an executor that cannot merge files end an archive.
    def fail(*_: Any) -> None:
        raise MemoryError("no memory is left")

    lines: list[str] = []
    with monkeypatch.context() as broken:
        broken.setattr(compaction_module, "merge_files", fail)
        Archiver(said, client, partial(run_executor_jobs, spark), lines.append).tidy()
    assert lines == [f"files of {said.topics[0]} are not compacted: no memory is left"]

    done = archive(spark, said, str(tmp_path / "checkpoint"))
    assert (done.rows, done.rows_total, done.compacted, done.files_total) == (0, 400, 2, 1)
    assert sorted(lake_places(Lake(said.lake).table(said.topics[0]))) == sorted(ledger.found)
    assert client.committed_offset(said.topics[0], "archive", 0) == 200


def test_a_lake_on_s3_is_read_through_arrow(
    spark: Any,
    client: Client,
    options: Callable[..., ArchiveOptions],
    object_store: str,
) -> None:
    """A Spark from PyPI has no file system for `s3://`."""
    said = options(lake=f"{object_store}/spark")
    name = said.topics[0]
    ledger = Ledger(name)
    ledger.produce(client, 300)
    assert run_archive(said).rows == 300
    ledger.produce(client, 100)
    table = flotilla_table(spark, name, servers=said.servers, lake=said.lake)
    assert sorted(places(table)) == sorted(ledger.found)
    opened = Lake(said.lake).table(name)
    read = topic_read({"servers": said.servers, "lake": said.lake}, name)
    lot = rows_in(spark, read, {0: Span(10, 170)}, opened, opened.snapshot())
    assert sorted(row.offset for row in lot.collect()) == list(range(10, 170))
    assert verify_lake(Lake(said.lake), run_here).rows == 300
