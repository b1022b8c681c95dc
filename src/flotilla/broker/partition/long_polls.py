"""Fetches that found nothing and wait for the first record, their time, or the end: no polling meanwhile.

Everything that is applied in one turn wakes a fetch once. Each is answered once, or given up by its
client and then never.
"""

from collections.abc import Callable

from flotilla.broker.ports import Cancel, Done, Outside
from flotilla.types.errors import FlotillaError
from flotilla.types.ids import Offset
from flotilla.types.operations import Fetch, Fetched

#: However long a client asks to wait.
WAIT_MS_MAX = 300_000


class _Parked:
    __slots__ = ("done", "request", "stop_timer")

    def __init__(self, request: Fetch, done: Done) -> None:
        self.request = request
        self.done = done
        self.stop_timer: Cancel | None = None


class LongPolls:
    def __init__(self, outside: Outside, answer: Callable[[Fetch], Fetched | FlotillaError]) -> None:
        self._outside = outside
        self._answer = answer
        #: In the order of arrival.
        self.parked: dict[_Parked, None] = {}

    def park(self, request: Fetch, done: Done) -> Cancel:
        parked = _Parked(request, done)
        self.parked[parked] = None
        wait_ms = min(request.wait_ms, WAIT_MS_MAX)
        parked.stop_timer = self._outside.later(wait_ms, lambda: self._finish(parked))

        def cancel() -> None:
            self._take(parked)

        return cancel

    def wake(self, next_offset: Offset) -> None:
        """There is something below next_offset: whoever waits for it is answered."""
        for parked in [parked for parked in self.parked if parked.request.offset < next_offset]:
            self._finish(parked)

    def dismiss(self, judge: Callable[[Fetch], FlotillaError | None]) -> None:
        """Answers those who wait for nothing any more, with the reason."""
        for parked in list(self.parked):
            reason = judge(parked.request)
            if reason is not None and self._take(parked):
                parked.done(reason)

    def fail_all(self, reason: FlotillaError) -> None:
        for parked in list(self.parked):
            if self._take(parked):
                parked.done(reason)

    def _take(self, parked: _Parked) -> bool:
        """Whether it was still waiting; from now on it is not."""
        if parked not in self.parked:
            return False
        del self.parked[parked]
        if parked.stop_timer is not None:
            parked.stop_timer()
        return True

    def _finish(self, parked: _Parked) -> None:
        if self._take(parked):
            parked.done(self._answer(parked.request))
