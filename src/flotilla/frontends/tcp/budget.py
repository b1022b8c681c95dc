"""Bounds on the memory that all connections together occupy: with requests, and with unread answers.

A request that finds no room waits, in order of arrival. Waiting ends: a frame that is being received has taken all its
bytes before, and the service answers every request, so no holder waits for more. An answer never waits: a read is
refused instead, because its client can ask again.
"""

from collections.abc import Callable, Hashable

from flotilla.codec.frames import DIRECT_BYTES_MIN
from flotilla.frontends.large_answers import LargeAnswers
from flotilla.types.limits import SERVER_OUTPUT_BYTES_MAX, SERVER_REQUEST_BYTES_MAX


class ByteBudget:
    def __init__(self, bytes_max: int) -> None:
        assert bytes_max > 0
        self.bytes_max = bytes_max
        self.used_bytes = 0
        #: Waiting requests in order of arrival: the bytes, and the function to call when they are taken.
        self._waiting: dict[Hashable, tuple[int, Callable[[], None]]] = {}

    @property
    def waiting_count(self) -> int:
        return len(self._waiting)

    def take(self, count: int) -> bool:
        """True: the bytes were taken. Waiting requests come first; one above the whole budget is admitted alone."""
        if self._waiting or (self.used_bytes and self.used_bytes + count > self.bytes_max):
            return False
        self.used_bytes += count
        return True

    def wait(self, owner: Hashable, count: int, granted: Callable[[], None]) -> None:
        """`granted` is called when the bytes have been taken for `owner`."""
        assert owner not in self._waiting
        self._waiting[owner] = (count, granted)

    def leave(self, owner: Hashable) -> None:
        """Stops waiting."""
        if self._waiting.pop(owner, None) is not None:
            self._grant()

    def give(self, count: int) -> None:
        self.used_bytes -= count
        assert self.used_bytes >= 0
        if self._waiting:
            self._grant()

    def _grant(self) -> None:
        while self._waiting:
            owner, (count, granted) = next(iter(self._waiting.items()))
            if self.used_bytes and self.used_bytes + count > self.bytes_max:
                break
            del self._waiting[owner]
            self.used_bytes += count
            granted()


class OutputBudget:
    """A bound on unread answers. A connection may hold less than is left for all others: the one that holds most is
    refused first, and a connection that holds nothing always finds room.
    """

    def __init__(self, bytes_max: int) -> None:
        assert bytes_max > 0
        self.bytes_max = bytes_max
        self.used_bytes = 0

    def hold(self, change: int) -> None:
        """Counts more unread bytes, or fewer. Answers that cannot be repeated may exceed the bound."""
        self.used_bytes += change
        assert self.used_bytes >= 0

    def has_room(self, held: int, more: int = 0) -> bool:
        """Whether a connection that holds `held` bytes may hold `more`; a single answer may exceed the bound alone."""
        return not self.used_bytes or held + more < self.bytes_max - self.used_bytes - more


class Budgets:
    """The budgets that all connections share. Small frames have their own: slow large ones do not hold them up."""

    __slots__ = ("large", "large_answers", "output", "small")

    def __init__(
        self,
        bytes_max: int = SERVER_REQUEST_BYTES_MAX,
        output_bytes_max: int = SERVER_OUTPUT_BYTES_MAX,
        output: OutputBudget | None = None,
    ) -> None:
        """`output`: one that is shared with other budgets."""
        self.small = ByteBudget(bytes_max)
        self.large = ByteBudget(bytes_max)
        self.output = output or OutputBudget(output_bytes_max)
        self.large_answers = LargeAnswers()

    def of(self, length: int) -> ByteBudget:
        return self.small if length < DIRECT_BYTES_MIN else self.large

    @property
    def request_bytes(self) -> int:
        return self.small.used_bytes + self.large.used_bytes

    @property
    def waiting_count(self) -> int:
        return self.small.waiting_count + self.large.waiting_count
