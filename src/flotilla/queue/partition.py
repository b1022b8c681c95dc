"""The state machine of one partition: its offsets, its producers and the positions of its groups.

Deterministic and total. An entry is a record batch, whose facts are read by a function that is handed
in, or a command (`commands`). A command that makes no sense is answered with an error and changes
nothing. A batch was checked by its leader before it got its offset (`admission`): that it fits is an
invariant and asserted, because refusing it here would leave a hole in front of the batches behind it.

Invariants:
1. offsets are dense: a batch begins where the one before it ended;
2. log_start and next_offset never move back, and log_start never passes next_offset;
3. a group's position never exceeds next_offset and moves back by reset only;
4. no index is applied twice; the applied index is part of the state.
"""

from collections.abc import Callable
from hashlib import sha256
from typing import Any, Protocol

from flotilla.queue.commands import (
    Command,
    CommitOffset,
    ConfigureDedup,
    DeleteGroup,
    StampTime,
    TrimTo,
    decode_command,
)
from flotilla.queue.facts import Describe
from flotilla.queue.producers import ProducerTable
from flotilla.queue.queries import (
    DescribePartition,
    GroupPosition,
    ListPositions,
    PartitionFacts,
    Position,
    StateHash,
)
from flotilla.queue.snapshot import Counters, decode_snapshot, encode_snapshot
from flotilla.types.errors import (
    FlotillaError,
    InvalidArgumentError,
    NotFoundError,
    OffsetOutOfRangeError,
    OverloadedError,
)
from flotilla.types.ids import Index, Offset
from flotilla.types.topics import (
    COMMIT_METADATA_BYTES_MAX,
    GROUP_COUNT_MAX,
    SETTING_BY_NAME,
    check_group_name,
    check_setting,
)

_ENTRIES = SETTING_BY_NAME["dedup_window_entries"]
_WINDOW = SETTING_BY_NAME["dedup_window_ms"]
#: What the head of a command holds.
_TIME_MS_MAX = 2**63 - 1


class LoggedEntry(Protocol):
    """What the machine needs of a committed entry."""

    @property
    def index(self) -> Index: ...

    @property
    def data(self) -> bytes | memoryview: ...


