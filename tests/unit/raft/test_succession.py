"""A leader dies and its followers hear of it one by one: every interleaving elects one of them within a few heartbeats.

Time goes in moments of a quarter of a tick, so that hints, ticks and messages of the two followers meet in
every order. Safety is watched by the cluster itself; here it is also checked that no node requests a vote
before a quorum has said that it would be given.
"""

from collections.abc import Callable
from itertools import product
from random import Random

import pytest

from flotilla.raft.messages import Configuration, Heartbeat, Message, VoteReply, VoteRequest
from flotilla.raft.options import RaftOptions
from flotilla.raft.roles import LEADER
from flotilla.types.ids import NodeId, Term
from tests.scenarios.cluster import Chance, Cluster

MOMENTS_PER_TICK = 4
OPTIONS = RaftOptions()

#: Moments at which the link to the leader is found broken: from at once to 300 ms later, with ticks of 100 ms.
HINTS = range(0, 13, 2)
#: Where between two moments of node 2 and of node 3 their clocks tick.
PHASES = [(0, 0), (0, 2), (2, 0), (1, 3)]

#: The longest wait for a place in the line, and a tick until the clock notices.
LINE_MOMENTS = (OPTIONS.succession_ticks + 1) * MOMENTS_PER_TICK
#: How long a leader is believed to live that was heard over a broken link.
PATIENCE_MOMENTS = 2 * OPTIONS.heartbeat_ticks * MOMENTS_PER_TICK
#: Pre-vote and vote, the same again after a split vote, and an append: each there and back.
MESSAGES = 10


class Succession:
    """Followers 2 and 3 of leader 1, which has just died unless it `lives`; messages take `latency` moments.

    One of them may be `behind`: it lacks the last entry.
    """

    def __init__(
        self,
        *,
        latency: int,
        phases: tuple[int, int] = (0, 0),
        lives: bool = False,
        behind: NodeId | None = None,
        options: RaftOptions = OPTIONS,
        chance: Callable[[NodeId, int], Random] = Chance,
    ) -> None:
        self.cluster = Cluster(chance)
        configuration = Configuration(voters=(1, 2, 3))
        for node_id in configuration.voters:
            self.cluster.add(node_id, configuration, options=options)
        self.cluster.call(1, lambda node: node.campaign())
        self.cluster.settle()
        assert self.cluster.node(1).role == LEADER
        if behind is not None:
            self.cluster.cuts = {(1, behind)}
            self.cluster.call(1, lambda node: node.propose(b"not for all"))
            self.cluster.settle()
            self.cluster.cuts = set()
        if not lives:
            self.cluster.crash(1)
        self._latency = latency
        self._phases = dict(zip((2, 3), phases, strict=True))
        self._on_the_way: list[tuple[int, Message]] = []
        #: The voters that granted the pre-vote of (node, term).
        self._promises: dict[tuple[NodeId, Term], set[NodeId]] = {}

    def lose_link(self, node_id: NodeId) -> None:
        self.cluster.call(node_id, lambda node: node.peer_down(1))

    def hear_leftover(self, node_id: NodeId) -> None:
        """A heartbeat that the leader sent before it died is read only now."""
        self.cluster.call(node_id, lambda node: node.step(Heartbeat(1, node_id, 1, node.log.committed)))

    def run(self, events: list[tuple[int, str, NodeId]], moments_max: int) -> None:
        """Until a leader of a new term has committed; `moments_max` count from the last event."""
        actions = {"hint": self.lose_link, "leftover": self.hear_leftover}
        for now in range(max(event[0] for event in events) + moments_max):
            for at, what, node_id in events:
                if at == now:
                    actions[what](node_id)
            self.move(now)
            for node_id in self._alive():
                node = self.cluster.node(node_id)
                if node.role == LEADER and node.term > 1 and node.log.term(node.log.committed) == node.term:
                    return
        raise AssertionError(f"no leader after {events}:\n" + "\n".join(self.cluster.trace))

    def _alive(self) -> list[NodeId]:
        return [member.id for member in self.cluster.members.values() if member.is_up]

    def move(self, now: int) -> None:
        """One moment: what is due arrives, clocks tick, and everything that this leads to is sent."""
        self.cluster.network = [message for at, message in self._on_the_way if at <= now]
        self._on_the_way = [(at, message) for at, message in self._on_the_way if at > now]
        self.cluster.deliver(lambda message: True)
        for node_id in self._alive():
            if now % MOMENTS_PER_TICK == self._phases.get(node_id, 0):
                self.cluster.call(node_id, lambda node: node.tick())
            while self.cluster.has_work(node_id):
                self.cluster.process_ready(node_id)
        for message in self.cluster.network:
            self._check(message)
            self._on_the_way.append((now + self._latency, message))
        self.cluster.network = []

    def _check(self, message: Message) -> None:
        """A real vote needs the word of a quorum."""
        if isinstance(message, VoteReply) and message.pre and message.granted:
            self._promises.setdefault((message.to, message.term), {message.to}).add(message.sender)
        elif isinstance(message, VoteRequest) and not message.pre:
            promised = self._promises.get((message.sender, message.term), set())
            voters = self.cluster.node(message.sender).configuration.voters
            assert 2 * len(promised) > len(voters), f"node {message.sender} stands with the pre-votes of {promised}"


