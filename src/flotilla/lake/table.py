"""The Delta table of one topic: which files count, and how far each partition has come.

Every version of the table has, beside the files, two transactions for each topic partition, its next offset and its
first one, and one with the id of the topic. So the table itself says where an archive continues, to every program that
opens it. Its invariants:

1. for each partition the offsets of all files together are one dense range, no offset twice;
2. that range grows only at its end: a commit begins where the last one ended;
3. compaction changes files, never offsets;
4. every file was read back before the version that has it.

A commit succeeds only as the very next version after the one that was checked, so whatever another process commits in
between is seen first. Delta's log does that with an exclusive create, on object stores too. One archive at a time makes
progress; the other is told. Files of killed attempts are in no version, and readers of Delta do not see them.
"""

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from flotilla.lake.columns import DATE, TABLE
from flotilla.lake.data_file import DataFile
from flotilla.lake.runs import Run, Span, join_runs, shown
from flotilla.lake.store import Store
from flotilla.types.errors import AlreadyExistsError, InvalidArgumentError, UnavailableError

LOG_FOLDER: Final = "_delta_log"
#: A file that waits longer for its commit is written again. Vacuum never removes a younger one (`vacuum.py`).
FILE_AGE_MS_MAX: Final = 30 * 60_000
#: Each lost one means that somebody else has committed.
_ATTEMPTS: Final = 20
_SETTINGS: Final = {
    # Replaced files stay for readers of older versions; `vacuum.py` has the same time.
    "delta.deletedFileRetentionDuration": "interval 1 days",
    "delta.checkpointInterval": "50",
}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
#: The last millisecond of the year 9999, the end of calendars.
_TIME_MS_MAX: Final = 253_402_300_799_999
_DESCRIPTION: Final = "Archived by Flotilla, which must be its only writer."


