"""The check of a whole table: every file by its checksums, rows and offsets, and all of them together.

A table that passes gets a mark with the time, a file beside its folders; one that fails loses it. Readers of Delta read
no file that the log does not name, and other programs leave out names that begin with an underscore.
"""

import json
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from flotilla.lake.compaction import RunJobs
from flotilla.lake.data_file import DataFile, read_description, verify
from flotilla.lake.lake import Lake
from flotilla.lake.runs import Run, join_runs, shown
from flotilla.lake.store import Store
from flotilla.lake.table import Snapshot, TopicTable
from flotilla.types.errors import CorruptionError

MARK: Final = "_verified.json"
MARK_VERSION: Final = 1

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Verified:
    topics: int
    files: int
    rows: int


def verify_files(store: Store, files: Sequence[DataFile], run_jobs: RunJobs) -> None:
    """Reads new files back. Raises CorruptionError."""
    found = run_jobs([file.text() for file in files], _verifying(store))
    _raise_first([text for text in found if text], len(files))


def verify_table(table: TopicTable, run_jobs: RunJobs) -> Snapshot:
    """Reads every file of the newest version back, all pages of it, and checks that offsets are one dense range. Marks
    the table then.

    Raises CorruptionError; the mark of an earlier verification is removed then.
    """
    snapshot = table.snapshot()
    try:
        _check_rows(table, snapshot, run_jobs)
    except CorruptionError:
        _unmark(table)
        raise
    if snapshot.version >= 0:
        _mark(table, snapshot)
    return snapshot


def _check_rows(table: TopicTable, snapshot: Snapshot, run_jobs: RunJobs) -> None:
    found = [json.loads(text) for text in run_jobs([file.path for file in snapshot.files], _reading(table))]
    _raise_first([each for each in found if isinstance(each, str)], len(snapshot.files))
    joined = join_runs(Run(*run) for runs in found for run in runs)
    expected = [Run(number, *span) for number, span in sorted(snapshot.spans.items())]
    if joined != expected:
        raise CorruptionError(
            f"the files have {shown(table.topic, joined)}, and the table says {shown(table.topic, expected)}"
        )


def last_verified_ms(table: TopicTable) -> int:
    """When the whole table was last found intact; 0: never, or its mark is of another version. Raises OSError."""
    try:
        mark = json.loads(table.read(MARK) or b"")
        return int(mark["verified_ms"]) if mark["version"] == MARK_VERSION else 0
    except (ValueError, KeyError, TypeError):
        return 0


def verify_lake(lake: Lake, run_jobs: RunJobs) -> Verified:
    """All tables of a lake. Raises CorruptionError."""
    snapshots = [verify_table(lake.table(topic), run_jobs) for topic in lake.topics()]
    return Verified(len(snapshots), sum(len(each.files) for each in snapshots), sum(each.rows for each in snapshots))


def _mark(table: TopicTable, snapshot: Snapshot) -> None:
    """A verification that may only read is a good one, too."""
    now_ms = time.time_ns() // 1_000_000
    mark = {"version": MARK_VERSION, "verified_ms": now_ms, "table_version": snapshot.version}
    try:
        table.put(MARK, json.dumps(mark).encode())
    except OSError as error:
        _log.warning("the table of %s is intact, but cannot be marked as verified: %s", table.topic, error)


def _unmark(table: TopicTable) -> None:
    try:
        table.remove([MARK])
    except OSError as error:
        _log.warning("the table of %s is damaged, but stays marked as verified: %s", table.topic, error)


def _raise_first(problems: Sequence[str], count: int) -> None:
    if problems:
        raise CorruptionError(f"{len(problems)} of {count} files are not as they were written: {problems[0]}")


def _verifying(store: Store) -> Callable[[str], str]:
    def verify_one(text: str) -> str:
        try:
            verify(store, DataFile.from_text(text))
        except CorruptionError as error:
            return str(error)
        return ""

    return verify_one


def _reading(table: TopicTable) -> Callable[[str], str]:
    """The runs of a file as JSON, or a text that tells what is wrong with it."""

    def read_one(path: str) -> str:
        try:
            described = read_description(table, path)
            verify(table, described, columns=None)
        except CorruptionError as error:
            return json.dumps(str(error))
        return json.dumps(described.runs)

    return read_one
