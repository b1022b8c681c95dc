"""The Delta table of a topic: files are added in order, once, and nothing keeps readers out."""

from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

pytest.importorskip("deltalake", reason="the extra lake")

import pyarrow as pa
from deltalake import DeltaTable, TableFeatures

from flotilla.lake import table as table_module
from flotilla.lake.archive import run_here
from flotilla.lake.data_file import DataFile
from flotilla.lake.delta_log import version_path
from flotilla.lake.lake import Lake
from flotilla.lake.runs import Run, Span
from flotilla.lake.table import FILE_AGE_MS_MAX, Snapshot, TopicTable
from flotilla.lake.verification import verify_lake, verify_table
from flotilla.types.errors import AlreadyExistsError, CorruptionError, InvalidArgumentError, UnsupportedError
from tests.unit.lake.stored_rows import DAY_MS, NOON_MS, written


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(str(tmp_path / "lake"))


@pytest.fixture
def table(lake: Lake) -> TopicTable:
    return lake.table("orders")


def test_the_table_says_how_far_it_has_come(lake: Lake, table: TopicTable) -> None:
    assert (table.snapshot(), lake.topics()) == (Snapshot(), [])
    table.add([written(table, 0, 5, 10), written(table, 2, 0, 3)])
    table.add([written(table, 0, 15, 10, NOON_MS + DAY_MS)])
    found = lake.table("orders").snapshot()
    assert found.spans == {0: Span(5, 25), 2: Span(0, 3)}
    assert (found.rows, found.version, [file.day for file in found.files]) == (
        23,
        2,
        ["2023-11-14", "2023-11-14", "2023-11-15"],
    )
    assert lake.topics() == ["orders"]
    assert (lake.table("orders").spans(), lake.table("nothing").spans()) == ({0: (5, 25), 2: (0, 3)}, {})
    assert verify_lake(lake, run_here).rows == 23


def test_nothing_keeps_readers_out(table: TopicTable) -> None:
    table.add([written(table, 0, 0, 10), written(table, 1, 0, 10)])
    delta = DeltaTable(table.address)
    protocol = delta.protocol()
    assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 2)
    assert protocol.reader_features is None
    assert delta.metadata().partition_columns == ["date"]
    statistics = pa.table(delta.get_add_actions(flatten=True)).to_pylist()
    assert [(row["min.partition"], row["min.offset"], row["max.offset"]) for row in statistics] in (
        [(0, 0, 9), (1, 0, 9)],
        [(1, 0, 9), (0, 0, 9)],
    )
    assert statistics[0]["max.timestamp"].timestamp() * 1_000 == NOON_MS
    read = delta.to_pyarrow_table()
    assert read.num_rows == 20
    assert set(read["date"].to_pylist()) == {date(2023, 11, 14)}


@pytest.mark.parametrize(
    ("first", "count", "error", "sentence"),
    [
        (9, 3, AlreadyExistsError, "up to offset 10 already, and a batch begins at 9: another archive"),
        (0, 10, AlreadyExistsError, "another archive"),
        (11, 1, InvalidArgumentError, "offsets between them are missing"),
    ],
)
def test_a_batch_joins_the_last_one(
    table: TopicTable, first: int, count: int, error: type[Exception], sentence: str
) -> None:
    table.add([written(table, 0, 0, 10)])
    with pytest.raises(error, match=sentence):
        table.add([written(table, 0, first, count)])
    assert table.snapshot().spans == {0: Span(0, 10)}


def test_a_batch_has_no_gap_of_its_own(table: TopicTable) -> None:
    with pytest.raises(InvalidArgumentError, match="between them are missing"):
        table.add([written(table, 0, 0, 5), written(table, 0, 6, 5)])
    with pytest.raises(CorruptionError, match="offset 4 twice"):
        table.add([written(table, 0, 0, 5), written(table, 0, 4, 5)])
    assert table.snapshot().version == -1


def test_one_of_two_archives_is_told(lake: Lake) -> None:
    one, other = lake.table("orders"), lake.table("orders")
    one.add([written(one, 0, 0, 10)])
    other.snapshot()
    one.add([written(one, 0, 10, 10)])
    # It has not seen the last version, and commits to another partition: both stay.
    other.add([written(other, 1, 0, 10)])
    one.snapshot()
    other.add([written(other, 0, 20, 10)])
    with pytest.raises(AlreadyExistsError, match="another archive writes to this lake"):
        one.add([written(one, 0, 20, 10)])
    assert one.snapshot().spans == {0: Span(0, 30), 1: Span(0, 10)}
    assert verify_table(one, run_here).rows == 40


def test_a_commit_whose_answer_is_lost_is_found_again(table: TopicTable, monkeypatch: pytest.MonkeyPatch) -> None:
    put = TopicTable.put

    def lose(self: TopicTable, path: str, data: bytes, *, is_new: bool = False) -> None:
        put(self, path, data, is_new=is_new)
        if is_new:
            monkeypatch.setattr(TopicTable, "put", put)
            raise AlreadyExistsError("a second attempt, because the answer to the first one was lost")

    table.add([written(table, 0, 0, 10)])
    monkeypatch.setattr(TopicTable, "put", lose)
    assert table.add([written(table, 0, 10, 10)]) == 2
    assert verify_table(table, run_here).rows == 20


