"""RaftNode: the inputs and outputs of one replica in consensus. Messages and ticks go in, a Ready comes out.

The contract with the caller:
 1. Call `step`, `tick`, `propose` and the rest in any order, then `ready()` when `has_ready()`. A Ready holds
    all pending work, except for more committed entries than are applied at once.
 2. Hand `snapshot`, `truncate_from`, `entries`, `repaired` and `hard_state` to the store before any
    further call on this node: from then on `StoredLog` serves them. They may become durable later.
 3. `messages` may be sent at once. They depend only on durable state: a leader may replicate an
    entry while its own disk still writes it (thesis 10.2.1).
 4. `messages_after_sync` may be sent only when everything that this and every earlier Ready stores is durable.
 5. Call `advance(number)` then, once for each Ready and in order, also for one that stores nothing.
    A Ready with a snapshot is alone: no other Ready follows until it has been advanced, and by then the
    state machine holds the snapshot's state.
 6. Apply `committed` in order, each entry once; they are committed and durable here.

Time comes in ticks and randomness from an injected `random.Random`, so that a run repeats from its seed. The
state and the changes of role are in `state.py`; the term of a message is checked in one place, `_check_term`.
"""

from collections.abc import Callable
from typing import Any, Final

from flotilla.raft import election, follower, leader, proposals, reasons, replication
from flotilla.raft.membership import ConfigurationChange
from flotilla.raft.messages import (
    CONFIG,
    Append,
    AppendReply,
    HardState,
    Heartbeat,
    HeartbeatReply,
    Message,
    Proposal,
    Quiesce,
    Ready,
    RepairReply,
    RepairRequest,
    SnapshotChunk,
    SnapshotReply,
    VerifyRequest,
    VoteReply,
    VoteRequest,
)
from flotilla.raft.repair import member_snapshots, repair
from flotilla.raft.roles import CANDIDATE, FOLLOWER, LEADER, PRE_CANDIDATE
from flotilla.raft.state import RaftState
from flotilla.types.ids import NO_NODE, Index, NodeId

#: Only a leader sends these, so they name the leader of their term.
FROM_LEADER = (Append, Heartbeat, SnapshotChunk, Quiesce, VerifyRequest)
#: These do not wake a quiescent group: they were in flight when it became quiescent.
NOT_WAKING = (Quiesce, HeartbeatReply)

_STEPS: dict[int, dict[type[Message], Callable[[RaftState, Any], None]]] = {
    FOLLOWER: {**election.VOTER_STEPS, **follower.STEPS},
    PRE_CANDIDATE: {**election.VOTER_STEPS, **election.CANDIDATE_STEPS, **follower.CANDIDATE_STEPS},
    CANDIDATE: {**election.VOTER_STEPS, **election.CANDIDATE_STEPS, **follower.CANDIDATE_STEPS},
    LEADER: {**election.VOTER_STEPS, **leader.STEPS},
}


#: Messages of terms that are this far ahead are ignored: such a term is forged or broken, and would use up the group's
#: terms for good. An election every tenth of a second takes thirteen years to get there.
TERM_JUMP_MAX: Final = 1 << 32
#: A reluctant node waits this many times longer before it stands for election.
RELUCTANCE: Final = 4


