"""Log events for operators: partitions this node leads or repairs, and members of the cluster.

The state is compared with that of the last look, and one line covers all changes in between: a node that takes over a
thousand partitions writes a few lines, not a thousand.
"""

from collections.abc import Callable, Mapping

from flotilla.broker.catalog import Catalog
from flotilla.broker.cluster_clock import ClusterClock
from flotilla.broker.group_names import GroupNames
from flotilla.raft import reasons
from flotilla.raft.roles import LEADER
from flotilla.replica.replica import Replica
from flotilla.runtime.observability.logs import get_logger
from flotilla.types.ids import GroupId, NodeId

#: Between two looks.
LOOK_MS = 500
#: A line names at most this many partitions.
_NAMED_MAX = 10

log = get_logger("cluster")


class EventLog:
    def __init__(
        self,
        node: NodeId,
        catalog: Catalog,
        replicas: Mapping[GroupId, Replica],
        repaired: Mapping[GroupId, int],
        stalled: Callable[[], Mapping[GroupId, str]],
        clock: ClusterClock,
    ) -> None:
        """`repaired` counts the damaged entries of each group that were replaced from other replicas.

        `stalled` returns the groups whose disk does not return a read, with the file.
        """
        self._log = log.bind(node=node)
        self._catalog = catalog
        self._replicas = replicas
        self._repaired = repaired
        self._stalled = stalled
        self._clock = clock
        self._jump_count = 0
        self._is_clock_off = False
        self._names = GroupNames(catalog)
        #: As of the last look, with their names, because a deleted topic has none any more.
        self._led: dict[GroupId, str] = {}
        self._repairing: dict[GroupId, str] = {}
        self._waiting: dict[GroupId, str] = {}
        self._repaired_counts: dict[GroupId, int] = {}
        self._forgotten_counts: dict[GroupId, dict[NodeId, int]] = {}
        #: None: not known yet.
        self._members: dict[NodeId, str] | None = None

    def look(self) -> None:
        self._look_at_leadership()
        self._look_at_repairs()
        self._look_at_reads()
        self._look_at_forgetting()
        self._look_at_clock()
        if self._catalog.is_complete:
            self._look_at_members()
        self._names.forget_except(self._replicas)

    def _look_at_leadership(self) -> None:
        before = self._led
        leading = [group for group, replica in self._replicas.items() if replica.raft.role == LEADER]
        if before.keys() == set(leading):
            return
        self._led = {group: before.get(group) or self._name(group) for group in leading}
        for event, groups in (("leads", self._led.keys() - before), ("leads no longer", before.keys() - self._led)):
            names = {**before, **self._led}
            by_reason: dict[str, list[str]] = {}
            for group in sorted(groups):
                by_reason.setdefault(self._reason(group), []).append(names[group])
            for reason, partitions in sorted(by_reason.items()):
                self._write(event, sorted(partitions), reason=reason, leading=len(leading))

    def _reason(self, group: GroupId) -> str:
        """Why leadership of the group began or ended. A replica that is gone was removed."""
        replica = self._replicas.get(group)
        return reasons.name_of(reasons.REMOVED if replica is None else replica.raft.leadership.latest)

    def _look_at_repairs(self) -> None:
        before, counts = self._repairing, dict(self._repaired)
        damaged = [group for group, replica in self._replicas.items() if replica.raft.damaged]
        if not damaged and not before and counts == self._repaired_counts:
            return
        self._repairing = {group: before.get(group) or self._name(group) for group in damaged}
        # A repair that began and ended between two looks shows in its count.
        gained = {group: count - self._repaired_counts.get(group, 0) for group, count in counts.items()}
        mended = {group: self._name(group) for group, entries in gained.items() if entries > 0}
        self._repaired_counts = counts
        self._write("repair begun", _without({**mended, **self._repairing}, before))
        entries = sum(gained[group] for group in mended)
        self._write("repair ended", _without({**mended, **before}, self._repairing), entries=entries)

    def _look_at_reads(self) -> None:
        before, files = self._waiting, self._stalled()
        if before.keys() == files.keys():
            return
        self._waiting = {group: before.get(group) or self._name(group) for group in files}
        names = _without(self._waiting, before)
        if names:
            paths = sorted(path for group, path in files.items() if group not in before)
            self._log.error(
                "the disk does not return reads",
                count=len(names),
                partitions=names[:_NAMED_MAX],
                paths=paths[:_NAMED_MAX],
            )
        self._write("the disk returns reads again", _without(before, self._waiting))

    def _look_at_forgetting(self) -> None:
        before = self._forgotten_counts
        counts = {group: replica.raft.forgotten_counts for group, replica in self._replicas.items()}
        self._forgotten_counts = {group: dict(count) for group, count in counts.items() if count}
        by_peer: dict[NodeId, list[str]] = {}
        for group, count in self._forgotten_counts.items():
            for peer in count:
                if count[peer] > before.get(group, {}).get(peer, 0):
                    by_peer.setdefault(peer, []).append(self._name(group))
        for peer, names in sorted(by_peer.items()):
            self._log.warning(
                "a replica has lost entries that it had acknowledged; it learns them again as a learner",
                peer=peer,
                count=len(names),
                partitions=sorted(names)[:_NAMED_MAX],
            )

    def _look_at_clock(self) -> None:
        clock = self._clock
        clock.now_ms()
        if clock.jump_count > self._jump_count:
            self._log.warning("this node's wall clock jumped; it is not followed", offset_s=clock.offset_ms / 1000)
        elif self._is_clock_off and not clock.is_off:
            self._log.info("this node's wall clock agrees with the cluster again")
        self._jump_count = clock.jump_count
        self._is_clock_off = clock.is_off

    def _look_at_members(self) -> None:
        before = self._members
        members = {node: broker.client_address for node, broker in sorted(self._catalog.brokers().items())}
        if members == before:
            return
        self._members = members
        if before is None:
            self._log.info(
                "the cluster is known",
                cluster=self._catalog.cluster_name,
                cluster_id=self._catalog.cluster_id,
                members=list(members),
            )
            return
        for member, address in members.items():
            if member not in before:
                self._log.info("member added", member=member, address=address)
        for member in before:
            if member not in members:
                self._log.info("member removed", member=member)

    def _name(self, group: GroupId) -> str:
        return str(self._names.of(group))

    def _write(self, event: str, names: list[str], **fields: object) -> None:
        if names:
            self._log.info(event, count=len(names), partitions=names[:_NAMED_MAX], **fields)


def _without(names: dict[GroupId, str], others: dict[GroupId, str]) -> list[str]:
    return sorted(name for group, name in names.items() if group not in others)
