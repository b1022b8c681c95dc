"""What archives report: how much their tables hold, by the log alone; and when they were last verified."""

import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("deltalake", reason="the extra lake")

from deltalake import DeltaTable

from flotilla.lake import verification as verification_module
from flotilla.lake.archive import ArchiveOptions, Archiver, run_here
from flotilla.lake.compaction import CompactionRules, compact
from flotilla.lake.delta_log import Content, version_path
from flotilla.lake.lake import Lake
from flotilla.lake.report import ArchivePipeline, LakeReport
from flotilla.lake.store import Store
from flotilla.lake.table import TopicTable
from flotilla.lake.verification import MARK, last_verified_ms, verify_lake, verify_table
from flotilla.types.errors import CorruptionError, UnavailableError
from flotilla.types.limits import PIPELINE_TOPICS_MAX
from flotilla.types.operations.pipelines import Pipeline, check_pipeline
from tests.unit.lake.stored_rows import written

QUERY = Pipeline("7a", "archive orders", ["orders"])


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(str(tmp_path / "lake"))


def listed(table: TopicTable) -> Content:
    """By the complete list of files."""
    files = table.snapshot().files
    return Content(sum(file.size_bytes for file in files), sum(file.rows for file in files), len(files))


def test_a_table_knows_how_much_it_holds_without_its_list_of_files(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = lake.table("orders")
    assert table.content == Content()
    table.add([written(table, partition, 0, 10) for partition in range(4)])
    assert table.spans()
    assert (table.content, table.content.rows, table.content.files) == (listed(table), 40, 4)
    with monkeypatch.context() as counted:
        counted.setattr(TopicTable, "_newest", None)
        table.add([written(table, 0, 10, 10), written(table, 1, 10, 5)])
        assert table.spans()
    assert (table.content, table.content.rows) == (listed(table), 55)
    assert compact(table, CompactionRules(files_min=4), run_here) == 6
    assert table.spans()
    assert (table.content, table.content.files) == (listed(table), 1)


def test_a_table_that_another_program_has_changed_is_counted_anew(lake: Lake) -> None:
    table = lake.table("orders")
    table.add([written(table, partition, 0, 10) for partition in range(4)])
    assert table.spans()
    DeltaTable(table.address).optimize.compact()
    # Delta lets a program leave out how large the files were that it removes.
    actions = [json.loads(line) for line in (table.read(version_path(2)) or b"").splitlines()]
    for removed in (action["remove"] for action in actions if "remove" in action):
        del removed["size"]
    table.put(version_path(2), "\n".join(map(json.dumps, actions)).encode())
    assert table.spans()
    assert (table.content, table.content.files, table.content.rows) == (listed(table), 1, 40)


def test_a_verification_that_passes_leaves_a_mark(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = {topic: lake.table(topic) for topic in ("orders", "payments")}
    report = LakeReport(lake, tables, "archive")
    orders = tables["orders"]
    orders.add([written(orders, 0, 0, 10)])
    assert [last_verified_ms(table) for table in tables.values()] == [0, 0]
    monkeypatch.setattr(verification_module.time, "time_ns", lambda: 7_000_000_000)
    assert verify_table(tables["payments"], run_here).rows == 0
    assert not tables["payments"].exists(MARK), "there is no such table yet"
    verify_lake(lake, run_here)
    assert [last_verified_ms(table) for table in tables.values()] == [7_000, 0]
    assert report.added_to(QUERY).lake_verified_ms == 0, "one of its tables was never verified"
    monkeypatch.undo()
    tables["payments"].add([written(tables["payments"], 0, 0, 5)])
    verify_table(tables["payments"], run_here)
    assert report.added_to(QUERY).lake_verified_ms == 7_000, "the older one counts"
    assert lake.topics() == ["orders", "payments"]
    assert DeltaTable(orders.address).to_pyarrow_table().num_rows == 10
    for text in (b"{", b"[]", b'{"version": 1}', b'{"version": 2, "verified_ms": 9}'):
        orders.put(MARK, text)
        assert last_verified_ms(orders) == 0


def test_a_verification_that_fails_takes_the_mark_of_the_last_one_away(lake: Lake) -> None:
    table = lake.table("orders")
    file = written(table, 0, 0, 10)
    table.add([file])
    verify_table(table, run_here)
    marked = table.read(MARK)
    assert marked is not None
    assert json.loads(marked)["table_version"] == 1
    stored = table.read(file.path)
    assert stored is not None
    table.put(file.path, b"rotten")
    with pytest.raises(CorruptionError):
        verify_table(table, run_here)
    assert last_verified_ms(table) == 0
    assert not table.exists(MARK)
    table.put(file.path, stored)
    verify_table(table, run_here)
    assert last_verified_ms(table) > 0


def test_a_lake_that_may_only_be_read_is_verified(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    table = lake.table("orders")
    table.add([written(table, 0, 0, 10)])

    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError("read-only")

    monkeypatch.setattr(Store, "put", refuse)
    assert verify_table(table, run_here).rows == 10
    assert "cannot be marked as verified: read-only" in caplog.text
    monkeypatch.setattr(Store, "remove", refuse)
    Path(table.address, table.snapshot().files[0].path).write_bytes(b"rotten")
    with pytest.raises(CorruptionError, match="1 of 1 files"):
        verify_table(table, run_here)
    assert "is damaged, but stays marked as verified: read-only" in caplog.text


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("s3://key:secret@bucket/lake", "s3://bucket/lake"),
        ("abfs://container@account.dfs.core.windows.net/lake", "abfs://container@account.dfs.core.windows.net/lake"),
        ("/data/" + "x" * 2_000, "/data/" + "x" * 994),
    ],
)
def test_an_address_is_shown_without_secrets(lake: Lake, address: str, shown: str) -> None:
    lake.store.address = address
    assert LakeReport(lake, {}, "archive").address == shown


def test_a_compacted_table_is_reported_at_its_new_size(lake: Lake) -> None:
    client: Any = None
    options = ArchiveOptions("localhost:7600", ["orders"], lake.address, compaction=CompactionRules(files_min=2))
    archiver = Archiver(options, client, run_here, pytest.fail)
    table = archiver.tables["orders"]
    table.add([written(table, partition, 0, 10) for partition in range(4)])
    assert table.spans()
    assert archiver.lake_report.added_to(QUERY).lake_files == 4
    archiver.tidy()
    assert archiver.lake_report.added_to(QUERY) == replace(
        QUERY,
        group="archive",
        lake=lake.address,
        lake_bytes=listed(table).size_bytes,
        lake_rows=40,
        lake_files=1,
    )


class Admin:
    """Takes reports, or refuses them."""

    def __init__(self) -> None:
        self.reports: list[tuple[Pipeline, bool]] = []
        self.is_there = True

    @property
    def admin(self) -> "Admin":
        return self

    def report_pipeline(self, pipeline: Pipeline, *, is_over: bool = False, timeout_ms: int) -> None:
        assert timeout_ms
        if not self.is_there:
            raise UnavailableError("no controller")
        check_pipeline(pipeline)
        self.reports.append((replace(pipeline), is_over))


def test_an_archive_reports_its_rounds_and_its_end(lake: Lake, caplog: pytest.LogCaptureFixture) -> None:
    table = lake.table("orders")
    cluster: Any = Admin()
    pipeline = ArchivePipeline(cluster, LakeReport(lake, {"orders": table}, "hold"), ["orders"], "hold")
    place = ("orders", 0)
    pipeline.planned({place: 0}, {place: 0})
    table.add([written(table, 0, 0, 10)])
    assert table.spans()
    pipeline.batch_done(10)
    pipeline.planned({place: 10}, {place: 10})
    cluster.is_there = False
    with caplog.at_level(logging.WARNING):
        pipeline.planned({place: 10}, {place: 10})
        pipeline.over()
    assert caplog.text.count("no controller") == 2, "the archive goes on"
    cluster.is_there = True
    pipeline.planned({place: 10}, {place: 10})
    pipeline.over()
    first, second, idle, last = [found for found, _ in cluster.reports]
    assert [is_over for _, is_over in cluster.reports] == [False, False, False, True]
    assert (first.name, first.topics, first.group, first.lake) == ("archive orders", ["orders"], "hold", lake.address)
    assert (first.batch, first.lake_rows) == (0, 0)
    assert (second.batch, second.batch_records, second.lake_rows, second.lake_files) == (1, 10, 10, 1)
    assert second.lake_bytes == listed(table).size_bytes > 0
    assert second.batch_ms > 0
    assert second.records_per_second > 0
    assert (idle.batch, idle.batch_records, idle.records_per_second) == (1, 10, 0)
    assert {found.id for found in (first, second, idle, last)} == {first.id}


def test_an_archive_of_many_topics_has_one_report_and_keeps_its_id(lake: Lake) -> None:
    topics = [f"a-topic-with-a-long-name-{number}" for number in range(PIPELINE_TOPICS_MAX + 1)]
    report = LakeReport(lake, {topic: lake.table(topic) for topic in topics}, "archive")
    cluster: Any = Admin()
    for order, group in ((topics, "archive"), (topics[::-1], "archive"), (topics, "other")):
        ArchivePipeline(cluster, report, order, group).planned({}, {})
    ids = [found.id for found, _ in cluster.reports]
    assert ids[0] == ids[1] != ids[2]
