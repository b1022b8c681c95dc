"""What a replica and its driver need of the outside: a store, a state machine.

Storage work comes in three steps, so that the loop never waits for a disk and the simulator can
put a crash between any two of them: *plan* on the loop (memory only), *run* on any thread (I/O only,
touching nothing but the job), *finish* on the loop (memory only).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from flotilla.raft.messages import Configuration, Entry, HardState, Snapshot, SnapshotMeta
from flotilla.raft.stored_log import StoredLog
from flotilla.types.ids import GroupId, Index, Term


@dataclass(slots=True)
class Recovered:
    """What a group's storage knows after opening: all a replica needs to go on."""

    hard_state: HardState
    #: None for a group that never took a snapshot.
    snapshot: SnapshotMeta | None
    #: The configuration at the log's base (or at the snapshot, where there is one).
    configuration: Configuration
    #: CONFIG entries stored behind that configuration, in order, committed or not.
    configuration_entries: list[Entry] = field(default_factory=list)
    #: Entries whose place and term are known but whose body is not intact: half-open, ascending.
    damaged: list[tuple[Index, Index]] = field(default_factory=list)


class GroupLog(StoredLog, Protocol):
    """One group's part of the store."""

    def recovered(self) -> Recovered: ...

    def read_snapshot(self) -> Snapshot | None:
        """The newest snapshot, whole. Raises CorruptionError."""

    def read_from_offset(self, offset: int, max_bytes: int, high_index: Index) -> list[Entry]:
        """Stored batches from the one that holds `offset` on, up to but without high_index, as they are."""

    def find_time(self, timestamp_ms: int) -> int | None:
        """The base offset of the first batch that holds a record of that time or later."""

    def offset_within(self, size_bytes: int) -> int:
        """Where the newest `size_bytes` of the log begin, or somewhat before; -1 when it has no records before that."""

    def compact(self, first_index: Index, term_before: Term) -> None:
        """Moves the log's start; goes into the next block. Files wholly before it are removed by maintenance."""

    def size_bytes(self) -> int: ...


class Block(Protocol):
    """Everything saved since the last block: one write, one sync."""

    @property
    def sequence(self) -> int: ...

    @property
    def size_bytes(self) -> int: ...


class Job(Protocol):
    """A piece of background work: flush, snapshot, removal."""

    def run(self) -> None:
        """I/O only; any thread. Raises DiskFullError or StorageFailedError; may be run again after that."""


class Store(Protocol):
    """All groups of one node."""

    @property
    def groups(self) -> Mapping[GroupId, GroupLog]: ...

    def create_group(self, group: GroupId, configuration: Configuration) -> GroupLog:
        """A new empty log. It exists durably once the next block is written."""

    def remove_group(self, group: GroupId) -> None:
        """Forgets a group; its files go with maintenance, after the next block is durable."""

    def save(
        self,
        group: GroupId,
        *,
        hard_state: HardState | None = None,
        entries: list[Entry] | None = None,
        repaired: list[Entry] | None = None,
        truncate_from: Index = 0,
        snapshot: SnapshotMeta | None = None,
    ) -> None:
        """Puts into the next block, in memory only. A snapshot mark says: the file is there, reset the log to it."""

    def take_damage(self) -> list[tuple[GroupId, Index, Index]]:
        """What was found to be damaged while it was read, whoever read it, since the last time: group and range."""

    def take_block(self) -> Block | None:
        """Closes the collected block, or None when there is nothing to write. One block is under way at a time."""

    def write_block(self, block: Block) -> None:
        """Writes and syncs; any thread, one at a time, in order. After an error the same block is given again."""

    def mark_block(self) -> None:
        """Notes beside the last block that it became durable, so that damage to it is not taken for a torn write.

        On the thread that writes, when no block follows soon: the next one brings the note along. Cannot fail.
        """

    def finish_block(self, block: Block) -> None:
        """The block is durable."""

    def plan_maintenance(self) -> Job | None:
        """Flushing full journals into segments, recycling, removing. None: nothing to do, or a job is under way."""

    def finish_maintenance(self, job: Job) -> None: ...

    def plan_snapshot(self, group: GroupId, snapshot: Snapshot) -> Job:
        """Writes a snapshot file beside the old one and puts it in its place."""

    def finish_snapshot(self, job: Job) -> SnapshotMeta:
        """The new snapshot is durable and from now on the newest."""

    def discard_snapshot(self, job: Job) -> None:
        """Nobody needs the snapshot any more: its group was removed while it was being written."""


class StateMachine(Protocol):
    """What a group replicates. Deterministic; `apply` is total and never raises."""

    def apply(self, entry: Entry) -> object:
        """Applies a committed DATA entry and returns the reply for whoever proposed it."""

    def read(self, query: object) -> object:
        """Answers a read from the current state."""

    def snapshot(self) -> bytes: ...

    def restore(self, data: bytes) -> None:
        """Replaces the state; empty data means the state before the first entry."""
