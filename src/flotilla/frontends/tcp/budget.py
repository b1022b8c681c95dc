"""How many bytes all connections together may hold: of requests, where whoever finds none left waits for its turn,
and of answers that their clients leave unread, where nobody waits and what can be asked again is refused.

A holder of requests always gives back without needing more: a frame being received has taken all it needs, and a
request with the service is answered. So waiting ends, and nobody waits in a circle.
"""

from collections.abc import Callable, Hashable


class ByteBudget:
    def __init__(self, bytes_max: int) -> None:
        assert bytes_max > 0
        self.bytes_max = bytes_max
        self.used_bytes = 0
        #: Who waits, in order of arrival: for how much, and whom to tell.
        self._waiting: dict[Hashable, tuple[int, Callable[[], None]]] = {}

    @property
    def waiting_count(self) -> int:
        return len(self._waiting)

    def take(self, count: int) -> bool:
        """Whether there was room. Nobody overtakes those who wait; something larger than the whole is let in alone."""
        if self._waiting or (self.used_bytes and self.used_bytes + count > self.bytes_max):
            return False
        self.used_bytes += count
        return True

    def wait(self, who: Hashable, count: int, granted: Callable[[], None]) -> None:
        """`granted` is called when the bytes have been taken for `who`."""
        assert who not in self._waiting
        self._waiting[who] = (count, granted)

    def leave(self, who: Hashable) -> None:
        """Waits no longer."""
        if self._waiting.pop(who, None) is not None:
            self._grant()

    def give(self, count: int) -> None:
        self.used_bytes -= count
        assert self.used_bytes >= 0
        if self._waiting:
            self._grant()

    def _grant(self) -> None:
        while self._waiting:
            who, (count, granted) = next(iter(self._waiting.items()))
            if self.used_bytes and self.used_bytes + count > self.bytes_max:
                break
            del self._waiting[who]
            self.used_bytes += count
            granted()


class OutputBudget:
    """Nobody may hold more than is left for all others: who holds much is refused first, and there is always
    something left for who holds nothing, however many do not read.
    """

    def __init__(self, bytes_max: int) -> None:
        assert bytes_max > 0
        self.bytes_max = bytes_max
        self.used_bytes = 0

    def hold(self, change: int) -> None:
        """So much more is unread, or less. What must be said is never refused, and may go over the bound."""
        self.used_bytes += change
        assert self.used_bytes >= 0

    def has_room(self, held: int, more: int = 0) -> bool:
        """Whether a connection that holds so much may hold more; something larger than the whole is let in alone."""
        return not self.used_bytes or held + more < self.bytes_max - self.used_bytes - more
