"""Balance of leaders: leadership returns to the first replica of a partition, so that load spreads after a failover.

It is not urgent, and a transfer costs a short stall: the preferred leader must have been up for some time, only a few
partitions move at once, and each attempt that does not last doubles the wait before the next one. So a node that loses
its leadership again and again is left alone ever longer.
"""

from collections.abc import Mapping

from flotilla.broker.partition.host import PartitionHost
from flotilla.broker.ports import Consensus, Outside
from flotilla.raft.roles import LEADER
from flotilla.types.errors import FlotillaError
from flotilla.types.ids import NO_NODE, GroupId, NodeId

#: Checks in a row that must find a partition misplaced; longer than a node takes to stop.
PATIENCE_CHECKS = 10
PATIENCE_CHECKS_MAX = 1280
#: Partitions handed over in one check.
HAND_OVERS_MAX = 8
#: The preferred leader may lack this many entries: it gets them while it takes over.
BEHIND_ENTRIES_MAX = 64


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

    def check(self, hosts: Mapping[GroupId, PartitionHost]) -> None:
        for group in [group for group in self._watched if group not in hosts]:
            del self._watched[group]
        left = HAND_OVERS_MAX
        for group, host in hosts.items():
            watch = self._watched.get(group)
            if self._is_misplaced(host):
                if watch is None:
                    watch = self._watched[group] = _Watch()
                watch.calm_checks = 0
                watch.misplaced_checks += 1
                if left and watch.misplaced_checks >= watch.patience_checks:
                    left -= 1
                    self._hand_over(host, watch)
            elif watch is not None:
                self._calm(group, watch)

    def _is_misplaced(self, host: PartitionHost) -> bool:
        raft = host.replica.raft
        preferred = host.preferred
        if raft.role != LEADER or preferred == self._node or raft.transferee != NO_NODE:
            return False
        if preferred not in raft.configuration.voters or not self._outside.is_up(preferred):
            return False
        return raft.progress[preferred].match + BEHIND_ENTRIES_MAX >= raft.log.last_index

    def _hand_over(self, host: PartitionHost, watch: _Watch) -> None:
        watch.misplaced_checks = 0
        watch.patience_checks = min(2 * watch.patience_checks, PATIENCE_CHECKS_MAX)
        try:
            self._consensus.transfer(host.group, host.preferred)
        except FlotillaError:
            pass  # Another node leads by now.

    def _calm(self, group: GroupId, watch: _Watch) -> None:
        """Led by its preferred leader, or not movable; forgotten when that has lasted."""
        watch.misplaced_checks = 0
        watch.calm_checks += 1
        if watch.calm_checks >= watch.patience_checks:
            del self._watched[group]
