"""Archive and replay with killed tasks: each row is in the lake once, and in the target once."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the spark extra")

from flotilla import Client
from flotilla.lake.archive import ArchiveOptions, run_here
from flotilla.lake.lake import Lake
from flotilla.lake.vacuum import removable
from flotilla.lake.verification import verify_table
from flotilla.spark.pipelines import replay as replay_module
from flotilla.spark.pipelines import sending
from flotilla.spark.pipelines.archive import archive
from flotilla.spark.pipelines.replay import ReplayOptions, replay
from flotilla.spark.pipelines.session import prepare
from tests.integration.spark.faulty import IN_ARCHIVE, IN_REPLAY, FaultyArchiveSource, faults_of, send_block
from tests.integration.spark.pipeline_ledger import PANDAS, Ledger, lake_places, replayed

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings(PANDAS)]


def arm(folder: Path, moments: tuple[str, ...]) -> None:
    folder.mkdir()
    for moment in moments:
        (folder / moment).touch()


def test_tasks_of_an_archive_are_killed(
    spark: Any, client: Client, servers: str, topic: Callable[..., str], tmp_path: Path
) -> None:
    prepare(spark)
    name, lake = topic(), str(tmp_path / "lake")
    ledger = Ledger(name)
    ledger.produce(client, 600)
    faults = faults_of(lake)
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


def test_tasks_of_a_replay_are_killed(
    spark: Any,
    client: Client,
    servers: str,
    topic: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name, into = topic(), topic()
    ledger = Ledger(name)
    ledger.produce(client, 300)
    faults = tmp_path / "faults"
    arm(faults, IN_REPLAY)
    monkeypatch.setattr(replay_module, "BLOCK_ROWS", 50)
    monkeypatch.setattr(sending, "_send_block", partial(send_block, str(faults)))
    done = replay(spark, ReplayOptions(servers, name, into_topic=into, checkpoint=str(tmp_path / "replay")))
    assert list(faults.iterdir()) == [], "all of them died"
    assert (done.rows, done.lots) == (300, 1)
    assert replayed(client, into) == ledger.in_order()
