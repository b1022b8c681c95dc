"""The ports of a replica and its driver: the store, the state machine and the events of links.

Storage work has three steps, so that the loop never waits for a disk and the simulator can put a
crash between any two of them: *plan* on the loop (memory only), *run* on any thread (I/O only,
touching nothing but the job), *finish* on the loop (memory only).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeAlias

from flotilla.raft.messages import Configuration, Entry, HardState, Message, Snapshot, SnapshotMeta
from flotilla.raft.stored_log import StoredLog
from flotilla.types.ids import GroupId, Index, NodeId, Term
from flotilla.types.snapshot_data import SnapshotData


@dataclass(slots=True)
class Recovered:
    """The state of a group that was read when the store was opened, from which a replica goes on."""

    hard_state: HardState
    #: None for a group that never took a snapshot.
    snapshot: SnapshotMeta | None
    #: The configuration at the log's base (or at the snapshot, where there is one).
    configuration: Configuration
    #: CONFIG entries stored after that configuration, in order, committed or not.
    configuration_entries: list[Entry] = field(default_factory=list)
    #: Entries whose index and term are known but whose data is not intact: half-open, ascending.
    damaged: list[tuple[Index, Index]] = field(default_factory=list)
    #: Those of them that may never have been acknowledged: a power cut may have torn them.
    doubtful: list[tuple[Index, Index]] = field(default_factory=list)


@dataclass(slots=True)
class PendingSnapshot:
    """A snapshot before it is written. The size in its meta counts only once it is."""

    meta: SnapshotMeta
    #: Makes the bytes, on the thread that writes them.
    encode: Callable[[], Iterable[bytes]]


class GroupLog(StoredLog, Protocol):
    """One group's part of the store. Reads of entries raise CorruptionError and NotLoadedError."""

    def recovered(self) -> Recovered: ...

    def read_snapshot(self) -> Snapshot | None:
        """The newest snapshot, whole. Raises CorruptionError."""

    def read_from_offset(self, offset: int, max_bytes: int, high_index: Index) -> list[Entry]:
        """Stored batches from the one that holds `offset` on, before high_index, as they are."""

    def find_time(self, timestamp_ms: int) -> int | None:
        """The base offset of the first batch with a record of that time or later."""

    def offset_within(self, size_bytes: int) -> int:
        """Where the newest `size_bytes` of the log begin, or a little before; -1 when no records come before that."""

    def compact(self, first_index: Index, term_before: Term) -> None:
        """Moves the log's start, with the next block. Maintenance removes the files that lie wholly before it."""

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


class Load(Job, Protocol):
    """A read of one group's files: for a reader that got NotLoadedError, or before its replica begins."""

    @property
    def group(self) -> GroupId: ...

    @property
    def path(self) -> str:
        """The file, for reports."""

    #: No reader waits for it.
    is_background: bool


class Scrubbed(NamedTuple):
    """The work of the scrubber since the store was opened."""

    bytes: int
    #: Damaged places.
    damage: int
    #: Passes that have ended. One is full if no piece was skipped meanwhile.
    passes: int
    #: Pieces and logs that could not be read; the next pass tries again.
    skipped: int = 0


class UnstorableError(Exception):
    """An entry of a group cannot be described, so nothing of the call was saved. It concerns that group alone."""


