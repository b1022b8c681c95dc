"""The lake on a real disk: files are whole, and read back as written."""

import pickle
from pathlib import Path

import pytest

pa = pytest.importorskip("pyarrow")

from flotilla.spark.lake.data_file import STORED_COLUMNS, verify, write_days  # noqa: E402
from flotilla.spark.lake.lake import VERSIONS_KEPT, Lake  # noqa: E402
from flotilla.spark.lake.manifest import Manifest, Run  # noqa: E402
from flotilla.spark.pipelines.compaction import CompactionRules, join_files, plan_compaction  # noqa: E402
from flotilla.types.errors import AlreadyExistsError, CorruptionError, InvalidArgumentError  # noqa: E402

NOON_MS = 1_700_000_000_000 - 1_700_000_000_000 % 86_400_000 + 43_200_000
DAY_MS = 86_400_000
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def rows(partition: int, first: int, times_ms: list[int]) -> "pa.RecordBatch":
    count = len(times_ms)
    columns = {
        "key": pa.array([b"k"] * count, pa.binary()),
        "value": pa.array([b"%d" % at for at in range(first, first + count)], pa.binary()),
        "topic": pa.array(["orders"] * count, pa.string()),
        "partition": pa.array([partition] * count, pa.int32()),
        "offset": pa.array(range(first, first + count), pa.int64()),
        "timestamp": pa.array([time * 1_000 for time in times_ms], pa.timestamp("us", "UTC")),
        "headers": pa.array([[("h", b"1")]] * count, HEADERS),
        "priority": pa.array([3] * count, pa.int32()),
        "content_type": pa.array([2] * count, pa.int32()),
    }
    return pa.RecordBatch.from_pydict(columns)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(str(tmp_path / "lake"))


def test_versions_follow_each_other_and_none_is_replaced(lake: Lake) -> None:
    assert lake.latest() == Manifest()
    for version in range(1, VERSIONS_KEPT + 5):
        lake.commit(Manifest(version))
    assert lake.latest().version == VERSIONS_KEPT + 4
    assert len(list(lake.list("_manifest", suffix=".json"))) == VERSIONS_KEPT
    with pytest.raises(AlreadyExistsError):
        lake.commit(Manifest(VERSIONS_KEPT + 4, batches={"other": 1}))
    assert lake.latest().batches == {}


def test_a_half_written_manifest_is_none(lake: Lake) -> None:
    lake.commit(Manifest(1))
    Path(lake.address_of("_manifest/00000000000000000002.json.abcd.new")).write_bytes(b"{")
    assert lake.latest().version == 1
    Path(lake.address_of("_manifest/00000000000000000002.json")).write_bytes(b"{")
    with pytest.raises(CorruptionError):
        lake.latest()


def test_a_lake_is_pickled_by_its_address(lake: Lake) -> None:
    lake.commit(Manifest(1))
    assert pickle.loads(pickle.dumps(lake)).latest().version == 1
    with pytest.raises(InvalidArgumentError):
        Lake("no-such-store://bucket/lake")


def test_rows_go_into_a_file_for_each_day(lake: Lake) -> None:
    times = [NOON_MS, NOON_MS + DAY_MS, NOON_MS + 1, NOON_MS + 2]
    files = write_days(lake, "orders", "part", [rows(1, 7, times), rows(1, 11, [NOON_MS + 3])])
    by_runs = {file.runs: file for file in files}
    assert set(by_runs) == {(Run(1, 7, 8), Run(1, 9, 12)), (Run(1, 8, 9),)}
    first = by_runs[Run(1, 7, 8), Run(1, 9, 12)]
    assert first.folder == "topic=orders/date=2023-11-14"
    assert (first.rows, first.time_ms_min, first.time_ms_max) == (4, NOON_MS, NOON_MS + 3)
    for file in files:
        verify(lake, file)


def test_statistics_and_order_are_in_the_file(lake: Lake) -> None:
    import pyarrow.parquet as pq

    (file,) = write_days(lake, "orders", "part", [rows(0, 5, [NOON_MS + at for at in range(100)])])
    parquet = pq.ParquetFile(lake.address_of(file.path))
    assert tuple(parquet.schema_arrow.names) == STORED_COLUMNS
    group = parquet.metadata.row_group(0)
    measured = {group.column(at).path_in_schema: group.column(at) for at in range(group.num_columns)}
    assert (measured["offset"].statistics.min, measured["offset"].statistics.max) == (5, 104)
    assert measured["timestamp"].is_stats_set
    assert measured["value"].compression == "ZSTD"
    assert not measured["value"].is_stats_set
    assert [each.column_index for each in group.sorting_columns] == [2, 3]


def test_a_write_that_fails_leaves_nothing(lake: Lake) -> None:
    def failing() -> object:
        yield rows(0, 0, [NOON_MS])
        raise RuntimeError("the broker is away")

    with pytest.raises(RuntimeError):
        write_days(lake, "orders", "part", failing())
    assert lake.list_files() == []


@pytest.mark.parametrize("damage", ["cut", "flip", "gone", "swapped"])
def test_damage_is_found_by_reading_back(lake: Lake, damage: str) -> None:
    (file,) = write_days(lake, "orders", "part", [rows(0, 0, [NOON_MS] * 50)])
    path = Path(lake.address_of(file.path))
    data = path.read_bytes()
    if damage == "cut":
        path.write_bytes(data[:-1])
    elif damage == "flip":
        path.write_bytes(data[:100] + bytes([data[100] ^ 1]) + data[101:])
    elif damage == "gone":
        path.unlink()
    else:
        (other,) = write_days(lake, "orders", "part", [rows(0, 50, [NOON_MS] * 50)])
        Path(lake.address_of(other.path)).rename(path)
    with pytest.raises(CorruptionError):
        verify(lake, file)


def test_wrong_contents_are_found_though_the_checksum_is_right(lake: Lake) -> None:
    from dataclasses import replace

    (file,) = write_days(lake, "orders", "part", [rows(0, 0, [NOON_MS] * 50)])
    with pytest.raises(CorruptionError, match="at other offsets"):
        verify(lake, replace(file, runs=(Run(0, 1, 51),)))


def test_files_are_joined_by_partition_and_offset(lake: Lake) -> None:
    import pyarrow.parquet as pq

    made = [
        write_days(lake, "orders", "part", [rows(partition, first, [NOON_MS] * 10)])[0]
        for partition, first in ((1, 0), (0, 10), (0, 0), (1, 10))
    ]
    joined = join_files(lake, made)
    assert joined.runs == (Run(0, 0, 20), Run(1, 0, 20))
    table = pq.read_table(lake.address_of(joined.path), partitioning=None)
    places = list(zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True))
    assert places == [(partition, offset) for partition in (0, 1) for offset in range(20)]
    assert table["headers"].to_pylist()[0] == [{"key": "h", "value": b"1"}]


def test_only_small_files_in_numbers_are_worth_it(lake: Lake) -> None:
    small = [write_days(lake, "orders", "part", [rows(0, at, [NOON_MS])])[0] for at in range(5)]
    size_bytes = small[0].size_bytes
    assert plan_compaction(small, CompactionRules(files_min=6)) == []
    assert plan_compaction(small, CompactionRules(files_min=5)) == [small]
    assert plan_compaction(small, CompactionRules(files_min=5, target_bytes=size_bytes)) == []
    two = plan_compaction(small, CompactionRules(files_min=5, target_bytes=int(size_bytes * 2.5)))
    assert [len(lot) for lot in two] == [2, 2]
