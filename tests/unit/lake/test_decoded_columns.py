"""Decoded columns that grow: rows of every version in one schema, with any version of Arrow."""

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("deltalake", reason="the extra lake")

import pyarrow as pa

from flotilla.lake import decoded_columns
from flotilla.lake.archive import run_here
from flotilla.lake.compaction import CompactionRules, compact
from flotilla.lake.data_file import DataFile, write_days
from flotilla.lake.decoded_columns import CORRUPT, DECODED, as_schema, read_type, rebuilt, stored_schema
from flotilla.lake.lake import Lake
from flotilla.lake.offset_range import OffsetRange
from flotilla.lake.range_reader import ArchivedRange
from flotilla.lake.table import TopicTable
from tests.unit.lake.stored_rows import NOON_MS, rows, written

OLD = "STRUCT<id: INT, inner: STRUCT<a: INT>, list: ARRAY<STRUCT<d: DATE>>, map: MAP<STRING, STRUCT<p: DECIMAL(9, 2)>>>"
NEW = (
    "STRUCT<id: INT, inner: STRUCT<a: INT, b: STRING>, list: ARRAY<STRUCT<d: DATE, t: TIMESTAMP>>,"
    " map: MAP<STRING, STRUCT<p: DECIMAL(9, 2), n: BIGINT>>, more: BINARY>"
)
DAY, PRICE = date(2026, 5, 4), Decimal("1.50")
VALUES: list[Any] = [
    None,
    {"id": 1, "inner": {"a": 2}, "list": [{"d": DAY}, None], "map": [("k", {"p": PRICE})]},
    {"id": None, "inner": None, "list": None, "map": None},
    {"id": 3, "inner": {"a": None}, "list": [], "map": []},
]
GROWN: list[Any] = [
    None,
    {
        "id": 1,
        "inner": {"a": 2, "b": None},
        "list": [{"d": DAY, "t": None}, None],
        "map": [("k", {"p": PRICE, "n": None})],
        "more": None,
    },
    {"id": None, "inner": None, "list": None, "map": None, "more": None},
    {"id": 3, "inner": {"a": None, "b": None}, "list": [], "map": [], "more": None},
]


@pytest.fixture(params=["as Arrow casts", "as for an old Arrow"])
def any_arrow(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "as for an old Arrow":
        monkeypatch.setattr(decoded_columns, "_as_type", rebuilt)


def decoded_file(table: TopicTable, first: int, kind: str, values: list[Any]) -> DataFile:
    """One file with decoded columns."""
    batch = rows(0, first, [NOON_MS] * len(values))
    batch = batch.append_column(DECODED, pa.array(values, read_type(kind)))
    batch = batch.append_column(CORRUPT, pa.nulls(len(values), pa.binary()))
    (file,) = write_days(table, "orders", "part", [batch], kind)
    return file


@pytest.mark.usefixtures("any_arrow")
def test_rows_of_an_older_type_have_null_in_new_fields() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array(VALUES, read_type(OLD))], [DECODED])
    schema = pa.schema([(DECODED, read_type(NEW)), (CORRUPT, pa.binary())])
    for first in (0, 1):
        found = as_schema(batch.slice(first), schema)
        assert found.schema == schema
        assert found.column(DECODED).to_pylist() == GROWN[first:]
        assert found.column(CORRUPT).null_count == found.num_rows


@pytest.mark.usefixtures("any_arrow")
def test_files_of_every_version_are_merged_and_read(tmp_path: Path) -> None:
    table = Lake(str(tmp_path)).table("orders")
    newest = {**GROWN[1], "more": b"x", "list": [{"d": DAY, "t": datetime(2026, 5, 4, 12, tzinfo=UTC)}]}
    table.add([written(table, 0, 0, 2)])
    assert table.schema() == ""
    table.add([decoded_file(table, 2, OLD, VALUES)], "orders@1")
    assert (table.schema(), Lake(str(tmp_path)).table("orders").schema()) == ("orders@1", "orders@1")
    table.add([decoded_file(table, 6, NEW, [newest])], "orders")
    # An archive without a schema leaves the name as it is.
    table.add([written(table, 0, 7, 1)])
    assert table.schema() == "orders"
    for _ in range(2):
        paths = tuple(file.path for file in table.snapshot().files)
        found = ArchivedRange(table, OffsetRange("orders", 0, 0, 8), paths).batches(stored_schema(table.decoded()))
        decoded = [row for batch in found for row in batch.column(DECODED).to_pylist()]
        assert decoded == [None, None, *GROWN, newest, None]
        compact(table, CompactionRules(files_min=2), run_here)
    assert len(table.snapshot().files) == 1
