"""The driver and its JVM are killed in the middle of everything; a run from the checkpoints completes it.

The driver is run by the interpreter of a virtual environment that is not activated: Spark's workers must use the same
one.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the spark extra")

from flotilla import Client
from flotilla.lake.archive import run_archive, run_here
from flotilla.lake.lake import Lake
from flotilla.lake.vacuum import removable
from flotilla.lake.verification import verify_table
from flotilla.spark.pipelines import replay as replay_module
from flotilla.spark.pipelines.replay import replay
from flotilla.spark.pipelines.session import prepare
from tests.integration.spark.conftest import JAVA_FLAGS
from tests.integration.spark.doomed import BATCH_ROWS, BLOCK_ROWS, LOT_BLOCKS, archive_options, replay_options
from tests.integration.spark.pipeline_ledger import PANDAS, Ledger, lake_places, replayed
from tests.integration.spark.tables import drain, read_stream, values

pytestmark = pytest.mark.filterwarnings(PANDAS)

ROW_COUNT = 2 * BATCH_ROWS
#: Its start, its work, and all that a busy machine starts again.
DOOMED_S_MAX = 400


def _run_doomed(folder: Path, **said: str) -> None:
    (folder / "faults").mkdir(parents=True)
    words = json.dumps({**said, "folder": str(folder), "java_flags": JAVA_FLAGS})
    log = folder / "program.log"
    environment = {name: text for name, text in os.environ.items() if not name.startswith("PYSPARK_")}
    with log.open("wb") as output:
        # Into a file: a pipe would stay open for as long as any process of Spark's lives.
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.spark.doomed", words],
            env=environment,
            stdout=output,
            stderr=output,
        )
        try:
            code = process.wait(DOOMED_S_MAX)
        finally:
            process.kill()
            process.wait()
    assert code == -signal.SIGKILL, log.read_text(errors="replace")[-2_000:]


def test_an_interrupted_batch_is_completed(
    spark: Any,
    client: Client,
    servers: str,
    topic: Callable[..., str],
    tmp_path: Path,
    object_store: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # `spark` has set the environment up for the other program.
    prepare(spark)
    name, into, copy = topic(), topic(), topic()
    ledger = Ledger(name)
    ledger.produce(client, ROW_COUNT)
    folder, lake = tmp_path / "run", f"{object_store}/doomed"
    _run_doomed(folder, servers=servers, topic=name, into=into, copy=copy, lake=lake)

    table = Lake(lake).table(name)
    assert table.snapshot().rows == BATCH_ROWS, "the second batch is not committed"
    assert len(removable(table, 0)) >= 1
    # The archive without Spark takes over.
    assert run_archive(archive_options(servers, name, lake)).rows_total == ROW_COUNT
    verify_table(table, run_here)
    assert sorted(lake_places(table)) == sorted(ledger.found)
    assert [client.committed_offset(name, "archive", number) for number in (0, 1)] == [ROW_COUNT // 2] * 2

    monkeypatch.setattr(replay_module, "BLOCK_ROWS", BLOCK_ROWS)
    monkeypatch.setattr(replay_module, "LOT_BLOCKS", LOT_BLOCKS)
    assert replayed(client, into) == ledger.in_order(), "everything was sent, and half of it noted"
    done = replay(spark, replay_options(servers, name, into, folder))
    assert (done.lots, done.lots_before) == (2, 1)
    assert replayed(client, into) == ledger.in_order()

    assert list((folder / "stream" / "commits").glob("0*")) == []
    rows = read_stream(spark, servers, subscribe=name, startingOffsets="earliest", minPartitions=4).select("value")
    drain(rows, servers, folder / "stream", topic=copy)
    assert values(spark, servers, copy) == sorted(value.decode() for value in ledger.rows.values())
