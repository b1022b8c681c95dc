"""One replica of one group: consensus, a state machine and the pending requests. No I/O.

It can be driven by hand: propose, take `raft.ready()`, store it, `apply` the committed entries, look at
`replies`. A reply is final in one of three ways: done (the state machine's reply), certainly not done
(NotLeaderError, OverloadedError and the like), or unknown (OutcomeUnknownError: leadership was lost
while the entry was in flight, and the next leader may or may not have it).
"""

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field
from random import Random

from flotilla.raft.configuration import decode_configuration
from flotilla.raft.membership import ADD_VOTER, ConfigurationChange
from flotilla.raft.messages import CONFIG, DATA, Configuration, Entry, ReadState, Snapshot, SnapshotMeta
from flotilla.raft.node import RaftNode
from flotilla.raft.options import RaftOptions
from flotilla.raft.roles import LEADER
from flotilla.replica.ports import GroupLog, PendingSnapshot, Remains, StateMachine
from flotilla.replica.stored_state import StoredState, read_state
from flotilla.types.errors import (
    ConfigurationChangeError,
    CorruptionError,
    FlotillaError,
    NotLeaderError,
    OutcomeUnknownError,
    UnavailableError,
)
from flotilla.types.ids import NO_NODE, GroupId, Index, NodeId, Offset, Term
from flotilla.types.limits import MIB
from flotilla.types.snapshot_data import pieces


@dataclass(frozen=True, slots=True)
class ReplicaOptions:
    raft: RaftOptions = field(default_factory=RaftOptions)
    #: A snapshot is due after this many applied entries; 0: the caller of `take_snapshot` decides.
    snapshot_entries: int = 10_000
    #: A snapshot is also due after this many applied bytes, because a start reads them again; 0: no bound.
    snapshot_bytes: int = 128 * MIB
    #: Entries that stay in the log before the snapshot, for followers that are a little behind.
    trail_entries: int = 1_000
    #: The log is the data: a snapshot does not shorten it, only retention does.
    keeps_log: bool = False
    #: A read that was sent to the leader is given up after this many ticks.
    read_ticks_max: int = 50
    #: After a snapshot that could not be written, none is tried for this many ticks.
    snapshot_retry_ticks: int = 50


def _configuration(entry: Entry) -> Configuration | None:
    return decode_configuration(entry.data) if entry.kind == CONFIG else None


