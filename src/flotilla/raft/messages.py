"""The values that enter and leave the consensus core: entries, messages between replicas, and Ready.

Nothing here has behaviour beyond sizes. Messages are plain slotted dataclasses because one is
made per append and per heartbeat; long-lived values (hard state, configuration) are frozen.
"""

from dataclasses import dataclass, field

from flotilla.types.ids import NO_NODE, Index, NodeId, Term
from flotilla.types.snapshot_data import SnapshotData

#: The kinds of entries. DATA belongs to the state machine; a NOOP opens a leader's term; CONFIG changes members.
DATA = 1
NOOP = 2
CONFIG = 3

#: Counted for every entry beside its data, so that empty entries are bounded too.
ENTRY_OVERHEAD_BYTES = 32


@dataclass(slots=True)
class Entry:
    """One position of the log. (index, term) identifies its content for ever."""

    index: Index
    term: Term
    kind: int
    data: bytes | memoryview

    @property
    def size_bytes(self) -> int:
        return len(self.data) + ENTRY_OVERHEAD_BYTES


@dataclass(frozen=True, slots=True)
class HardState:
    """The state that must be on disk before any message that depends on it leaves.

    `commit` only saves work after a restart: it is written together with entries, never alone.
    """

    term: Term = 0
    vote: NodeId = NO_NODE
    commit: Index = 0


@dataclass(frozen=True, slots=True)
class Configuration:
    """The members of a group. While `outgoing` is not empty the group is joint: both halves must agree."""

    voters: tuple[NodeId, ...] = ()
    outgoing: tuple[NodeId, ...] = ()
    learners: tuple[NodeId, ...] = ()
    #: Voters of the outgoing half that become learners when the joint phase ends.
    learners_next: tuple[NodeId, ...] = ()
    #: The leader leaves the joint phase by itself, once it has been entered.
    auto_leave: bool = False

    @property
    def is_joint(self) -> bool:
        return bool(self.outgoing)

    def is_voter(self, node: NodeId) -> bool:
        return node in self.voters or node in self.outgoing

    def members(self) -> tuple[NodeId, ...]:
        """All ids, each once, in ascending order."""
        return tuple(sorted({*self.voters, *self.outgoing, *self.learners, *self.learners_next}))

    def successors(self, leader: NodeId, turn: int = 0) -> list[NodeId]:
        """The other voters in the order in which they stand when the leader is gone: by id, from the leader's on.

        `turn` places further, so that the groups of one leader do not all go to the same node.
        """
        voters = [voter for voter in self.members() if self.is_voter(voter) and voter != leader]
        line = [voter for voter in voters if voter > leader] + [voter for voter in voters if voter < leader]
        start = turn % len(line) if line else 0
        return line[start:] + line[:start]


