"""A whole disk that is put back to an earlier state, as people do with backups and images of machines.

The broker on it has forgotten entries that it acknowledged and votes that it gave. The others have seen a later start
of its data directory, and refuse it: it takes part in nothing, and ends. Then its disk counts as lost.
"""

from dataclasses import dataclass
from typing import Final

from flotilla.broker.catalog import METADATA_GROUP
from flotilla.sim.checkers.disk_shadow import DurableLog
from flotilla.sim.devices.disk import Directory
from flotilla.sim.devices.world import MS, SECOND
from flotilla.sim.whole.cluster import Broker
from flotilla.sim.whole.faults.operator import Operator
from flotilla.sim.whole.faults.trouble import Trouble
from flotilla.types.ids import GroupId

#: Between two looks at a disk that is being written, and at brokers that have not heard of a start.
_LOOK_US: Final = 50 * MS
_WAIT_US: Final = 1 * SECOND
_LOOKS_MAX: Final = 20


@dataclass(frozen=True, slots=True)
class _Image:
    """Everything durable on a broker's disk, what each of its logs was then, and of which start it is."""

    directory: Directory
    logs: dict[GroupId, DurableLog]
    starts: int


class BackupFaults:
    def __init__(self, trouble: Trouble, operator: Operator) -> None:
        self._trouble = trouble
        self._operator = operator
        self._image: _Image | None = None
        #: The victim stands on the image.
        self._is_put_back = False

    def put_back(self) -> None:
        """Once in a run: an image now, a restart, and some time later the image."""
        broker = self._victim()
        if self._image is None and broker.is_running and self._may_fall(broker):
            self._copy(broker, broker.start_count, _LOOKS_MAX)

    def _victim(self) -> Broker:
        return self._trouble.cluster.brokers[self._trouble.victim]

    def _may_fall(self, broker: Broker) -> bool:
        trouble = self._trouble
        is_free = broker.node not in trouble.held | trouble.removed | self._operator.leaving
        return is_free and not trouble.is_victim_damaged and trouble.can_spare({broker.node})

    def _copy(self, broker: Broker, start: int, looks: int) -> None:
        server = broker.server
        if self._image is not None or not looks or server is None or broker.start_count != start:
            return
        starts = server.node.network.own.starts
        observers = self._trouble.simulation.watch.observers
        shadows = {group: observers[group].durability.shadow.get(broker.node) for group in server.node.store.groups}
        has_all = METADATA_GROUP in shadows and all(each and not each.in_flight for each in shadows.values())
        if not broker.is_running or not starts or not has_all:
            self._trouble.later(_LOOK_US, self._copy, broker, start, looks - 1)
            return
        logs = {group: shadow.durable.copy() for group, shadow in shadows.items() if shadow is not None}
        self._image = _Image(broker.host.disk.durable_image(), logs, starts)
        self._trouble.tell(broker, "loses power after an image of its disk was made")
        broker.cut_power()
        self._trouble.later(_WAIT_US, self._start, broker)
        self._trouble.later(5 * _WAIT_US, self._restore, broker, self._image, _LOOKS_MAX)

    def _start(self, broker: Broker) -> None:
        if not broker.is_up and broker.node not in self._trouble.held | self._trouble.removed:
            self._trouble.tell(broker, "starts")
            broker.start()

    def _restore(self, broker: Broker, image: _Image, looks: int) -> None:
        trouble = self._trouble
        if not looks:
            return
        if not self._may_fall(broker) or not self._is_known(broker, image):
            trouble.later(_WAIT_US, self._restore, broker, image, looks - 1)
            return
        trouble.tell(broker, "has its disk put back to the image")
        broker.cut_power()
        broker.host.disk.put_back(image.directory)
        trouble.simulation.watch.put_back(broker.node, image.logs)
        trouble.held.add(broker.node)
        trouble.is_victim_damaged = self._is_put_back = True
        broker.start()

    def _is_known(self, broker: Broker, image: _Image) -> bool:
        """Every other member knows of a later start."""
        for other in self._trouble.members():
            if other is not broker:
                known = None if other.server is None else other.server.catalog.brokers().get(broker.node)
                if not other.is_running or known is None or known.starts <= image.starts:
                    return False
        return True

    def expelled(self, broker: Broker, code: str) -> bool:
        if code != "OLDER_DATA" or not self._is_put_back or broker is not self._victim():
            return False
        self._trouble.tell(broker, "learns that its disk is older than the cluster knows, and ends")
        self._trouble.simulation.note("earlier disk refused")
        self._trouble.later(self._trouble.length_us(), self._join_again)
        return True

    def _join_again(self) -> None:
        if self._is_put_back:
            self.finish()
            self._operator.join_again(self._victim())

    def finish(self) -> None:
        """The disk that was put back is emptied: the broker joins again as one whose disk is lost."""
        if self._is_put_back:
            self._is_put_back = False
            broker = self._victim()
            broker.cut_power()
            broker.host.disk.wipe()
            self._trouble.simulation.watch.wiped(broker.node)
