"""The order in which a node opens compressed batches, and how much of that its loop does.

The loop opens up to `OPENING_TURN_BYTES_MAX` in one turn. Other batches are opened on another thread, one after the
other, with a rest after each, so that the thread leaves processors to the loop and to whoever else uses the machine.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from flotilla.broker.ports import Outside
from flotilla.types.errors import OverloadedError
from flotilla.types.limits import OPENING_BYTES_MAX, OPENING_TURN_BYTES_MAX

_RETRY_AFTER_MS: Final = 100
#: The rest after a batch, by the time that it took.
_REST_SHARE: Final = 2


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
