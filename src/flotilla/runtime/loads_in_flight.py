"""The reads of logs that have not returned: their age, the groups that wait for too long, and who took those over."""

from flotilla.replica.ports import Load
from flotilla.types.ids import GroupId, NodeId


class LoadsInFlight:
    """Counts in ticks. Belongs to the driver."""

    __slots__ = ("_ages", "_rest_ticks", "_ticks_max", "_tried")

    def __init__(self, ticks_max: int, rest_ticks: int) -> None:
        """A group has stalled after `ticks_max`. An heir that was tried is left alone for `rest_ticks`."""
        self._ticks_max = ticks_max
        self._rest_ticks = rest_ticks
        self._ages: dict[Load, int] = {}
        #: Nodes to which leadership of a stalled group was transferred, with the ticks until they may get it again.
        self._tried: dict[tuple[GroupId, NodeId], int] = {}

    def begin(self, load: Load) -> None:
        self._ages[load] = 0

    def end(self, load: Load) -> None:
        del self._ages[load]

    def tick(self) -> None:
        for load in self._ages:
            self._ages[load] += 1
        self._tried = {tried: ticks - 1 for tried, ticks in self._tried.items() if ticks > 1}

    @property
    def is_scrubbing(self) -> bool:
        return any(load.is_background for load in self._ages)

    @property
    def stalled(self) -> dict[GroupId, str]:
        """Groups whose disk has not returned a read in time, with the file."""
        return {load.group: load.path for load, ticks in self._ages.items() if ticks >= self._ticks_max}

    def tried_heirs(self, group: GroupId) -> list[NodeId]:
        """Their disks may hang as well, and two such replicas would pass leadership to and fro."""
        return [node for stalled, node in self._tried if stalled == group]

    def try_heir(self, group: GroupId, node: NodeId) -> None:
        self._tried[group, node] = self._rest_ticks