@pytest.mark.parametrize("latency", [1, 3])
@pytest.mark.parametrize("phases", PHASES)
def test_a_leader_is_elected_whichever_follower_loses_the_link_first(latency: int, phases: tuple[int, int]) -> None:
    for first, second in product(HINTS, HINTS):
        succession = Succession(latency=latency, phases=phases)
        succession.run([(first, "hint", 2), (second, "hint", 3)], 2 * LINE_MOMENTS + MESSAGES * latency)


@pytest.mark.parametrize("latency", [1, 3])
@pytest.mark.parametrize("phases", PHASES)
@pytest.mark.parametrize("behind", [2, 3])
def test_a_follower_that_is_behind_does_not_delay_the_election(
    latency: int, phases: tuple[int, int], behind: NodeId
) -> None:
    for first, second in product(HINTS, HINTS):
        succession = Succession(latency=latency, phases=phases, behind=behind)
        succession.run([(first, "hint", 2), (second, "hint", 3)], 2 * LINE_MOMENTS + MESSAGES * latency)
        assert succession.cluster.node(5 - behind).role == LEADER


@pytest.mark.parametrize("latency", [1, 3])
@pytest.mark.parametrize("delay", [0, 1, 4])
@pytest.mark.parametrize("heard_by", [(2,), (3,), (2, 3)])
def test_the_last_messages_of_a_dead_leader_do_not_delay_the_election(
    latency: int, delay: int, heard_by: tuple[int, ...]
) -> None:
    for hints in product(HINTS[::2], HINTS[::2]):
        events = [(moment, "hint", node_id) for node_id, moment in zip((2, 3), hints, strict=True)]
        events += [(at + delay, "leftover", node_id) for at, _, node_id in events if node_id in heard_by]
        Succession(latency=latency).run(events, PATIENCE_MOMENTS + LINE_MOMENTS + MESSAGES * latency)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(("latency", "succession_ticks"), [(1, 0), (12, 2)])
def test_where_the_order_cannot_separate_the_candidates_randomness_does(
    seed: int, latency: int, succession_ticks: int
) -> None:
    """No distance between the places, or messages that take longer than it: they meet again after a split vote."""
    options = RaftOptions(succession_ticks=succession_ticks)
    succession = Succession(
        latency=latency, options=options, chance=lambda node_id, starts: Random(f"{seed}/{node_id}/{starts}")
    )
    timeouts = 8 * 2 * options.election_ticks * MOMENTS_PER_TICK
    succession.run([(0, "hint", 2), (0, "hint", 3)], timeouts)
    assert max(succession.cluster.node(node_id).term for node_id in (2, 3)) < 10


@pytest.mark.parametrize("phases", PHASES)
@pytest.mark.parametrize("losing", [(2,), (3,)])
def test_a_single_follower_with_a_broken_link_does_not_unseat_the_leader(
    phases: tuple[int, int], losing: tuple[int, ...]
) -> None:
    succession = Succession(latency=1, phases=phases, lives=True)
    for node_id in losing:
        succession.lose_link(node_id)
    for now in range(40 * MOMENTS_PER_TICK):
        succession.move(now)
        assert succession.cluster.node(1).role == LEADER
        assert [succession.cluster.node(node_id).term for node_id in (1, 2, 3)] == [1, 1, 1]


def test_a_follower_whose_link_is_back_waits_the_full_election_timeout() -> None:
    succession = Succession(latency=1, lives=True)
    node = succession.cluster.node(3)
    before = node.election_timeout
    succession.lose_link(3)
    assert node.election_timeout < before
    node.peer_up(1)
    succession.hear_leftover(3)
    assert (node.leader, node.election_timeout) == (1, before)


def test_the_groups_of_one_leader_have_different_heirs() -> None:
    configuration = Configuration(voters=(1, 2, 3, 4))
    assert configuration.successors(2) == [3, 4, 1]
    assert [configuration.successors(2, turn)[0] for turn in range(6)] == [3, 4, 1, 3, 4, 1]
    assert Configuration(voters=(1,)).successors(1, 7) == []
