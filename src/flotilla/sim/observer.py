"""The observer of one group: sees everything that its replicas save, send and apply, and passes it to the checkers.

The observer knows which checker needs which event; the checkers know what must hold. Everything here is on the path of
every event, so it compares a few integers first and looks closer only on a change.
"""

from collections.abc import Callable

from flotilla.raft.configuration import decode_configuration
from flotilla.raft.messages import (
    CONFIG,
    Configuration,
    Entry,
    HardState,
    Message,
    Quiesce,
    SnapshotChunk,
    SnapshotMeta,
    VerifyReply,
    VoteReply,
)
from flotilla.raft.node import RaftNode
from flotilla.raft.roles import LEADER
from flotilla.replica.ports import GroupLog
from flotilla.sim.checkers.application import ApplicationChecker
from flotilla.sim.checkers.configuration import ConfigurationChecker
from flotilla.sim.checkers.disk_shadow import DurableLog, ReplicaShadow, Save
from flotilla.sim.checkers.durability import DurabilityChecker
from flotilla.sim.checkers.elections import ElectionChecker
from flotilla.sim.checkers.log import LogChecker
from flotilla.sim.checkers.violation import Violation
from flotilla.sim.coverage import Sometimes
from flotilla.sim.trace import Trace
from flotilla.types.ids import GroupId, Index, NodeId, Term


class Seen:
    """A replica as it was after its last event."""

    __slots__ = ("commit", "configuration", "lagging", "led_term", "quiescent", "settled_index", "term")

    def __init__(self, raft: RaftNode) -> None:
        self.commit: Index = raft.log.committed
        self.term: Term = raft.term
        self.led_term: Term = 0
        #: In force: the newest one in its log.
        self.configuration: Configuration = raft.configuration
        #: Where the newest configuration stands that it has applied.
        self.settled_index: Index = -1
        self.quiescent = False
        self.lagging: frozenset[NodeId] = frozenset()


