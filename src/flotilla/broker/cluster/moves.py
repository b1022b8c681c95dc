"""Moves of replicas: the leader of a partition changes its members to those that the metadata name.

The metadata name the wanted replicas of a partition (metadata/values: `Partition.wanted`); the leader compares its own
configuration, takes the one step that leads closer, and looks again. Nothing is remembered between two looks, so a new
leader of the partition or of the metadata costs nothing but time:

    1. a node that lost its disk is removed from the members, and that is confirmed to the metadata; a voter that has
       lost entries which it had acknowledged becomes a learner
    2. a wanted node that is no member becomes a learner, a few at a time
    3. learners catch up, at a limited rate
    4. when all have, and a majority of the wanted is up: learners become voters and unwanted members leave, in one
       joint change
    5. when the members are the wanted ones, the move is finished, which gives the others their tombstones

Why a lost disk is safe. A node that lost its disk has forgotten what it voted for and stored. It begins no log of a
group while it is `lost` there (hosting), and that ends only by step 1: a committed configuration of the group without
it. From then on no majority of the group relies on its earlier votes. The log that it begins afterwards is empty, and
an empty log neither votes nor stands for election; the node is a learner first (2), and a voter only after it has
caught up (4).

A voter that forgot is a milder case: it has its log but for the end, and follows the leader that found it out. As a
learner it takes part in no majority, whatever leader comes next and whoever restarts, until it has caught up (4).

Why data is safe. Only a tombstone removes data of a node; tombstones come from step 5, for the very move that the
leader has finished (by its number), and name no member.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial

from flotilla.broker.catalog import Catalog
from flotilla.broker.partition.host import PartitionHost
from flotilla.broker.ports import Cancel, Consensus, Outside
from flotilla.broker.slices import in_slices
from flotilla.metadata.move_commands import ConfirmLost, FinishMove
from flotilla.metadata.values import Partition
from flotilla.raft import reasons
from flotilla.raft.membership import ADD_LEARNER, ADD_VOTER, AUTO, IMPLICIT, REMOVE, Change, ConfigurationChange
from flotilla.raft.messages import Configuration
from flotilla.raft.node import RaftNode
from flotilla.raft.options import UNLIMITED_BYTES
from flotilla.raft.progress import REPLICATE
from flotilla.raft.roles import LEADER
from flotilla.replica.replica import Replica
from flotilla.types.errors import FlotillaError
from flotilla.types.ids import NO_NODE, GroupId, NodeId
from flotilla.types.limits import MOVES_TO_NODE_MAX

#: A learner that lacks at most this has caught up: it gets the rest while it becomes a voter.
BEHIND_ENTRIES_MAX = 64
#: Between two credits for learners: small pieces, so that producers do not wait for a large one.
REFILL_MS = 20
#: Unused credit is kept for this many rounds, because an idle leader sends once per tick.
KEPT_ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a step depends on: the state of the other nodes, as the leader knows it."""

    node: NodeId
    is_up: Callable[[NodeId], bool]
    #: Has nearly all of the log.
    has_caught_up: Callable[[NodeId], bool]
    #: May receive one more partition from here now.
    may_learn: Callable[[NodeId], bool]
    #: Voters that have lost entries which they had acknowledged.
    forgetful: Collection[NodeId] = ()


@dataclass(frozen=True, slots=True)
class HandOver:
    """Transfer leadership to `heir`, which takes the next step."""

    heir: NodeId


