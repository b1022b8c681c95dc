"""The replicas that a node hosts: which have pending work, which need ticks, and which are cut off.

An exception from the code of one group, its consensus or its state machine, cuts that replica off: it is out of
operation here until the node starts again, as if its node had crashed, and all other groups go on.
"""

from collections.abc import Callable
from typing import Concatenate, ParamSpec

from flotilla.raft import reasons
from flotilla.replica.replica import Replica
from flotilla.types.ids import GroupId

P = ParamSpec("P")


class HostedReplicas:
    def __init__(self, group_failed: Callable[[GroupId, Exception], None]) -> None:
        self.replicas: dict[GroupId, Replica] = {}
        #: Groups that are cut off, and why. Their data stay in the store.
        self.failed: dict[GroupId, Exception] = {}
        self._group_failed = group_failed
        #: Messages with a term that no election can have reached: they are forged, and were ignored.
        self.impossible_messages = 0
        #: How often leadership began (True) or ended (False), for each reason, in replicas that are gone.
        self._past_leaderships: dict[tuple[bool, int], int] = {}
        #: Replicas with pending work, and those that need ticks (all but the quiescent ones).
        self._touched: dict[GroupId, Replica] = {}
        self._awake: dict[GroupId, Replica] = {}

    def leaderships(self) -> dict[tuple[bool, int], int]:
        """How often leadership of a group began (True) or ended (False) here, for each of raft.reasons."""
        counts = dict(self._past_leaderships)
        for replica in self.replicas.values():
            reasons.add_counts(counts, replica.raft.leadership.counts)
        return counts

    def _forget(self, group: GroupId) -> None:
        replica = self.replicas.get(group)
        if replica is not None:
            reasons.add_counts(self._past_leaderships, replica.raft.leadership.counts)
        for table in (self.replicas, self._touched, self._awake):
            table.pop(group, None)

    def cut_off(self, group: GroupId, failure: Exception) -> None:
        """Takes a group out of operation on this node, until it starts again. No effect if it is already."""
        if group in self.failed:
            return
        self.failed[group] = failure
        self._forget(group)
        self._group_failed(group, failure)

    def _contained(
        self, work: Callable[Concatenate[Replica, P], None], replica: Replica, *args: P.args, **kwargs: P.kwargs
    ) -> None:
        """Does one step of a replica; an exception cuts its group off."""
        try:
            work(replica, *args, **kwargs)
        except Exception as failure:
            self.cut_off(replica.group, failure)

    def _touch(self, replica: Replica) -> None:
        if self.replicas.get(replica.group) is not replica:
            return
        self._touched[replica.group] = replica
        if not replica.raft.quiescent:
            self._awake[replica.group] = replica

    def _touch_if_ready(self, replica: Replica) -> None:
        """Skips a turn for messages without effect, such as the second follower's reply to a committed entry."""
        if replica.raft.has_ready():
            self._touch(replica)
        elif not replica.raft.quiescent and self.replicas.get(replica.group) is replica:
            self._awake[replica.group] = replica

    def _is_gone(self, replica: Replica | None) -> bool:
        """Whether the replica's group was dropped or cut off meanwhile. A new replica of it may exist since."""
        return replica is not None and self.replicas.get(replica.group) is not replica
