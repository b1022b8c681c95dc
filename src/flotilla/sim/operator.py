"""The operator of the cluster: changes members, transfers leadership, takes snapshots, replaces lost disks.

A node whose disk was replaced has forgotten its votes and its log. It stays down until a committed change
has removed its old self; then it comes back as a new node, is added as a learner, and votes only when it
has been promoted. While faults last the operator changes things at random; afterwards it only finishes
what it must: removes lost nodes, brings them back, and ends joint phases.
"""

from random import Random

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
from flotilla.runtime.driver import Driver
from flotilla.sim.cluster import Cluster
from flotilla.sim.devices.world import MS, SECOND
from flotilla.sim.node import DOWN, SimNode
from flotilla.types.errors import FlotillaError
from flotilla.types.ids import GroupId, NodeId

#: With fewer voters one lost disk would no longer be a minority.
VOTERS_MIN = 3


class _Ignored:
    """Ignores the answer: the operator looks at the cluster again instead."""

    __slots__ = ()

    def answered(self, node: SimNode, result: object) -> None:
        return


class Operator:
    """One round every now and then, for one group at a time."""

    __slots__ = ("_cluster", "_is_chaos", "_random")

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._random: Random = cluster.world.stream("operator")
        self._is_chaos = True

    def start(self) -> None:
        self._round()

    def calm(self) -> None:
        self._is_chaos = False

    def _round(self) -> None:
        self._cluster.world.after(int((0.2 + self._random.random() * 4) * SECOND), self._round)
        self._bring_back_lost()
        group = self._cluster.pick_group(self._random)
        node = self._cluster.leader(group)
        raft = self._cluster.raft(node, group) if node is not None else None
        if node is None or raft is None:
            return
        change = self._needed(raft, group)
        faults = self._cluster.plan.faults
        if change is None and self._is_chaos:
            dice = self._random.random()
            if dice < 0.5 and "membership" in faults:
                change = self._chosen(raft, group)
            elif dice < 0.7 and "transfer" in faults:
                self._transfer(node, raft, group)
            elif dice < 0.9 and "snapshot" in faults:
                self._snapshot(group)
        if change is not None:
            self._propose(node, group, change)
            if self._is_chaos and self._random.random() < 0.3:
                self._cluster.world.after(int(self._random.random() * 5 * MS), self._ask_again, node, group)

    def _ask_again(self, node: SimNode, group: GroupId) -> None:
        """Asks for the next change before the last one can be finished. It must be refused, or wait."""
        raft = self._cluster.raft(node, group)
        change = self._chosen(raft, group) if raft is not None and not raft.configuration.is_joint else None
        if change is not None:
            self._propose(node, group, change)

    # What must be done.

    def _bring_back_lost(self) -> None:
        for node in self._cluster.nodes.values():
            if node.is_lost and not any(self._is_member(node.id, group) for group in node.memberships):
                node.readmit()
                self._cluster.sometimes.seen("wiped node rejoined")
                self._cluster.world.after(100 * MS, self._cluster.restart, node)

    def _is_member(self, node: NodeId, group: GroupId) -> bool:
        """By all that any node knows: a leader may write what it has in memory at any moment, however slow its disk."""
        leader = self._cluster.leader(group)
        raft = self._cluster.raft(leader, group) if leader is not None else None
        if raft is None or node in raft.configuration.members():
            return True
        return node in self._cluster.observers[group].newest_configuration.members()

    def _needed(self, raft: RaftNode, group: GroupId) -> ConfigurationChange | None:
        configuration = raft.configuration
        if configuration.is_joint:
            return None if configuration.auto_leave else ConfigurationChange()
        for node in self._cluster.nodes.values():
            if node.is_lost and node.id in configuration.members():
                return ConfigurationChange((Change(REMOVE, node.id),))
        if len(configuration.voters) < min(VOTERS_MIN, self._cluster.plan.nodes):
            return self._grow(configuration, group)
        return None

    def _grow(self, configuration: Configuration, group: GroupId) -> ConfigurationChange | None:
        for learner in configuration.learners:
            if not self._cluster.nodes[learner].is_lost:
                return ConfigurationChange((Change(ADD_VOTER, learner),))
        strangers = self._strangers(configuration)
        if not strangers:
            return None
        return self._add(strangers[0], group)

    # What may be done.

    def _chosen(self, raft: RaftNode, group: GroupId) -> ConfigurationChange | None:
        random, configuration = self._random, raft.configuration
        strangers = self._strangers(configuration)
        shrinkable = len(configuration.voters) > VOTERS_MIN
        dice = random.random()
        if dice < 0.35 and strangers:
            return self._add(random.choice(strangers), group)
        if dice < 0.6 and configuration.learners:
            return self._joint_or_not(Change(ADD_VOTER, random.choice(configuration.learners)))
        if dice < 0.75 and shrinkable:
            kind = ADD_LEARNER if random.random() < 0.3 else REMOVE
            return self._joint_or_not(Change(kind, random.choice(configuration.voters)))
        if dice < 0.8 and configuration.learners:
            return self._joint_or_not(Change(REMOVE, random.choice(configuration.learners)))
        if configuration.learners:
            return self._replace(configuration, random.choice(configuration.learners))
        return None

    def _strangers(self, configuration: Configuration) -> list[NodeId]:
        members = configuration.members()
        return [node.id for node in self._cluster.nodes.values() if node.id not in members and not node.is_lost]

    def _add(self, node: NodeId, group: GroupId) -> ConfigurationChange:
        """As a learner, always: a replica with an empty log gives no votes, so it must not be needed for any."""
        self._cluster.nodes[node].host(group)
        return ConfigurationChange((Change(ADD_LEARNER, node),))

    def _joint_or_not(self, change: Change) -> ConfigurationChange:
        return ConfigurationChange((change,), self._random.choice((AUTO, AUTO, IMPLICIT, EXPLICIT)))

    def _replace(self, configuration: Configuration, newcomer: NodeId) -> ConfigurationChange:
        leaver = self._random.choice(configuration.voters)
        kind = self._random.choice((REMOVE, ADD_LEARNER))
        transition = self._random.choice((IMPLICIT, EXPLICIT))
        return ConfigurationChange((Change(ADD_VOTER, newcomer), Change(kind, leaver)), transition)

    def _propose(self, node: SimNode, group: GroupId, change: ConfigurationChange) -> None:
        if self._cluster.trace.is_traced:
            parts = [f"{_KINDS[one.kind]} {one.node}" for one in change.changes]
            self._cluster.trace.note(node.id, f"is asked to change group {group}: {', '.join(parts) or 'leave joint'}")
        node.call(group, lambda driver: driver.change_members(group, change, _Ignored()))

    def _transfer(self, node: SimNode, raft: RaftNode, group: GroupId) -> None:
        others = [voter for voter in raft.configuration.voters if voter != node.id]
        if others:
            to = self._random.choice(others)
            self._cluster.trace.note(node.id, f"is asked to hand group {group} to node {to}")
            self._cluster.sometimes.seen("leadership transferred")
            node.call(group, lambda driver: _transfer(driver, group, to))

    def _snapshot(self, group: GroupId) -> None:
        hosts = [node for node in self._cluster.nodes.values() if node.status != DOWN and group in node.memberships]
        if hosts:
            self._random.choice(hosts).call(group, lambda driver: driver.snapshot(group))


_KINDS = {ADD_VOTER: "add voter", ADD_LEARNER: "add learner", REMOVE: "remove"}


def _transfer(driver: Driver, group: GroupId, to: NodeId) -> None:
    try:
        driver.transfer(group, to)
    except FlotillaError:
        # It no longer leads, or is transferring leadership already.
        return
