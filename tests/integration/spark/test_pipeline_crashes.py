"""Archive and replay with killed tasks: each row is in the lake once, and in the target once."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the spark extra")

from flotilla import Client
from flotilla.lake.archive import ArchiveOptions, run_archive, run_here
from flotilla.lake.compaction import CompactionRules, compact
from flotilla.lake.lake import Lake
from flotilla.lake.vacuum import removable
from flotilla.lake.verification import verify_table
from flotilla.spark.pipelines import replay as replay_module
from flotilla.spark.pipelines import sending
from flotilla.spark.pipelines.archive import archive
from flotilla.spark.pipelines.executor_jobs import run_executor_jobs
from flotilla.spark.pipelines.replay import ReplayOptions, replay
from flotilla.spark.pipelines.session import prepare
from tests.integration.spark.faulty import (
    IN_ARCHIVE,
    IN_JOB,
    IN_REPLAY,
    FaultyArchiveSource,
    job_or_die,
    send_block,
)
from tests.integration.spark.pipeline_ledger import PANDAS, Ledger, lake_places, replayed

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings(PANDAS)]


def arm(folder: Path, moments: tuple[str, ...]) -> None:
    for moment in moments:
        (folder / moment).touch()


def test_tasks_of_an_archive_are_killed(
    spark: Any, client: Client, servers: str, topic: Callable[..., str], lake: str, faults: Path, tmp_path: Path
) -> None:
    prepare(spark)
    name = topic()
    ledger = Ledger(name)
    ledger.produce(client, 600)
    arm(faults, IN_ARCHIVE)
    said = ArchiveOptions(servers, [name], lake, batch_rows=300)
    spark.dataSource.register(FaultyArchiveSource)
    try:
        done = archive(spark, said, str(tmp_path / "checkpoint"))
    finally:
        prepare(spark)
    assert list(faults.iterdir()) == [], "all of them died"
    assert (done.rows, done.rows_total) == (600, 600)
    table = Lake(lake).table(name)
    verify_table(table, run_here)
    assert sorted(lake_places(table)) == sorted(ledger.found)
    assert len(removable(table, 0)) >= 1, "no version has the files of the killed attempt"
    assert [client.committed_offset(name, "archive", number) for number in (0, 1)] == [300, 300]


def test_workers_that_compact_and_verify_are_killed(
    spark: Any, client: Client, servers: str, topic: Callable[..., str], lake: str, faults: Path
) -> None:
    name = topic()
    ledger = Ledger(name)
    ledger.produce(client, 200)
    run_archive(ArchiveOptions(servers, [name], lake, batch_rows=100))
    table = Lake(lake).table(name)
    before = len(table.snapshot().files)

    def run_jobs(jobs: Sequence[str], work: Callable[[str], str]) -> list[str]:
        return run_executor_jobs(spark, jobs, partial(job_or_die, str(faults), work))

    arm(faults, IN_JOB)
    assert compact(table, CompactionRules(files_min=2), run_jobs) == before
    assert list(faults.iterdir()) == [], "all of them died"
    assert len(removable(table, 0)) > before, "beside the replaced files, one of the killed attempt"
    arm(faults, IN_JOB)
    assert verify_table(table, run_jobs).rows == 200
    assert list(faults.iterdir()) == [], "all of them died"
    assert sorted(lake_places(table)) == sorted(ledger.found)


def test_tasks_of_a_replay_are_killed(
    spark: Any,
    client: Client,
    servers: str,
    topic: Callable[..., str],
    object_store: str,
    faults: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name, into = topic(), topic()
    ledger = Ledger(name)
    ledger.produce(client, 200)
    lake = f"{object_store}/replayed"
    run_archive(ArchiveOptions(servers, [name], lake))
    ledger.produce(client, 100)
    arm(faults, IN_REPLAY)
    monkeypatch.setattr(replay_module, "BLOCK_ROWS", 50)
    monkeypatch.setattr(sending, "_send_block", partial(send_block, str(faults)))
    said = ReplayOptions(servers, name, into_topic=into, lake=lake, checkpoint=str(tmp_path / "replay"))
    done = replay(spark, said)
    assert list(faults.iterdir()) == [], "all of them died"
    assert (done.rows, done.lots) == (300, 1)
    assert replayed(client, into) == ledger.in_order()