class PartitionMachine:
    """One partition. The bounds of the window hold until a ConfigureDedup says otherwise."""

    def __init__(
        self, describe: Describe, *, entries_max: int = _ENTRIES.default, window_ms: int = _WINDOW.default
    ) -> None:
        self._describe = describe
        self._first_bounds = (entries_max, window_ms)
        self._reset()
        self._rules: dict[type[Any], Callable[[Any], None]] = {
            StampTime: _accept,
            CommitOffset: self._check_commit,
            DeleteGroup: self._check_delete,
            TrimTo: self._check_trim,
            ConfigureDedup: _check_bounds,
        }
        self._handlers: dict[type[Any], Callable[[Any], object]] = {
            StampTime: _accept,
            CommitOffset: self._commit_offset,
            DeleteGroup: self._delete_group,
            TrimTo: self._trim_to,
            ConfigureDedup: self._configure_dedup,
        }

    def _reset(self) -> None:
        #: The index of the newest entry whose effect the state holds.
        self.applied: Index = 0
        #: The first offset that readers can have. Moved by TrimTo.
        self.log_start: Offset = 0
        #: Of the record to come. Moved by every batch.
        self.next_offset: Offset = 0
        self.max_time_ms = 0
        self.batches_total = 0
        self.bytes_total = 0
        #: The newest time stamped into a command; it never goes back, whatever the leaders' clocks do.
        self.clock_ms = 0
        self.positions: dict[str, Position] = {}
        self.producers = ProducerTable(*self._first_bounds)

    # What a replica calls.

    def apply(self, entry: LoggedEntry) -> object:
        """The facts of the batch that was stored; or what a command's handler tells; or a FlotillaError."""
        index = entry.index
        assert index > self.applied, f"entry {index} was applied before ({self.applied})"
        self.applied = index
        facts = self._describe(entry.data)
        if facts is None:
            return self._apply_command(entry.data)
        base_offset = facts.base_offset
        assert base_offset == self.next_offset, f"a batch at {base_offset} where {self.next_offset} follows"
        if facts.producer_id:
            self.producers.record(
                facts.producer_id, facts.producer_epoch, facts.producer_sequence, facts.count, base_offset
            )
        self.next_offset = base_offset + facts.count
        if facts.max_time_ms > self.max_time_ms:
            self.max_time_ms = facts.max_time_ms
        self.batches_total += 1
        self.bytes_total += facts.size_bytes
        return facts

    def _apply_command(self, data: bytes | memoryview) -> object:
        try:
            command = decode_command(data)
            self._judge(command)
        except FlotillaError as error:
            return error.with_traceback(None)
        if command.now_ms > self.clock_ms:
            self.clock_ms = command.now_ms
            self.producers.stamp(self.clock_ms, self.next_offset)
        return self._handlers[type(command)](command)

    def read(self, query: object) -> object:
        if isinstance(query, GroupPosition):
            return self.positions.get(query.group)
        if isinstance(query, DescribePartition):
            return PartitionFacts(
                self.log_start, self.next_offset, self.max_time_ms, self.batches_total, self.bytes_total
            )
        if isinstance(query, ListPositions):
            return dict(sorted(self.positions.items()))
        if isinstance(query, StateHash):
            return self.state_hash()
        return InvalidArgumentError(f"a partition cannot be asked for {type(query).__name__}")

    def snapshot(self) -> bytes:
        counters = Counters(
            applied=self.applied,
            log_start=self.log_start,
            next_offset=self.next_offset,
            max_time_ms=self.max_time_ms,
            batches_total=self.batches_total,
            bytes_total=self.bytes_total,
            clock_ms=self.clock_ms,
        )
        return encode_snapshot(counters, self.positions, self.producers)

    def restore(self, data: bytes) -> None:
        """Raises CorruptionError and keeps the state when the bytes are no snapshot."""
        if not data:
            self._reset()
            return
        counters, positions, producers = decode_snapshot(data)
        self.applied = counters.applied
        self.log_start = counters.log_start
        self.next_offset = counters.next_offset
        self.max_time_ms = counters.max_time_ms
        self.batches_total = counters.batches_total
        self.bytes_total = counters.bytes_total
        self.clock_ms = counters.clock_ms
        self.positions = positions
        self.producers = producers

    def check(self, command: Command) -> FlotillaError | None:
        """What applying the command would be refused with now: asked before it is proposed."""
        try:
            self._judge(command)
        except FlotillaError as error:
            return error.with_traceback(None)
        return None

    def state_hash(self) -> str:
        return sha256(self.snapshot()).hexdigest()

    # Whether a command makes sense. Each rule returns or raises a FlotillaError.

    def _judge(self, command: Command) -> None:
        if not 0 <= command.now_ms <= _TIME_MS_MAX:
            raise InvalidArgumentError(f"{command.now_ms} ms is no time")
        self._rules[type(command)](command)

    def _check_commit(self, command: CommitOffset) -> None:
        check_group_name(command.group)
        if len(command.metadata) > COMMIT_METADATA_BYTES_MAX:
            raise InvalidArgumentError(f"metadata of a commit has at most {COMMIT_METADATA_BYTES_MAX} bytes")
        if not 0 <= command.offset <= self.next_offset:
            raise OffsetOutOfRangeError(f"offset {command.offset} is not between 0 and {self.next_offset}")
        if command.group not in self.positions and len(self.positions) >= GROUP_COUNT_MAX:
            raise OverloadedError(f"a partition has at most {GROUP_COUNT_MAX} groups")

    def _check_delete(self, command: DeleteGroup) -> None:
        if command.group not in self.positions:
            raise NotFoundError(f"there is no group {command.group!r}")

    def _check_trim(self, command: TrimTo) -> None:
        if not 0 <= command.offset <= self.next_offset:
            raise OffsetOutOfRangeError(f"offset {command.offset} is not between 0 and {self.next_offset}")

    # Effects of commands that have been judged.

    def _commit_offset(self, command: CommitOffset) -> Position:
        """Where the group stands now: ahead of the command if it stood there already."""
        known = self.positions.get(command.group)
        if known is not None and command.offset < known.offset and not command.reset:
            return known
        position = Position(command.offset, command.now_ms, command.metadata)
        self.positions[command.group] = position
        return position

    def _delete_group(self, command: DeleteGroup) -> Position:
        """Where the group stood."""
        return self.positions.pop(command.group)

    def _trim_to(self, command: TrimTo) -> Offset:
        """Where the log starts now: beyond the command if it started there already."""
        self.log_start = max(self.log_start, command.offset)
        return self.log_start

    def _configure_dedup(self, command: ConfigureDedup) -> None:
        self.producers.configure(command.entries_max, command.window_ms)


def _accept(_: Command) -> None:
    """Always makes sense, and its time is all there is to it."""


def _check_bounds(command: ConfigureDedup) -> None:
    check_setting(_ENTRIES, command.entries_max)
    check_setting(_WINDOW, command.window_ms)
