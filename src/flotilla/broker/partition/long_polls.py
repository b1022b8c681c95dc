"""Parked fetches: they found nothing and wait for the first record, their deadline, or the end.

All entries applied in one turn of the loop wake a fetch once. Each is answered once, or never if its client gives it
up.
"""

from collections.abc import Callable
from functools import partial

from flotilla.broker.ports import Cancel, Done, Outside
from flotilla.types.errors import FlotillaError
from flotilla.types.ids import Offset
from flotilla.types.operations import Fetch

#: Whatever a client asks for.
WAIT_MS_MAX = 300_000


class _Parked:
    __slots__ = ("answer", "cancel_answer", "done", "request", "stop_timer")

    def __init__(self, request: Fetch, done: Done, answer: Callable[[], Cancel | None]) -> None:
        self.answer = answer
        self.request = request
        self.done = done
        self.stop_timer: Cancel | None = None
        #: The answer is being read from disk.
        self.cancel_answer: Cancel | None = None


class LongPolls:
    def __init__(self, outside: Outside, answer: Callable[[Fetch, Done], Cancel | None]) -> None:
        self._outside = outside
        self._answer = answer
        #: In the order of arrival.
        self.parked: dict[_Parked, None] = {}

    def park(self, request: Fetch, done: Done, answer: Callable[[], Cancel | None] | None = None) -> Cancel:
        """`answer` is called when it is due, instead of the usual way; `done` gets errors in any case."""
        parked = _Parked(request, done, answer or partial(self._answer, request, done))
        self.parked[parked] = None
        wait_ms = min(request.wait_ms, WAIT_MS_MAX)
        parked.stop_timer = self._outside.later(wait_ms, lambda: self._finish(parked))

        def cancel() -> None:
            self._take(parked)
            if parked.cancel_answer is not None:
                parked.cancel_answer()

        return cancel

    def wake(self, next_offset: Offset) -> None:
        """There are records below next_offset: answers the fetches that wait for them."""
        for parked in [parked for parked in self.parked if parked.request.offset < next_offset]:
            self._finish(parked)

    def dismiss(self, judge: Callable[[Fetch], FlotillaError | None]) -> None:
        """Answers the fetches for which `judge` returns an error."""
        for parked in list(self.parked):
            reason = judge(parked.request)
            if reason is not None and self._take(parked):
                parked.done(reason)

    def fail_all(self, reason: FlotillaError) -> None:
        for parked in list(self.parked):
            if self._take(parked):
                parked.done(reason)

    def _take(self, parked: _Parked) -> bool:
        """False: it was not waiting any more."""
        if parked not in self.parked:
            return False
        del self.parked[parked]
        if parked.stop_timer is not None:
            parked.stop_timer()
        return True

    def _finish(self, parked: _Parked) -> None:
        if self._take(parked):
            parked.cancel_answer = parked.answer()
