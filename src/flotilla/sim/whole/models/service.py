"""The watch over the real brokers of a run: models of their partitions and of the metadata, told of every step.

For the length of a run it takes the places where brokers make their state machines and leaders, and clients their
members of stream groups, and puts subclasses there that do the same and report. A broken promise is not raised in a
broker, which would take it for a bug of one partition and go on without it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from flotilla import server
from flotilla.broker.cluster.hosting import Hosting
from flotilla.broker.partition import host
from flotilla.broker.queue import groups
from flotilla.broker.stream import coordinator
from flotilla.client.stream import _loop
from flotilla.metadata.values import Assignment, Topic
from flotilla.sim.checkers.violation import Violation
from flotilla.sim.devices.world import World
from flotilla.sim.whole.models.leader import (
    WatchedLeader,
    WatchedQueue,
    WatchedRequests,
    WatchedTransactions,
)
from flotilla.sim.whole.models.member import WatchedMember
from flotilla.sim.whole.models.metadata import OwnershipWatch, WatchedCatalog, WatchedSessions
from flotilla.sim.whole.models.partition import PartitionWatch, WatchedPartition
from flotilla.sim.whole.models.record import WatchRecord
from flotilla.types.ids import GroupId

#: Where brokers make what is watched.
_PLACES: Final[tuple[tuple[Any, str], ...]] = (
    (Hosting, "_machine_of"),
    (server, "CatalogMachine"),
    (coordinator, "StreamSessions"),
    (_loop, "StreamMember"),
    (groups, "QueueLeader"),
    (host, "PartitionQueue"),
    (host, "QueueRequests"),
    (host, "PartitionTransactions"),
)
#: What they make otherwise.
_ORIGINALS: Final = tuple([getattr(owner, name) for owner, name in _PLACES])


class ServiceWatch(WatchRecord):
    """One run."""

    def __init__(self, world: World, broken: Callable[[Violation], None], note: Callable[[str], None]) -> None:
        super().__init__(world, broken, note)
        self.partitions: dict[GroupId, PartitionWatch] = {}
        self.ownership = OwnershipWatch(self)

    def partition(self, group: GroupId, topic: Topic, number: int) -> PartitionWatch:
        self.topics.setdefault(topic.topic_id, topic)
        found = self.partitions.get(group)
        if found is None:
            found = self.partitions[group] = PartitionWatch(self, group, topic.topic_id, number)
        return found

    def is_settled(self) -> bool:
        """Whether no transaction is open in any partition."""
        return not any(partition.shadow.stages.open for partition in self.partitions.values())

    def judge(self) -> None:
        """At the end of a run. Raises Violation."""
        for partition in self.partitions.values():
            partition.shadow.stages.judge()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """All brokers that start meanwhile are watched."""

        def machine_of(hosting: Hosting, group: GroupId, assignment: Assignment) -> WatchedPartition:
            topic = hosting._catalog.machine.state.topics[assignment.topic_id]
            watched = self.partition(group, topic, assignment.partition)
            return WatchedPartition(watched, hosting._node, hosting._describe)

        watched: tuple[Any, ...] = (
            machine_of,
            partial(WatchedCatalog, self, self.ownership),
            partial(WatchedSessions, self),
            partial(WatchedMember, self.ownership),
            WatchedLeader,
            WatchedQueue,
            WatchedRequests,
            WatchedTransactions,
        )
        try:
            _put(watched)
            yield
        finally:
            _put(_ORIGINALS)


def _put(made: tuple[Any, ...]) -> None:
    for (owner, name), one in zip(_PLACES, made, strict=True):
        setattr(owner, name, one)
