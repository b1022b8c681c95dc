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

`deltalake` reads tables, and makes the first version and checkpoints; the other versions are written here
(`delta_log.py`), at a cost that does not depend on the number of files.
"""

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from deltalake import DeltaTable, Schema
from deltalake.exceptions import DeltaError, TableNotFoundError

from flotilla.lake.columns import DATE, TABLE
from flotilla.lake.data_file import DataFile
from flotilla.lake.decoded_columns import CORRUPT, DECODED, joined_types, stored_schema
from flotilla.lake.delta_log import (
    LAST_CHECKPOINT_PATH,
    LOG_FOLDER,
    Content,
    DeltaLog,
    changed_columns,
    checkpoint_path,
    last_checkpoint,
    put_version,
    transaction,
    version_path,
)
from flotilla.lake.runs import Run, Span, join_runs, shown
from flotilla.lake.store import Store
from flotilla.lake.values.sql_types import write_type
from flotilla.types.errors import AlreadyExistsError, InvalidArgumentError, UnavailableError, UnsupportedError

#: A file that waits longer for its commit is written again. Vacuum never removes a younger one (`vacuum.py`).
FILE_AGE_MS_MAX: Final = 30 * 60_000
#: Each lost one means that somebody else has committed.
_ATTEMPTS: Final = 20
#: Readers begin with the last checkpoint. It has the whole list of files, and so is not made often.
_CHECKPOINT_VERSIONS: Final = 100
#: Files in the last checkpoint, for each version that readers read beside it.
_CHECKPOINTED_FILES: Final = 50
_SETTINGS: Final = {
    # Replaced files stay for readers of older versions; `vacuum.py` has the same time.
    "delta.deletedFileRetentionDuration": "interval 1 days",
    "delta.checkpointInterval": str(_CHECKPOINT_VERSIONS),
}
#: A table that other tools have given more features.
_WRITER_VERSION: Final = 2
#: Columns of the list of files, as `deltalake` names them.
_DAY: Final = f"partition.{DATE}"
_PARTITION_MAX: Final = "max.partition"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
#: The last millisecond of the year 9999, the end of calendars.
_TIME_MS_MAX: Final = 253_402_300_799_999
#: The setting that names the schema of decoded columns.
_SCHEMA: Final = "flotilla.schema"
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
        self._log: DeltaLog | None = None
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
        added = _added_of(delta)
        return Snapshot(delta.version(), _files_of(added), self._spans(delta, _partitions_of(added)))

    def files_below(self, size_bytes: int) -> tuple[TableFile, ...]:
        """The smaller files of the newest version; many large ones cost little."""
        delta = self._newest()
        if delta is None:
            return ()
        added = _added_of(delta)
        return _files_of(added.filter(pc.less(added["size_bytes"], size_bytes)) if added.num_rows else added)

    def paths_in_use(self) -> set[str]:
        """Of the files of the newest version."""
        delta = self._newest()
        return set() if delta is None else set(_added_of(delta)["path"].to_pylist())

    def spans(self) -> dict[int, Span]:
        """The offsets in the newest version, by partition; without the list of files, and so at once."""
        log = self._followed()
        return {} if log is None else self._spans_of(log)

    @property
    def content(self) -> Content:
        """How much the table held when this object last looked at its log; nothing is read, so any thread may ask."""
        log = self._log
        return Content() if log is None else log.content

    def decoded(self) -> str:
        """The type of the column `decoded` in the newest version, in SQL; empty: there is none."""
        log = self._followed()
        return "" if log is None else log.decoded

    def schema(self) -> str:
        """The registered schema that its decoded columns come from, NAME or NAME@VERSION; empty: it has none."""
        log = self._followed()
        return "" if log is None else log.schema

    def delta(self) -> DeltaTable | None:
        """The newest version, for readers that take it from there; None: there is no table yet."""
        return self._newest()

    def check_topic(self, topic_id: int) -> None:
        """The topic that is archived has this id. Raises InvalidArgumentError if the table belongs to another one.

        Ids are never used again: a topic that was deleted and created again has another one, and its offsets are those
        of other records.
        """
        log = self._followed()
        known = self._topic_id or (None if log is None else log.transactions.get(self._topic_key()))
        if known is not None and known != topic_id:
            raise InvalidArgumentError(
                f"the table belongs to an earlier topic {self.topic}, which was deleted and created again: archive the "
                "new one into another lake, or move the table away"
            )
        self._topic_id = topic_id

    def add(self, files: Sequence[DataFile], schema: str = "") -> int:
        """Commits files that were read back, and returns the version that has them.

        `schema` names the one that their values were decoded with.

        Raises AlreadyExistsError when another archive was faster, InvalidArgumentError when offsets are missing before
        or between them; then nothing is committed.
        """
        assert files, "a version has something new"
        joined = join_runs(run for file in files for run in file.runs)
        partitions = [run.partition for run in joined]
        if len(set(partitions)) != len(partitions):
            raise InvalidArgumentError(f"a batch has {shown(self.topic, joined)}: offsets between them are missing")
        self._check_age(files)

        def prepare() -> tuple[int, list[dict[str, Any]]]:
            log = self._followed() or self._created()
            known = self._spans_of(log)
            self._check_joins(joined, known)
            actions = self._evolution(log, files, schema)
            actions += [_added(file, data_change=True) for file in files]
            actions += [transaction(self._next_id(run.partition), run.end) for run in joined]
            new = [run for run in joined if run.partition not in known]
            actions += [transaction(self._first_id(run.partition), run.first) for run in new]
            if self._topic_id:
                actions.append(transaction(self._topic_key(), self._topic_id))
            return log.version, actions

        return self._commit(prepare, "WRITE")

    def replace(self, old: Sequence[DataFile], new: Sequence[DataFile]) -> int:
        """Commits files in place of others with the same rows, and returns the version that has them.

        Raises InvalidArgumentError unless the rows are the same, AlreadyExistsError when another process has replaced
        some of them.
        """
        if join_runs(run for file in old for run in file.runs) != join_runs(run for file in new for run in file.runs):
            raise InvalidArgumentError("compacted files do not have the rows of those they are made of")
        self._check_age(new)
        now_ms = time.time_ns() // 1_000_000
        actions = [*(_removed(file, now_ms) for file in old), *(_added(file, data_change=False) for file in new)]

        def prepare() -> tuple[int, list[dict[str, Any]]]:
            present = self.paths_in_use()
            if self._delta is None or not {file.path for file in old} <= present:
                raise AlreadyExistsError(f"another process has compacted files of {self.topic}")
            return self._delta.version(), actions

        return self._commit(prepare, "OPTIMIZE")

    def _evolution(self, log: DeltaLog, files: Sequence[DataFile], schema: str) -> list[dict[str, Any]]:
        """The new columns of a version that is the first one to have them, and the name of their schema.

        Raises InvalidArgumentError.
        """
        joined = joined_types([log.decoded, *(file.decoded for file in files)])
        if joined == log.decoded and schema in ("", log.schema):
            return []
        delta = self._newest()
        assert delta is not None
        new = {field.name: field for field in stored_schema(joined) if field.name in (DECODED, CORRUPT)}
        present = [new.pop(field.name, field) for field in pa.schema(delta.schema().to_arrow())]
        return [changed_columns(delta, pa.schema([*present, *new.values()]), {_SCHEMA: schema} if schema else {})]

    # The commit.

    def _commit(self, prepare: Callable[[], tuple[int, list[dict[str, Any]]]], operation: str) -> int:
        """Makes the version after the one that was checked; `prepare` checks the newest one, and has the actions."""
        for _ in range(_ATTEMPTS):
            checked, actions = prepare()
            try:
                is_made = put_version(self, checked + 1, actions, operation)
            except OSError as error:
                raise UnavailableError(f"the table of {self.topic} cannot be written: {error}") from error
            if is_made:
                if (checked + 1) % _CHECKPOINT_VERSIONS == 0 and self._is_checkpoint_due(checked + 1):
                    self._make_checkpoint()
                return checked + 1
        raise UnavailableError(f"others commit to the table of {self.topic} all the time")

    def _is_checkpoint_due(self, version: int) -> bool:
        """In a large table later: a checkpoint has all files, and its share of the cost of a commit stays the same."""
        last = last_checkpoint(self)
        return last is None or version - last.version >= last.size // _CHECKPOINTED_FILES

    def _make_checkpoint(self) -> None:
        """Readers do without it; the next one is as good."""
        with suppress(DeltaError, OSError, UnavailableError):
            delta = self._newest()
            assert delta is not None
            delta.create_checkpoint()
            # Before the versions that it stands for may go: after a power cut nobody could open the table.
            self.sync(checkpoint_path(delta.version()))
            self.sync(LAST_CHECKPOINT_PATH)
            delta.cleanup_metadata()

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

    def _followed(self) -> DeltaLog | None:
        """The newest version without its files; None: there is no table yet. Raises UnsupportedError."""
        try:
            if self._log is None or not self._log.follow():
                self._log = self._loaded()
            return self._log
        except OSError as error:
            self._log = None
            raise UnavailableError(f"the table of {self.topic} cannot be read: {error}") from error

    def _loaded(self) -> DeltaLog | None:
        delta = self._newest()
        if delta is None:
            return None
        if delta.protocol().min_writer_version > _WRITER_VERSION:
            raise UnsupportedError(
                f"the table of {self.topic} was given features (writer version {delta.protocol().min_writer_version}) "
                "that the archive does not know"
            )
        found: dict[str, int] = {}
        added = _added_of(delta)
        ids = [made(number) for number in _partitions_of(added) for made in (self._next_id, self._first_id)]
        for each in (self._topic_key(), *ids):
            version = delta.transaction_version(each)
            if version is not None:
                found[each] = version
        columns = pa.schema(delta.schema().to_arrow())
        decoded = write_type(columns.field(DECODED).type) if DECODED in columns.names else ""
        schema = delta.metadata().configuration.get(_SCHEMA) or ""
        return DeltaLog(self, delta.version(), found, _content_of(added), decoded, schema)

    def _spans_of(self, log: DeltaLog) -> dict[int, Span]:
        begin, end = f"flotilla/{self.topic}/", "/next"
        numbers = [
            int(each.removeprefix(begin).removesuffix(end))
            for each in log.transactions
            if each.startswith(begin) and each.endswith(end)
        ]
        found = log.transactions
        return {each: Span(found[self._first_id(each)], found[self._next_id(each)]) for each in sorted(numbers)}

    def _created(self) -> DeltaLog:
        """Makes the first version as `deltalake` writes it: beside the table, as that does not sync what it writes."""
        try:
            with TemporaryDirectory() as folder:
                DeltaTable.create(
                    folder,
                    Schema.from_arrow(TABLE),
                    partition_by=[DATE],
                    name=self.topic,
                    description=_DESCRIPTION,
                    configuration=dict(_SETTINGS),
                )
                data = Path(folder, version_path(0)).read_bytes()
            with suppress(AlreadyExistsError):
                self.put(version_path(0), data, is_new=True)
        except (DeltaError, OSError) as error:
            raise UnavailableError(f"the table of {self.topic} cannot be made: {error}") from error
        log = self._followed()
        assert log is not None
        return log

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


def _added(file: DataFile, *, data_change: bool) -> dict[str, Any]:
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
    return {
        "add": {
            "path": file.path,
            "partitionValues": {DATE: file.day},
            "size": file.size_bytes,
            "modificationTime": file.written_ms,
            "dataChange": data_change,
            "stats": json.dumps(statistics),
        }
    }


def _removed(file: DataFile, now_ms: int) -> dict[str, Any]:
    return {
        "remove": {
            "path": file.path,
            "deletionTimestamp": now_ms,
            "dataChange": False,
            "extendedFileMetadata": True,
            "partitionValues": {DATE: file.day},
            "size": file.size_bytes,
        }
    }


def _moment(time_ms: int) -> str:
    return (_EPOCH + timedelta(milliseconds=time_ms)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _added_of(delta: DeltaTable) -> pa.Table:
    """All files of a version as columns, which cost far less than a list of them."""
    return pa.table(delta.get_add_actions(flatten=True))


def _files_of(added: pa.Table) -> tuple[TableFile, ...]:
    # Empty tables lack the columns.
    if not added.num_rows:
        return ()
    names = (
        "path", "size_bytes", "num_records", _DAY,
        "min.partition", _PARTITION_MAX, "min.offset", "max.offset",
    )  # fmt: skip
    columns = [(added[name].cast(pa.string()) if name == _DAY else added[name]).to_pylist() for name in names]
    return tuple(sorted(map(TableFile._make, zip(*columns, strict=True))))


def _content_of(added: pa.Table) -> Content:
    if not added.num_rows:
        return Content()
    return Content(pc.sum(added["size_bytes"]).as_py(), pc.sum(added["num_records"]).as_py(), added.num_rows)


def _partitions_of(added: pa.Table) -> range:
    return range(pc.max(added[_PARTITION_MAX]).as_py() + 1) if added.num_rows else range(0)
