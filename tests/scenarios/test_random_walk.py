"""Clusters that wander at random: messages lost, repeated and reordered, disks slow, nodes crashing, members changing.

Safety is checked after every step. Then the trouble ends, and the group must agree and go on. A failure names its seed.
"""

from collections.abc import Callable
from random import Random

import pytest

from flotilla.raft.membership import (
    ADD_LEARNER,
    ADD_VOTER,
    AUTO,
    EXPLICIT,
    IMPLICIT,
    REMOVE,
    Change,
    ConfigurationChange,
)
from flotilla.raft.messages import Configuration
from flotilla.raft.node import RaftNode
from flotilla.raft.options import RaftOptions
from flotilla.raft.roles import LEADER
from flotilla.types.errors import FlotillaError
from flotilla.types.ids import Index, NodeId
from tests.scenarios.cluster import Cluster, Member

STEPS = 1500
#: The later ones have found something once.
SEEDS = [*range(15), 22, 288, 289]


class Walk:
    """One seed's cluster and what was promised to its clients."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.cluster = Cluster(chance=lambda node, starts: Random(seed * 1000 + node * 100 + starts))
        self.proposed = 0
        #: By (node, read id): what had committed somewhere before the read was asked for.
        self.reads: dict[tuple[NodeId, int], Index] = {}
        #: Without pre-vote and check-quorum a removed node disturbs the others for ever, so members stay then.
        self.is_guarded = self.random.random() < 0.8
        #: A group may shrink to one copy, which must then not be damaged: either disks fail or members change.
        self.is_damaging = self.random.random() < 0.4
        self.options = RaftOptions(
            election_ticks=6,
            heartbeat_ticks=2,
            quiesce_ticks=self.random.choice([0, 8]),
            append_bytes_max=self.random.choice([40, 1000]),
            inflight_count_max=self.random.choice([1, 4]),
            snapshot_chunk_bytes_max=16,
            pre_vote=self.is_guarded,
            check_quorum=self.is_guarded,
        )
        count = self.random.choice([3, 5] if self.is_damaging else [1, 3, 5])
        founders = Configuration(voters=tuple(range(1, count + 1)))
        for node in range(1, 8):
            self.cluster.add(node, founders if node in founders.voters else Configuration(), options=self.options)

    def step(self) -> None:
        """One random thing happens."""
        up = [member.id for member in self.cluster.members.values() if member.is_up and self.is_involved(member)]
        actions = [
            (10, self.tick),
            (50, self.handle_ready),
            (40, self.finish_write),
            (100, self.deliver),
            (4, self.lose),
            (2, self.repeat),
            (8, self.propose),
            (2, self.change),
            (0.7, self.crash),
            (0.7, self.damage),
            (3, self.restart),
            (1, self.compact),
            (1, self.transfer),
            (2, self.read),
            (0.7, self.cut),
            (2, self.heal),
            (1, self.lose_link),
            (0.5, self.toggle_disk),
        ]
        action = self.random.choices([act for _, act in actions], [weight for weight, _ in actions])[0]
        if up:
            action(self.random.choice(up))
        else:
            self.restart(0)
        self.check_reads()

    def is_involved(self, member: Member) -> bool:
        """Whether anything has ever happened to a member; the rest only wait to be asked."""
        return bool(member.node.configuration.voters) or member.node.term > 0

    def leading(self) -> list[NodeId]:
        return [member.id for member in self.cluster.members.values() if member.is_up and member.node.role == LEADER]

    def tick(self, node: NodeId) -> None:
        self.cluster.call(node, lambda raft: raft.tick())

    def handle_ready(self, node: NodeId) -> None:
        if self.cluster.has_work(node):
            self.cluster.process_ready(node)

    def finish_write(self, node: NodeId) -> None:
        if self.cluster.members[node].writes:
            self.cluster.finish_write(node)

    def deliver(self, node: NodeId) -> None:
        if self.cluster.network:
            place = self.random.randrange(min(8, len(self.cluster.network)))
            chosen = self.cluster.network[place]
            self.cluster.deliver(lambda message: message is chosen)

    def lose(self, node: NodeId) -> None:
        if self.cluster.network:
            self.cluster.network.pop(self.random.randrange(len(self.cluster.network)))

    def repeat(self, node: NodeId) -> None:
        if self.cluster.network:
            self.cluster.network.append(self.random.choice(self.cluster.network))

    def propose(self, node: NodeId) -> None:
        for leader in self.leading():
            self.proposed += 1
            self.attempt(leader, lambda raft: raft.propose(str(self.proposed).encode()))

    def change(self, node: NodeId) -> None:
        kinds = [ADD_VOTER, ADD_LEARNER, REMOVE]
        count = self.random.choice([0, 1, 1, 2, 3])
        changes = tuple(Change(self.random.choice(kinds), self.random.randint(1, 7)) for _ in range(count))
        change = ConfigurationChange(changes, self.random.choice([AUTO, IMPLICIT, EXPLICIT]))
        for leader in self.leading() if self.is_guarded and not self.is_damaging else []:
            self.attempt(leader, lambda raft: raft.propose_change(change))

    def crash(self, node: NodeId) -> None:
        self.cluster.crash(node)

    def damage(self, node: NodeId) -> None:
        """A disk loses entries while its node is down; never two disks at a time, since some copy must be left."""
        members = list(self.cluster.members.values())
        down = [member for member in members if not member.is_up and member.disk.stored]
        if self.is_damaging and down and not any(member.disk.damaged for member in members):
            disk = self.random.choice(down).disk
            indexes = range(disk.first_index(), disk.last_index() + 1)
            disk.damaged = set(self.random.choices(indexes, k=self.random.randint(1, 3)))

    def restart(self, node: NodeId) -> None:
        down = [member.id for member in self.cluster.members.values() if not member.is_up]
        if down:
            self.cluster.restart(self.random.choice(down))

    def compact(self, node: NodeId) -> None:
        member = self.cluster.members[node]
        if member.node.installing is None and member.store.base < member.applied <= member.disk.last_index():
            member.compact(self.random.randint(member.store.base + 1, member.applied) + 1)

    def transfer(self, node: NodeId) -> None:
        for leader in self.leading():
            self.attempt(leader, lambda raft: raft.transfer(self.random.randint(1, 7)))

    def read(self, node: NodeId) -> None:
        before = max(self.cluster.safety.committed, default=0)
        self.attempt(node, lambda raft: self.reads.update({(node, raft.read()): before}))

    def cut(self, node: NodeId) -> None:
        self.cluster.cuts.add((node, self.random.randint(1, 7)))

    def heal(self, node: NodeId) -> None:
        self.cluster.cuts.clear()

    def lose_link(self, node: NodeId) -> None:
        peer = self.random.randint(1, 7)
        if peer != node:
            self.cluster.call(node, lambda raft: raft.peer_down(peer))
            self.cluster.call(node, lambda raft: raft.peer_up(peer))

    def toggle_disk(self, node: NodeId) -> None:
        member = self.cluster.members[node]
        member.is_slow = not member.is_slow

    def attempt(self, node: NodeId, action: Callable[[RaftNode], object]) -> None:
        try:
            self.cluster.call(node, action)
        except FlotillaError:
            return

    def check_reads(self) -> None:
        """A read is served at or after everything that had committed before its request."""
        for member in self.cluster.members.values():
            for read in member.reads:
                before = self.reads.pop((member.id, read.read_id), 0)
                assert read.index < 0 or read.index >= before, f"node {member.id} reads at {read.index}, not {before}"
            member.reads.clear()

    def calm_down(self) -> None:
        """No more trouble: everyone is up and hears everyone."""
        self.cluster.cuts.clear()
        for member in self.cluster.members.values():
            member.is_slow = False
            if not member.is_up:
                self.cluster.restart(member.id)
        self.cluster.settle()
        for _ in range(60):
            for node in self.cluster.members:
                self.tick(node)
            self.cluster.settle()


@pytest.mark.parametrize("seed", SEEDS)
def test_random_walk(seed: int) -> None:
    walk = Walk(seed)
    for _ in range(STEPS):
        walk.step()
    walk.calm_down()
    leaders = [member for member in walk.cluster.members.values() if member.node.role == LEADER]
    newest = max(leaders, key=lambda member: member.node.term)
    newest.node.propose(b"calm")
    walk.cluster.settle()
    assert newest.state[-1] == b"calm"
    for node in newest.configuration.members():
        member = walk.cluster.members[node]
        assert (member.applied, member.state) == (newest.applied, newest.state), f"node {node} lags"
