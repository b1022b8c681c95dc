"""Durable before announced: no message leaves and no entry commits that relies on state a crash could lose.

* a vote, for itself or another node, is on disk before any message reports it, and is given once per term;
* an accepted append and an installed snapshot are on disk before the leader hears of it;
* a node that sends a message of a term has that term on disk;
* an entry commits only when a majority of each half of the configuration has it on disk;
* a crash takes nothing that was durable: recovery finds it again.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

from flotilla.raft.messages import (
    Append,
    AppendReply,
    Configuration,
    Heartbeat,
    HeartbeatReply,
    Message,
    SnapshotChunk,
    SnapshotMeta,
    SnapshotReply,
    VoteReply,
    VoteRequest,
)
from flotilla.sim.checkers.disk_shadow import DurableLog, ReplicaShadow
from flotilla.sim.checkers.violation import Violation
from flotilla.types.ids import Index, NodeId, Term

Shadow: TypeAlias = dict[NodeId, ReplicaShadow]


def majority(voters: tuple[NodeId, ...], agreeing: int) -> bool:
    return not voters or 2 * agreeing > len(voters)


class DurabilityChecker:
    """The durability of one group, over all its replicas."""

    __slots__ = ("_snapshots", "_votes", "shadow")

    def __init__(self) -> None:
        self.shadow: Shadow = {}
        #: Every vote that left a node: (node, term) -> candidate.
        self._votes: dict[tuple[NodeId, Term], NodeId] = {}
        #: Snapshots in flight: (sender, receiver, index) -> what it is.
        self._snapshots: dict[tuple[NodeId, NodeId, Index], SnapshotMeta] = {}

    def sent(self, message: Message) -> None:
        check = _CHECKS.get(type(message))
        if check is not None:
            check(self, message, self.shadow[message.sender].durable)

    def committed(self, index: Index, term: Term, configuration: Configuration) -> None:
        """A leader counts `index` as committed."""
        for voters in (configuration.voters, configuration.outgoing):
            holders = [voter for voter in voters if self._holds(voter, index, term)]
            if not majority(voters, len(holders)):
                raise Violation(
                    "durable before commit", f"entry {index} of term {term} committed with {holders} of {list(voters)}"
                )

    def is_held_without(self, node: NodeId, index: Index, term: Term, configuration: Configuration) -> bool:
        """Whether a majority of each half has the entry on disk, not counting `node`."""
        return all(
            majority(voters, sum(1 for voter in voters if voter != node and self._holds(voter, index, term)))
            for voters in (configuration.voters, configuration.outgoing)
        )

    def recovered(self, node: NodeId, state: DurableLog) -> None:
        shadow = self.shadow[node]
        if not any(outcome.agrees(state) for outcome in shadow.outcomes()):
            lost = shadow.durable
            raise Violation(
                "durable after crash",
                f"node {node} had term {lost.term}, vote {lost.vote}, entries to {lost.last_index} on disk and "
                f"recovered term {state.term}, vote {state.vote}, entries to {state.last_index}",
            )
        shadow.restart(state)

    def forget_votes(self, node: NodeId) -> None:
        """The node's disk is new: it comes back as a new node."""
        self._votes = {key: candidate for key, candidate in self._votes.items() if key[0] != node}

    def _holds(self, node: NodeId, index: Index, term: Term) -> bool:
        shadow = self.shadow.get(node)
        return shadow is not None and shadow.durable.holds(index, term)

    def _vote(self, node: NodeId, term: Term, candidate: NodeId) -> None:
        earlier = self._votes.setdefault((node, term), candidate)
        if earlier != candidate:
            raise Violation("one vote per term", f"node {node} voted for {earlier} and {candidate} in term {term}")

    def _check_vote_request(self, request: VoteRequest, durable: DurableLog) -> None:
        if request.pre:
            return
        if not _remembers_vote(durable, request.term, request.sender):
            raise Violation("durable before send", f"node {request.sender} stands in term {request.term} not on disk")
        self._vote(request.sender, request.term, request.sender)

    def _check_vote_reply(self, reply: VoteReply, durable: DurableLog) -> None:
        if reply.pre or not reply.granted:
            return
        if not _remembers_vote(durable, reply.term, reply.to):
            raise Violation("durable before send", f"node {reply.sender} gave a vote in {reply.term} not on disk")
        self._vote(reply.sender, reply.term, reply.to)

    def _check_append_reply(self, reply: AppendReply, durable: DurableLog) -> None:
        if not reply.accepted:
            return
        if durable.term < reply.term or durable.last_index < reply.index:
            raise Violation(
                "durable before send",
                f"node {reply.sender} accepted up to {reply.index} in term {reply.term}, "
                f"on disk are {durable.last_index} and term {durable.term}",
            )

    def _check_snapshot_chunk(self, chunk: SnapshotChunk, durable: DurableLog) -> None:
        self._check_term(chunk, durable)
        self._snapshots[chunk.sender, chunk.to, chunk.meta.index] = chunk.meta

    def _check_snapshot_reply(self, reply: SnapshotReply, durable: DurableLog) -> None:
        meta = self._snapshots[reply.to, reply.sender, reply.index]
        if reply.offset < meta.size_bytes:
            return
        if durable.term < reply.term or durable.last_index < meta.log_index:
            raise Violation(
                "durable before send",
                f"node {reply.sender} installed the snapshot at {reply.index}, "
                f"on disk are {durable.last_index} and term {durable.term}",
            )

    def _check_term(self, message: Message, durable: DurableLog) -> None:
        if durable.term < message.term:
            raise Violation(
                "durable before send",
                f"node {message.sender} spoke for term {message.term} with term {durable.term} on disk",
            )


def _remembers_vote(durable: DurableLog, term: Term, candidate: NodeId) -> bool:
    """The vote is on disk, or a later term is: after either no crash lets it be given again."""
    return durable.term > term or (durable.term == term and durable.vote == candidate)


_CHECKS: dict[type[Message], Callable[[DurabilityChecker, Any, DurableLog], None]] = {
    VoteRequest: DurabilityChecker._check_vote_request,
    VoteReply: DurabilityChecker._check_vote_reply,
    AppendReply: DurabilityChecker._check_append_reply,
    SnapshotChunk: DurabilityChecker._check_snapshot_chunk,
    SnapshotReply: DurabilityChecker._check_snapshot_reply,
    Append: DurabilityChecker._check_term,
    Heartbeat: DurabilityChecker._check_term,
    HeartbeatReply: DurabilityChecker._check_term,
}
