"""The pace of the scrubber: how fast stored data are verified in the background, and how often.

Every tick adds to a budget, and pieces are started while it lasts, one at a time. A pass begins when the node starts,
and at most once in PASS_MS after that: a small store need not be read again and again.
"""

from collections.abc import Callable
from typing import Final

from flotilla.replica.ports import Scrubbed, Store
from flotilla.runtime.observability.logs import get_logger

log = get_logger("scrub")

PASS_MS: Final = 3_600_000
#: A piece that could not be read is not free either.
_PIECE_BYTES_MIN: Final = 4096


class Scrubbing:
    """Belongs to the loop."""

    def __init__(
        self, store: Store, start: Callable[[], bool], bytes_per_second: int, steady_ms: Callable[[], int]
    ) -> None:
        """`start` begins the next piece; False: the pass has ended. 0 bytes per second: never."""
        self._store = store
        self._start = start
        self.bytes_per_second = bytes_per_second
        self._steady_ms = steady_ms
        self._is_busy = False
        self._budget_bytes = 0.0
        self._ticked_ms = steady_ms()
        self._pass_began_ms = self._ticked_ms
        self._next_pass_ms = self._ticked_ms
        self._before = store.scrubbed
        #: The pieces that had been skipped when this pass began.
        self._skipped = self._before.skipped
        #: When the last full pass ended; before the first one, when the node started.
        self._ended_ms = self._ticked_ms

    @property
    def done(self) -> Scrubbed:
        return self._store.scrubbed

    @property
    def seconds_since_pass(self) -> float:
        return (self._steady_ms() - self._ended_ms) / 1000

    def tick(self) -> None:
        now_ms = self._steady_ms()
        elapsed_ms, self._ticked_ms = now_ms - self._ticked_ms, now_ms
        # After a pause the pace is as before: at most a second's worth is made up for.
        added_bytes = elapsed_ms * self.bytes_per_second / 1000
        self._budget_bytes = min(self._budget_bytes + added_bytes, self.bytes_per_second)
        self._go_on()

    def piece_done(self, group: int, path: str) -> None:
        now = self._store.scrubbed
        self._is_busy = False
        self._budget_bytes -= max(now.bytes - self._before.bytes, _PIECE_BYTES_MIN)
        if now.damage > self._before.damage:
            log.error("stored data are damaged", group=group, path=path)
        self._before = now
        self._go_on()

    def _go_on(self) -> None:
        if self._is_busy or self._budget_bytes <= 0 or self._steady_ms() < self._next_pass_ms:
            return
        self._is_busy = self._start()
        if self._store.scrubbed.passes > self._before.passes:
            self._end_pass()

    def _end_pass(self) -> None:
        now_ms = self._steady_ms()
        scrubbed = self._before = self._store.scrubbed
        seconds = round((now_ms - self._pass_began_ms) / 1000, 3)
        facts = {"seconds": seconds, "bytes": scrubbed.bytes, "damage": scrubbed.damage}
        if scrubbed.skipped > self._skipped:
            log.warning("stored data could not all be read", skipped=scrubbed.skipped - self._skipped, **facts)
        else:
            log.info("all stored data were verified", **facts)
            self._ended_ms = now_ms
        self._skipped = scrubbed.skipped
        self._next_pass_ms = max(self._pass_began_ms + PASS_MS, now_ms)
        self._pass_began_ms = self._next_pass_ms
