"""Transfers of leadership away from a node whose disk is slow, does not return a read, or has no room."""

from collections.abc import Callable, Collection, Iterable

from flotilla.raft import reasons
from flotilla.replica.replica import Replica
from flotilla.types.ids import NO_NODE, GroupId, NodeId


class Handovers:
    """Counts in ticks. Belongs to the driver."""

    __slots__ = ("_delayed_ticks", "_rest_ticks", "_slow_ticks_max", "_transfer", "_tried")

    def __init__(
        self, transfer: Callable[[Replica, NodeId, int], None], *, slow_ticks_max: int, rest_ticks: int
    ) -> None:
        """`slow_ticks_max`: a disk that delays commits for longer is slow.

        A node that was tried is left alone for `rest_ticks`: its disk may be bad as well, and two such replicas would
        pass leadership to and fro.
        """
        self._transfer = transfer
        self._slow_ticks_max = slow_ticks_max
        self._rest_ticks = rest_ticks
        #: A leaky count of the ticks in which this disk delayed a commit.
        self._delayed_ticks = 0
        #: With the ticks until the node may get the leadership again.
        self._tried: dict[tuple[GroupId, NodeId], int] = {}

    def tick(self) -> None:
        if self._tried:
            self._tried = {tried: ticks - 1 for tried, ticks in self._tried.items() if ticks > 1}

    def pass_on(self, replicas: Iterable[Replica], reason: int, short_peers: Collection[NodeId]) -> None:
        """Transfers leadership of each replica that leads to a voter that lacks nothing, if there is one.

        A voter that lacks entries might wait for the same file. One without room would not lead for long.
        """
        for replica in list(replicas):
            tried = [node for group, node in self._tried if group == replica.group]
            heir = replica.complete_heir([*tried, *short_peers])
            if heir != NO_NODE:
                self._tried[replica.group, heir] = self._rest_ticks
                self._transfer(replica, heir, reason)

    def watch_writes(self, replicas: Iterable[Replica], *, is_late: bool) -> None:
        """Transfers leadership away from a slow disk: a leader waits for its own writes before it replies.

        Where all disks are slow, no peer is quicker most of the time, and leadership stays. `is_late`: a block has been
        written for at least a tick.
        """
        heirs = {replica: replica.quicker_heir() for replica in replicas} if is_late else {}
        is_delayed = any(heir != NO_NODE for heir in heirs.values())
        self._delayed_ticks = self._delayed_ticks + 1 if is_delayed else max(self._delayed_ticks - 1, 0)
        if self._delayed_ticks >= self._slow_ticks_max:
            self._delayed_ticks = 0
            for replica, heir in heirs.items():
                if heir != NO_NODE:
                    self._transfer(replica, heir, reasons.SLOW_DISK)