class RaftNode(RaftState):
    """See the module's contract."""

    __slots__ = ()

    # Inputs.

    def step(self, message: Message) -> None:
        """A message came in."""
        assert message.to == self.id
        kind = type(message)
        if self.installing is not None or self.is_impossible(message):
            return
        if kind is RepairRequest:
            if message.sender == self.leader:
                repair.leader_asks(self)
            repair.serve(self, message)  # type: ignore[arg-type]
            return
        if (self.damaged or self.unsettled) and kind is not VoteRequest and not repair.is_over(self):
            repair.step(self, message)
            return
        if kind is RepairReply:
            return
        if self.quiescent and kind not in NOT_WAKING:
            self.wake()
        if message.term != self.term and not self._check_term(message):
            return
        handler = _STEPS[self.role].get(kind)
        if handler is not None:
            handler(self, message)

    def is_impossible(self, message: Message) -> bool:
        """The message has a term that no election can have reached."""
        return message.term - self.term >= TERM_JUMP_MAX

    def tick(self) -> None:
        """One unit of time passed."""
        self.log.unreadable_to = 0
        if self.quiescent or self.installing is not None:
            return
        self.election_elapsed += 1
        if self.damaged or (self.unsettled and not repair.is_over(self)):
            repair.tick(self)
        elif self.role == LEADER:
            leader.tick(self)
        elif self.election_elapsed >= self.election_timeout * (RELUCTANCE if self._leaves_the_lead() else 1):
            election.start(self)

    def propose(self, data: bytes | memoryview) -> Index:
        """Appends `data` to the log; returns its index. Raises NotLeaderError, OverloadedError, UnavailableError."""
        return proposals.propose(self, data)

    def forward(self, data: bytes) -> None:
        """Proposes without a reply, through the leader if that is another node."""
        if self.role == LEADER:
            proposals.propose_unanswered(self, data)
        elif self.leader != NO_NODE:
            self.messages.append(Proposal(self.id, self.leader, self.term, data))

    def propose_change(self, change: ConfigurationChange) -> Index:
        """Changes the members. Raises ConfigurationChangeError when that is not possible or a change is pending."""
        return proposals.propose_change(self, change)

    def read(self) -> int:
        """Requests a read index; a ReadState of the returned id answers. Raises NotLeaderError, OverloadedError."""
        return leader.read(self)

    def transfer(self, to: NodeId, reason: int = reasons.OPERATOR) -> None:
        """Starts a transfer of leadership to a voter. Raises NotLeaderError, InvalidArgumentError."""
        leader.transfer(self, to, reason)

    def campaign(self) -> None:
        """Stands for election now, with a pre-vote, without waiting for the timeout."""
        is_intact = not self.damaged and not self.unsettled
        if is_intact and self.installing is None and self.role != LEADER and not self._leaves_the_lead():
            self.wake()
            self.leadership.standing = reasons.STARTED
            election.start(self)

    def _leaves_the_lead(self) -> bool:
        """Whether another voter should lead, if there is one."""
        return self.is_reluctant and self.configuration.voters != (self.id,)

    def step_down(self, reason: int = reasons.FAILURE) -> None:
        """Stops leading within the term, for example because the disk fails. The vote of the term stays."""
        if self.role != FOLLOWER:
            self.become_follower(self.term, NO_NODE, reason)

    def replicate_to_all(self) -> None:
        """The quorum takes too long: until the next tick every voter is sent everything at once."""
        self.lagging = frozenset()

    def peer_down(self, peer: NodeId) -> None:
        """The link to `peer` broke: a hint, not a proof. It may start a pre-vote at once, never a real vote."""
        self.down_peers.add(peer)
        if self.role == LEADER:
            leader.peer_down(self, peer)
        elif self.leader == peer and not self.damaged and not self._leaves_the_lead():
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
        self.doubtful = {index for index in self.doubtful if index > base}
        self.repaired = [entry for entry in self.repaired if entry.index > base]

    def log_loaded(self) -> None:
        """The store has loaded a part of the log: reads that wait for one are tried again."""
        self.log.unreadable_to = 0
        if self.role == LEADER:
            replication.send_loaded_chunks(self)
        if self.received is not None:
            repair.install_received(self)
        if self.repair_waiting:
            repair.serve_waiting(self)

    def repairs_saved(self) -> None:
        """Repaired entries of the store have become durable."""
        repair.resume(self)

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
            or (log.handed < log.committed and self.has_committed())
            or self.term != self._saved.term
            or self.vote != self._saved.vote
            or (self.role == LEADER and replication.has_work(self))
        )

    def ready(self) -> Ready:
        """All pending work. See the contract for the order."""
        if self.installing is not None:
            return self._ready_to_install()
        if self.log.found_damage:
            repair.begin(self)
        committed = self.log.take_committed(self.options.apply_bytes_max, self._intact_to())
        if committed and self.role == LEADER and any(entry.kind == CONFIG for entry in committed):
            leader.configuration_committed(self)
        if self.role == LEADER:
            replication.flush(self)
        self._number += 1
        entries = self.log.take_pending(self._number)
        # Made in every turn of every group: keyword arguments would double its cost.
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
        self.unsettled |= bool(self.repaired)
        self.messages, self.repaired, self.read_states, self.truncate_from = [], [], [], 0
        return ready

    def has_committed(self) -> bool:
        """Whether the next Ready may have entries to apply."""
        return self.log.has_committed(self._intact_to())

    def _intact_to(self) -> Index:
        """The last entry that may be applied: the one before all damage, and before what the store has yet to get."""
        if not self.damaged and not self.repaired:
            return self.log.last_index
        first = self.damaged[0][0] if self.damaged else self.log.last_index + 1
        return min([first, *(entry.index for entry in self.repaired)]) - 1

    def advance(self, number: int) -> None:
        """Everything that Ready `number` and earlier ones store is durable."""
        assert number == self._advanced + 1, f"Ready {number} advanced after {self._advanced}"
        assert number <= self._number
        self._advanced = number
        self.log.written(number)
        while self._terms_in_flight and self._terms_in_flight[0][0] <= number:
            self.durable_term = self._terms_in_flight.popleft()[1]
        if number == self._install_number:
            self._installed()
        if self.role == LEADER:
            leader.own_log_written(self)
        while self._to_self and self._to_self[0][0] <= number:
            self.step(self._to_self.popleft()[1])

    def _check_term(self, message: Message) -> bool:
        """Adopts a newer term, rejects an older one. Returns whether to handle the message."""
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
        if message.term == 0:
            # Outside of terms. A chunk comes too late: the damage has been repaired.
            if isinstance(message, SnapshotReply):
                member_snapshots.serve(self, message)
        elif kind in FROM_LEADER:
            # The reply brings the newer term to a leader of an older one. Without it a node that came
            # back with a higher term could neither win an election nor catch up.
            self.after_sync.append(AppendReply(self.id, message.sender, self.term, index=0, accepted=False))
        elif isinstance(message, VoteRequest) and message.pre:
            self.messages.append(VoteReply(self.id, message.sender, self.term, granted=False, pre=True))
        return False

    def _take_hard_state(self, has_entries: bool) -> HardState | None:
        """Term and vote are saved at once, the commit index only together with entries: it is not worth a sync."""
        saved = self._saved
        has_news = has_entries and self.log.committed != saved.commit
        if self.term == saved.term and self.vote == saved.vote and not has_news:
            return None
        self._saved = HardState(self.term, self.vote, self.log.committed)
        if self.term != self.durable_term:
            self._terms_in_flight.append((self._number, self.term))
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
        self._terms_in_flight.append((self._number, self.term))
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
        self.unsettled = False
        self.doubtful.clear()
        self.lacking.clear()
        self.election_elapsed = 0
        # The snapshot is durable, so the reply may leave at once: the leader can append from here on.
        self.messages.append(AppendReply(self.id, sender, self.term, index=self.log.committed, accepted=True))
