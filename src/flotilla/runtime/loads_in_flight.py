"""The reads of logs that have not returned: their age, and the groups that wait for too long."""

from flotilla.replica.ports import Load
from flotilla.types.ids import GroupId


class LoadsInFlight:
    """Counts in ticks. Belongs to the driver."""

    __slots__ = ("_ages", "_ticks_max")

    def __init__(self, ticks_max: int) -> None:
        """A group has stalled after `ticks_max`."""
        self._ticks_max = ticks_max
        self._ages: dict[Load, int] = {}

    def begin(self, load: Load) -> None:
        self._ages[load] = 0

    def end(self, load: Load) -> None:
        del self._ages[load]

    def tick(self) -> None:
        for load in self._ages:
            self._ages[load] += 1

    @property
    def is_scrubbing(self) -> bool:
        return any(load.is_background for load in self._ages)

    @property
    def stalled(self) -> dict[GroupId, str]:
        """Groups whose disk has not returned a read in time, with the file."""
        return {load.group: load.path for load, ticks in self._ages.items() if ticks >= self._ticks_max}
