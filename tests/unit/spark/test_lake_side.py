"""Which side serves an offset, while a table grows, is compacted and is read."""

from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the extra spark")
pytest.importorskip("deltalake", reason="the extra lake")

from flotilla.lake.archive import run_here
from flotilla.lake.compaction import CompactionRules, compact
from flotilla.lake.lake import Lake
from flotilla.lake.offset_range import OffsetRange
from flotilla.lake.runs import Span
from flotilla.lake.table import TopicTable
from flotilla.spark.lake_side import LakeSide
from tests.unit.lake.stored_rows import written

ORDERS = ("orders", 0)


@pytest.fixture
def table(tmp_path: Path) -> TopicTable:
    table = Lake(str(tmp_path / "lake")).table("orders")
    table.add([written(table, 0, 5, 10), written(table, 0, 15, 10)])
    return table


@pytest.fixture
def side(table: TopicTable, tmp_path: Path) -> LakeSide:
    return LakeSide(str(tmp_path / "lake"))


def orders(first: int, end: int) -> OffsetRange:
    return OffsetRange(*ORDERS, first, end)


def test_the_lake_serves_what_it_has(side: LakeSide) -> None:
    assert side.span(ORDERS) == Span(5, 25)
    assert side.span(("orders", 1)) is None
    assert side.partition_count("orders") == 1
    assert side.partition_count("payments") == 0
    assert side.part(orders(7, 40)) == orders(7, 25)
    assert side.part(orders(7, 12)) == orders(7, 12)
    assert len(side.part(orders(30, 40))) == 0
    assert len(side.part(OffsetRange("payments", 0, 0, 9))) == 0
    archived = side.archived(orders(20, 25))
    assert archived is not None
    assert len(archived.paths) == 1
    assert side.archived(orders(25, 40)) is None


def test_a_table_is_looked_up_while_it_is_read_and_not_after(side: LakeSide, table: TopicTable) -> None:
    side.refresh([orders(5, 40)], {ORDERS: 0})
    table.add([written(table, 0, 25, 10)])
    side.refresh([orders(25, 40)], {ORDERS: 0})
    assert side.span(ORDERS) == Span(5, 25), "the log has what comes next"
    side.refresh([orders(25, 40)], {ORDERS: 30})
    assert side.span(ORDERS) == Span(5, 35), "retention has passed the position"
    compact(table, CompactionRules(files_min=2), run_here)
    side.refresh([orders(10, 40)], {ORDERS: 30})
    archived = side.archived(orders(10, 35))
    assert archived is not None
    assert len(archived.paths) == 1, "files that were replaced are not read"
    assert [batch.num_rows for batch in archived.batches()] == [25]
