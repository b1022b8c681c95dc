"""One group's place among the messages that have a time of delivery and are due: what it knows to be ready, and what
it has still to read.

However much is due, each call reads a bounded part of it. A group begins with what was due before it, which it finds
in the index, and goes on with what came due since, in that order (`delays`). It reads higher priorities first, so
that whoever is served while it is behind is served by priority.

What is read twice, or was taken or settled meanwhile, does no harm: only what nobody has becomes ready.
"""

from collections.abc import Iterator
from typing import Final

from flotilla.partition.leader.delays import Delays
from flotilla.partition.leader.ready_messages import Chosen, ReadyMessages
from flotilla.partition.state.batch_index import PRIORITIES, Stretch
from flotilla.partition.state.group import GroupState
from flotilla.partition.state.machine import PartitionMachine

#: Runs that one call makes ready, unless it is told otherwise; the rest is left to the next.
DUE_LIMIT: Final = 512

_BY_PRIORITY: Final = tuple(range(PRIORITIES - 1, -1, -1))
#: Stretches that one call looks at, whatever it finds.
_LOOKS_MAX: Final = 8_192
#: Stretches of other times and priorities that are passed over in one look: that costs little.
_SKIPS_MAX: Final = 64


class DueCursor:
    """Of one group at one leader."""

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
        #: Where it stands in the lists of what came due, by priority, and how much it has read of all of them.
        self.positions = delays.positions()
        self._read_count = delays.due_count
        #: What was due before it and lies in front of `_past_end`: the priorities that are not read to their end,
        #: the one that is being read last, and how far that is.
        self._past_ms = delays.now_ms
        self._past_end = machine.next_offset
        self._past_priorities = machine.index.delayed_priorities_present() if state.floor < self._past_end else []
        self._past_offset = state.floor
        #: What is left of the stretch that was read last.
        self._rest: Stretch | None = None
        #: Somebody has asked for what is due, and it was not read to its end: that goes on by itself.
        self.is_reading = False

    @property
    def is_behind(self) -> bool:
        """Whether there may be something to read."""
        return self._read_count < self._delays.due_count or bool(self._past_priorities) or self._rest is not None

    def read(self, count_max: int = DUE_LIMIT) -> bool:
        """Makes ready what can be delivered, so many runs at most. Whether there was any; `is_reading` if not all."""
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
        """The parts of one stretch that nobody has. What is too much for this call is for the next."""
        at, end = stretch.first, stretch.end
        while (free := self._ready.first_free(at, end)) is not None:
            if len(found) == count_max:
                self._rest = stretch._replace(first=free[0])
                return
            at = free[1]
            found.append((free[0], at, stretch.priority))

    def _unread(self) -> Iterator[Stretch | None]:
        """All that is due; None for a look in vain. What it has told counts as read."""
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
            # However long the run of settled messages before it, it was one look.
            stretch, self._past_offset = index.next_due(gap[0], self._past_end, priority, self._past_ms, _SKIPS_MAX)
            yield stretch
