"""Random walks of a hand-turned cluster: every interleaving of messages, writes, crashes and changes is legal.

Cheaper and wilder than the simulator: no time, no network model, just any enabled step at any moment. Safety is
checked after each of them; then the walk stops, everybody comes back, and the cluster must agree.
"""

from collections.abc import Callable
from contextlib import suppress
from random import Random

import pytest

from flotilla.raft.membership import ADD_LEARNER, ADD_VOTER, REMOVE, Change, ConfigurationChange
from flotilla.raft.messages import Configuration
from flotilla.raft.node import RaftNode
from flotilla.raft.options import RaftOptions
from flotilla.raft.roles import LEADER
from flotilla.types.errors import FlotillaError
from tests.scenarios.cluster import Cluster

STEPS = 1500
OPTIONS = RaftOptions(
    append_bytes_max=100,
    inflight_bytes_max=200,
    inflight_count_max=3,
    proposal_count_max=8,
    snapshot_chunk_bytes_max=64,
    quiesce_ticks=6,
)


class Walk:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.size = self.random.choice([1, 3, 3, 3, 5])
        self.cluster = Cluster()
        founders = Configuration(voters=tuple(range(1, self.size + 1)))
        for node in founders.voters:
            self.cluster.add(node, founders, options=OPTIONS)
        for node in (self.size + 1, self.size + 2):
            self.cluster.add(node, Configuration(), options=OPTIONS)
        for member in self.cluster.members.values():
            member.is_slow = self.random.random() < 0.7
        self.proposals = 0

    def step(self) -> None:
        member = self.random.choice(list(self.cluster.members.values()))
        kinds = [self.ready, self.ready, self.write, self.write, self.tick]
        if self.cluster.network:
            kinds = [self.deliver, self.deliver, self.deliver, self.deliver, self.drop, *kinds]
        rare = [self.crash, self.propose, self.propose, self.change, self.transfer, self.compact, self.hint, self.read]
        action = self.random.choice(rare if self.random.random() < 0.1 else kinds)
        action(member.id)
        self.cluster.observe()

    def is_up(self, node: int) -> bool:
        return self.cluster.members[node].is_up

    def deliver(self, _: int) -> None:
        network = self.cluster.network
        if not network:
            return
        place = self.random.randrange(len(network)) if self.random.random() < 0.3 else 0
        message = network[place] if self.random.random() < 0.05 else network.pop(place)
        if self.is_up(message.to):
            self.cluster.node(message.to).step(message)

    def drop(self, _: int) -> None:
        if self.random.random() < 0.2:
            self.cluster.network.pop(self.random.randrange(len(self.cluster.network)))

    def tick(self, node: int) -> None:
        # Time passes quickly while nothing else happens, slowly otherwise.
        if self.is_up(node):
            for _ in range(1 if self.cluster.network else 5):
                self.cluster.node(node).tick()

    def ready(self, node: int) -> None:
        if self.is_up(node) and self.cluster.has_work(node):
            self.cluster.process_ready(node)

    def write(self, node: int) -> None:
        if self.is_up(node) and self.cluster.members[node].writes:
            self.cluster.finish_write(node)

    def crash(self, node: int) -> None:
        if self.is_up(node):
            self.cluster.crash(node)
            for other in self.cluster.members:
                if other != node and self.is_up(other) and self.random.random() < 0.5:
                    self.cluster.node(other).peer_down(node)
                    self.cluster.node(other).peer_up(node)
        if self.random.random() < 0.7:
            self.cluster.restart(node)

    def propose(self, node: int) -> None:
        self._try(node, lambda raft: raft.propose(b"p%d" % self.proposals))
        self.proposals += 1

    def read(self, node: int) -> None:
        self._try(node, lambda raft: raft.read())

    def change(self, node: int) -> None:
        kinds = [ADD_VOTER, ADD_VOTER, ADD_LEARNER, REMOVE]
        targets = self.random.sample(list(self.cluster.members), self.random.choice([1, 1, 2]))
        changes = tuple(Change(self.random.choice(kinds), target) for target in targets)
        self._try(node, lambda raft: raft.propose_change(ConfigurationChange(changes)))

    def transfer(self, node: int) -> None:
        to = self.random.choice(list(self.cluster.members))
        self._try(node, lambda raft: raft.transfer(to))

    def compact(self, node: int) -> None:
        member = self.cluster.members[node]
        # The harness writes snapshots at once, so only a member whose writes are all done may take one.
        if member.is_up and member.node.installing is None and not member.writes and not member.prepared:
            first = self.random.randint(member.store.base, member.applied) + 1
            if member.store.base < first <= member.applied + 1 <= member.store.last_index() + 1:
                member.compact(first)

    def hint(self, node: int) -> None:
        peer = self.random.choice(list(self.cluster.members))
        if self.is_up(node) and peer != node:
            self.cluster.node(node).peer_down(peer)
            self.cluster.node(node).peer_up(peer)

    def _try(self, node: int, action: Callable[[RaftNode], object]) -> None:
        # Mostly to a leader, or nothing would ever happen.
        leaders = [m.id for m in self.cluster.members.values() if m.is_up and m.node.role == LEADER]
        if leaders and self.random.random() < 0.9:
            node = self.random.choice(leaders)
        if self.is_up(node):
            with suppress(FlotillaError):
                action(self.cluster.node(node))

    def heal(self) -> None:
        for member in self.cluster.members.values():
            member.is_slow = False
            if not member.is_up:
                self.cluster.restart(member.id)
        for _ in range(200):
            self.cluster.settle()
            for node in self.cluster.members:
                self.cluster.node(node).tick()


@pytest.mark.parametrize("seed", range(40))
def test_any_interleaving_is_safe_and_heals(seed: int):
    walk = Walk(seed)
    for _ in range(STEPS):
        walk.step()
    walk.heal()
    leaders = [m for m in walk.cluster.members.values() if m.node.role == LEADER]
    assert len(leaders) == 1, [walk.cluster.describe(node) for node in walk.cluster.members]
    leader = leaders[0]
    leader.node.propose(b"the end")
    for _ in range(20):
        walk.cluster.settle()
        for node in walk.cluster.members:
            walk.cluster.node(node).tick()
    for node in leader.node.configuration.members():
        member = walk.cluster.members[node]
        assert member.state == leader.state, walk.cluster.describe(node)