class Store(Protocol):
    """All groups of one node."""

    @property
    def groups(self) -> Mapping[GroupId, GroupLog]: ...

    def create_group(self, group: GroupId, configuration: Configuration) -> GroupLog:
        """A new empty log. It exists durably once the next block is written."""

    def remove_group(self, group: GroupId) -> None:
        """Removes a group; maintenance removes its files once the next block is durable."""

    def plan_attachment(self, group: GroupId) -> Load | None:
        """Opens the files of a log that the disk did not return when the store was opened. None: they are open.

        Until `finish_attachment` the log must not be used.
        """

    def finish_attachment(self, attachment: Load) -> None:
        """The files are open. No effect if the group was removed meanwhile."""

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
        """Adds to the next block, in memory only. `snapshot`: its file is durable, and the log is reset to it.

        Raises UnstorableError.
        """

    def take_damage(self) -> list[tuple[GroupId, Index, Index]]:
        """The damage that any reader has found since the last call: group and range of entries."""

    def take_loads(self) -> Sequence[Load]:
        """The loads that readers wait for, since the last call, and those that search for damage. Each is run.

        It ends with `finish_load`, or with `finish_scrub` if it is in the background.
        """

    def finish_load(self, load: Load) -> bool:
        """The load has ended, also with an error. False: its file is gone by now, so an error means nothing."""

    @property
    def scrubbed(self) -> Scrubbed: ...

    def plan_scrub(self) -> Load | None:
        """The next piece of stored data to verify; None: the pass has ended. One piece is in flight at a time."""

    def finish_scrub(self, load: Load) -> bool:
        """The piece was verified, or could not be read. True: the newest snapshot of its group must be replaced.

        Damaged entries are reported by `take_damage`.
        """

    def take_block(self) -> Block | None:
        """Closes the collected block; None when there is nothing to write. One block is in flight at a time."""

    def write_block(self, block: Block) -> None:
        """Writes and syncs; any thread, one at a time, in order. After an error the same block is given again."""

    def mark_block(self) -> None:
        """Marks the last block as durable, so that damage to it is not taken for a torn write.

        Called on the thread that writes when no block follows soon: a next block would carry the mark. Cannot fail.
        """

    def finish_block(self, block: Block) -> None:
        """The block is durable."""

    @property
    def is_low(self) -> bool:
        """The disk was full: only entries that free space may still be written."""

    def admits(self, entries: list[Entry]) -> int:
        """How many of a leader's entries may be stored now, from the first on: all, unless the disk is full."""

    def plan_maintenance(self, *, is_retry: bool = False) -> Job | None:
        """A job that flushes full journals into segments and recycles files. None: nothing to do, or a job runs.

        `is_retry`: tries again to create what a full disk had no room for.
        """

    def finish_maintenance(self, job: Job) -> None: ...

    def plan_rewrites(self, *, is_retry: bool = False) -> Sequence[Load]:
        """Loads that copy segments with their repaired entries in place, each a piece of one.

        `is_retry`: also of segments for which that failed before.
        """

    def finish_rewrite(self, rewrite: Load) -> None:
        """The piece was written, or failed. `plan_rewrites` gives the next one."""

    def plan_snapshot(self, group: GroupId, snapshot: PendingSnapshot) -> Job:
        """A job that encodes and writes a snapshot file beside the old one and replaces it."""

    def finish_snapshot(self, job: Job) -> SnapshotMeta:
        """The new snapshot is durable, and the newest from now on."""

    def discard_snapshot(self, job: Job) -> None:
        """The group of the snapshot was removed while the snapshot was being written."""


class LinkEvents(Protocol):
    """The events of a node's links, on its loop."""

    def receive(self, messages: list[tuple[GroupId, Message]]) -> bool:
        """False: one of them is forged, and the link is to be cut."""

    def peer_up(self, peer: NodeId) -> None: ...

    def peer_down(self, peer: NodeId) -> None:
        """The peer cannot be reached or has fallen silent. A hint: it may be wrong."""

    def peer_room(self, peer: NodeId, room: int) -> None:
        """The peer says how much room its disk has (runtime/leadership/rooms.py)."""

    def peer_refused(self, peer: NodeId, address: str, reason: str) -> None:
        """This node refused a peer; reported once for each reason. NO_NODE: the peer did not identify itself."""

    def refused_by_peer(self, peer: NodeId, address: str, reason: str) -> None:
        """The peer refused this node, or another node answered; reported once for each reason."""


#: A state that was replaced. Iterating over it frees its memory, a little with each step, on any thread: for a million
#: items that takes tens of milliseconds.
Remains: TypeAlias = Iterator[None]


class StateMachine(Protocol):
    """The state that a group replicates. Deterministic; `apply` is total.

    It raises for an entry of a later version alone: skipping that would make this state another one.
    """

    def apply(self, entry: Entry) -> object:
        """Applies a committed DATA entry and returns the reply to its proposer."""

    def read(self, query: object) -> object:
        """Answers a read from the current state."""

    def freeze(self) -> Callable[[], Iterable[bytes]]:
        """The present state, as a function that encodes it piece by piece.

        Taking it is quick, whatever the size of the state; any thread may call the function while entries are applied.
        """

    def decode(self, data: SnapshotData) -> Any:
        """The state in a snapshot, for `restore`. Depends on the bytes alone, so any thread may call it.

        Raises CorruptionError.
        """

    def restore(self, data: SnapshotData, decoded: Any = None) -> Remains | None:
        """Replaces the state; empty data means the state before the first entry. `decoded` is what `decode` returned.

        Returns the old state if freeing it may take long. Raises CorruptionError.
        """
