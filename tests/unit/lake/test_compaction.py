"""Compaction: the same rows in fewer files, whatever their runs and sizes, in bounded memory."""

import random
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

pytest.importorskip("deltalake", reason="the extra lake")

import pyarrow as pa
import pyarrow.parquet as pq

from flotilla.lake import compaction
from flotilla.lake.archive import run_here
from flotilla.lake.compaction import CompactionRules, compact, merge_files, merged_rows, plan_compaction
from flotilla.lake.data_file import write_days
from flotilla.lake.lake import Lake
from flotilla.lake.runs import Run, Span
from flotilla.lake.table import TableFile, TopicTable
from flotilla.lake.verification import verify_table
from flotilla.types.errors import AlreadyExistsError, CorruptionError
from tests.unit.lake.stored_rows import DAY_MS, NOON_MS, rows, written


@pytest.fixture
def table(tmp_path: Path) -> TopicTable:
    return Lake(str(tmp_path / "lake")).table("orders")


def test_files_are_merged_by_partition_and_offset(table: TopicTable) -> None:
    made = [written(table, partition, first, 10) for partition, first in ((1, 0), (0, 10), (0, 0), (1, 10))]
    merged = merge_files(table, "orders", made)
    assert merged.runs == (Run(0, 0, 20), Run(1, 0, 20))
    found = pq.ParquetFile(table.address_of(merged.path)).read()
    places = list(zip(found["partition"].to_pylist(), found["offset"].to_pylist(), strict=True))
    assert places == [(partition, offset) for partition in (0, 1) for offset in range(20)]
    assert found["headers"].to_pylist()[0] == [{"key": "h", "value": b"1"}]


def test_runs_that_alternate_are_merged_with_few_open_files(table: TopicTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """Times that jump over midnight leave every other offset in a day's file."""
    monkeypatch.setattr(compaction, "_OPEN_MAX", 2)
    monkeypatch.setattr(compaction, "_DECODED_ROWS", 3)
    chance = random.Random(7)
    lots: dict[str, list] = {}
    for partition in (0, 1):
        for first in range(0, 120, 20):
            times = [NOON_MS + DAY_MS * chance.randint(0, 1) for _ in range(20)]
            for file in write_days(table, "orders", "part", [rows(partition, first, times)]):
                lots.setdefault(file.day, []).append(file)
    days = []
    for lot in lots.values():
        # Files that were merged before have runs of several partitions, between those of others.
        chance.shuffle(lot)
        halves = [merge_files(table, "orders", lot[:7]), merge_files(table, "orders", lot[7:])]
        with ExitStack() as opened:
            offsets = [
                (row["partition"], row["offset"], row["value"])
                for batch in merged_rows(table, halves, opened)
                for row in batch.to_pylist()
            ]
        assert offsets == sorted(offsets)
        days += offsets
    assert sorted(days) == [(part, offset, b"%d" % offset) for part in (0, 1) for offset in range(120)]


def test_only_small_files_in_numbers_are_worth_it() -> None:
    small = [TableFile(f"{at}", 1_000, 1, "2030-01-01", 0, 0, at, at) for at in range(5)]
    assert plan_compaction(small, CompactionRules(files_min=6)) == []
    assert plan_compaction(small, CompactionRules(files_min=5)) == [small]
    assert plan_compaction(small, CompactionRules(files_min=5, target_bytes=1_000)) == []
    two = plan_compaction(small, CompactionRules(files_min=5, target_bytes=2_500))
    assert [len(lot) for lot in two] == [2, 2]
    other_day = [file._replace(day="2030-01-02") for file in small[:2]]
    assert plan_compaction([*small[:3], *other_day], CompactionRules(files_min=3)) == [small[:3]]


def test_offsets_and_readers_do_not_notice(table: TopicTable) -> None:
    for first in range(0, 60, 20):
        table.add([written(table, partition, first, 20) for partition in (0, 1)])
    before = table.delta().to_pyarrow_table().num_rows
    assert compact(table, CompactionRules(files_min=4), run_here) == 6
    snapshot = verify_table(table, run_here)
    assert (len(snapshot.files), snapshot.spans) == (1, {0: Span(0, 60), 1: Span(0, 60)})
    assert (before, table.delta().to_pyarrow_table().num_rows) == (120, 120)
    assert compact(table, CompactionRules(files_min=4), run_here) == 0
    table.add([written(table, 0, 60, 1)])
    assert verify_table(table, run_here).rows == 121


def test_another_compaction_was_faster(table: TopicTable) -> None:
    table.add([written(table, partition, 0, 20) for partition in range(4)])

    def late(jobs: list, work) -> list[str]:
        done = run_here(jobs, work)
        compact(table, CompactionRules(files_min=4), run_here)
        return done

    with pytest.raises(AlreadyExistsError, match="another process has compacted"):
        compact(table, CompactionRules(files_min=4), late)
    assert verify_table(table, run_here).rows == 80
    compacted = [path for path in table.paths("date=2023-11-14", suffix=".parquet") if "compacted" in path]
    assert len(compacted) == 1, "the file of the slower one is gone"


def test_a_damaged_file_is_not_merged(table: TopicTable) -> None:
    files = [written(table, partition, 0, 20) for partition in range(4)]
    table.add(files)
    Path(table.address_of(files[2].path)).write_bytes(b"PAR1")
    with pytest.raises(pa.ArrowException):
        compact(table, CompactionRules(files_min=4), run_here)
    assert len(table.snapshot().files) == 4
    with pytest.raises(CorruptionError):
        verify_table(table, run_here)


_PEAK = """
import sys
from pathlib import Path
from flotilla.lake.compaction import CompactionRules, compact
from flotilla.lake.archive import run_here
from flotilla.lake.table import TopicTable
table = TopicTable(sys.argv[1], "orders")
assert compact(table, CompactionRules(files_min=4), run_here) == 17
# Not `ru_maxrss`, which a process inherits from the one that started it.
lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
print(lines["VmHWM"].split()[0])
"""


@pytest.mark.slow
def test_the_memory_does_not_grow_with_the_files(table: TopicTable) -> None:
    """Raw values are nearly twice the limit; compressed they are small."""
    value, files = b"x" * 1_000_000, []
    for number in range(17):
        batches = (rows(0, number * 40 + at, [NOON_MS] * 10, value) for at in range(0, 40, 10))
        files += write_days(table, "orders", "part", batches)
    table.add(files)
    command = [sys.executable, "-c", _PEAK, table.address]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=240)
    assert int(done.stdout) < 400 * 1024
    assert table.snapshot().spans == {0: Span(0, 17 * 40)}
