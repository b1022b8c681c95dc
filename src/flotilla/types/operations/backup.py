"""Operations of a backup: reads of raw logs and snapshots, and the hold that makes points of many logs fit together.

Entries and snapshots are bytes that brokers store; a backup keeps them as they are (`docs/reference/formats.md`).
"""

from dataclasses import dataclass

from flotilla.types.access import OPERATE
from flotilla.types.ids import Index, NodeId, Term
from flotilla.types.operations.request import ANY, CONTROLLER, READ, REPEATABLE, Reply, Request, Route


@dataclass(slots=True)
class LogRead(Reply):
    """A log and a piece of it. A snapshot index of 0: the log has no snapshot and begins at 1."""

    #: The Raft group, whose id is never used again.
    group: int
    #: The entry before the first one, and its term.
    base_index: Index
    base_term: Term
    #: The last entry that is committed and applied here.
    last_index: Index
    last_term: Term
    snapshot_index: Index
    snapshot_term: Term
    snapshot_bytes: int
    #: In the format of `codec/log_copy.py`.
    entries: bytes = b""


@dataclass(slots=True)
class ReadLog(Request[LogRead], effect=READ, needs=OPERATE):
    """Committed entries of a partition's log from `first_index` on, or of the metadata's log if no topic is named.

    0: no entries; the answer then shows every entry that was acknowledged before the request. Raises OffsetOutOfRange
    if the log begins later by now.
    """

    topic: str
    partition: int
    first_index: Index = 0
    #: The last entry to read.
    last_index: Index = 0

    @property
    def route(self) -> Route:
        return Route(self.topic, self.partition) if self.topic else CONTROLLER


@dataclass(slots=True)
class SnapshotRead(Reply):
    """Bytes of a snapshot; none: a newer one has taken its place."""

    data: bytes


@dataclass(slots=True)
class ReadSnapshot(Request[SnapshotRead], effect=READ, needs=OPERATE):
    """Bytes of the newest snapshot of a partition, or of the metadata if no topic is named."""

    topic: str
    partition: int
    #: As LogRead names it.
    index: Index
    offset: int

    @property
    def route(self) -> Route:
        return Route(self.topic, self.partition) if self.topic else CONTROLLER


@dataclass(slots=True)
class SettlementsHeld(Reply):
    node: NodeId
    #: At the end of a hold: it was in force from its begin to now.
    is_held: bool


@dataclass(slots=True)
class HoldSettlements(Request[SettlementsHeld], to=ANY, effect=REPEATABLE, needs=OPERATE):
    """Settlements, commits of offsets and commits of transactions wait at the node that answers; 0 ms: they go on.

    So whatever is settled in any partition at a point under the hold has its effects before the points of all others.
    """

    #: Of the backup, drawn by it.
    hold_id: str
    hold_ms: int
