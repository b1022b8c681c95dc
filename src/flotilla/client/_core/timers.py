"""Timers on a clock that the driver of the session advances."""

from collections.abc import Callable
from heapq import heappop, heappush


class Timer:
    """One action at one time, unless it is cancelled before."""

    __slots__ = ("action", "when_ms")

    def __init__(self, when_ms: int, action: Callable[[], None]) -> None:
        self.when_ms = when_ms
        self.action: Callable[[], None] | None = action

    def cancel(self) -> None:
        self.action = None


class Timers:
    __slots__ = ("_count", "_heap")

    def __init__(self) -> None:
        #: The count keeps timers of equal times in the order in which they were set.
        self._heap: list[tuple[int, int, Timer]] = []
        self._count = 0

    def at(self, when_ms: int, action: Callable[[], None]) -> Timer:
        timer = Timer(when_ms, action)
        self._count += 1
        heappush(self._heap, (when_ms, self._count, timer))
        return timer

    @property
    def next_ms(self) -> int | None:
        """The time of the next timer; None: there is none."""
        while self._heap and self._heap[0][2].action is None:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def run(self, now_ms: int) -> None:
        """Runs every timer that is due. A timer that one of them sets waits for the next call."""
        due = []
        while (next_ms := self.next_ms) is not None and next_ms <= now_ms:
            due.append(heappop(self._heap)[2])
        for timer in due:
            action = timer.action
            if action is not None:
                timer.action = None
                action()


class Alarm:
    """One timer with one action, which is set again and again."""

    __slots__ = ("_action", "_timer", "_timers")

    def __init__(self, timers: Timers, action: Callable[[], None]) -> None:
        self._timers = timers
        self._action = action
        self._timer: Timer | None = None

    @property
    def when_ms(self) -> int | None:
        """None: it is not set, or has run."""
        timer = self._timer
        return None if timer is None or timer.action is None else timer.when_ms

    def set(self, when_ms: int | None) -> None:
        """Moves it to this time; None cancels it."""
        timer = self._timer
        if timer is None:
            if when_ms is None:
                return
        elif timer.when_ms == when_ms and timer.action is not None:
            return
        else:
            timer.cancel()
        self._timer = None if when_ms is None else self._timers.at(when_ms, self._action)

    def set_by(self, when_ms: int) -> None:
        """Moves it forward to this time. One that is earlier stays, and sets the next one when it runs."""
        set_ms = self.when_ms
        if set_ms is None or set_ms > when_ms:
            self.set(when_ms)


def earliest_ms(*times_ms: int | None) -> int | None:
    """The first of the times that are given; None: none is."""
    return min([time_ms for time_ms in times_ms if time_ms is not None], default=None)