class Replica:
    def __init__(
        self,
        group: GroupId,
        node_id: NodeId,
        log: GroupLog,
        machine: StateMachine,
        random: Random,
        options: ReplicaOptions,
        state: StoredState | None = None,
    ) -> None:
        """`state` is what `read_state` returned for this log and machine."""
        recovered = log.recovered()
        state = state or read_state(log, machine)
        snapshot = state.snapshot
        self.group = group
        self.log = log
        self.machine = machine
        self.options = options
        if snapshot is not None:
            machine.restore(snapshot.data, state.decoded)
        applied = snapshot.meta.index if snapshot is not None else log.first_index() - 1
        #: The state machine holds the effect of every entry up to here.
        self.applied: Index = applied
        self.raft = RaftNode(
            node_id,
            log,
            random=random,
            options=options.raft,
            hard_state=recovered.hard_state,
            configuration=recovered.configuration,
            configuration_entries=recovered.configuration_entries,
            applied=applied,
            damaged=recovered.damaged,
            doubtful=recovered.doubtful,
            is_state_lost=state.is_lost,
        )
        #: (token, result) of replies that are due, in order.
        self.replies: list[tuple[object, object]] = []
        #: Readys handed out whose writes are not durable yet; the driver counts them.
        self.unadvanced = 0
        #: A snapshot of this replica is being written.
        self.is_snapshot_pending = False
        self._snapshot_index: Index = applied
        #: Bytes applied since the start, and those of them that the pending snapshot and the newest one cover.
        self._applied_bytes = self._taking_bytes = self._snapshot_bytes = 0
        #: Entries before this one are not needed. Moved by retention.
        self._needed_from: Index = 0
        #: Proposals waiting to be applied, by index; all of the term `_proposal_term`.
        self._proposals: dict[Index, object] = {}
        self._proposal_term: Term = 0
        #: Reads by raft's id: (query, token, tick at which it expires).
        self._reads: dict[int, tuple[object, object, int]] = {}
        #: Confirmed reads that wait until their index is applied: (index, query, token, tick at which it expires).
        self._confirmed: list[tuple[Index, object, object, int]] = []
        self._ticks = 0
        #: The state in a leader's snapshot that is being written.
        self._decoded: object = None
        #: Before this tick no snapshot is tried again.
        self._snapshot_tick = 0
        #: Called before leadership is transferred: the owner may propose what the next leader has to know.
        self.last_word: Callable[[], None] = _silent

    # Requests. The reply comes through `replies`, also when it is an error.

    def propose(self, data: bytes | memoryview, token: object) -> bool:
        """False: refused; the reply says why, and nothing was logged."""
        try:
            index = self.raft.propose(data)
        except FlotillaError as error:
            self.replies.append((token, error))
            return False
        self._wait_for(index, token)
        return True

    def change_members(self, change: ConfigurationChange, token: object) -> None:
        try:
            self._require_learners_first(change)
            index = self.raft.propose_change(change)
        except FlotillaError as error:
            self.replies.append((token, error))
        else:
            self._wait_for(index, token)

    def _require_learners_first(self, change: ConfigurationChange) -> None:
        """Only a node with the group's log may become a voter: an empty one does not vote, and blocks elections."""
        raft = self.raft
        if raft.role != LEADER:
            return
        known_at = raft.log.configurations[-1][0]
        for step in change.changes:
            if step.kind == ADD_VOTER and not raft.configuration.is_voter(step.node):
                progress = raft.progress.get(step.node)
                if progress is None or progress.match < known_at:
                    raise ConfigurationChangeError(f"node {step.node} must catch up as a learner before it votes")

    def read(self, query: object, token: object) -> None:
        """A linearizable read, on any replica that knows a leader."""
        if self.raft.damaged:
            self.replies.append((token, UnavailableError("this replica is repairing its log")))
            return
        try:
            read_id = self.raft.read()
        except FlotillaError as error:
            self.replies.append((token, error))
        else:
            self._reads[read_id] = (query, token, self._ticks + self.options.read_ticks_max)

    def _wait_for(self, index: Index, token: object) -> None:
        if self._proposal_term != self.raft.term:
            self.fail_orphans()
            self._proposal_term = self.raft.term
        assert index not in self._proposals
        self._proposals[index] = token

    @property
    def is_waited_for(self) -> bool:
        """Whether a request here waits for this replica to apply more."""
        return bool(self._proposals or self._reads or self._confirmed)

    def is_serving(self) -> bool:
        """Leads, and has applied everything that its log held when its term began."""
        raft = self.raft
        return raft.role == LEADER and self.applied >= raft.log.base and raft.log.term(self.applied) == raft.term

    def term_start(self) -> Index:
        """The index of the first entry of a leader's term, if that is still in the log; otherwise 0."""
        log, index = self.raft.log, self.applied
        while index > log.base and log.term(index) == self.raft.term:
            index -= 1
        return 0 if log.term(index) == self.raft.term else index + 1

    def prepare_transfer(self, to: NodeId) -> None:
        """Lets the owner have its last word, if a transfer to this node would begin now."""
        raft = self.raft
        is_free = raft.role == LEADER and raft.transferee == NO_NODE
        if is_free and to != raft.id and to in raft.configuration.voters:
            self.last_word()

    def heir(self, excluded: Container[NodeId] = ()) -> NodeId:
        """The reachable voter with the most complete log; NO_NODE if there is none or this replica does not lead."""
        line = [node for node in self._line() if node not in excluded]
        return max(line, key=lambda node: self.raft.progress[node].match, default=NO_NODE)

    def heirs(self) -> list[NodeId]:
        """The reachable voters that lack no more than is in flight, or the best one, in the order of succession."""
        raft, best = self.raft, self.heir()
        if best == NO_NODE:
            return []
        enough = min(raft.log.committed, raft.progress[best].match)
        return [node for node in self._line() if raft.progress[node].match >= enough]

    def _line(self) -> list[NodeId]:
        """The reachable voters in the order of succession; none if this replica does not lead."""
        raft = self.raft
        if raft.role != LEADER:
            return []
        line = raft.configuration.successors(raft.id, raft.options.succession_turn)
        return [node for node in line if node in raft.configuration.voters and node not in raft.down_peers]

    def quicker_heir(self) -> NodeId:
        """An heir that has on its disk what is still to be written here; NO_NODE if there is none."""
        raft = self.raft
        if raft.log.durable == raft.log.last_index:
            return NO_NODE
        heir = self.heir()
        is_quicker = heir != NO_NODE and raft.progress[heir].match > raft.log.durable
        return heir if is_quicker and raft.transferee == NO_NODE else NO_NODE

    def complete_heir(self, excluded: Container[NodeId]) -> NodeId:
        """An heir that lacks nothing; NO_NODE if there is none, or leadership is being transferred."""
        raft = self.raft
        heir = self.heir(excluded)
        is_complete = heir != NO_NODE and raft.progress[heir].match >= raft.log.committed
        return heir if is_complete and raft.transferee == NO_NODE else NO_NODE

    # Time and progress.

    def tick(self) -> None:
        self.raft.tick()
        self.fail_orphans()
        self._ticks += 1
        if self._reads or self._confirmed:
            self._expire_reads()

    def _expire_reads(self) -> None:
        behind = [read for read in self._confirmed if read[3] <= self._ticks]
        if behind:
            self._confirmed = [read for read in self._confirmed if read[3] > self._ticks]
            late_text = "this replica did not apply the read's index in time"
            self.replies += [(token, UnavailableError(late_text)) for _, _, token, _ in behind]
        late = [read_id for read_id, (_, _, deadline) in self._reads.items() if deadline <= self._ticks]
        for read_id in late:
            _, token, _ = self._reads.pop(read_id)
            self.raft.reads.forwarded.pop(read_id, None)
            self.replies.append((token, UnavailableError("no quorum confirmed the read in time")))

    def fail_orphans(self) -> None:
        """Proposals of a leadership that has ended: the next leader may or may not have them."""
        if self._proposals and (self.raft.role != LEADER or self.raft.term != self._proposal_term):
            for token in self._proposals.values():
                self.replies.append((token, OutcomeUnknownError("leadership was lost while waiting for a quorum")))
            self._proposals.clear()

    def apply(self, entries: list[Entry]) -> None:
        """Applies committed entries and answers those that were proposed here."""
        for entry in entries:
            assert entry.index == self.applied + 1, f"applying {entry.index} after {self.applied}"
            result = self.machine.apply(entry) if entry.kind == DATA else _configuration(entry)
            self.applied = entry.index
            self._applied_bytes += len(entry.data)
            if self._proposals:
                self._answer(entry, result)
        if self._confirmed:
            self._serve_reads()

    def _answer(self, entry: Entry, result: object) -> None:
        token = self._proposals.pop(entry.index, None)
        if token is None:
            return
        if entry.term != self._proposal_term:
            # Another leader's entry committed at its index: this one is lost for good.
            self.replies.append((token, NotLeaderError(self.raft.leader)))
        else:
            self.replies.append((token, result))

    def take_reads(self, states: list[ReadState]) -> None:
        """Read indexes that a quorum confirmed, or reads that were dropped."""
        for state in states:
            read = self._reads.pop(state.read_id, None)
            if read is None:
                continue
            query, token, deadline = read
            if state.index < 0:
                self.replies.append((token, NotLeaderError(self.raft.leader)))
            else:
                self._confirmed.append((state.index, query, token, deadline))
        self._serve_reads()

    def _serve_reads(self) -> None:
        due = [read for read in self._confirmed if read[0] <= self.applied]
        if due:
            self._confirmed = [read for read in self._confirmed if read[0] > self.applied]
            self.replies += [(token, self.machine.read(query)) for _, query, token, _ in due]

    # Snapshots.

    def wants_snapshot(self) -> bool:
        if self.is_snapshot_pending or self._ticks < self._snapshot_tick:
            return False
        if self.applied != self.raft.log.handed:
            # Entries that were handed out are applied first.
            return False
        options = self.options
        return (
            self.raft.snapshot_wanted
            or (0 < options.snapshot_entries <= self.applied - self._snapshot_index)
            or (0 < options.snapshot_bytes <= self._applied_bytes - self._snapshot_bytes)
        )

    def take_snapshot(self) -> PendingSnapshot | None:
        """The state as of `applied`; None when there is nothing new or a snapshot is being written."""
        if self.is_snapshot_pending or self.applied <= self._snapshot_index or self.applied > self.raft.log.last_index:
            return None
        log = self.raft.log
        assert log.handed == self.applied, "the first configuration is that of the applied state"
        self.is_snapshot_pending = True
        self._taking_bytes = self._applied_bytes
        self.raft.snapshot_wanted = False
        encode = self.machine.freeze()
        meta = SnapshotMeta(
            index=self.applied,
            term=log.term(self.applied),
            log_index=log.base,
            log_term=log.term(log.base),
            configuration=log.configurations[0][1],
        )
        return PendingSnapshot(meta, encode)

    def snapshot_taken(self, meta: SnapshotMeta) -> None:
        """The snapshot is durable: the log before it is not needed any more, except for a trail."""
        self.is_snapshot_pending = False
        self._snapshot_index = max(self._snapshot_index, meta.index)
        self._snapshot_bytes = max(self._snapshot_bytes, self._taking_bytes)
        self._shorten_log()

    @property
    def readable_end(self) -> Index:
        """Entries before this one may be read: they are applied, and the log holds the committed ones.

        After a leader's snapshot the state is ahead of the log, which may hold entries of our own that never committed.
        """
        return min(self.applied, self.raft.log.committed) + 1

    def index_holding(self, offset: Offset) -> Index | None:
        """The entry that holds an offset, or the first one after it; None: the log does not reach it yet.

        After a leader's snapshot the state is ahead of the log, and its entries arrive later: a missing entry may
        still come. Raises CorruptionError when the log cannot be read there.
        """
        end = self.readable_end
        entries = self.log.read_from_offset(offset, 0, end)
        if entries:
            return entries[0].index
        return end if end > self.applied else None

    def release_below(self, index: Index) -> None:
        """Entries before `index` are not needed any more: the log begins there once a snapshot covers them."""
        self._needed_from = max(self._needed_from, min(index, self.applied + 1))
        self._shorten_log()

    def has_slack(self) -> bool:
        """Whether the log holds entries that a newer snapshot would free."""
        return self._needed_from > self.log.first_index()

    def _shorten_log(self) -> None:
        if self.raft.installing is not None:
            # The store's log is already that of a leader's snapshot, and raft's is not yet. The next snapshot does it.
            return
        if self.options.keeps_log:
            # No trail of entries that retention released: one entry may be many megabytes.
            first = min(self._snapshot_index + 1, self._needed_from)
        else:
            first = self._snapshot_index + 1 - self.options.trail_entries
        if first > self.log.first_index():
            self.log.compact(first, self.raft.log.term(first - 1))
            self.raft.log_compacted()

    def snapshot_damaged(self) -> None:
        """The newest snapshot on disk is damaged: another one takes its place, also if it has the same index."""
        self._snapshot_index = min(self._snapshot_index, self.applied - 1)
        self.raft.snapshot_wanted = True

    def snapshot_failed(self) -> None:
        """The next attempt waits: writing the whole state is expensive, and the disk may be full for a while."""
        self.is_snapshot_pending = False
        self._snapshot_tick = self._ticks + self.options.snapshot_retry_ticks

    def receive_snapshot(self, snapshot: Snapshot) -> PendingSnapshot:
        """A leader's snapshot, to be written and then restored. It is decoded by the thread that writes it."""

        def encode() -> Iterable[bytes]:
            try:
                self._decoded = self.machine.decode(snapshot.data)
            except CorruptionError:
                # `restore` meets it again, where it concerns this replica alone.
                self._decoded = None
            return pieces(snapshot.data)

        return PendingSnapshot(snapshot.meta, encode)

    def restore(self, snapshot: Snapshot) -> Remains | None:
        """A leader's snapshot replaces this replica's state. Returns what is left of the old one."""
        decoded, self._decoded = self._decoded, None
        remains = self.machine.restore(snapshot.data, decoded)
        self.applied = snapshot.meta.index
        self._snapshot_index = snapshot.meta.index
        self._snapshot_bytes = self._applied_bytes
        return remains


def _silent() -> None:
    """There is nothing that the next leader has to know."""
