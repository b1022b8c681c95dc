"""The state of one replica in consensus, and the transitions that every role shares.

`RaftState` holds every field and changes role in one `become_*` method per role. The modules beside it (`election`,
`follower`, `leader`, `proposals`, `repair/`, `replication`, `thrifty`) are functions on it. `RaftNode` in `node.py`
is the same object with its inputs and outputs.
"""

from collections import deque
from random import Random

from flotilla.raft import quorum, reasons
from flotilla.raft.incoming_snapshot import IncomingSnapshot
from flotilla.raft.log import RaftLog
from flotilla.raft.messages import Configuration, Entry, HardState, Message, ReadState, RepairRequest, Snapshot
from flotilla.raft.options import UNLIMITED_BYTES, RaftOptions
from flotilla.raft.progress import Departure, Progress
from flotilla.raft.reads import ReadQueue
from flotilla.raft.roles import CANDIDATE, FOLLOWER, LEADER, PRE_CANDIDATE
from flotilla.raft.stored_log import StoredLog
from flotilla.types.ids import NO_NODE, Index, NodeId, Term


class RaftState:
    """The fields with an underscore are `RaftNode`'s bookkeeping of Readys.

    `_saved` is the hard state of the last Ready that had one. `_number`, `_advanced` and `_install_number` are the last
    Ready taken, the last one advanced, and the one that installs a snapshot (0: none). `_terms_in_flight` are terms
    being written; `_to_self` are messages to this node itself, stepped when their Ready is durable.
    """

    __slots__ = (
        "_advanced",
        "_install_number",
        "_number",
        "_saved",
        "_terms_in_flight",
        "_to_self",
        "after_sync",
        "agreed",
        "damaged",
        "departing",
        "doubtful",
        "down_peers",
        "durable_term",
        "election_elapsed",
        "election_timeout",
        "forgetful",
        "forgotten",
        "forgotten_counts",
        "has_stood_again",
        "heartbeat_elapsed",
        "id",
        "idle_ticks",
        "incoming",
        "installing",
        "is_reluctant",
        "lacking",
        "lagging",
        "leader",
        "leadership",
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
        "received",
        "repair_asked",
        "repair_piece",
        "repair_stalls",
        "repair_ticks",
        "repair_waiting",
        "repaired",
        "role",
        "snapshot_wanted",
        "term",
        "transferee",
        "truncate_from",
        "uncommitted",
        "uncommitted_bytes",
        "unsettled",
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
        doubtful: list[tuple[Index, Index]] | None = None,
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
        #: The candidate that has this node's vote in `term`. Kept when stepping down within a term: a vote is final.
        self.vote: NodeId = hard_state.vote
        self.role = FOLLOWER
        #: The leader of `term` as far as known.
        self.leader: NodeId = NO_NODE
        #: Candidates: the replies so far.
        self.votes: dict[NodeId, bool] = {}
        #: Candidates: a split vote was repeated without waiting; cleared by a leader.
        self.has_stood_again = False
        #: Leaders: the progress of every member, in ascending order of id, and of removed ones that are not told yet.
        self.progress: dict[NodeId, Progress] = {}
        self.departing: dict[NodeId, Departure] = {}
        #: Leaders: no further membership change before this index has been applied.
        self.pending_configuration_index: Index = 0
        #: Leaders: (index, bytes) of proposals that have not committed, oldest first.
        self.uncommitted: deque[tuple[Index, int]] = deque()
        self.uncommitted_bytes = 0
        #: Leaders: bytes of the log that may still be sent to learners. The broker that limits them refills it.
        self.learner_credit_bytes = UNLIMITED_BYTES
        #: Leaders: voters that no quorum needs for now. Thrifty replication sends them entries later.
        self.lagging: frozenset[NodeId] = frozenset()
        #: Followers: the leader of this term has confirmed, since this replica started, that the logs agree up to here.
        self.agreed: Index = 0
        #: (term, index) that this replica acknowledged and no longer has, as a leader told it.
        self.forgotten: tuple[Term, Index] = (0, 0)
        #: How often this node, as a leader, found each peer to have forgotten. Never cleared.
        self.forgotten_counts: dict[NodeId, int] = {}
        #: Leaders: voters that were found to have forgotten in this term, until they are no voters any more.
        self.forgetful: frozenset[NodeId] = frozenset()
        #: Leaders: the voter that leadership is being transferred to.
        self.transferee: NodeId = NO_NODE
        self.leadership = reasons.LeadershipReasons()
        #: Reads that wait for a quorum. The first id is random, so that no id repeats after a restart.
        self.reads = ReadQueue(first_id=random.getrandbits(47) << 16)

        #: Leaders count in `news_ticks` how long ago they last sent the commit index to the followers.
        self.election_elapsed = self.heartbeat_elapsed = self.idle_ticks = self.repair_ticks = self.news_ticks = 0
        self.election_timeout = self.draw_election_timeout()
        #: A quiescent group neither ticks nor sends; any message or proposal wakes it.
        self.quiescent = False
        #: Peers whose link is known to be down.
        self.down_peers: set[NodeId] = set()

        #: A snapshot that is being received.
        self.incoming: IncomingSnapshot | None = None
        #: Repair: a complete snapshot, its sender, and the intact entries after it that were read so far.
        self.received: tuple[Snapshot, NodeId, list[Entry]] | None = None
        #: A complete snapshot, the intact entries after it that stay, and its sender, while the caller installs it.
        self.installing: tuple[Snapshot, list[Entry], NodeId] | None = None
        self.truncate_from: Index = 0
        self._begin_repair(damaged or [], doubtful or [], is_state_lost=is_state_lost)
        self._begin_outputs(hard_state)

    def _begin_repair(
        self, damaged: list[tuple[Index, Index]], doubtful: list[tuple[Index, Index]], *, is_state_lost: bool
    ) -> None:
        #: Entries whose data is lost: half-open, ascending. Until there are none, this node only votes.
        self.damaged: list[tuple[Index, Index]] = list(damaged)
        if is_state_lost:
            # The range from 0 stands for a lost snapshot: all that came before the log.
            self.damaged.insert(0, (0, self.log.base + 1))
        #: Damaged entries that may never have been acknowledged.
        self.doubtful: set[Index] = {index for low, high in doubtful for index in range(low, high)}
        #: The voters without an intact copy of the first doubtful entry.
        self.lacking: set[NodeId] = set()
        #: Requests for entries that are being loaded here, by sender and first entry.
        self.repair_waiting: dict[tuple[NodeId, Index], RepairRequest] = {}
        #: The pieces of the damage that each member was asked for.
        self.repair_asked: dict[NodeId, list[tuple[Index, Index]]] = {}
        #: The number of entries of a piece.
        self.repair_piece = 1
        #: How often a member was asked in vain for the next chunk of its snapshot.
        self.repair_stalls = 0
        #: Damaged entries that were fetched again, for the next Ready.
        self.repaired: list[Entry] = []
        #: The store may have repaired entries that are not durable yet. Until they are, this node only votes.
        self.unsettled = False

    def _begin_outputs(self, hard_state: HardState) -> None:
        #: This node leads only if no other node does: its disk is full. Set by the caller.
        self.is_reluctant = False
        #: A follower needs a newer snapshot than there is.
        self.snapshot_wanted = False
        self.messages: list[Message] = []
        self.after_sync: list[Message] = []
        self.read_states: list[ReadState] = []
        #: The newest term known to be on this node's disk.
        self.durable_term: Term = hard_state.term
        self._saved = hard_state
        self._number = self._advanced = self._install_number = 0
        self._terms_in_flight: deque[tuple[int, Term]] = deque()
        self._to_self: deque[tuple[int, Message]] = deque()

    @property
    def configuration(self) -> Configuration:
        """The configuration in force: the newest one in the log."""
        return self.log.configurations[-1][1]

    def reaches_quorum(self) -> bool:
        """Whether the links that are up leave a quorum."""
        reached = set(self.configuration.members()) - self.down_peers
        return quorum.has_quorum(self.configuration, reached)

    # Changes of role: the only places where `role` is set.

    def become_follower(self, term: Term, leader_id: NodeId, reason: int = reasons.ANOTHER_ELECTED) -> None:
        """`reason`: why this node leads no longer, if it led."""
        assert term >= self.term, "terms never go back"
        if self.role == LEADER:
            is_transfer = self.transferee != NO_NODE and reason == reasons.ANOTHER_ELECTED
            self.leadership.ended(self.leadership.transfer if is_transfer else reason)
        if term > self.term:
            self.term = term
            self.vote = NO_NODE
        self._change_role(FOLLOWER, leader_id)

    def become_pre_candidate(self) -> None:
        """Neither term nor vote changes: a pre-candidate only asks whether it could win an election."""
        assert self.role != LEADER
        self._change_role(PRE_CANDIDATE, NO_NODE)

    def become_candidate(self) -> None:
        assert self.role != LEADER
        self.term += 1
        self.vote = self.id
        self._change_role(CANDIDATE, NO_NODE)

    def become_leader(self) -> None:
        assert self.role == CANDIDATE
        assert self.vote == self.id
        self._change_role(LEADER, self.id)
        self.leadership.began()
        self.has_stood_again = False

    def _change_role(self, role: int, leader_id: NodeId) -> None:
        if self.role == LEADER:
            self.read_states += [ReadState(read_id, -1) for read_id in self.reads.drop_all()]
        else:
            self.read_states += [ReadState(read_id, -1) for read_id in self.reads.drop_forwarded()]
        self.role = role
        self.leader = leader_id
        self.agreed = 0
        self.votes = {}
        self.progress = {}
        self.departing = {}
        self.uncommitted.clear()
        self.uncommitted_bytes = 0
        self.lagging = frozenset()
        self.forgetful = frozenset()
        self.transferee = NO_NODE
        self.quiescent = False
        self.election_elapsed = 0
        self.heartbeat_elapsed = 0
        self.idle_ticks = 0
        self.election_timeout = self.draw_election_timeout()

    # Time.

    def wake(self) -> None:
        """Ends quiescence. A leader sends a heartbeat with its next tick."""
        if not self.quiescent:
            return
        self.quiescent = False
        self.election_elapsed = 0
        self.idle_ticks = 0
        if self.role == LEADER:
            self.heartbeat_elapsed = self.options.heartbeat_ticks
            for progress in self.progress.values():
                progress.recent_active = True

    def draw_election_timeout(self) -> int:
        return self.options.election_ticks + self.random.randrange(self.options.election_ticks)

    def leader_patience_ticks(self) -> int:
        """How long the leader may be silent before this node votes for another."""
        options = self.options
        if self.leader in self.down_peers:
            return min(2 * options.heartbeat_ticks, options.election_ticks)
        return options.election_ticks

    def hears_leader(self, asking: NodeId) -> bool:
        """Whether a leader other than `asking` was heard within the shortest election timeout: stick to it."""
        if not self.options.check_quorum or self.leader in (NO_NODE, asking):
            return False
        return self.role == LEADER or self.election_elapsed < self.leader_patience_ticks()

    # The log.

    def is_promotable(self) -> bool:
        """May stand for election: its log is intact, and it votes in the newest committed configuration or a later one.

        A leader that removes itself may hold the only copy of that change. Until it commits no other
        voter can win, so the removed leader must stand (thesis 4.2.2).
        """
        if self.damaged or self.unsettled or self.installing is not None or self.forgotten > self._last_position():
            return False
        for index, configuration in reversed(self.log.configurations):
            if configuration.is_voter(self.id):
                return True
            if index <= self.log.committed:
                break
        return False

    def is_up_to_date(self, last_index: Index, last_term: Term) -> bool:
        """Whether a log that ends there is at least as complete as this one (paper 5.4.1), or as it once was."""
        return (last_term, last_index) >= max(self._last_position(), self.forgotten)

    def _last_position(self) -> tuple[Term, Index]:
        return self.log.last_term(), self.log.last_index

    def install(self, snapshot: Snapshot, suffix: list[Entry], sender: NodeId) -> None:
        """A snapshot is complete: the next Ready carries it, and nothing else happens until it is installed."""
        assert self._install_number == 0
        self.installing = (snapshot, suffix, sender)
