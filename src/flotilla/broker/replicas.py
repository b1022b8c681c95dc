"""The replicas of a partition and how far each has come, as its leader sees them."""

from collections.abc import Callable, Collection

from flotilla.raft.roles import LEADER as LEADS
from flotilla.replica.replica import Replica
from flotilla.types.errors import NotLeaderError
from flotilla.types.ids import NodeId
from flotilla.types.operations.cluster import LEADER, LEARNER, LOST, VOTER, ReplicaInfo, ReplicasDescribed


def describe_replicas(replica: Replica, is_up: Callable[[NodeId], bool], lost: Collection[NodeId]) -> ReplicasDescribed:
    """`lost` are replicas without their disk, members or not. Raises NotLeaderError."""
    raft = replica.raft
    if raft.role != LEADS:
        raise NotLeaderError(raft.leader)
    size_bytes = replica.log.size_bytes()
    entries = max(1, raft.log.last_index - raft.log.base)
    described = []
    for node, progress in raft.progress.items():
        behind = max(0, raft.log.last_index - max(progress.match, raft.log.base))
        role = LEADER if node == raft.id else VOTER if raft.configuration.is_voter(node) else LEARNER
        if node in lost:
            role = LOST
            behind = entries
        described.append(ReplicaInfo(node, role, is_up(node), behind, size_bytes * behind // entries))
    return ReplicasDescribed(described, size_bytes)