@dataclass(frozen=True, slots=True)
class SnapshotMeta:
    """A state machine's state after applying `index`, and where the log that goes with it begins.

    A partition keeps messages longer than its snapshot needs them, so the log that belongs to a
    snapshot may begin before it: a replica that installs it stores entries (log_index, index] again,
    but does not apply them again. Without them log_index equals index.
    """

    index: Index
    term: Term
    log_index: Index
    log_term: Term
    configuration: Configuration
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A complete snapshot, ready to be installed."""

    meta: SnapshotMeta
    data: SnapshotData


@dataclass(slots=True)
class Message:
    """The fields of every message between replicas."""

    sender: NodeId
    to: NodeId
    term: Term


@dataclass(slots=True)
class VoteRequest(Message):
    """Requests a vote; with `pre`, asks whether it would be granted, and `term` is the next term."""

    last_index: Index
    last_term: Term
    pre: bool = False
    #: The leader itself transfers leadership to the sender: stickiness to that leader does not apply.
    transfer: bool = False


@dataclass(slots=True)
class VoteReply(Message):
    granted: bool
    pre: bool = False


@dataclass(slots=True)
class Append(Message):
    """Entries that follow (prev_index, prev_term). Without entries: a probe, or news of the commit index."""

    prev_index: Index
    prev_term: Term
    commit: Index
    entries: list[Entry] = field(default_factory=list)


@dataclass(slots=True)
class AppendReply(Message):
    """Accepted: the log matches up to `index`. Refused: prev_index `index` did not match; try at the hint."""

    index: Index
    accepted: bool
    hint_index: Index = 0
    hint_term: Term = 0


@dataclass(slots=True)
class Heartbeat(Message):
    """Keeps followers from standing for election. `read_id` is the read round that a reply confirms."""

    commit: Index
    read_id: int = 0


@dataclass(slots=True)
class HeartbeatReply(Message):
    read_id: int = 0


@dataclass(slots=True)
class CommitNews(Message):
    """The commit index moved and no append was due. It has no reply; later appends and heartbeats repeat it."""

    commit: Index


@dataclass(slots=True)
class Quiesce(Message):
    """Every member has everything up to `commit`: stop ticking until the next message or proposal."""

    commit: Index


@dataclass(slots=True)
class SnapshotChunk(Message):
    """Bytes [offset, offset + len(data)) of the snapshot named by `meta`. Term 0: the sender does not lead."""

    meta: SnapshotMeta
    offset: int
    data: bytes | memoryview


@dataclass(slots=True)
class SnapshotReply(Message):
    """`offset` bytes of the snapshot at `index` have arrived. An AppendReply confirms the installed snapshot."""

    index: Index
    offset: int


@dataclass(slots=True)
class TimeoutNow(Message):
    """Leadership transfer: stand for election at once."""

    #: For logs and metrics (`reasons`).
    reason: int = 0


@dataclass(slots=True)
class VerifyRequest(Message):
    """A leader asks whether a replica still has (index, index_term), which it once acknowledged as durable."""

    index: Index
    index_term: Term
    verify_id: int


@dataclass(slots=True)
class VerifyReply(Message):
    """Not `holds`: the replica has forgotten what it acknowledged. Its log ends at `last_index`."""

    verify_id: int
    holds: bool
    last_index: Index


@dataclass(slots=True)
class Proposal(Message):
    """A follower forwards a proposal. It has no reply: its effect shows when it is applied."""

    data: bytes | memoryview


@dataclass(slots=True)
class ReadRequest(Message):
    """A follower requests a read index from the leader."""

    read_id: int


@dataclass(slots=True)
class ReadReply(Message):
    read_id: int
    index: Index


@dataclass(slots=True)
class RepairRequest(Message):
    """A replica with damaged entries [low, high) requests them again. Outside of terms: term is 0.

    `low` is 0: it has lost the state before `high`, which is committed. Then the term is its own.
    """

    low: Index
    high: Index


@dataclass(slots=True)
class RepairReply(Message):
    """Intact entries from `low` on. `absent`: the sender has no entry there. If it leads at `term`, the damaged
    ones were never committed; other members have term 0, and their entry there may be doubtful too. `compacted`:
    the entries lie before the sender's log; a snapshot is needed."""

    low: Index
    entries: list[Entry] = field(default_factory=list)
    absent: bool = False
    compacted: bool = False


@dataclass(frozen=True, slots=True)
class ReadState:
    """The read `read_id` may be served once everything up to `index` has been applied.

    index -1: the read was dropped (leadership moved); ask again with a fresh id.
    """

    read_id: int
    index: Index


@dataclass(slots=True)
class Ready:
    """Pending work, to be done in the order of the contract in `node.py`."""

    number: int
    hard_state: HardState | None
    #: To be stored. They replace everything stored from entries[0].index on.
    entries: list[Entry]
    #: Damaged entries, fetched again. Stored in place, replacing nothing after them.
    repaired: list[Entry]
    #: Everything from this index on is to be dropped from the store (0: nothing).
    truncate_from: Index
    #: To be stored and restored into the state machine, before `entries`.
    snapshot: Snapshot | None
    #: May leave at once: they depend only on durable state.
    messages: list[Message]
    #: May leave only after everything above is durable.
    messages_after_sync: list[Message]
    #: Committed and durable here: to be applied, in order, once.
    committed: list[Entry]
    reads: list[ReadState]

    @property
    def must_save(self) -> bool:
        return bool(
            self.entries
            or self.repaired
            or self.truncate_from
            or self.hard_state is not None
            or self.snapshot is not None
        )
