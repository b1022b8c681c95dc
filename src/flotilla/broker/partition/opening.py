"""Compressed batches on their way in: how much they open to is bounded, and the loop opens little of it.

A batch of a hundred kilobytes may open to sixteen megabytes, which takes tens of milliseconds, and a client may send
hundreds of them at once. Large ones are opened on another thread (broker/batch_opener). What waits for that is bounded
for the whole node: beyond it producers are refused and retry. Batches of one partition keep their order.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from flotilla.broker.batch_opener import BatchOpener
from flotilla.broker.ports import Outside
from flotilla.codec.batch.check import validate
from flotilla.codec.batch.columns import Buffer, opened_bytes
from flotilla.codec.batch.view import BatchView
from flotilla.types.errors import FlotillaError, UnknownError
from flotilla.types.records import RecordLimits

Serve: TypeAlias = Callable[[BatchView], None]
Refuse: TypeAlias = Callable[[FlotillaError], None]


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
