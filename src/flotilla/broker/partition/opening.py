"""Compressed batches on their way in: how much they open to is bounded, and the loop opens little of it.

A batch of a hundred kilobytes may open to sixteen megabytes, which takes tens of milliseconds, and a client may send
hundreds of them at once. The loop opens up to `TURN_BYTES_MAX` in one turn. Everything else is opened on another
thread, one batch after the other, with a rest after each, so that the thread leaves processors to the loop and to
whoever else uses the machine. What waits for that is bounded for the whole node: beyond it producers are refused and
retry. Batches of one partition keep their order.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias

from flotilla.broker.ports import Outside
from flotilla.codec.batch.check import validate
from flotilla.codec.batch.columns import Buffer, opened_bytes
from flotilla.codec.batch.view import BatchView
from flotilla.types.errors import FlotillaError, OverloadedError, UnknownError
from flotilla.types.limits import OPENING_BYTES_MAX, OPENING_TURN_BYTES_MAX
from flotilla.types.records import RecordLimits

_RETRY_AFTER_MS: Final = 100
#: The rest after a batch, by the time that it took.
_REST_SHARE: Final = 2

Serve: TypeAlias = Callable[[BatchView], None]
Refuse: TypeAlias = Callable[[FlotillaError], None]


class BatchOpener:
    """Of a node."""

    def __init__(self, outside: Outside) -> None:
        self._outside = outside
        #: Opened on the loop in this turn.
        self._turn_bytes = 0
        #: What the batches that wait for the thread, or are there, open to.
        self.waiting_bytes = 0
        #: Batches whose turn on the thread comes later.
        self._turns: deque[Callable[[], None]] = deque()
        #: A batch is on the thread, or the thread rests.
        self._is_busy = False
        self._begun_ms = 0

    def takes(self, size_bytes: int) -> bool:
        """Whether the loop may open so much in this turn; then it counts."""
        if self._turn_bytes + size_bytes > OPENING_TURN_BYTES_MAX:
            return False
        if not self._turn_bytes:
            self._outside.later(0, self._end_turn)
        self._turn_bytes += size_bytes
        return True

    def _end_turn(self) -> None:
        self._turn_bytes = 0

    def reserve(self, size_bytes: int) -> None:
        """For a batch that is to wait. Raises OverloadedError."""
        if self.waiting_bytes and self.waiting_bytes + size_bytes > OPENING_BYTES_MAX:
            error = OverloadedError(f"compressed batches of {OPENING_BYTES_MAX} bytes wait to be opened")
            error.retry_after_ms = _RETRY_AFTER_MS
            raise error
        self.waiting_bytes += size_bytes

    def wait_turn(self, begin: Callable[[], None]) -> None:
        """Calls `begin`, now or later, which puts one batch on the thread; then `end_turn` is due."""
        self._turns.append(begin)
        if not self._is_busy:
            self._next_turn()

    def end_turn(self) -> None:
        """A batch that comes alone waits for nobody: the rest is at the expense of the next one."""
        rest_ms = _REST_SHARE * (self._outside.steady_ms() - self._begun_ms)
        self._outside.later(rest_ms, self._next_turn)

    def _next_turn(self) -> None:
        self._is_busy = bool(self._turns)
        if self._turns:
            self._begun_ms = self._outside.steady_ms()
            self._turns.popleft()()


class _Arrival:
    __slots__ = ("batch", "found", "limits", "refuse", "serve", "size_bytes")

    def __init__(self, batch: Buffer, limits: RecordLimits, size_bytes: int, serve: Serve, refuse: Refuse) -> None:
        self.batch = batch
        self.limits = limits
        #: What it opens to; 0: it is not compressed.
        self.size_bytes = size_bytes
        self.serve = serve
        self.refuse = refuse
        self.found: BatchView | FlotillaError | None = None

    def open(self) -> None:
        """On any thread."""
        try:
            self.found = validate(self.batch, self.limits)
        except FlotillaError as error:
            self.found = error
        except Exception as failure:
            # The thread goes on with the batches of others.
            self.found = UnknownError(f"the batch could not be checked: {failure!r}")

    def end(self) -> None:
        try:
            if not isinstance(self.found, BatchView):
                assert self.found is not None
                raise self.found
            self.serve(self.found)
        except FlotillaError as error:
            self.refuse(error)


class BatchArrivals:
    """Of one partition: batches that wait to be opened, and those behind them."""

    def __init__(self, opener: BatchOpener, outside: Outside) -> None:
        self._opener = opener
        self._aside = outside.aside
        self._waiting: deque[_Arrival] = deque()

    def enter(self, batch: Buffer, limits: RecordLimits, serve: Serve, refuse: Refuse) -> None:
        """Checks a batch, and calls `serve` with its view, now or later; or `refuse`, later; or raises now."""
        size_bytes = opened_bytes(batch, limits.batch_bytes_max)
        if not self._waiting and (not size_bytes or self._opener.takes(size_bytes)):
            serve(validate(batch, limits))
            return
        self._opener.reserve(size_bytes)
        self._waiting.append(_Arrival(batch, limits, size_bytes, serve, refuse))
        if len(self._waiting) == 1:
            self._go_on()

    def _go_on(self) -> None:
        """Opens the first one, and every one after it that takes no thread."""
        while self._waiting:
            first = self._waiting[0]
            if first.size_bytes:
                self._opener.wait_turn(partial(self._aside, first.open, self._opened))
                return
            first.open()
            self._leave()

    def _opened(self) -> None:
        self._opener.end_turn()
        self._leave()
        self._go_on()

    def _leave(self) -> None:
        first = self._waiting.popleft()
        self._opener.waiting_bytes -= first.size_bytes
        first.end()
