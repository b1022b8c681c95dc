"""The archive without Spark, killed at every step, on a disk and on object stores: each record once, and held."""

import ast
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from flotilla import Client
from flotilla.cli.app import app
from flotilla.lake import archive as archive_module
from flotilla.lake import compaction as compaction_module
from flotilla.lake import table as table_module
from flotilla.lake import vacuum as vacuum_module
from flotilla.lake.archive import ArchiveOptions, next_offsets, run_archive, run_here
from flotilla.lake.compaction import CompactionRules
from flotilla.lake.data_file import CHECKSUM_FOLDER, description_path
from flotilla.lake.files.local_files import LocalFiles
from flotilla.lake.lake import Lake
from flotilla.lake.runs import Span
from flotilla.lake.table import TopicTable
from flotilla.lake.verification import last_verified_ms, verify_lake, verify_table
from flotilla.testing import LocalBroker
from flotilla.types.errors import AlreadyExistsError, CorruptionError, InvalidArgumentError, OffsetOutOfRangeError
from flotilla.types.operations.pipelines import Pipeline
from tests.integration.lake.archived import expected, produce, stored

#: Every step of a batch, of a compaction and of a vacuum: whose function it is, and the name.
STEPS: list[tuple[Any, str]] = [
    (archive_module, "write_ranges"),
    (archive_module, "verify_files"),
    (TopicTable, "add"),
    (table_module, "put_version"),
    (archive_module.RetentionHold, "move"),
    (compaction_module, "write_days"),
    (compaction_module, "merge_files"),
    (TopicTable, "replace"),
    (vacuum_module, "remove_files"),
    # Between a description and its file, and between two files.
    (LocalFiles, "remove"),
]


MOMENTS = ("before", "after")


class Killed(BaseException):
    """Nothing handles it, as nothing handles the death of a process."""


def dying(work: Callable[..., Any], moment: str, call: int) -> Callable[..., Any]:
    """The same, but a call ends everything: before it does anything, or when it is done."""
    calls = []

    def run(*arguments: Any, **named: Any) -> Any:
        calls.append(work)
        if len(calls) == call and moment == "before":
            raise Killed
        result = work(*arguments, **named)
        if len(calls) == call:
            raise Killed
        return result

    return run


