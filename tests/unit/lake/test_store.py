"""What a local store and the tables in it do against power cuts."""

import os
from pathlib import Path

import pytest

pytest.importorskip("deltalake", reason="the extra lake")

from flotilla.lake import table as table_module
from flotilla.lake.lake import Lake
from flotilla.lake.store import Store
from tests.unit.lake.stored_rows import written


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """What was synced, in order."""
    found: list[Path] = []
    fsync = os.fsync

    def record(handle: int) -> None:
        found.append(Path(os.readlink(f"/proc/self/fd/{handle}")))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", record)
    return found


def test_every_folder_above_a_new_lake_is_synced(tmp_path: Path, synced: list[Path]) -> None:
    """A power cut could remove the whole lake otherwise, with retention already behind it."""
    written(Store(str(tmp_path / "data" / "lakes" / "eu" / "orders")), 0, 0, 3)
    above = [tmp_path / "data/lakes/eu", tmp_path / "data/lakes", tmp_path / "data", tmp_path, tmp_path.parent]
    assert [each for each in above if each not in synced] == []


def test_the_first_version_is_synced(tmp_path: Path, synced: list[Path]) -> None:
    table = Lake(str(tmp_path / "lake")).table("orders")
    table.add([written(table, 0, 0, 3)])
    log = tmp_path / "lake" / "orders" / "_delta_log"
    (first,) = [number for number, path in enumerate(synced) if path.name.startswith(f"{0:020}.json.")]
    assert synced[first].parent == log
    assert log in synced[first:]


def test_a_checkpoint_is_synced_before_what_it_stands_for_may_go(
    tmp_path: Path, synced: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_module, "_CHECKPOINT_VERSIONS", 2)
    before: list[list[Path]] = []
    monkeypatch.setattr(table_module.DeltaTable, "cleanup_metadata", lambda _: before.append([*synced]))
    table = Lake(str(tmp_path / "lake")).table("orders")
    for number in range(2):
        table.add([written(table, 0, 3 * number, 3)])
    log = tmp_path / "lake" / "orders" / "_delta_log"
    (found,) = before
    assert {log / f"{2:020}.checkpoint.parquet", log / "_last_checkpoint", log} <= set(found)
