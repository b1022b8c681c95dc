"""Archives: each record once, whatever crashes, and held in the log until then."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flotilla import Client
from flotilla.spark.lake.lake import Lake
from flotilla.spark.lake.manifest import Span
from flotilla.spark.pipelines import archive as archive_module
from flotilla.spark.pipelines.archive import ArchiveOptions, archive, unnamed_files, verify_lake
from flotilla.spark.pipelines.compaction import CompactionRules
from flotilla.spark.pipelines.retention_hold import RetentionHold
from flotilla.spark.pipelines.session import prepare
from flotilla.spark.pipelines.streaming_run import RunOptions
from flotilla.types.errors import CorruptionError, FlotillaError
from tests.integration.spark.pipeline_ledger import PANDAS, Ledger, lake_places

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings(PANDAS)]

WAIT_S_MAX = 60.0


@pytest.fixture
def options(spark: Any, servers: str, topic: Callable[..., str], tmp_path: Path) -> Callable[..., ArchiveOptions]:
    prepare(spark)
    name = topic()

    def make(**changes: Any) -> ArchiveOptions:
        said = {
            "servers": servers,
            "topics": [name],
            "lake": str(tmp_path / "lake"),
            "run": RunOptions(str(tmp_path / "checkpoint")),
            **changes,
        }
        return ArchiveOptions(**said)

    return make


def test_every_record_is_in_the_lake_once_over_many_runs(
    spark: Any, client: Client, options: Callable[..., ArchiveOptions]
) -> None:
    said = options(batch_rows=1_200)
    name = said.topics[0]
    ledger = Ledger(name)
    ledger.produce(client, 2_000, step_ms=10_000)
    first = archive(spark, said)
    assert (first.rows, first.rows_total) == (2_000, 2_000)
    assert first.version >= 2, "1,200 rows at a time are two versions at least"

    again = archive(spark, said)
    assert (again.rows, again.rows_total, again.version) == (0, 2_000, first.version)
    ledger.produce(client, 500)
    third = archive(spark, said)
    assert (third.rows, third.rows_total) == (500, 2_500)

    lake = Lake(said.lake)
    manifest = verify_lake(spark, lake)
    assert manifest.spans() == {(name, 0): Span(0, 1_250), (name, 1): Span(0, 1_250)}
    found = lake_places(spark, lake)
    assert len(found) == 2_500
    assert set(found) == ledger.found
    days = {file.folder.rpartition("=")[2] for file in manifest.files}
    assert days == {"2023-11-14", "2023-11-15"}
    assert unnamed_files(lake, manifest) == []
    assert [client.committed_offset(name, "archive", number) for number in (0, 1)] == [1_250, 1_250]


@pytest.mark.parametrize("stage", ["verify", "commit", "hold"])
def test_a_driver_that_dies_at_any_stage_leaves_each_record_once(
    spark: Any, client: Client, options: Callable[..., ArchiveOptions], stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = options()
    ledger = Ledger(said.topics[0])
    ledger.produce(client, 400)

    def die(*_: object) -> None:
        raise RuntimeError("the driver dies here")

    with monkeypatch.context() as broken:
        if stage == "verify":
            broken.setattr(archive_module, "verify_files", die)
        elif stage == "commit":
            broken.setattr(Lake, "commit", die)
        else:
            real = RetentionHold.move
            broken.setattr(RetentionHold, "move", lambda self, spans: real(self, spans) if not spans else die())
        with pytest.raises(FlotillaError, match="the driver dies here"):
            archive(spark, said)
    assert client.committed_offset(said.topics[0], "archive", 0) == 0, "the hold moves last"

    done = archive(spark, said)
    assert done.rows_total == 400
    assert sorted(lake_places(spark, Lake(said.lake))) == sorted(ledger.found)
    assert client.committed_offset(said.topics[0], "archive", 0) == 200


def test_a_file_that_rots_is_found_and_nothing_lets_go_of_the_log(
    spark: Any, client: Client, options: Callable[..., ArchiveOptions], monkeypatch: pytest.MonkeyPatch
) -> None:
    said = options()
    ledger = Ledger(said.topics[0])
    ledger.produce(client, 100)
    real = archive_module.verify_files

    def rot(spark: Any, lake: Lake, files: Any) -> None:
        path = Path(lake.address_of(files[0].path))
        path.write_bytes(path.read_bytes()[:-9] + b"!" + path.read_bytes()[-8:])
        real(spark, lake, files)

    with monkeypatch.context() as broken:
        broken.setattr(archive_module, "verify_files", rot)
        with pytest.raises(FlotillaError, match="is not what was written"):
            archive(spark, said)
    assert Lake(said.lake).latest().version == 0
    assert client.committed_offset(said.topics[0], "archive", 0) == 0

    archive(spark, said)
    manifest = verify_lake(spark, Lake(said.lake))
    Path(Lake(said.lake).address_of(manifest.files[0].path)).write_bytes(b"PAR1")
    with pytest.raises(CorruptionError, match="1 of 2 files"):
        verify_lake(spark, Lake(said.lake))


def test_retention_never_overtakes_the_lake(spark: Any, client: Client, options: Callable[..., ArchiveOptions]) -> None:
    said = options()
    name = said.topics[0]
    ledger = Ledger(name)
    ledger.produce(client, 1_000)
    archive(spark, said)
    ledger.produce(client, 1_000)
    client.alter_topic(name, retention_messages=10)
    wait_start(client, name, 500)
    # Everything that is not in the lake is still in the log, whatever retention says.
    assert client.find_offset(name, 0, "earliest") == 500
    archive(spark, said)
    wait_start(client, name, 990)
    assert sorted(lake_places(spark, Lake(said.lake))) == sorted(ledger.found)


def wait_start(client: Client, topic: str, offset: int) -> None:
    deadline = time.monotonic() + WAIT_S_MAX
    while client.find_offset(topic, 0, "earliest") < offset:
        assert time.monotonic() < deadline, f"the log does not begin at {offset}"
        time.sleep(0.05)


def test_small_files_become_few_and_hold_the_same(
    spark: Any, client: Client, options: Callable[..., ArchiveOptions]
) -> None:
    said = options(batch_rows=100, compaction=CompactionRules(files_min=4, grace_ms=0))
    ledger = Ledger(said.topics[0])
    ledger.produce(client, 600)
    done = archive(spark, said)
    assert done.compacted >= 12
    lake = Lake(said.lake)
    assert len(verify_lake(spark, lake).files) == 1
    assert sorted(lake_places(spark, lake)) == sorted(ledger.found)
    assert len(lake.list_files()) == 1 + done.compacted, "old files stay for a grace"
    again = archive(spark, said)
    assert (again.rows, again.compacted) == (0, 0)
    assert len(lake.list_files()) == 1
    assert sorted(lake_places(spark, lake)) == sorted(ledger.found)


def test_a_lake_and_a_checkpoint_that_do_not_belong_together(
    spark: Any, client: Client, options: Callable[..., ArchiveOptions], tmp_path: Path
) -> None:
    said = options()
    ledger = Ledger(said.topics[0])
    ledger.produce(client, 100)
    archive(spark, said)
    # A lost checkpoint costs nothing: the lake knows where it ends.
    ledger.produce(client, 50)
    fresh = options(topics=said.topics, run=RunOptions(str(tmp_path / "another")))
    assert archive(spark, fresh).rows == 50
    ledger.produce(client, 10)
    # The first checkpoint ends before the lake does.
    with pytest.raises(FlotillaError, match="do not belong together"):
        archive(spark, said)
    assert Lake(said.lake).latest().rows == 150