class GroupObserver:
    """All replicas of one group."""

    __slots__ = (
        "_chunk_offsets",
        "_seen",
        "_sometimes",
        "_trace",
        "application",
        "configuration",
        "durability",
        "elections",
        "former_leader",
        "group",
        "leader",
        "leader_changed",
        "log",
        "newest_configuration",
        "newest_configuration_index",
    )

    def __init__(self, group: GroupId, configuration: Configuration, sometimes: Sometimes, trace: Trace) -> None:
        self.group = group
        self.elections = ElectionChecker()
        self.log = LogChecker()
        self.durability = DurabilityChecker()
        self.application = ApplicationChecker()
        self.configuration = ConfigurationChecker()
        self._sometimes = sometimes
        self._trace = trace
        self._seen: dict[NodeId, Seen] = {}
        #: The last piece of a snapshot on each link.
        self._chunk_offsets: dict[tuple[NodeId, NodeId], int] = {}
        #: The leader of the newest term that had one: what faults and clients aim at.
        self.leader: NodeId = 0
        #: The leader before, which may not know yet that it is deposed.
        self.former_leader: NodeId = 0
        self.leader_changed: Callable[[], None] = _nothing
        #: The newest configuration that is known to be committed.
        self.newest_configuration = configuration
        self.newest_configuration_index: Index = 0

    # The life of a replica.

    def started(self, node: NodeId, raft: RaftNode, stored: GroupLog) -> None:
        """A process opened its store and begins with the replica in it."""
        self.reopened(node, stored)
        self._seen[node] = Seen(raft)
        # Starting commits nothing: what it takes for committed was committed, and is known.
        for index in range(raft.log.base + 1, raft.log.committed + 1):
            if self.log.commits(node, index, raft.log.term(index)):
                raise Violation("committed entries agree", f"node {node} starts with {index} committed, unheard of")

    def reopened(self, node: NodeId, stored: GroupLog) -> None:
        """A process opened its store: all that was durable must be there. Rot takes data of entries, nothing else."""
        recovered = stored.recovered()
        state = DurableLog()
        state.base = stored.first_index() - 1
        state.base_term = stored.term(state.base)
        state.terms = [stored.term(index) for index in range(state.base + 1, stored.last_index() + 1)]
        state.term, state.vote, state.commit = (
            recovered.hard_state.term,
            recovered.hard_state.vote,
            recovered.hard_state.commit,
        )
        self.durability.shadow.setdefault(node, ReplicaShadow())
        self.durability.recovered(node, state)
        self.configuration.forget(node)
        for entry in recovered.configuration_entries:
            self.configuration.logged(node, entry.index)

    def wiped(self, node: NodeId) -> None:
        """The node's disk is empty and its old self is gone for good."""
        self.durability.shadow.pop(node, None)
        self.durability.forget_votes(node)
        self.configuration.forget(node)

    def put_back(self, node: NodeId, log: DurableLog) -> None:
        """The node's disk holds an earlier state. It may vote again in terms that it does not remember."""
        self.durability.shadow[node].restart(log)
        self.durability.forget_votes(node)
        self.configuration.forget(node)

    # What replicas do.

    def saved(
        self,
        node: NodeId,
        raft: RaftNode | None,
        hard_state: HardState | None,
        entries: list[Entry] | None,
        repaired: list[Entry] | None,
        truncate_from: Index,
        snapshot: SnapshotMeta | None,
    ) -> None:
        shadow = self.durability.shadow.setdefault(node, ReplicaShadow())
        shadow.collected.append(Save(hard_state, entries or [], truncate_from, snapshot))
        if snapshot is not None:
            self._sometimes.seen("snapshot installed")
            if raft is not None and raft.damaged:
                self._sometimes.seen("repair by snapshot")
            if self._trace.is_traced:
                self._trace.note(node, f"installs a snapshot of group {self.group} at {snapshot.index}")
            self.configuration.forget(node)
        if truncate_from:
            self._sometimes.seen("damaged tail dropped")
            self.configuration.cut(node, truncate_from)
        for entry in repaired or ():
            self._sometimes.seen("entry repaired")
            self.log.stored(node, entry)
        if entries:
            self.configuration.cut(node, entries[0].index)
            for entry in entries:
                self.log.stored(node, entry)
                if entry.kind == CONFIG:
                    self._configuration_saved(node, raft, entry)

    def _configuration_saved(self, node: NodeId, raft: RaftNode | None, entry: Entry) -> None:
        self.configuration.logged(node, entry.index)
        if raft is not None and raft.role == LEADER and entry.term == raft.term:
            before = [one for index, one in raft.log.configurations if index < entry.index]
            following = decode_configuration(entry.data)
            self.configuration.proposed(node, entry.index, raft.log.handed, before[-1], following)

    def sent(self, message: Message) -> None:
        self.durability.sent(message)
        kind = type(message)
        if kind is VoteReply:
            if message.granted and not message.pre:  # type: ignore[attr-defined]
                self.elections.granted(message.sender, message.term, message.to)
        elif kind is Quiesce:
            self._sometimes.seen("quiesced")
        elif kind is VerifyReply:
            if not message.holds:  # type: ignore[attr-defined]
                self._sometimes.seen("replica found forgetful")
        elif kind is SnapshotChunk:
            self._count_chunk(message)  # type: ignore[arg-type]

    def _count_chunk(self, chunk: SnapshotChunk) -> None:
        link = chunk.sender, chunk.to
        if chunk.offset > 0:
            self._sometimes.seen("snapshot in pieces")
        elif self._chunk_offsets.get(link, 0) > 0:
            self._sometimes.seen("snapshot restarted in the middle")
        self._chunk_offsets[link] = chunk.offset

    def observe(self, node: NodeId, raft: RaftNode) -> None:
        """After every event of a node: what changed?"""
        seen = self._seen[node]
        if raft.term != seen.term:
            if raft.term < seen.term:
                raise Violation("terms never go back", f"node {node} went from term {seen.term} to {raft.term}")
            seen.term = raft.term
        if raft.role == LEADER and seen.led_term != raft.term:
            self._leads(node, raft, seen)
        if raft.log.committed != seen.commit:
            self._commits(node, raft, seen)
        if raft.lagging and raft.lagging != seen.lagging:
            if seen.lagging:
                self._sometimes.seen("lagging voters changed")
            seen.lagging = raft.lagging
        if raft.quiescent != seen.quiescent:
            seen.quiescent = raft.quiescent
            if not raft.quiescent:
                self._sometimes.seen("woken")
        configurations = raft.log.configurations
        seen.configuration = configurations[-1][1]
        if configurations[0][0] != seen.settled_index:
            self._settled(node, raft, seen)

    def _leads(self, node: NodeId, raft: RaftNode, seen: Seen) -> None:
        seen.led_term = raft.term
        self._sometimes.seen("leader elected")
        if raft.term > self.elections.newest_term + 1:
            self._sometimes.seen("term without leader")
        if self._trace.is_traced:
            self._trace.note(node, f"leads group {self.group} in term {raft.term}, log ends at {raft.log.last_index}")
        self.elections.leads(node, raft.term, seen.configuration)
        commit = self.log.commit
        known = raft.log.base <= commit <= raft.log.last_index
        term_at_commit = raft.log.term(commit) if known else self.log.committed[-1]
        self.log.leads(node, raft.term, raft.log.last_index, term_at_commit)
        if raft.term == self.elections.newest_term:
            if self.leader not in (0, node):
                self.former_leader = self.leader
                self.leader_changed()
            self.leader = node

    def _commits(self, node: NodeId, raft: RaftNode, seen: Seen) -> None:
        committed = raft.log.committed
        if committed < seen.commit:
            raise Violation("commit never goes back", f"node {node} went from {seen.commit} to {committed}")
        news: Index = 0
        known = self.log.commit
        for index in range(max(seen.commit, raft.log.base) + 1, committed + 1):
            if self.log.commits(node, index, raft.log.term(index)):
                news = index
        seen.commit = committed
        if news and raft.role == LEADER:
            if any(raft.progress[voter].next <= news for voter in raft.lagging if voter in raft.progress):
                self._sometimes.seen("committed without a lagging voter")
            self.log.commit_term = max(self.log.commit_term, raft.term)
            if self.log.committed[known + 1] < raft.term:
                self._sometimes.seen("commit of an older term")
            if self.log.committed[news] < raft.term:
                raise Violation("own term commits first", f"node {node} committed {news} of an older term by itself")
            try:
                self.durability.committed(news, raft.log.term(news), seen.configuration)
            except Violation:
                # The event may have brought the next configuration into force and committed under it.
                self.durability.committed(news, raft.log.term(news), raft.configuration)

    def _settled(self, node: NodeId, raft: RaftNode, seen: Seen) -> None:
        """A configuration is committed and applied at a replica."""
        seen.settled_index, after = raft.log.configurations[0]
        if seen.settled_index <= self.newest_configuration_index:
            return
        self.newest_configuration_index = seen.settled_index
        before = self.newest_configuration
        if after == before:
            return
        self.newest_configuration = after
        self._count_change(before, after)
        if self._trace.is_traced:
            self._trace.note(node, f"group {self.group} is now {_describe(after)}")

    def _count_change(self, before: Configuration, after: Configuration) -> None:
        if after.is_joint and not before.is_joint:
            self._sometimes.seen("joint entered")
        if before.is_joint and not after.is_joint:
            self._sometimes.seen("joint left")
        if set(after.voters) - set(before.voters):
            self._sometimes.seen("voter added")
        if set(before.voters) - set(after.voters):
            self._sometimes.seen("voter removed")
        if set(after.learners) - set(before.learners):
            self._sometimes.seen("learner added")
        if before.is_voter(self.leader) and not after.is_voter(self.leader):
            self._sometimes.seen("leader removed")


def _nothing() -> None:
    return


def _describe(configuration: Configuration) -> str:
    text = f"voters {list(configuration.voters)}"
    if configuration.outgoing:
        text += f", leaving {list(configuration.outgoing)}"
    if configuration.learners:
        text += f", learners {list(configuration.learners)}"
    return text
