"""Invariants of every state of every cluster, whatever was dropped, delayed or crashed (paper, figure 3).

    election safety      at most one leader in a term
    log matching         entries with the same index and term are the same, and so is all before them
    leader completeness  a leader has every entry that committed in an earlier term
    state machine safety no node applies another entry at an index, and committed entries stay
    durability           terms never go back and a vote is given once in a term, also over crashes

`observe` looks at a whole cluster and remembers what it saw; call it after every event.
"""

from typing import TYPE_CHECKING

from flotilla.raft.messages import Entry
from flotilla.raft.roles import LEADER
from flotilla.types.ids import NO_NODE, Index, NodeId, Term

if TYPE_CHECKING:
    from tests.scenarios.cluster import Cluster, Member


class Safety:
    def __init__(self) -> None:
        self.leaders: dict[Term, NodeId] = {}
        #: Entries known to be committed: the term at each index, and the data once a node applied it.
        self.committed: dict[Index, Term] = {}
        self.applied: dict[Index, tuple[Term, int, bytes]] = {}
        self.votes: dict[tuple[NodeId, Term], NodeId] = {}
        self.terms: dict[NodeId, Term] = {}
        self.contents: dict[tuple[Index, Term], tuple[int, bytes, Term]] = {}

    def note_applied(self, entry: Entry) -> None:
        content = (entry.term, entry.kind, bytes(entry.data))
        assert self.applied.setdefault(entry.index, content) == content, f"two entries applied at {entry.index}"

    def observe(self, cluster: "Cluster") -> None:
        for member in cluster.members.values():
            self._observe_durable(member)
            if member.is_up:
                self._observe_leader(member)
                self._observe_log(member)
        for member in cluster.members.values():
            if member.is_up and member.node.role == LEADER:
                self._check_completeness(member)

    def _observe_durable(self, member: "Member") -> None:
        state = member.disk.hard_state
        assert state.term >= self.terms.get(member.id, 0), f"the term of {member.id} went back"
        self.terms[member.id] = state.term
        if state.vote != NO_NODE:
            vote = self.votes.setdefault((member.id, state.term), state.vote)
            assert vote == state.vote, f"{member.id} voted twice in term {state.term}"

    def _observe_leader(self, member: "Member") -> None:
        if member.node.role == LEADER:
            leader = self.leaders.setdefault(member.node.term, member.id)
            assert leader == member.id, f"term {member.node.term} has leaders {leader} and {member.id}"

    def _observe_log(self, member: "Member") -> None:
        if member.node.installing is not None:
            return
        before = member.store.base_term
        for entry in member.store.stored:
            content = (entry.kind, bytes(entry.data), before)
            known = self.contents.setdefault((entry.index, entry.term), content)
            if entry.index not in member.store.damaged:
                assert known == content, f"logs differ at {entry.term}/{entry.index}"
            before = entry.term
        log = member.node.log
        for index in range(log.base + 1, log.committed + 1):
            term = self.committed.setdefault(index, log.term(index))
            assert term == log.term(index), f"{member.id} holds {log.term(index)}/{index}, {term}/{index} committed"

    def _check_completeness(self, member: "Member") -> None:
        log = member.node.log
        for index, term in self.committed.items():
            if term < member.node.term and index > log.base:
                assert log.matches(index, term), f"leader {member.id} lacks committed {term}/{index}"