def next_step(
    configuration: Configuration, place: Partition, around: Surroundings
) -> ConfigurationChange | HandOver | None:
    """The step that brings the members closer to the wanted ones; None: there is none, or it is not possible now."""
    members = configuration.members()
    lost = [node for node in members if node in place.lost]
    if lost:
        return ConfigurationChange(tuple(Change(REMOVE, node) for node in lost))
    for node in sorted(around.forgetful):
        if node in place.wanted and may_demote(configuration, node, around):
            return ConfigurationChange((Change(ADD_LEARNER, node),))
    for node in place.wanted:
        if node not in members and node not in place.lost and around.is_up(node) and around.may_learn(node):
            return ConfigurationChange((Change(ADD_LEARNER, node),))
    if any(node not in members for node in place.wanted):
        return None
    learners = [node for node in place.wanted if node not in configuration.voters]
    if not all(around.is_up(node) and around.has_caught_up(node) for node in learners):
        return None
    up = [node for node in place.wanted if node == around.node or around.is_up(node)]
    if len(up) <= len(place.wanted) // 2:
        # The members of today can agree, and those that are wanted could not.
        return None
    leaving = [node for node in members if node not in place.wanted]
    if around.node in leaving:
        # Handing over first makes a shorter gap than a leader that removes itself.
        voters = [node for node in place.wanted if node in configuration.voters]
        heirs = [node for node in voters if around.is_up(node) and around.has_caught_up(node)]
        if heirs:
            return HandOver(heirs[0])
    changes = [Change(ADD_VOTER, node) for node in learners] + [Change(REMOVE, node) for node in leaving]
    # A lone change needs no joint phase, and so no majority of the old voters.
    return ConfigurationChange(tuple(changes), IMPLICIT if len(changes) > 1 else AUTO) if changes else None


def may_demote(configuration: Configuration, node: NodeId, around: Surroundings) -> bool:
    """Whether a voter that forgot can become a learner: a quorum of the other voters is there to go on without it.

    Two voters need each other for everything: what one of them forgets is never missing at the other, and a single
    voter would acknowledge with one disk.
    """
    others = [voter for voter in configuration.voters if voter != node]
    well = [voter for voter in others if voter == around.node or (around.is_up(voter) and around.has_caught_up(voter))]
    return len(others) >= 2 and len(well) > len(others) // 2


def is_settled(configuration: Configuration, place: Partition) -> bool:
    """Whether the members are exactly the wanted ones."""
    is_plain = not configuration.is_joint and not configuration.learners
    return is_plain and configuration.voters == tuple(sorted(place.wanted))


