"""Balance of leaders: leadership returns to the first replica of a partition where leaders are spread unevenly.

It is not urgent, and a transfer costs a stall: partitions return only to a node that leads far fewer than this one
(`is_uneven`), and then until both lead about the same number. No node may have come or gone for some time, only a few
partitions move at once, and each attempt that does not last doubles the wait before the next one. So a restart of a
node that led a few partitions moves nothing back, a rolling restart is over before leadership returns, once, and a
node that loses its leadership again and again is left alone ever longer.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from flotilla.broker.partition.host import PartitionHost
from flotilla.broker.ports import Consensus, Outside
from flotilla.raft import reasons
from flotilla.raft.roles import LEADER
from flotilla.types.errors import FlotillaError
from flotilla.types.ids import NO_NODE, GroupId, NodeId

#: Checks in a row that must find a partition misplaced, and the same nodes up: half a minute.
PATIENCE_CHECKS = 60
PATIENCE_CHECKS_MAX = 1280
#: Partitions handed over in one check.
HAND_OVERS_MAX = 2
#: The preferred leader may lack this many entries: it gets them while it takes over.
BEHIND_ENTRIES_MAX = 64

#: Partitions begin to return when this node leads so many more than the preferred one, and a quarter of what both lead.
UNEVEN_MIN = 3
UNEVEN_SHARE = 4


class Seat(NamedTuple):
    """The leadership of one partition: who may have it and who has it."""

    replicas: tuple[NodeId, ...]
    leader: NodeId


class Lead(NamedTuple):
    """How many partitions two nodes lead, of those of which both have a replica."""

    own: int
    other: int

    def after_hand_over(self) -> "Lead":
        return Lead(self.own - 1, self.other + 1)


def count_lead(node: NodeId, other: NodeId, seats: Iterable[Seat]) -> Lead:
    shared = [seat.leader for seat in seats if node in seat.replicas and other in seat.replicas]
    return Lead(shared.count(node), shared.count(other))


def is_uneven(lead: Lead, *, is_returning: bool) -> bool:
    """Whether a node should give a partition back to the other one.

    `is_returning`: it has begun to, and goes on until a further partition would make no difference.
    """
    surplus = lead.own - lead.other
    if is_returning:
        return surplus >= 2
    return surplus >= UNEVEN_MIN and UNEVEN_SHARE * surplus >= lead.own + lead.other


class _Watch:
    """A partition that is or was led by another than its preferred leader."""

    __slots__ = ("calm_checks", "misplaced_checks", "patience_checks")

    def __init__(self) -> None:
        self.misplaced_checks = 0
        self.calm_checks = 0
        self.patience_checks = PATIENCE_CHECKS


class LeaderBalance:
    def __init__(self, node: NodeId, consensus: Consensus, outside: Outside) -> None:
        self._node = node
        self._consensus = consensus
        self._outside = outside
        self._watched: dict[GroupId, _Watch] = {}
        #: Nodes that get partitions back, until the spread is even.
        self._returning: set[NodeId] = set()
        #: Nodes with replicas of the same partitions that can be reached.
        self._up: set[NodeId] = set()

    def check(self, hosts: Mapping[GroupId, PartitionHost]) -> None:
        for group in [group for group in self._watched if group not in hosts]:
            del self._watched[group]
        self._look_for_changes(hosts)
        leads = self._count_leads(hosts)
        left = HAND_OVERS_MAX
        for group, host in hosts.items():
            watch = self._watched.get(group)
            preferred = host.preferred
            if self._is_misplaced(host) and is_uneven(leads[preferred], is_returning=preferred in self._returning):
                if watch is None:
                    watch = self._watched[group] = _Watch()
                watch.calm_checks = 0
                watch.misplaced_checks += 1
                if left and watch.misplaced_checks >= watch.patience_checks:
                    left -= 1
                    leads[preferred] = leads[preferred].after_hand_over()
                    self._returning.add(preferred)
                    self._hand_over(host, watch)
            elif watch is not None:
                self._calm(group, watch)

    def _look_for_changes(self, hosts: Mapping[GroupId, PartitionHost]) -> None:
        """A node that comes or goes moves leaders by itself, and another may follow: the wait begins anew."""
        voters = {voter for host in hosts.values() for voter in host.replica.raft.configuration.voters}
        before, self._up = self._up, {voter for voter in voters if self._outside.is_up(voter)}
        if self._up != before:
            for watch in self._watched.values():
                watch.misplaced_checks = 0

    def _count_leads(self, hosts: Mapping[GroupId, PartitionHost]) -> dict[NodeId, Lead]:
        """For each node to which a partition that is led here could return."""
        others = {host.preferred for host in hosts.values() if self._is_misplaced(host)}
        seats = [_seat(host) for host in hosts.values()] if others else []
        leads = {other: count_lead(self._node, other, seats) for other in others}
        self._returning = {
            other for other in self._returning if other in leads and is_uneven(leads[other], is_returning=True)
        }
        return leads

    def _is_misplaced(self, host: PartitionHost) -> bool:
        raft = host.replica.raft
        preferred = host.preferred
        if raft.role != LEADER or preferred == self._node or raft.transferee != NO_NODE:
            return False
        if preferred not in raft.configuration.voters or not self._outside.is_up(preferred):
            return False
        if self._consensus.is_short_of_room(preferred):
            return False
        return raft.progress[preferred].match + BEHIND_ENTRIES_MAX >= raft.log.last_index

    def _hand_over(self, host: PartitionHost, watch: _Watch) -> None:
        watch.misplaced_checks = 0
        watch.patience_checks = min(2 * watch.patience_checks, PATIENCE_CHECKS_MAX)
        try:
            self._consensus.transfer(host.group, host.preferred, reasons.PREFERRED_LEADER)
        except FlotillaError:
            pass  # Another node leads by now.

    def _calm(self, group: GroupId, watch: _Watch) -> None:
        """Led by its preferred leader, or not movable; forgotten when that has lasted."""
        watch.misplaced_checks = 0
        watch.calm_checks += 1
        if watch.calm_checks >= watch.patience_checks:
            del self._watched[group]


def _seat(host: PartitionHost) -> Seat:
    raft = host.replica.raft
    return Seat(raft.configuration.voters, raft.transferee if raft.transferee != NO_NODE else raft.leader)
