"""Transfers of leadership away from a node whose disk is slow, does not return a read, or has no room."""

from collections.abc import Callable, Iterable, Mapping

from flotilla.raft import reasons
from flotilla.replica.replica import Replica
from flotilla.runtime.leadership.rooms import ROOMY, Rooms
from flotilla.types.ids import NO_NODE, GroupId, NodeId


class Handovers:
    """Counts in ticks. Belongs to the driver."""

    __slots__ = ("_delayed_ticks", "_hand_over", "_rest_ticks", "_rooms", "_slow_ticks_max", "_step_down", "_tried")

    def __init__(
        self,
        rooms: Rooms,
        *,
        hand_over: Callable[[Replica, NodeId, int], None],
        step_down: Callable[[Replica, int], None],
        slow_ticks_max: int,
        rest_ticks: int,
    ) -> None:
        """`slow_ticks_max`: a disk that delays commits for longer is slow.

        A node that was tried is left alone for `rest_ticks`: its disk may be bad as well, and two such replicas would
        pass leadership to and fro.
        """
        self._rooms = rooms
        self._hand_over = hand_over
        self._step_down = step_down
        self._slow_ticks_max = slow_ticks_max
        self._rest_ticks = rest_ticks
        #: A leaky count of the ticks in which this disk delayed a commit.
        self._delayed_ticks = 0
        #: With the ticks until the node may get the leadership again.
        self._tried: dict[tuple[GroupId, NodeId], int] = {}

    def tick(self, replicas: Mapping[GroupId, Replica], stalled: Iterable[GroupId], *, is_late: bool) -> None:
        """`stalled`: groups with reads that do not return. `is_late`: a block has been written for at least a tick.

        Where all disks are full, leadership stays: the next leader would need a quorum for the first entry of its term,
        and for the records before it.
        """
        self._tried = {tried: ticks - 1 for tried, ticks in self._tried.items() if ticks > 1}
        self._rooms.tick()
        self._watch_writes(list(replicas.values()) if is_late else [])
        self._pass_on([replicas[group] for group in stalled if group in replicas], reasons.SLOW_DISK)
        if self._rooms.own != ROOMY:
            self._pass_on(list(replicas.values()), reasons.FULL_DISK)
        for replica in [] if self._rooms.are_ample else list(replicas.values()):
            if self._rooms.is_stuck(replica):
                # The others stand first.
                replica.raft.is_reluctant = True
                self._step_down(replica, reasons.FULL_DISK)

    def _pass_on(self, replicas: Iterable[Replica], reason: int) -> None:
        """Transfers leadership of each replica that leads to a voter that lacks nothing, if there is one.

        A voter that lacks entries might wait for the same file. One without room would not lead for long.
        """
        short_peers = self._rooms.short_peers()
        for replica in replicas:
            tried = [node for group, node in self._tried if group == replica.group]
            heir = replica.complete_heir(short_peers.union(tried))
            if heir != NO_NODE:
                self._tried[replica.group, heir] = self._rest_ticks
                self._hand_over(replica, heir, reason)

    def _watch_writes(self, replicas: Iterable[Replica]) -> None:
        """Transfers leadership away from a slow disk: a leader waits for its own writes before it replies.

        Where all disks are slow, no peer is quicker most of the time, and leadership stays. `replicas`: none if no
        block is late.
        """
        heirs = {replica: replica.quicker_heir() for replica in replicas}
        is_delayed = any(heir != NO_NODE for heir in heirs.values())
        self._delayed_ticks = self._delayed_ticks + 1 if is_delayed else max(self._delayed_ticks - 1, 0)
        if self._delayed_ticks >= self._slow_ticks_max:
            self._delayed_ticks = 0
            for replica, heir in heirs.items():
                if heir != NO_NODE:
                    self._hand_over(replica, heir, reasons.SLOW_DISK)
