"""RaftNode: one replica's part in consensus. Messages and ticks go in, a Ready comes out.

The contract with the caller:
 1. Call `step`, `tick`, `propose` and the rest in any order, then `ready()` when `has_ready()`. A Ready takes
    everything there is to do, but for more committed entries than are applied at once.
 2. Hand `snapshot`, `truncate_from`, `entries`, `repaired` and `hard_state` to the store before any
    further call on this node: from then on `StoredLog` answers for them. Durable they may become later.
 3. `messages` may be sent at once. They rest on what is durable already: a leader may replicate an
    entry while its own disk still writes it (thesis 10.2.1).
 4. `messages_after_sync` may be sent only when all that this and every earlier Ready stores is durable.
 5. Call `advance(number)` when that is so, once for each Ready and in order, also for one that stores nothing.
    A Ready with a snapshot is alone: nothing else comes out until it has been advanced, and by then the
    state machine holds the snapshot's state.
 6. Apply `committed` in order, each entry once; they are committed and durable here.

Time comes in ticks and chance in an injected `random.Random`, so that a run repeats from its seed. A change
of role always goes through one `become_*`; the term of a message is checked in one place, `_check_term`.
"""

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any

from flotilla.raft import election, follower, leader, proposals, repair, replication
from flotilla.raft.log import RaftLog
from flotilla.raft.membership import ConfigurationChange
from flotilla.raft.messages import (
    CONFIG,
    Append,
    AppendReply,
    Configuration,
    Entry,
    HardState,
    Heartbeat,
    HeartbeatReply,
    Message,
    Proposal,
    Quiesce,
    ReadState,
    Ready,
    RepairReply,
    RepairRequest,
    Snapshot,
    SnapshotChunk,
    VoteReply,
    VoteRequest,
)
from flotilla.raft.options import UNLIMITED_BYTES, RaftOptions
from flotilla.raft.progress import Progress
from flotilla.raft.reads import ReadQueue
from flotilla.raft.roles import CANDIDATE, FOLLOWER, LEADER, PRE_CANDIDATE
from flotilla.raft.stored_log import StoredLog
from flotilla.types.ids import NO_NODE, Index, NodeId, Term

#: Only a leader sends these, so they name the leader of their term.
FROM_LEADER = (Append, Heartbeat, SnapshotChunk, Quiesce)
#: These do not wake a sleeping group: they were under way when it fell asleep.
UNDER_WAY = (Quiesce, HeartbeatReply)

_STEPS: dict[int, dict[type[Message], Callable[["RaftNode", Any], None]]] = {
    FOLLOWER: {**election.VOTER_STEPS, **follower.STEPS},
    PRE_CANDIDATE: {**election.VOTER_STEPS, **election.CANDIDATE_STEPS},
    CANDIDATE: {**election.VOTER_STEPS, **election.CANDIDATE_STEPS},
    LEADER: {**election.VOTER_STEPS, **leader.STEPS},
}


