"""The cursor of one group over messages whose time of delivery has come: it makes them ready.

However many messages are due, each call reads a bounded number. A group begins with the messages that were due before
it existed, which it finds in the index, and goes on with those that came due since, in that order (`delays`). It reads
higher priorities first, so that polls are served by priority while it is behind.

Messages that are read twice, or were taken or settled meanwhile, do no harm: only free messages become ready.
"""

from collections.abc import Iterator
from typing import Final

from flotilla.partition.leader.delays import Delays
from flotilla.partition.leader.ready_messages import Chosen, ReadyMessages
from flotilla.partition.state.batch_index import PRIORITIES, Stretch
from flotilla.partition.state.group import GroupState
from flotilla.partition.state.machine import PartitionMachine

#: Runs that one call makes ready by default; the rest is left to the next call.
DUE_LIMIT: Final = 512

_BY_PRIORITY: Final = tuple(range(PRIORITIES - 1, -1, -1))
#: Bounds the time of a call that finds little.
_LOOKS_MAX: Final = 8_192
#: Stretches of other times and priorities that one look may pass over: that costs little.
_SKIPS_MAX: Final = 64


class DueCursor:
    __slots__ = (
        "_delays",
        "_machine",
        "_past_end",
        "_past_ms",
        "_past_offset",
        "_past_priorities",
        "_read_count",
        "_ready",
        "_rest",
        "_state",
        "is_reading",
        "positions",
    )

    def __init__(self, machine: PartitionMachine, delays: Delays, state: GroupState, ready: ReadyMessages) -> None:
        self._machine = machine
        self._delays = delays
        self._state = state
        self._ready = ready
        #: The position in the due list of each priority, and the count of stretches read of all lists.
        self.positions = delays.positions()
        self._read_count = delays.due_count
        #: Messages below `_past_end` that were due before the group existed: the priorities still to be read, the
        #: current one last, and the offset that it has reached.
        self._past_ms = delays.now_ms
        self._past_end = machine.next_offset
        self._past_priorities = machine.index.delayed_priorities_present() if state.floor < self._past_end else []
        self._past_offset = state.floor
        #: The unread rest of the last stretch.
        self._rest: Stretch | None = None
        #: The last `read` was not the end: the leader lets it go on.
        self.is_reading = False

    @property
    def is_behind(self) -> bool:
        """Whether there may be something to read."""
        return self._read_count < self._delays.due_count or bool(self._past_priorities) or self._rest is not None

    def read(self, count_max: int = DUE_LIMIT) -> bool:
        """Makes up to `count_max` runs ready. Returns whether there were any; `is_reading`: there may be more."""
        found = self._next(count_max)
        for first, end, priority in found:
            self._ready.put_due(first, end, priority)
        self.is_reading = self.is_behind
        return bool(found)

    def _next(self, count_max: int) -> list[Chosen]:
        found: list[Chosen] = []
        looks = _LOOKS_MAX
        for stretch in self._unread():
            looks -= 1
            if stretch is not None:
                self._find_free(stretch, count_max, found)
            if not looks or len(found) == count_max:
                break
        return found

    def _find_free(self, stretch: Stretch, count_max: int, found: list[Chosen]) -> None:
        """Adds the free parts of one stretch. The rest beyond `count_max` is kept for the next call."""
        at, end = stretch.first, stretch.end
        while (free := self._ready.first_free(at, end)) is not None:
            if len(found) == count_max:
                self._rest = stretch._replace(first=free[0])
                return
            at = free[1]
            found.append((free[0], at, stretch.priority))

    def _unread(self) -> Iterator[Stretch | None]:
        """Due stretches; None for a look that found nothing. A stretch that was returned counts as read."""
        if self._rest is not None:
            rest, self._rest = self._rest, None
            yield rest
        for priority in _BY_PRIORITY:
            if self._past_priorities and self._past_priorities[-1] == priority:
                yield from self._past(priority)
                self._past_priorities.pop()
                self._past_offset = self._state.floor
            while self.positions[priority] < self._delays.position(priority):
                position = self.positions[priority]
                self.positions[priority] += 1
                self._read_count += 1
                yield self._delays.due_at(priority, position, self._machine.log_start)

    def _past(self, priority: int) -> Iterator[Stretch | None]:
        index, settled = self._machine.index, self._state.settled
        while (gap := settled.first_gap(max(self._past_offset, self._state.floor), self._past_end)) is not None:
            # Skipping a run of settled messages is one look, however long it is.
            stretch, self._past_offset = index.next_due(gap[0], self._past_end, priority, self._past_ms, _SKIPS_MAX)
            yield stretch