@pytest.fixture
def options(broker: LocalBroker, topic: Callable[..., str], tmp_path: Path) -> Callable[..., ArchiveOptions]:
    name = topic()
    return lambda **changes: ArchiveOptions(
        **{"servers": broker.address, "topics": [name], "lake": str(tmp_path / "lake"), **changes}
    )


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("step", STEPS, ids=lambda step: step[1])
def test_a_process_that_dies_at_any_step_leaves_each_record_once(
    client: Client,
    options: Callable[..., ArchiveOptions],
    step: tuple[Any, str],
    moment: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Four files are two for each of two days; nothing is too young to be removed.
    monkeypatch.setattr(vacuum_module, "GRACE_HOURS_MIN", 0)
    said = options(batch_rows=200, compaction=CompactionRules(files_min=2), grace_hours=0)
    name, lake = said.topics[0], said.lake
    produce(client, name, 400)
    owner, attribute = step
    with monkeypatch.context() as broken:
        # The second call has something before it; a hold is moved once at the beginning.
        call = 3 if attribute == "move" else 1 if owner is vacuum_module else 2
        broken.setattr(owner, attribute, dying(getattr(owner, attribute), moment, call))
        with pytest.raises(Killed):
            run_archive(said)
    held = [client.committed_offset(name, "archive", number) for number in (0, 1)]
    spans = Lake(lake).table(name).snapshot().spans
    for number, offset in enumerate(held):
        assert offset is not None
        assert offset <= spans.get(number, Span(0, 0)).end, "the hold never passes the lake"

    done = run_archive(said)
    table = Lake(lake).table(name)
    assert done.rows_total == 400
    assert stored(lake, name) == expected(400)
    assert verify_table(table, run_here).spans == {0: Span(0, 200), 1: Span(0, 200)}
    assert [client.committed_offset(name, "archive", number) for number in (0, 1)] == [200, 200]
    # What was left behind is gone.
    files = table.snapshot().files
    assert table.paths(suffix=".parquet") == sorted(file.path for file in files)
    descriptions = sorted(description_path(file.path) for file in files)
    assert table.paths(CHECKSUM_FOLDER, suffix=".json") == descriptions
    assert len(files) == 2
    assert run_archive(said).rows == 0


def test_one_process_after_another_dies_at_every_step_on_every_kind_of_store(
    client: Client, options: Callable[..., ArchiveOptions], lake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each takes over what the ones before it have left. The end of a step is the beginning of the next one."""
    monkeypatch.setattr(vacuum_module, "GRACE_HOURS_MIN", 0)
    said = options(lake=lake, compaction=CompactionRules(files_min=2), grace_hours=0)
    name = said.topics[0]
    count = 0
    for owner, attribute in STEPS[:-1]:
        produce(client, name, 4, first=count)
        count += 4
        with monkeypatch.context() as broken:
            broken.setattr(owner, attribute, dying(getattr(owner, attribute), "after", 1))
            with pytest.raises(Killed):
                run_archive(said)
        held = client.committed_offset(name, "archive", 0) or 0
        assert held <= Lake(said.lake).table(name).spans().get(0, Span(0, 0)).end, "the hold never passes the lake"
    done = run_archive(said)
    table = Lake(said.lake).table(name)
    assert done.rows_total == count
    assert stored(said.lake, name) == expected(count)
    assert last_verified_ms(table) == 0
    assert verify_table(table, run_here).spans == {0: Span(0, count // 2), 1: Span(0, count // 2)}
    assert last_verified_ms(table) > 0
    assert table.paths(suffix=".parquet") == sorted(file.path for file in table.snapshot().files)


def test_the_table_of_an_earlier_topic_is_not_continued(client: Client, options: Callable[..., ArchiveOptions]) -> None:
    said = options()
    name = said.topics[0]
    produce(client, name, 40)
    run_archive(said)
    client.delete_topic(name)
    client.create_topic(name, partitions=2)
    # More than the lake has, so offsets alone would not tell.
    produce(client, name, 100)
    with pytest.raises(InvalidArgumentError, match="belongs to an earlier topic"):
        run_archive(said)
    assert stored(said.lake, name) == expected(40)


def test_a_topic_that_is_made_anew_while_it_is_read_is_noticed(
    client: Client, options: Callable[..., ArchiveOptions], monkeypatch: pytest.MonkeyPatch
) -> None:
    said = options()
    name = said.topics[0]
    produce(client, name, 40)
    write_ranges = archive_module.write_ranges

    def made_anew(*arguments: Any) -> Any:
        client.delete_topic(name)
        client.create_topic(name, partitions=2)
        produce(client, name, 100)
        return write_ranges(*arguments)

    monkeypatch.setattr(archive_module, "write_ranges", made_anew)
    with pytest.raises(InvalidArgumentError, match="belongs to an earlier topic"):
        run_archive(said)
    assert Lake(said.lake).table(name).snapshot().rows == 0


def test_two_archives_at_once_have_each_record_once(
    client: Client, options: Callable[..., ArchiveOptions], lake: str
) -> None:
    said = options(lake=lake, batch_rows=80)
    produce(client, said.topics[0], 400)
    told, barrier = [], threading.Barrier(2)

    def run() -> None:
        barrier.wait()
        while True:
            try:
                run_archive(said)
            except AlreadyExistsError as error:
                told.append(str(error))
            else:
                return

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert stored(said.lake, said.topics[0]) == expected(400)
    assert all("another archive writes to this lake" in text for text in told)


def test_a_file_that_rots_is_found_and_nothing_lets_go_of_the_log(
    client: Client, options: Callable[..., ArchiveOptions], monkeypatch: pytest.MonkeyPatch
) -> None:
    said = options()
    produce(client, said.topics[0], 100)
    real = archive_module.verify_files

    def rot(store: Any, files: Any, run_jobs: Any) -> None:
        path = Path(store.address_of(files[0].path))
        path.write_bytes(path.read_bytes()[:-9] + b"!" + path.read_bytes()[-8:])
        real(store, files, run_jobs)

    with monkeypatch.context() as broken:
        broken.setattr(archive_module, "verify_files", rot)
        with pytest.raises(CorruptionError, match="is not what was written"):
            run_archive(said)
    assert Lake(said.lake).table(said.topics[0]).snapshot().version == -1
    assert client.committed_offset(said.topics[0], "archive", 0) == 0
    assert run_archive(said).rows_total == 100


def test_a_compaction_that_fails_does_not_fail_the_archive(
    client: Client, options: Callable[..., ArchiveOptions], monkeypatch: pytest.MonkeyPatch
) -> None:
    said = options(compaction=CompactionRules(files_min=2))
    produce(client, said.topics[0], 100)

    def fail(*_: Any) -> None:
        raise RuntimeError("no memory is left")

    monkeypatch.setattr(compaction_module, "merge_files", fail)
    lines: list[str] = []
    assert run_archive(said, lines.append).rows_total == 100
    assert lines[-1] == f"files of {said.topics[0]} are not compacted: no memory is left"


def test_a_batch_is_bounded_by_bytes_too(
    client: Client, options: Callable[..., ArchiveOptions], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file must not wait for its commit until another 100 GB are written."""
    said = options()
    produce(client, said.topics[0], 400)
    monkeypatch.setattr(archive_module, "ROWS_PER_FILE", 50)
    writing = archive_module.write_ranges
    monkeypatch.setattr(archive_module, "write_ranges", lambda *arguments: writing(*arguments, bytes_max=1))
    assert run_archive(said).rows_total == 400
    table = Lake(said.lake).table(said.topics[0])
    assert table.snapshot().version == 8, "each batch has one range of 50"
    assert stored(said.lake, said.topics[0]) == expected(400)


def test_a_continuous_archive_follows_compacts_and_stops(
    client: Client, options: Callable[..., ArchiveOptions]
) -> None:
    said = options(is_once=False, compaction=CompactionRules(files_min=2, every_batches=2))
    name = said.topics[0]
    waits = iter(range(100, 300, 100))
    reports: list[Pipeline] = []
    lines: list[str] = []

    def reported() -> list[Pipeline]:
        return [each for each in client.admin.pipelines() if each.topics == [name]]

    def produce_more(_: float) -> None:
        reports.extend(reported())
        shown = CliRunner().invoke(app, ["pipeline", "list", "--servers", said.servers]).stdout
        lines.extend(line for line in shown.splitlines() if name in line)
        if len(reports) == 2:
            verify_lake(Lake(said.lake), run_here)
        first = next(waits, None)
        if first is None:
            raise KeyboardInterrupt
        produce(client, name, 100, first=first)

    produce(client, name, 100)
    done = run_archive(said, wait=produce_more)
    assert (done.rows, done.rows_total) == (300, 300)
    assert done.compacted > 0
    assert stored(said.lake, name) == expected(300)
    # Its reports: rows as they come, also after a compaction, and a verification.
    assert [(each.batch, each.batch_records, each.lake_rows) for each in reports] == [
        (1, 100, 100),
        (2, 100, 200),
        (3, 100, 300),
    ]
    assert {(each.name, each.group, each.lake, each.records_behind) for each in reports} == {
        (f"archive {name}", "archive", said.lake, 0)
    }
    files = Lake(said.lake).table(name).snapshot().files
    assert (reports[-1].lake_bytes, reports[-1].lake_files) == (sum(file.size_bytes for file in files), len(files))
    assert [each.lake_verified_ms > 0 for each in reports] == [False, False, True]
    assert ["never" in line for line in lines] == [True, True, False]
    assert " MiB" in lines[0]
    assert reported() == [], "it has ended"


def test_in_a_large_table_a_continuous_archive_looks_at_all_files_less_often(
    client: Client, options: Callable[..., ArchiveOptions], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its share of the cost of a batch would grow with the table."""
    said = options(is_once=False, compaction=CompactionRules(every_batches=1))
    name, table = said.topics[0], Lake(said.lake).table(said.topics[0])
    monkeypatch.setattr(archive_module, "_TIDIED_FILES", 1)
    tidied_at: list[int] = []
    monkeypatch.setattr(archive_module, "compact", lambda *_: tidied_at.append(len(table.snapshot().files)) or 0)
    batches = iter(range(1, 5))

    def produce_more(_: float) -> None:
        batch = next(batches, None)
        if batch is None:
            raise KeyboardInterrupt
        produce(client, name, 100, first=100 * batch)

    produce(client, name, 100)
    done = run_archive(said, wait=produce_more)
    assert done.files_total >= 10
    assert tidied_at == [], "a batch makes two files, so that there are never more batches than files"
    monkeypatch.setattr(archive_module, "_TIDIED_FILES", 4)
    batches = iter(range(5, 10))
    assert run_archive(said, wait=produce_more).files_total >= 20
    assert len(tidied_at) == 1, "there are 12 to 24 files: after three to six batches"


def test_records_that_are_gone_are_named() -> None:
    place = ("orders", 0)
    assert next_offsets({place: Span(0, 5)}, {place: 3}, {place: 9}) == {place: 5}
    assert next_offsets({}, {place: 3}, {place: 9}) == {place: 3}
    for oldest, end in ((7, 9), (0, 4)):
        with pytest.raises(OffsetOutOfRangeError, match="orders/0 up to offset 5"):
            next_offsets({place: Span(0, 5)}, {place: oldest}, {place: end})


@pytest.mark.parametrize("example", ["airflow_dag.py", "dagster_assets.py"])
def test_the_commands_of_orchestrators(client: Client, options: Callable[..., ArchiveOptions], example: str) -> None:
    """As the examples have them, with other places: Airflow and Dagster themselves are not installed."""
    said = options()
    name = said.topics[0]
    produce(client, name, 100)
    text = (Path(__file__).parents[3] / "examples" / "orchestration" / example).read_text()
    (given,) = [
        node.value
        for node in ast.parse(text).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "COMMAND"
    ]
    words = eval(compile(ast.Expression(given), example, "eval"), {"__builtins__": {}})
    places = {"orders": name, "s3://bucket/lake": said.lake, "broker-1:7600,broker-2:7600": said.servers}
    assert places.keys() <= set(words)
    result = CliRunner().invoke(app, [places.get(word, word) for word in words[1:]])
    assert result.exit_code == 0, (result.output, result.exception)
    assert json.loads(result.stdout)["rows_total"] == 100


def test_the_verbs_of_the_command_line(client: Client, options: Callable[..., ArchiveOptions]) -> None:
    said = options()
    name = said.topics[0]
    produce(client, name, 100)

    def found(*words: str) -> Any:
        result = CliRunner().invoke(app, ["archive", *words, "--lake", said.lake, "--json"])
        assert result.exit_code == 0, (result.output, result.exception)
        return json.loads(result.stdout)

    done = found("run", "--topic", name, "--once", "--servers", said.servers)
    assert (done["rows"], done["rows_total"], done["lake"]) == (100, 100, said.lake)
    assert found("verify") == {"topics": 1, "files": done["files"], "rows": 100}
    assert found("compact") == {f"replaced in {name}": 0}
    assert found("vacuum", "--grace", "90m", "--dry-run") == {f"removed from {name}": 0}
