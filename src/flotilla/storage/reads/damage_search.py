"""The search for more damage in a log in which some was found.

Damage comes in clusters. A replica that learned of one place after the other would search while no entry arrives, and
fetch while nothing is searched. So the segments after a damaged place are read as soon as it is found, beside the
repair, and their damage is reported like that which a reader finds. The search stays a little ahead of the repair.
"""

from collections.abc import Mapping
from typing import Protocol

from flotilla.storage.ports import Disk
from flotilla.storage.reads.loads import SegmentRead
from flotilla.storage.reads.scrubber import AnyLog, report_found
from flotilla.storage.segment import Segment, walk_file
from flotilla.types.ids import GroupId, Index
from flotilla.types.limits import MIB

#: With damage in this many segments, the repair has enough to do.
_SEGMENTS_AHEAD = 4
_READ_BYTES = 1 * MIB


class DamageSearch(SegmentRead):
    """Reads one segment from `low` to its end. Implements `Load`."""

    __slots__ = ("found",)

    def __init__(self, disk: Disk, segment: Segment, low: Index) -> None:
        super().__init__(disk, segment, low, is_background=True)
        #: The damaged ranges, once `run` has returned.
        self.found: list[tuple[Index, Index]] = []

    def run(self) -> None:
        file = self._disk.open(self.path)
        try:
            walk = walk_file(file, self._segment, self._end, *self._place, self.low, _READ_BYTES)
            self.found = [(step.index, step.next_index) for _, step in walk if step.stored is None]
        finally:
            file.close()


class SearchedLog(AnyLog, Protocol):
    """A group's log, as a search needs it."""

    def is_damaged_in(self, segment: Segment) -> bool: ...


class DamageSearches:
    """At most one at a time for each group. Belongs to the loop."""

    __slots__ = ("_disk", "_lows", "_running")

    def __init__(self, disk: Disk, lows: dict[GroupId, Index]) -> None:
        """`lows`: the logs to be searched, and from where on."""
        self._disk = disk
        self._lows = lows
        self._running: set[GroupId] = set()

    def plan(self, logs: Mapping[GroupId, SearchedLog]) -> list[DamageSearch]:
        return [search for group in list(self._lows) if (search := self._next(group, logs.get(group))) is not None]

    def _next(self, group: GroupId, log: SearchedLog | None) -> DamageSearch | None:
        if group in self._running:
            return None
        low = self._lows[group]
        segment = None if log is None else next((one for one in log.segments if one.last_index >= low), None)
        if log is None or segment is None:
            del self._lows[group]
            return None
        if sum(map(log.is_damaged_in, log.segments)) >= _SEGMENTS_AHEAD:
            return None
        self._running.add(group)
        return DamageSearch(self._disk, segment, max(low, segment.first_index))

    def finish(self, search: DamageSearch, log: SearchedLog | None) -> None:
        """The segment was read, or could not be: then the search goes on after it. `log` is None if it is gone."""
        self._running.discard(search.group)
        self._lows[search.group] = search.last_index + 1
        if log is not None:
            for low, high in search.found:
                report_found(log, low, high)
