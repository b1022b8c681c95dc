"""A small group of replicas for tests that state one rule each.

Pre-vote and check-quorum are off unless a rule is about them: the paper's sections 5 to 8 do without.
Node 1 has the shortest election timeout, 5 ticks, and each further node one tick more.
"""

from collections.abc import Iterable
from typing import TypeVar

from flotilla.raft.messages import DATA, Append, Configuration, Entry, Message, VoteRequest
from flotilla.raft.options import RaftOptions
from flotilla.raft.roles import LEADER
from flotilla.types.ids import Index, NodeId, Term
from tests.scenarios.cluster import Cluster, Member

ELECTION_TICKS = 5

SomeMessage = TypeVar("SomeMessage", bound=Message)


def group(
    *logs: Iterable[Term], voters: int = 3, pre_vote: bool = False, check_quorum: bool = False, index: Index = 0
) -> Cluster:
    """Voters 1 to n. Logs, where given, hold entries of these terms, one log per voter."""
    options = RaftOptions(
        election_ticks=ELECTION_TICKS,
        heartbeat_ticks=1,
        quiesce_ticks=0,
        pre_vote=pre_vote,
        check_quorum=check_quorum,
    )
    cluster = Cluster()
    count = len(logs) or voters
    configuration = Configuration(voters=tuple(range(1, count + 1)))
    for position in range(count):
        terms = logs[position] if logs else ()
        cluster.add(position + 1, configuration, index=index, terms=terms, options=options)
    return cluster


def elect(cluster: Cluster, node_id: NodeId) -> Member:
    """Makes a node leader and lets everything settle."""
    cluster.call(node_id, lambda node: node.campaign())
    cluster.settle()
    assert cluster.node(node_id).role == LEADER
    return cluster.members[node_id]


def propose(cluster: Cluster, node_id: NodeId, *bodies: bytes) -> None:
    for body in bodies:
        cluster.node(node_id).propose(body)


def tick(cluster: Cluster, node_id: NodeId, count: int = 1) -> None:
    for _ in range(count):
        cluster.call(node_id, lambda node: node.tick())


def inject(cluster: Cluster, message: Message) -> list[Message]:
    """Delivers an injected message; returns what the receiver sends because of it."""
    cluster.network.clear()
    cluster.call(message.to, lambda node: node.step(message))
    return flush(cluster, message.to)


def flush(cluster: Cluster, node_id: NodeId) -> list[Message]:
    """Handles a node's Readys; returns what it sends, which is not delivered."""
    while cluster.has_work(node_id):
        cluster.process_ready(node_id)
    sent, cluster.network = cluster.network, []
    return sent


def vote_request(sender: NodeId, to: NodeId, term: Term, last: tuple[Term, Index] = (0, 0)) -> VoteRequest:
    return VoteRequest(sender, to, term, last_index=last[1], last_term=last[0])


def append(
    sender: NodeId, to: NodeId, term: Term, previous: tuple[Term, Index], *terms: Term, commit: Index = 0
) -> Append:
    """An append of entries with these terms after `previous` (term, index)."""
    entries = [Entry(previous[1] + 1 + place, at, DATA, b"") for place, at in enumerate(terms)]
    for entry in entries:
        entry.data = f"{entry.term}/{entry.index}".encode()
    return Append(sender, to, term, previous[1], previous[0], commit, entries)


def terms(cluster: Cluster, node_id: NodeId) -> list[Term]:
    """The terms of a node's durable log."""
    return [entry.term for entry in cluster.members[node_id].disk.stored]


def only(messages: Iterable[Message], kind: type[SomeMessage]) -> list[SomeMessage]:
    return [message for message in messages if isinstance(message, kind)]
