"""Things to do later, on a clock that somebody else turns."""

from collections.abc import Callable
from heapq import heappop, heappush


class Timer:
    """One thing to do at one time, unless it is cancelled before."""

    __slots__ = ("action", "when_ms")

    def __init__(self, when_ms: int, action: Callable[[], None]) -> None:
        self.when_ms = when_ms
        self.action: Callable[[], None] | None = action

    def cancel(self) -> None:
        self.action = None


class Timers:
    __slots__ = ("_count", "_heap")

    def __init__(self) -> None:
        #: The count makes equal times happen in the order in which they were asked for.
        self._heap: list[tuple[int, int, Timer]] = []
        self._count = 0

    def at(self, when_ms: int, action: Callable[[], None]) -> Timer:
        timer = Timer(when_ms, action)
        self._count += 1
        heappush(self._heap, (when_ms, self._count, timer))
        return timer

    @property
    def next_ms(self) -> int | None:
        """When something has to be done; None: nothing waits."""
        while self._heap and self._heap[0][2].action is None:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def run(self, now_ms: int) -> None:
        """Does what is due. What that asks for in turn is done when it is due, not before the next call."""
        due = []
        while (next_ms := self.next_ms) is not None and next_ms <= now_ms:
            due.append(heappop(self._heap)[2])
        for timer in due:
            action = timer.action
            if action is not None:
                timer.action = None
                action()
