"""Files of a lake on a real disk: whole, and read back as written."""

import pickle
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("deltalake", reason="the extra lake")

import pyarrow.parquet as pq

from flotilla.lake.columns import STORED
from flotilla.lake.data_file import read_description, remove_files, verify, write_days
from flotilla.lake.runs import Run
from flotilla.lake.store import Store
from flotilla.types.errors import CorruptionError, InvalidArgumentError
from tests.unit.lake.stored_rows import DAY_MS, NOON_MS, rows, written


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "orders"))


def test_a_store_is_pickled_by_its_address(store: Store) -> None:
    store.put("a/b", b"1")
    assert pickle.loads(pickle.dumps(store)).read("a/b") == b"1"
    assert store.address_of("a/b") == f"{store.address}/a/b"


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("no-such-store://bucket/lake", "no path or URI"),
        ("abfs://container", "no path or URI.*Account must be specified$"),
        ("s3://b/p?endpoint_override=x", "AWS_ENDPOINT_URL"),
        ("s3://key:secret@b/p", "AWS_ACCESS_KEY_ID"),
    ],
)
def test_an_address_that_cannot_be_a_store(address: str, sentence: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    with pytest.raises(InvalidArgumentError, match=sentence) as told:
        Store(address)
    assert "secret" not in str(told.value)


def test_a_local_store_may_have_a_uri(store: Store) -> None:
    store.put("a b", b"1")
    twin = Store(f"file://{store.address}")
    assert (twin.is_local, twin.read("a b"), twin.paths(suffix="")) == (True, b"1", ["a b"])


def test_rows_go_into_a_file_for_each_day(store: Store) -> None:
    times = [NOON_MS, NOON_MS + DAY_MS, NOON_MS + 1, NOON_MS + 2]
    files = write_days(store, "orders", "part", [rows(1, 7, times), rows(1, 11, [NOON_MS + 3])])
    by_runs = {file.runs: file for file in files}
    assert set(by_runs) == {(Run(1, 7, 8), Run(1, 9, 12)), (Run(1, 8, 9),)}
    first = by_runs[Run(1, 7, 8), Run(1, 9, 12)]
    assert (first.day, first.path.partition("/")[0]) == ("2023-11-14", "date=2023-11-14")
    assert (first.rows, first.time_ms_min, first.time_ms_max) == (4, NOON_MS, NOON_MS + 3)
    for file in files:
        verify(store, file)


def test_statistics_and_order_are_in_the_file(store: Store) -> None:
    (file,) = write_days(store, "orders", "part", [rows(0, 5, [NOON_MS + at for at in range(100)])])
    parquet = pq.ParquetFile(store.address_of(file.path))
    assert parquet.schema_arrow.equals(STORED)
    group = parquet.metadata.row_group(0)
    measured = {group.column(at).path_in_schema: group.column(at) for at in range(group.num_columns)}
    assert (measured["offset"].statistics.min, measured["offset"].statistics.max) == (5, 104)
    assert measured["timestamp"].is_stats_set
    assert measured["value"].compression == "ZSTD"
    assert not measured["value"].is_stats_set
    assert [each.column_index for each in group.sorting_columns] == [2, 3]


def test_a_write_that_fails_leaves_nothing(store: Store) -> None:
    def failing() -> object:
        yield rows(0, 0, [NOON_MS])
        raise RuntimeError("the broker is away")

    with pytest.raises(RuntimeError):
        write_days(store, "orders", "part", failing())
    assert store.paths(suffix="") == []


@pytest.mark.parametrize("damage", ["cut", "flip", "gone", "swapped"])
def test_damage_is_found_by_reading_back(store: Store, damage: str) -> None:
    (file,) = write_days(store, "orders", "part", [rows(0, 0, [NOON_MS] * 50)])
    path = Path(store.address_of(file.path))
    data = path.read_bytes()
    if damage == "cut":
        path.write_bytes(data[:-1])
    elif damage == "flip":
        path.write_bytes(data[:100] + bytes([data[100] ^ 1]) + data[101:])
    elif damage == "gone":
        path.unlink()
    else:
        (other,) = write_days(store, "orders", "part", [rows(0, 50, [NOON_MS] * 50)])
        Path(store.address_of(other.path)).rename(path)
    with pytest.raises(CorruptionError):
        verify(store, file)


def test_wrong_contents_are_found_though_the_checksum_is_right(store: Store) -> None:
    (file,) = write_days(store, "orders", "part", [rows(0, 0, [NOON_MS] * 50)])
    with pytest.raises(CorruptionError, match="at other offsets"):
        verify(store, replace(file, runs=(Run(0, 1, 51),)))


def test_every_page_has_a_checksum_that_finds_damage_without_the_description(store: Store) -> None:
    file = written(store, 0, 0, 500)
    path = Path(store.address_of(file.path))
    data = bytearray(path.read_bytes())
    column = pq.ParquetFile(path).metadata.row_group(0).column(1)
    # In the middle of the compressed values.
    data[column.data_page_offset + column.total_compressed_size // 2] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(OSError, match="CRC"):
        pq.ParquetFile(path, page_checksum_verification=True).read()


def test_a_description_is_beside_the_file_and_goes_with_it(store: Store) -> None:
    file = written(store, 0, 0, 5)
    assert read_description(store, file.path) == file
    store.put(f"_checksums/{file.path}.json", b'["x"]')
    with pytest.raises(CorruptionError, match="damaged"):
        read_description(store, file.path)
    remove_files(store, [file.path])
    assert store.paths(suffix="") == []
    with pytest.raises(CorruptionError, match="no description"):
        read_description(store, file.path)


def test_times_that_no_calendar_has_are_archived(store: Store) -> None:
    (file,) = write_days(store, "orders", "part", [rows(0, 0, [2**53 - 1])])
    assert file.day == "9999-12-31"
    verify(store, file, columns=None)
