"""The room on the disks of a node and of its peers, as far as replicas depend on it.

A node without room says so several times a second. A peer that has not said so for a while has room.
"""

from typing import Final

from flotilla.raft import quorum
from flotilla.raft.messages import Configuration
from flotilla.raft.roles import LEADER
from flotilla.replica.replica import Replica
from flotilla.types.errors import DiskFullError
from flotilla.types.ids import GroupId, Index, NodeId

# What nodes tell each other. Protocol: the numbers never change.
ROOMY: Final = 0
#: Less than the watermark `disk_refuse_free`: the node stores what leaders send, but should not lead.
SHORT: Final = 1
#: None: the node takes hardly any records, and then only what frees space.
FULL: Final = 2


class Rooms:
    """Counts in ticks. Belongs to the driver."""

    __slots__ = ("_node", "_patience", "_peers", "_rest_ticks", "_stuck", "own")

    def __init__(self, node: NodeId, rest_ticks: int) -> None:
        """After `rest_ticks` without news a peer has room, and a leader without progress is stuck."""
        self._node = node
        self._rest_ticks = rest_ticks
        self.own = ROOMY
        #: With the ticks until the news is outdated.
        self._peers: dict[NodeId, tuple[int, int]] = {}
        #: Groups whose quorum has no room: the last committed index, and for how many ticks it has been that.
        self._stuck: dict[GroupId, tuple[Index, int]] = {}
        #: After how many ticks such a group is stuck, if it was stuck before: each election uses some of the reserves.
        self._patience: dict[GroupId, int] = {}

    def heard(self, peer: NodeId, room: int) -> None:
        self._peers[peer] = room, self._rest_ticks
        if room == ROOMY:
            del self._peers[peer]

    def forget(self, peer: NodeId) -> None:
        self._peers.pop(peer, None)

    def tick(self) -> None:
        if self._peers:
            self._peers = {peer: (room, ticks - 1) for peer, (room, ticks) in self._peers.items() if ticks > 1}
        if self.are_ample:
            self._stuck.clear()
            self._patience.clear()

    @property
    def are_ample(self) -> bool:
        """Every disk has room, as far as this node knows."""
        return self.own == ROOMY and not self._peers

    def short_peers(self) -> set[NodeId]:
        """Those that should not lead."""
        return set(self._peers)

    def refusal(self, configuration: Configuration) -> DiskFullError | None:
        """Why a group takes no records: too many of its voters have no room for them. None: it does."""
        full = [peer for peer, (room, _) in self._peers.items() if room == FULL]
        if self.own == FULL:
            full.append(self._node)
        if not full or quorum.vote_result(configuration, dict.fromkeys(full, False)) != quorum.LOST:
            return None
        names = ", ".join(map(str, sorted(full)))
        return DiskFullError(f"the disks of nodes {names} are full, and no majority of the replicas has room")

    def is_stuck(self, replica: Replica) -> bool:
        """Whether a leader has had records for a while that its quorum has no room for.

        What frees space waits behind them in its log. Another replica may have a log without them.
        """
        raft, log = replica.raft, replica.raft.log
        is_waiting = raft.role == LEADER and log.committed < log.last_index
        if not is_waiting or self.refusal(raft.configuration) is None:
            self._stuck.pop(replica.group, None)
            return False
        committed, ticks = self._stuck.get(replica.group, (log.committed, 0))
        patience = self._patience.get(replica.group, self._rest_ticks)
        if committed == log.committed and ticks >= patience:
            del self._stuck[replica.group]
            self._patience[replica.group] = 2 * patience
            return True
        self._stuck[replica.group] = log.committed, ticks + 1 if committed == log.committed else 0
        return False