class RaftNode:
    """See the module's contract. Fields without underscore are for the role modules beside this one."""

    __slots__ = (
        "_advanced",
        "_install_number",
        "_number",
        "_saved",
        "_terms_under_way",
        "_to_self",
        "after_sync",
        "damaged",
        "down_peers",
        "durable_term",
        "election_elapsed",
        "election_timeout",
        "has_stood_again",
        "heartbeat_elapsed",
        "id",
        "idle_ticks",
        "incoming",
        "installing",
        "leader",
        "learner_credit_bytes",
        "log",
        "messages",
        "news_ticks",
        "options",
        "pending_configuration_index",
        "progress",
        "quiescent",
        "random",
        "read_states",
        "reads",
        "repaired",
        "role",
        "snapshot_wanted",
        "spares",
        "term",
        "transferee",
        "truncate_from",
        "uncommitted",
        "uncommitted_bytes",
        "vote",
        "votes",
    )

    def __init__(
        self,
        node_id: NodeId,
        stored: StoredLog,
        *,
        random: Random,
        options: RaftOptions | None = None,
        hard_state: HardState | None = None,
        configuration: Configuration | None = None,
        configuration_entries: list[Entry] | None = None,
        applied: Index = 0,
        damaged: list[tuple[Index, Index]] | None = None,
        is_state_lost: bool = False,
    ) -> None:
        assert node_id != NO_NODE
        hard_state = hard_state or HardState()
        self.id: NodeId = node_id
        self.options = options or RaftOptions()
        self.options.validate()
        self.random = random
        self.log = RaftLog(stored, configuration or Configuration(), committed=hard_state.commit, applied=applied)
        for entry in configuration_entries or []:
            self.log.add_configuration(entry)

        self.term: Term = hard_state.term
        #: Whom this node voted for in `term`. Kept when stepping down within a term: a vote is given once.
        self.vote: NodeId = hard_state.vote
        self.role = FOLLOWER
        #: The leader of `term` as far as known.
        self.leader: NodeId = NO_NODE

        #: Candidates: the answers so far.
        self.votes: dict[NodeId, bool] = {}
        #: Candidates: a split vote was repeated without waiting; cleared by a leader.
        self.has_stood_again = False
        #: Leaders: what is known of every member, in ascending order of id.
        self.progress: dict[NodeId, Progress] = {}
        #: Leaders: no further membership change before this index has been applied.
        self.pending_configuration_index: Index = 0
        #: Leaders: (index, bytes) of proposals that have not committed, oldest first.
        self.uncommitted: deque[tuple[Index, int]] = deque()
        self.uncommitted_bytes = 0
        #: Leaders: how much of the log may still be sent to learners. Whoever limits that refills it.
        self.learner_credit_bytes = UNLIMITED_BYTES
        #: Leaders: voters whom no quorum needs for now.
        self.spares: frozenset[NodeId] = frozenset()
        #: Leaders: whom leadership is being handed to.
        self.transferee: NodeId = NO_NODE
        #: Reads that wait for a quorum's word. The first id is drawn, so that no id repeats after a restart.
        self.reads = ReadQueue(first_id=random.getrandbits(47) << 16)

        self.election_elapsed = self.heartbeat_elapsed = self.idle_ticks = 0
        #: Leaders: for how many ticks some follower has not been told of a commit.
        self.news_ticks = 0
        self.election_timeout = self.draw_election_timeout()
        #: A sleeping group neither ticks nor speaks; any message or proposal wakes it.
        self.quiescent = False
        #: Peers whose link is known to be down.
        self.down_peers: set[NodeId] = set()

        #: Entries whose bodies are lost: half-open, ascending. While there are any, this node neither votes nor serves.
        self.damaged: list[tuple[Index, Index]] = list(damaged or [])
        if is_state_lost:
            self.damaged.insert(0, repair.lost_state(self.log.base))
        #: A snapshot on its way in: its pieces so far.
        self.incoming: tuple[SnapshotChunk, bytearray] | None = None
        #: A whole snapshot, and the intact entries behind it that stay, while the caller installs it.
        self.installing: tuple[Snapshot, list[Entry], NodeId] | None = None
        #: Bodies fetched again, waiting for the next Ready.
        self.repaired: list[Entry] = []
        self.truncate_from: Index = 0
        #: Somebody needs a newer snapshot than there is.
        self.snapshot_wanted = False

        self.messages: list[Message] = []
        self.after_sync: list[Message] = []
        self.read_states: list[ReadState] = []
        self._saved = hard_state
        #: The newest term known to be on this node's disk.
        self.durable_term: Term = hard_state.term
        self._number = self._advanced = self._install_number = 0
        self._terms_under_way: deque[tuple[int, Term]] = deque()
        self._to_self: deque[tuple[int, Message]] = deque()

    @property
    def configuration(self) -> Configuration:
        """The configuration in force: the newest one in the log."""
        return self.log.configurations[-1][1]

    # Inputs.

    def step(self, message: Message) -> None:
        """A message came in."""
        assert message.to == self.id
        kind = type(message)
        if self.installing is not None:
            return
        if kind is RepairRequest:
            repair.serve(self, message)  # type: ignore[arg-type]
            return
        if self.damaged:
            repair.step(self, message)
            return
        if kind is RepairReply:
            return
        if self.quiescent and kind not in UNDER_WAY:
            self.wake()
        if message.term != self.term and not self._check_term(message):
            return
        handler = _STEPS[self.role].get(kind)
        if handler is not None:
            handler(self, message)

    def tick(self) -> None:
        """One unit of time passed."""
        if self.quiescent or self.installing is not None:
            return
        self.election_elapsed += 1
        if self.damaged:
            repair.tick(self)
        elif self.role == LEADER:
            leader.tick(self)
        elif self.election_elapsed >= self.election_timeout:
            election.start(self)

    def propose(self, data: bytes | memoryview) -> Index:
        """Asks to log `data`; its index in this term. Raises NotLeaderError, OverloadedError, UnavailableError."""
        return proposals.propose(self, data)

    def forward(self, data: bytes) -> None:
        """Proposes without waiting for what comes of it, through the leader if that is another node."""
        if self.role == LEADER:
            proposals.propose_unanswered(self, data)
        elif self.leader != NO_NODE:
            self.messages.append(Proposal(self.id, self.leader, self.term, data))

    def propose_change(self, change: ConfigurationChange) -> Index:
        """Asks to change the members. Raises ConfigurationChangeError when it is not possible or one is under way."""
        return proposals.propose_change(self, change)

    def read(self) -> int:
        """Asks for a read index; a ReadState under the returned id answers. Raises NotLeaderError, OverloadedError."""
        return leader.read(self)

    def transfer(self, to: NodeId) -> None:
        """Asks to hand leadership to a voter. Raises NotLeaderError, InvalidArgumentError."""
        leader.transfer(self, to)

    def campaign(self) -> None:
        """Stands for election now, with a pre-vote, without waiting for the timeout."""
        if not self.damaged and self.installing is None and self.role != LEADER:
            self.wake()
            election.start(self)

    def step_down(self) -> None:
        """Stops leading within the term, for example because the disk fails. The vote of the term stays given."""
        if self.role != FOLLOWER:
            self.become_follower(self.term, NO_NODE)

    def spare_nobody(self) -> None:
        """What was sent takes too long: until the next tick everybody is sent everything."""
        self.spares = frozenset()

    def peer_down(self, peer: NodeId) -> None:
        """The link to `peer` broke: a hint, never a proof. It may start a pre-vote at once, never a real vote."""
        self.down_peers.add(peer)
        if self.role == LEADER:
            leader.peer_down(self, peer)
        elif self.leader == peer and not self.damaged:
            election.leader_link_lost(self)

    def peer_up(self, peer: NodeId) -> None:
        self.down_peers.discard(peer)
        if self.role == LEADER:
            leader.peer_up(self, peer)

    def log_compacted(self) -> None:
        """The store has moved the log's start forward."""
        self.log.compacted()
        base = self.log.base
        self.damaged = [(max(low, base + 1), high) for low, high in self.damaged if high > base + 1]
        self.repaired = [entry for entry in self.repaired if entry.index > base]

    # Outputs.

    def has_ready(self) -> bool:
        if self.installing is not None:
            return self._install_number == 0
        log = self.log
        return bool(
            self.messages
            or self.after_sync
            or log.pending
            or self.read_states
            or self.repaired
            or self.truncate_from
            or log.found_damage
            or (not self.damaged and log.has_committed())
            or self.term != self._saved.term
            or self.vote != self._saved.vote
            or (self.role == LEADER and replication.has_work(self))
        )

    def ready(self) -> Ready:
        """Everything to do now. See the contract for the order."""
        if self.installing is not None:
            return self._ready_to_install()
        if self.log.found_damage:
            repair.begin(self)
        committed = [] if self.damaged else self.log.take_committed(self.options.apply_bytes_max)
        if committed and self.role == LEADER and any(entry.kind == CONFIG for entry in committed):
            leader.configuration_committed(self)
        if self.role == LEADER:
            replication.flush(self)
        self._number += 1
        entries = self.log.take_pending(self._number)
        # One for every turn of every group: by position, since names would double the cost of making it.
        ready = Ready(
            self._number,
            self._take_hard_state(bool(entries)),
            entries,
            self.repaired,
            self.truncate_from,
            None,
            self.messages,
            self._take_after_sync(),
            committed,
            self.read_states,
        )
        self.messages, self.repaired, self.read_states, self.truncate_from = [], [], [], 0
        return ready

    def advance(self, number: int) -> None:
        """All that Ready `number` and those before it store is durable."""
        assert number == self._advanced + 1, f"Ready {number} advanced after {self._advanced}"
        assert number <= self._number
        self._advanced = number
        self.log.written(number)
        while self._terms_under_way and self._terms_under_way[0][0] <= number:
            self.durable_term = self._terms_under_way.popleft()[1]
        if number == self._install_number:
            self._installed()
        if self.role == LEADER:
            leader.own_log_written(self)
        while self._to_self and self._to_self[0][0] <= number:
            self.step(self._to_self.popleft()[1])

    # Changes of role: the only places where `role` is set.

    def become_follower(self, term: Term, leader_id: NodeId) -> None:
        assert term >= self.term, "terms never go back"
        if term > self.term:
            self.term = term
            self.vote = NO_NODE
        self._leave_role(FOLLOWER)
        self.leader = leader_id

    def become_pre_candidate(self) -> None:
        """Asks whether an election could be won. Neither term nor vote changes."""
        assert self.role != LEADER
        self._leave_role(PRE_CANDIDATE)
        self.leader = NO_NODE

    def become_candidate(self) -> None:
        assert self.role != LEADER
        self.term += 1
        self.vote = self.id
        self._leave_role(CANDIDATE)
        self.leader = NO_NODE

    def become_leader(self) -> None:
        assert self.role == CANDIDATE
        assert self.vote == self.id
        self._leave_role(LEADER)
        self.leader = self.id
        self.has_stood_again = False
        leader.begin(self)

    def _leave_role(self, role: int) -> None:
        if self.role == LEADER and role != LEADER:
            self.read_states += [ReadState(read_id, -1) for read_id in self.reads.drop_all()]
        elif self.role != LEADER:
            self.read_states += [ReadState(read_id, -1) for read_id in self.reads.drop_forwarded()]
        self.role = role
        self.votes = {}
        self.progress = {}
        self.uncommitted.clear()
        self.uncommitted_bytes = 0
        self.spares = frozenset()
        self.transferee = NO_NODE
        self.quiescent = False
        self.election_elapsed = 0
        self.heartbeat_elapsed = 0
        self.idle_ticks = 0
        self.election_timeout = self.draw_election_timeout()

    # What the role modules share.

    def wake(self) -> None:
        if not self.quiescent:
            return
        self.quiescent = False
        self.election_elapsed = 0
        self.idle_ticks = 0
        if self.role == LEADER:
            leader.woken(self)

    def hears_leader(self, asking: NodeId) -> bool:
        """A leader other than the asking node was heard within the shortest election time: stick to it."""
        if not self.options.check_quorum or self.leader in (NO_NODE, asking):
            return False
        return self.role == LEADER or self.election_elapsed < election.leader_patience_ticks(self)

    def is_promotable(self) -> bool:
        """May stand for election: its log is intact, and it votes in the newest committed configuration or a later one.

        A leader that was removing itself may hold the only copy of that change; until it commits nobody
        else can win, so the removed one must stand (thesis 4.2.2).
        """
        if self.damaged or self.installing is not None:
            return False
        for index, configuration in reversed(self.log.configurations):
            if configuration.is_voter(self.id):
                return True
            if index <= self.log.committed:
                break
        return False

    def is_up_to_date(self, last_index: Index, last_term: Term) -> bool:
        """Whether a log that ends there is at least as complete as this one (paper 5.4.1)."""
        own_term = self.log.last_term()
        return last_term > own_term or (last_term == own_term and last_index >= self.log.last_index)

    def install(self, snapshot: Snapshot, suffix: list[Entry], sender: NodeId) -> None:
        """A whole snapshot is here: the next Ready carries it, and nothing else happens until it is installed."""
        self.installing = (snapshot, suffix, sender)
        self._install_number = 0

    def draw_election_timeout(self) -> int:
        return self.options.election_ticks + self.random.randrange(self.options.election_ticks)

    def _check_term(self, message: Message) -> bool:
        """Adopts a newer term, turns away an older one. Tells whether the message is to be handled."""
        kind = type(message)
        if message.term > self.term:
            if isinstance(message, VoteRequest):
                if not message.transfer and self.hears_leader(message.sender):
                    return False
                if message.pre:
                    return True
            elif isinstance(message, VoteReply) and message.pre and message.granted:
                return True
            self.become_follower(message.term, message.sender if kind in FROM_LEADER else NO_NODE)
            return True
        if kind in FROM_LEADER:
            # A leader of an older term: tell it of the newer one, or a node that came back with a
            # higher term could neither win an election nor be caught up.
            self.after_sync.append(AppendReply(self.id, message.sender, self.term, index=0, accepted=False))
        elif isinstance(message, VoteRequest) and message.pre:
            self.messages.append(VoteReply(self.id, message.sender, self.term, granted=False, pre=True))
        return False

    def _take_hard_state(self, has_entries: bool) -> HardState | None:
        """Term and vote are saved at once, the commit index only beside entries: alone it is not worth a sync."""
        saved = self._saved
        has_news = has_entries and self.log.committed != saved.commit
        if self.term == saved.term and self.vote == saved.vote and not has_news:
            return None
        self._saved = HardState(self.term, self.vote, self.log.committed)
        if self.term != self.durable_term:
            self._terms_under_way.append((self._number, self.term))
        return self._saved

    def _take_after_sync(self) -> list[Message]:
        if not self.after_sync:
            return []
        others: list[Message] = []
        for message in self.after_sync:
            if message.to == self.id:
                self._to_self.append((self._number, message))
            else:
                others.append(message)
        self.after_sync = []
        return others

    def _ready_to_install(self) -> Ready:
        assert self.installing is not None
        assert self._install_number == 0, "a snapshot is being installed"
        snapshot, suffix, _ = self.installing
        self._number += 1
        self._install_number = self._number
        committed = max(self.log.committed, snapshot.meta.log_index)
        self._saved = HardState(self.term, self.vote, committed)
        self._terms_under_way.append((self._number, self.term))
        self.repaired, self.truncate_from = [], 0
        messages, self.messages = self.messages, []
        reads, self.read_states = self.read_states, []
        return Ready(
            number=self._number,
            hard_state=self._saved,
            entries=suffix,
            repaired=[],
            truncate_from=0,
            snapshot=snapshot,
            messages=messages,
            messages_after_sync=self._take_after_sync(),
            committed=[],
            reads=reads,
        )

    def _installed(self) -> None:
        assert self.installing is not None
        snapshot, suffix, sender = self.installing
        meta = snapshot.meta
        self.installing = None
        self._install_number = 0
        self.log.restore(meta, suffix)
        self.damaged = []
        self.election_elapsed = 0
        # Durable, so it may leave at once: from here on the leader can append.
        self.messages.append(AppendReply(self.id, sender, self.term, index=self.log.committed, accepted=True))