class ReplicaMoves:
    def __init__(
        self,
        node: NodeId,
        catalog: Catalog,
        consensus: Consensus,
        outside: Outside,
        hosts: Mapping[GroupId, PartitionHost],
        bytes_per_second: int,
    ) -> None:
        self._node = node
        self._catalog = catalog
        self._consensus = consensus
        self._outside = outside
        self._hosts = hosts
        self.bytes_per_second = bytes_per_second
        #: Groups led here that have learners, with the size of their log at the last refill.
        self._limited: dict[GroupId, int] = {}
        self._stop_refills: Cancel | None = None
        self._is_checking = False

    def close(self) -> None:
        if self._stop_refills is not None:
            self._stop_refills()

    def check(self) -> None:
        """Takes the next step for every partition that is led here. A round that is under way goes on instead."""
        if not self._is_checking:
            self._is_checking = True
            in_slices(self._outside, list(self._hosts), self._check_one, self._all_checked)

    def _all_checked(self) -> None:
        self._is_checking = False

    def _check_one(self, group: GroupId) -> None:
        host = self._hosts.get(group)
        if host is None:
            return
        replica = host.replica
        assignment = self._catalog.machine.state.assignments.get(group)
        if replica.raft.role == LEADER and assignment is not None and replica.is_serving():
            self._look(replica, assignment.place)
        elif group in self._limited:
            self._stop_limiting(group, replica.raft)

    def _look(self, replica: Replica, place: Partition) -> None:
        raft = replica.raft
        configuration = raft.configuration
        if raft.pending_configuration_index > raft.log.handed or configuration.is_joint:
            # A change is in flight, or the term has just begun: the configuration may not be committed.
            return
        self._limit(replica, is_limited=bool(configuration.learners))
        if place.move is None and not place.lost and not raft.forgetful and is_settled(configuration, place):
            return
        self._confirm(configuration, place)
        if raft.transferee == NO_NODE:
            self._take_step(replica, place)

    def _confirm(self, configuration: Configuration, place: Partition) -> None:
        """Reports finished steps to the metadata. Repeated until they show them."""
        now_ms = self._outside.now_ms()
        brokers = self._catalog.brokers()
        for node in place.lost:
            if node not in configuration.members() and node in brokers:
                self._forward(ConfirmLost(place.group, node, brokers[node].incarnation, now_ms))
        if place.move is not None and is_settled(configuration, place):
            self._forward(FinishMove(place.group, place.move.number, now_ms))

    def _forward(self, command: ConfirmLost | FinishMove) -> None:
        if self._catalog.machine.check(command) is None:
            self._catalog.forward(command)

    def _take_step(self, replica: Replica, place: Partition) -> None:
        raft = replica.raft
        around = Surroundings(
            self._node, self._outside.is_up, partial(has_caught_up, raft), self._may_learn, raft.forgetful
        )
        step = next_step(raft.configuration, place, around)
        if isinstance(step, HandOver):
            try:
                self._consensus.transfer(place.group, step.heir, reasons.MOVE)
            except FlotillaError:
                pass  # Another node leads by now.
        elif step is not None:
            self._consensus.change_members(place.group, step, lambda _: self._changed(place.group))
            # A learner counts as soon as it is proposed.
            self._limit(replica, is_limited=bool(raft.configuration.learners))

    def _changed(self, group: GroupId) -> None:
        """A change was made or refused: there may be a next step. A refused one is retried at the next check."""
        host = self._hosts.get(group)
        assignment = self._catalog.machine.state.assignments.get(group)
        if host is not None and assignment is not None and host.replica.is_serving():
            self._limit(host.replica, is_limited=bool(host.replica.raft.configuration.learners))
            if assignment.place.lost:
                # A lost replica that waits to start again need not wait for the next check.
                self._look(host.replica, assignment.place)

    def _may_learn(self, node: NodeId) -> bool:
        learning = 0
        for group in self._limited:
            host = self._hosts.get(group)
            learning += host is not None and node in host.replica.raft.configuration.learners
        return learning < MOVES_TO_NODE_MAX

    # Rate limit.

    def _limit(self, replica: Replica, *, is_limited: bool) -> None:
        if is_limited and replica.group not in self._limited:
            self._limited[replica.group] = replica.log.size_bytes()
            replica.raft.learner_credit_bytes = 0
            if self._stop_refills is None:
                self._refill()
        elif not is_limited and replica.group in self._limited:
            self._stop_limiting(replica.group, replica.raft)

    def _stop_limiting(self, group: GroupId, raft: RaftNode) -> None:
        del self._limited[group]
        raft.learner_credit_bytes = UNLIMITED_BYTES

    def _refill(self) -> None:
        """Gives each group with learners its share, plus what producers wrote: else no learner would catch up."""
        self._stop_refills = None
        for group in [group for group in self._limited if group not in self._hosts]:
            del self._limited[group]
        if not self._limited:
            return
        share = max(1, self.bytes_per_second * REFILL_MS // 1000 // len(self._limited))
        for group, before in self._limited.items():
            replica = self._hosts[group].replica
            size = replica.log.size_bytes()
            self._limited[group] = size
            grown = max(0, size - before)
            kept = min(replica.raft.learner_credit_bytes, KEPT_ROUNDS * share)
            replica.raft.learner_credit_bytes = kept + share + grown
        self._stop_refills = self._outside.later(REFILL_MS, self._refill)


def has_caught_up(raft: RaftNode, node: NodeId) -> bool:
    progress = raft.progress.get(node)
    if progress is None:
        return False
    return progress.state == REPLICATE and progress.match + BEHIND_ENTRIES_MAX >= raft.log.last_index
