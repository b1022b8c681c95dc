"""How many bytes of requests all connections together may hold: whoever finds none left waits for its turn.

A holder always gives back without needing more: a frame being received has taken all it needs, and a
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