class TableFile(NamedTuple):
    """A file of the newest version, as the log describes it."""

    path: str
    size_bytes: int
    rows: int
    day: str
    partition_min: int
    partition_max: int
    offset_min: int
    offset_max: int

    def may_have(self, run: Run) -> bool:
        """Whether some of these offsets may be in it."""
        has_partition = self.partition_min <= run.partition <= self.partition_max
        return has_partition and self.offset_min < run.end and run.first <= self.offset_max


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One version of a table."""

    #: -1: there is no table yet.
    version: int = -1
    files: tuple[TableFile, ...] = ()
    #: By partition.
    spans: Mapping[int, Span] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)


class TopicTable(Store):
    """A store of files, and the log that names those that count."""

    def __init__(self, address: str, topic: str) -> None:
        super().__init__(address)
        self.topic = topic
        #: Of the topic that is archived; 0: not known, for readers.
        self._topic_id = 0
        self._delta: DeltaTable | None = None
        #: What was looked up in one version, because each look-up reads the log; None: nothing of that partition.
        self._seen_version = -1
        self._seen: dict[int, Span | None] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return TopicTable, (self.address, self.topic)

    def snapshot(self) -> Snapshot:
        """The newest version."""
        delta = self._newest()
        if delta is None:
            return Snapshot()
        files = _files_of(delta)
        return Snapshot(delta.version(), files, self._spans(delta, _partitions(files)))

    def delta(self) -> DeltaTable | None:
        """The newest version, for readers that take it from there; None: there is no table yet."""
        return self._newest()

    def check_topic(self, topic_id: int) -> None:
        """The topic that is archived has this id. Raises InvalidArgumentError if the table belongs to another one.

        Ids are never used again: a topic that was deleted and created again has another one, and its offsets are those
        of other records.
        """
        delta = self._newest()
        known = self._topic_id or (None if delta is None else delta.transaction_version(self._topic_key()))
        if known is not None and known != topic_id:
            raise InvalidArgumentError(
                f"the table belongs to an earlier topic {self.topic}, which was deleted and created again: archive the "
                "new one into another lake, or move the table away"
            )
        self._topic_id = topic_id

    def add(self, files: Sequence[DataFile]) -> int:
        """Commits files that were read back, and returns the version that has them.

        Raises AlreadyExistsError when another archive was faster, InvalidArgumentError when offsets are missing before
        or between them; then nothing is committed.
        """
        assert files, "a version has something new"
        joined = join_runs(run for file in files for run in file.runs)
        partitions = [run.partition for run in joined]
        if len(set(partitions)) != len(partitions):
            raise InvalidArgumentError(f"a batch has {shown(self.topic, joined)}: offsets between them are missing")
        self._check_age(files)
        return self._commit(
            lambda delta: self._check_joins(joined, self._spans(delta, partitions)),
            [_added(file, data_change=True) for file in files],
            joined,
        )

    def replace(self, old: Sequence[DataFile], new: Sequence[DataFile]) -> int:
        """Commits files in place of others with the same rows, and returns the version that has them.

        Raises InvalidArgumentError unless the rows are the same, AlreadyExistsError when another process has replaced
        some of them.
        """
        if join_runs(run for file in old for run in file.runs) != join_runs(run for file in new for run in file.runs):
            raise InvalidArgumentError("compacted files do not have the rows of those they are made of")
        self._check_age(new)
        now_ms = time.time_ns() // 1_000_000
        removed = [RemoveAction(file.path, False, now_ms, file.size_bytes, {DATE: file.day}) for file in old]
        return self._commit(
            lambda delta: self._check_there(old, delta), [*removed, *(_added(file, data_change=False) for file in new)]
        )

    # The commit.

    def _commit(self, check: Any, actions: list[Any], moved: Sequence[Run] = ()) -> int:
        added = {action.path for action in actions if isinstance(action, AddAction)}
        for attempt in range(_ATTEMPTS):
            delta = self._newest() or self._created()
            if attempt and added <= _paths_of(delta):
                # The answer to an earlier attempt was lost.
                return delta.version()
            check(delta)
            known = self._spans(delta, [run.partition for run in moved])
            transactions = [Transaction(self._next_id(run.partition), run.end) for run in moved]
            transactions += [
                Transaction(self._first_id(run.partition), run.first) for run in moved if run.partition not in known
            ]
            if moved and self._topic_id:
                transactions.append(Transaction(self._topic_key(), self._topic_id))
            try:
                delta.create_write_transaction(
                    actions,
                    "append",
                    delta.schema(),
                    [DATE],
                    # Without retries, the commit is the next version after the checked one or fails.
                    commit_properties=CommitProperties(max_commit_retries=0, app_transactions=transactions),
                )
            except CommitFailedError:
                continue
            except (DeltaError, OSError) as error:
                raise UnavailableError(f"the table of {self.topic} cannot be written: {error}") from error
            return self._durable(delta.version(), {run.partition: run for run in moved})
        raise UnavailableError(f"others commit to the table of {self.topic} all the time")

    def _durable(self, before: int, moved: Mapping[int, Run]) -> int:
        """Syncs the log, because the hold moves next and Delta leaves it to the operating system."""
        delta = self._newest()
        assert delta is not None
        if self._seen_version == before and delta.version() == before + 1:
            self._seen_version += 1
            for number, run in moved.items():
                known = self._seen.get(number)
                self._seen[number] = Span(run.first if known is None else known.first, run.end)
        if self.is_local:
            for version in range(before + 1, delta.version() + 1):
                for suffix in (".json", ".checkpoint.parquet"):
                    path = f"{LOG_FOLDER}/{version:020}{suffix}"
                    if self.exists(path):
                        self.sync(path)
        return delta.version()

    def _check_joins(self, joined: Iterable[Run], spans: Mapping[int, Span]) -> None:
        for run in joined:
            known = spans.get(run.partition)
            if known is None or known.end == run.first:
                continue
            place = f"{self.topic}/{run.partition}"
            if run.first < known.end:
                raise AlreadyExistsError(
                    f"the lake has {place} up to offset {known.end} already, and a batch begins at {run.first}: "
                    "another archive writes to this lake"
                )
            raise InvalidArgumentError(
                f"the lake has {place} up to offset {known.end}, and a batch begins at {run.first}: the offsets "
                "between them are missing"
            )

    def _check_there(self, old: Sequence[DataFile], delta: DeltaTable) -> None:
        if not {file.path for file in old} <= _paths_of(delta):
            raise AlreadyExistsError(f"another process has compacted files of {self.topic}")

    def _check_age(self, files: Sequence[DataFile]) -> None:
        oldest_ms = min(file.written_ms for file in files)
        if time.time_ns() // 1_000_000 - oldest_ms > FILE_AGE_MS_MAX:
            raise InvalidArgumentError(
                f"files of {self.topic} have waited for their commit for more than {FILE_AGE_MS_MAX // 60_000} "
                "minutes: they are written again"
            )

    # The log.

    def _newest(self) -> DeltaTable | None:
        try:
            if self._delta is None:
                if self.is_local and not self.exists(LOG_FOLDER):
                    return None
                self._delta = DeltaTable(self.address)
            else:
                self._delta.update_incremental()
        except TableNotFoundError:
            return None
        except (DeltaError, OSError) as error:
            self._delta = None
            raise UnavailableError(f"the table of {self.topic} cannot be read: {error}") from error
        return self._delta

    def _created(self) -> DeltaTable:
        try:
            DeltaTable.create(
                self.address,
                Schema.from_arrow(TABLE),
                mode="ignore",
                partition_by=[DATE],
                name=self.topic,
                description=_DESCRIPTION,
                configuration=dict(_SETTINGS),
            )
        except (DeltaError, OSError) as error:
            raise UnavailableError(f"the table of {self.topic} cannot be made: {error}") from error
        delta = self._newest()
        assert delta is not None
        self.sync(f"{LOG_FOLDER}/{0:020}.json")
        return delta

    def _spans(self, delta: DeltaTable, partitions: Sequence[int]) -> dict[int, Span]:
        if self._seen_version != delta.version():
            self._seen_version, self._seen = delta.version(), {}
        for number in partitions:
            if number not in self._seen:
                end = delta.transaction_version(self._next_id(number))
                first = None if end is None else delta.transaction_version(self._first_id(number))
                self._seen[number] = None if end is None or first is None else Span(first, end)
        return {number: span for number in partitions if (span := self._seen[number]) is not None}

    def _topic_key(self) -> str:
        return f"flotilla/{self.topic}/topic-id"

    def _next_id(self, partition: int) -> str:
        return f"flotilla/{self.topic}/{partition}/next"

    def _first_id(self, partition: int) -> str:
        return f"flotilla/{self.topic}/{partition}/first"


def _added(file: DataFile, *, data_change: bool) -> AddAction:
    partitions = [run.partition for run in file.runs]
    smallest: dict[str, Any] = {"partition": min(partitions), "offset": min(run.first for run in file.runs)}
    largest: dict[str, Any] = {"partition": max(partitions), "offset": max(run.end for run in file.runs) - 1}
    if file.time_ms_max <= _TIME_MS_MAX:
        smallest["timestamp"], largest["timestamp"] = map(_moment, (file.time_ms_min, file.time_ms_max))
    statistics = {
        "numRecords": file.rows,
        "minValues": smallest,
        "maxValues": largest,
        "nullCount": dict.fromkeys(smallest, 0),
    }
    return AddAction(file.path, file.size_bytes, {DATE: file.day}, file.written_ms, data_change, json.dumps(statistics))


def _moment(time_ms: int) -> str:
    return (_EPOCH + timedelta(milliseconds=time_ms)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _files_of(delta: DeltaTable) -> tuple[TableFile, ...]:
    # Empty tables lack the columns.
    actions = pa.table(delta.get_add_actions(flatten=True))
    if not actions.num_rows:
        return ()
    names = (
        "path", "size_bytes", "num_records", f"partition.{DATE}",
        "min.partition", "max.partition", "min.offset", "max.offset",
    )  # fmt: skip
    columns = [actions[name].to_pylist() for name in names]
    rows = (TableFile(*row)._replace(day=str(row[3])) for row in zip(*columns, strict=True))
    return tuple(sorted(rows))


def _paths_of(delta: DeltaTable) -> set[str]:
    return set(pa.table(delta.get_add_actions(flatten=True))["path"].to_pylist())


def _partitions(files: Sequence[TableFile]) -> range:
    return range(max((file.partition_max for file in files), default=-1) + 1)