def test_the_log_is_followed_without_the_list_of_files(table: TopicTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit does the same work whatever is in the table."""
    table.add([written(table, 0, 0, 10)])
    with monkeypatch.context() as counted:
        counted.setattr(table_module, "DeltaTable", None)
        counted.setattr(TopicTable, "_newest", None)
        for first in range(10, 50, 10):
            table.add([written(table, 0, first, 10), written(table, first, 0, 1)])
        assert table.spans()[0] == Span(0, 50)
    assert table.snapshot().spans == table.spans()
    assert table.snapshot().rows == 54


def test_checkpoints_are_made_and_everything_goes_on_from_them(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_module, "_CHECKPOINT_VERSIONS", 3)
    table = lake.table("orders")
    table.check_topic(7)
    for first in range(0, 80, 10):
        table.add([written(table, 0, first, 10)])
    assert [path[-27:] for path in table.paths("_delta_log", suffix=".checkpoint.parquet")] == [
        "00000003.checkpoint.parquet",
        "00000006.checkpoint.parquet",
    ]
    # What the last checkpoint has is read from it alone.
    table.remove([f"_delta_log/{version:020}.json" for version in range(6)])
    fresh = lake.table("orders")
    assert fresh.spans() == {0: Span(0, 80)}
    with pytest.raises(InvalidArgumentError, match="an earlier topic"):
        fresh.check_topic(8)
    lake.table("orders").add([written(table, 0, 80, 10)])
    assert verify_table(fresh, run_here).rows == 90


def test_large_tables_have_fewer_checkpoints(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_module, "_CHECKPOINT_VERSIONS", 2)
    monkeypatch.setattr(table_module, "_CHECKPOINTED_FILES", 3)
    table = lake.table("orders")
    for first in range(12):
        table.add([written(table, 0, first, 1), written(table, 1 + first, 0, 1)])
    # The first has 12 actions, the second 28.
    made = [int(path[-27:-19]) for path in table.paths("_delta_log", suffix=".checkpoint.parquet")]
    assert made == [2, 6]
    table.put("_delta_log/_last_checkpoint", b"{")
    assert table.add([written(table, 0, 12, 1)]) == 13
    assert table.add([written(table, 0, 13, 1)]) == 14
    assert len(table.paths("_delta_log", suffix=".checkpoint.parquet")) == 3, "a damaged note costs one more"
    assert lake.table("orders").spans() == table.spans()


def test_an_archive_that_slept_finds_the_versions_that_were_removed_behind_a_checkpoint(lake: Lake) -> None:
    sleeper, other = lake.table("orders"), lake.table("orders")
    sleeper.add([written(sleeper, 0, 0, 10)])
    for first in (10, 20, 30):
        other.add([written(other, 0, first, 10)])
    DeltaTable(other.address).create_checkpoint()
    for version in range(4):
        (Path(other.address) / version_path(version)).unlink()
    with pytest.raises(AlreadyExistsError):
        sleeper.add([written(sleeper, 0, 10, 10)])
    sleeper.add([written(sleeper, 0, 40, 10)])
    assert lake.table("orders").snapshot().spans == {0: Span(0, 50)}


def test_a_table_that_others_gave_features_is_not_written(lake: Lake, table: TopicTable) -> None:
    table.add([written(table, 0, 0, 10)])
    DeltaTable(table.address).alter.add_feature(TableFeatures.ChangeDataFeed, allow_protocol_versions_increase=True)
    with pytest.raises(UnsupportedError, match="the archive does not know"):
        table.add([written(table, 0, 10, 10)])
    assert lake.table("orders").snapshot().spans == {0: Span(0, 10)}


def test_a_file_that_waited_too_long_is_written_again(table: TopicTable) -> None:
    file = written(table, 0, 0, 10)
    with pytest.raises(InvalidArgumentError, match="waited for their commit"):
        table.add([replace(file, written_ms=file.written_ms - FILE_AGE_MS_MAX - 1_000)])


def test_a_replacement_has_the_same_rows(table: TopicTable) -> None:
    old = [written(table, 0, 0, 10), written(table, 0, 10, 10)]
    table.add(old)
    with pytest.raises(InvalidArgumentError, match="do not have the rows"):
        table.replace(old, [written(table, 0, 0, 19)])
    table.replace(old, [written(table, 0, 0, 20)])
    with pytest.raises(AlreadyExistsError, match="another process has compacted"):
        table.replace(old, [written(table, 0, 0, 20)])
    assert (verify_table(table, run_here).rows, len(table.snapshot().files)) == (20, 1)


@pytest.mark.parametrize("damage", ["bytes", "gone", "description"])
def test_damage_in_a_table_is_found(table: TopicTable, damage: str) -> None:
    files = [written(table, 0, 0, 10), written(table, 1, 0, 10)]
    table.add(files)
    path = Path(table.address_of(files[0].path))
    if damage == "bytes":
        path.write_bytes(b"PAR1")
    elif damage == "gone":
        path.unlink()
    else:
        table.remove([f"_checksums/{files[0].path}.json"])
    with pytest.raises(CorruptionError, match="1 of 2 files"):
        verify_table(table, run_here)


def test_files_that_the_log_does_not_agree_with_are_found(table: TopicTable) -> None:
    file = written(table, 0, 0, 10)
    table.add([replace(file, runs=(Run(0, 0, 9),))])
    with pytest.raises(CorruptionError, match="the table says orders/0"):
        verify_table(table, run_here)


def test_a_file_describes_itself() -> None:
    file = DataFile("date=2030-01-31/a.parquet", "orders", (Run(0, 0, 3), Run(1, 4, 5)), 7, "c0ffee", 1, 2, 3)
    assert DataFile.from_text(file.text()) == file
    assert (file.rows, file.day) == (4, "2030-01-31")
