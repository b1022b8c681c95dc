"""Ranges of offsets out of files: every row once and in order, wherever it is."""

import random
from pathlib import Path

import pytest

pytest.importorskip("deltalake", reason="the extra lake")

from flotilla.lake.compaction import merge_files
from flotilla.lake.data_file import DataFile, write_days
from flotilla.lake.lake import Lake
from flotilla.lake.offset_range import OffsetRange
from flotilla.lake.range_reader import ArchivedRange
from flotilla.lake.table import TopicTable
from flotilla.types.errors import CorruptionError
from tests.unit.lake.stored_rows import DAY_MS, NOON_MS, rows, written


@pytest.fixture
def table(tmp_path: Path) -> TopicTable:
    return Lake(str(tmp_path / "lake")).table("orders")


def offsets(table: TopicTable, wanted: OffsetRange, files: list[DataFile]) -> list[int]:
    found = []
    for batch in ArchivedRange(table, wanted, tuple(file.path for file in files)).batches():
        assert set(batch.column("partition").to_pylist()) == {wanted.partition}
        assert batch.column("value").to_pylist() == [b"%d" % each for each in batch.column("offset").to_pylist()]
        found += batch.column("offset").to_pylist()
    return found


def test_every_row_of_a_range_comes_once_and_in_order(table: TopicTable) -> None:
    chance = random.Random(11)
    lots: dict[str, list[DataFile]] = {}
    for partition in (0, 1):
        for first in range(0, 100, 20):
            times = [NOON_MS + DAY_MS * chance.randint(0, 1) for _ in range(20)]
            for file in write_days(table, "orders", "part", [rows(partition, first, times)]):
                lots.setdefault(file.day, []).append(file)
    # One day is compacted, the other is not.
    first_day, second_day = lots.values()
    files = [merge_files(table, "orders", first_day), *second_day]
    for first, end in ((0, 100), (0, 1), (99, 100), *(sorted(chance.sample(range(100), 2)) for _ in range(20))):
        for partition in (0, 1):
            wanted = OffsetRange("orders", partition, first, end)
            assert offsets(table, wanted, files) == list(range(first, end))


def test_a_row_that_is_missing_is_an_error(table: TopicTable) -> None:
    files = [written(table, 0, 0, 10), written(table, 0, 20, 10)]
    with pytest.raises(CorruptionError, match=r"does not have all of orders/0 \[5, 25\)"):
        offsets(table, OffsetRange("orders", 0, 5, 25), files)
