"""The end of a run: every group has a leader, and every replica of it has all that the group had stored by then.

The replicas of a partition are where the metadata want them: every move has ended.

Clients prove no more than that a majority goes on. A replica that stays behind, or keeps damage that others could mend,
is one that the next fault takes for a good one.
"""

from collections.abc import Iterator

from flotilla.broker.catalog import METADATA_GROUP
from flotilla.broker.cluster import moves
from flotilla.metadata.values import Partition
from flotilla.raft.roles import LEADER
from flotilla.replica.replica import Replica
from flotilla.sim.whole.cluster import Broker
from flotilla.sim.whole.watch import name_of
from flotilla.types.ids import GroupId, Index, NodeId


class Convergence:
    def __init__(self, brokers: list[Broker]) -> None:
        """`brokers` are those that have healed; the others are never waited for."""
        self._brokers = {broker.node: broker for broker in brokers}
        #: What each group had stored when its leader was first seen here.
        self._targets: dict[GroupId, Index] = {}
        #: What is missing, at the last look.
        self.missing: list[str] = []

    def is_reached(self) -> bool:
        metadata = self._leader(METADATA_GROUP)
        server = None if metadata is None else self._brokers[metadata[0]].server
        if server is None:
            self.missing = ["a leader of the metadata"]
            return False
        assignments = server.catalog.machine.state.assignments
        groups = [METADATA_GROUP, *sorted(assignments)]
        lacks = [(group, what) for group in groups for what in self._lacks(group)]
        lacks += [(group, what) for group in sorted(assignments) for what in self._moves(assignments[group].place)]
        self.missing = [f"{name_of(server, group)}: {what}" for group, what in lacks]
        return not self.missing

    def _lacks(self, group: GroupId) -> Iterator[str]:
        found = self._leader(group)
        if found is None:
            yield "a leader"
            return
        raft = found[1].raft
        target = self._targets.setdefault(group, raft.log.last_index)
        for node in raft.configuration.members():
            if node not in self._brokers:
                continue
            replica = self._replica(node, group)
            if replica is None:
                yield f"a replica at broker {node}"
            elif replica.applied < target:
                yield f"broker {node} has applied {replica.applied} of {target}"
            elif replica.raft.damaged:
                yield f"broker {node} keeps damage at {replica.raft.damaged}"

    def _moves(self, place: Partition) -> Iterator[str]:
        """What is left of a move, or of a replica that was lost, to brokers that are there."""
        found = self._leader(place.group)
        if found is None or any(node not in self._brokers for node in place.wanted):
            return
        if place.lost:
            yield f"the lost replicas of brokers {place.lost} come back"
        if place.move is not None or not moves.is_settled(found[1].raft.configuration, place):
            yield f"{found[1].raft.configuration.members()} become {place.wanted}"

    def _leader(self, group: GroupId) -> tuple[NodeId, Replica] | None:
        """The one of the highest term: an earlier one may not know yet that it is deposed."""
        replicas = [(node, self._replica(node, group)) for node in self._brokers]
        leaders = [(node, replica) for node, replica in replicas if replica is not None and replica.raft.role == LEADER]
        return max(leaders, key=lambda each: each[1].raft.term, default=None)

    def _replica(self, node: NodeId, group: GroupId) -> Replica | None:
        broker = self._brokers[node]
        if not broker.is_running or broker.server is None:
            return None
        return broker.server.node.runtime.driver.replicas.get(group)
