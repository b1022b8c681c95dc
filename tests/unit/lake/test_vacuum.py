"""Vacuum: what nobody needs goes, and nothing that somebody may need."""

import os
import time
from pathlib import Path

import pytest

pytest.importorskip("deltalake", reason="the extra lake")

from deltalake import DeltaTable

from flotilla.lake import vacuum as vacuum_module
from flotilla.lake.archive import run_here
from flotilla.lake.compaction import CompactionRules, compact
from flotilla.lake.files.local_files import LocalFiles
from flotilla.lake.lake import Lake
from flotilla.lake.table import TopicTable
from flotilla.lake.vacuum import removable, vacuum
from flotilla.lake.verification import verify_table
from flotilla.types.errors import InvalidArgumentError
from tests.unit.lake.stored_rows import written

HOUR_S = 3_600


@pytest.fixture
def table(tmp_path: Path) -> TopicTable:
    return Lake(str(tmp_path / "lake")).table("orders")


def age(table: TopicTable, path: str, hours: float) -> None:
    then = time.time() - hours * HOUR_S
    os.utime(table.address_of(path), (then, then))


def test_leftovers_of_killed_attempts_go_when_they_are_old(table: TopicTable) -> None:
    assert vacuum(table) == []
    table.add([written(table, 0, 0, 10)])
    leftover, young = written(table, 0, 10, 10), written(table, 0, 10, 10)
    age(table, leftover.path, 25)
    age(table, young.path, 23)
    assert vacuum(table) == [leftover.path]
    assert len(table.paths("_checksums", suffix=".json")) == 2, "its description goes too"
    table.add([young])
    assert verify_table(table, run_here).rows == 20


def test_a_vacuum_that_dies_in_the_middle_of_a_file_is_finished_by_the_next_one(
    table: TopicTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is what a vacuum finds, so its description must not be left alone."""
    table.add([written(table, 0, 0, 10)])
    leftover = written(table, 0, 10, 10)
    age(table, leftover.path, 25)
    calls, remove = iter(range(2)), LocalFiles.remove

    def remove_or_die(files: LocalFiles, path: str) -> None:
        if next(calls) == 1:
            raise KeyboardInterrupt
        remove(files, path)

    with monkeypatch.context() as broken:
        broken.setattr(LocalFiles, "remove", remove_or_die)
        with pytest.raises(KeyboardInterrupt):
            vacuum(table)
    assert vacuum(table) == [leftover.path]
    assert len(table.paths("_checksums", suffix=".json")) == 1


def test_replaced_files_stay_for_readers_of_older_versions(table: TopicTable, monkeypatch: pytest.MonkeyPatch) -> None:
    table.add([written(table, partition, 0, 10) for partition in range(4)])
    reader = DeltaTable(table.address)
    compact(table, CompactionRules(files_min=4), run_here)
    for path in table.paths("date=2023-11-14", suffix=".parquet"):
        age(table, path, 48)
    assert vacuum(table) == [], "old files, but replaced a moment ago"
    assert reader.to_pyarrow_table().num_rows == 40
    with pytest.raises(InvalidArgumentError, match="1 hour at least"):
        vacuum(table, 0)
    monkeypatch.setattr(vacuum_module, "GRACE_HOURS_MIN", 0)
    assert len(vacuum(table, 0)) == 4
    assert verify_table(table, run_here).rows == 40


def test_a_file_that_is_committed_after_the_list_stays(table: TopicTable, monkeypatch: pytest.MonkeyPatch) -> None:
    table.add([written(table, 0, 0, 10)])
    late = written(table, 0, 10, 10)
    age(table, late.path, 48)
    listed = DeltaTable.vacuum

    def commit_then(self: DeltaTable, *arguments: object, **named: object) -> list[str]:
        found = listed(self, *arguments, **named)
        TopicTable(table.address, "orders").add([late])
        return found

    monkeypatch.setattr(DeltaTable, "vacuum", commit_then)
    assert removable(table, 24) == []
    assert verify_table(table, run_here).rows == 20
