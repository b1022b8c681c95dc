"""Connections that are cut to make room for others at an endpoint that has as many as it may.

First strangers: connections that have asked for nothing yet, or have not logged in where clients must; of the host with
the most of them, the oldest first. Then connections without a log-in that have long been silent. A client that has
logged in keeps its place. Looking for them takes 2 ms for 4,096 connections, so it rests afterwards.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable
from typing import Final, Generic, TypeVar

from flotilla.machine import steady_ms

C = TypeVar("C")

#: Of a connection that may be cut although it has asked for something.
SILENT_MS_MIN: Final = 5_000
#: On average, so that looking takes a quarter of the time at most.
_LOOKS_PER_MS: Final = 500


class RoomMaking(Generic[C]):
    def __init__(
        self,
        connections: Callable[[], Iterable[C]],
        *,
        is_stranger: Callable[[C], bool],
        is_silent: Callable[[C], bool],
        host: Callable[[C], str],
        cut: Callable[[C], None],
        clock_ms: Callable[[], int] = steady_ms,
    ) -> None:
        """`connections` returns them, the oldest first. `is_silent` says it of those that may be cut for that."""
        self._connections = connections
        self._is_stranger = is_stranger
        self._is_silent = is_silent
        self._host = host
        self._cut = cut
        self._clock_ms = clock_ms
        #: Found by the last look, the next one to be cut first.
        self._found: deque[C] = deque()
        self._next_look_ms = 0
        self.cut_count = 0

    def make(self) -> bool:
        """Cuts one connection. False: there is none."""
        while True:
            while self._found:
                connection = self._found.popleft()
                if self._is_stranger(connection) or self._is_silent(connection):
                    self.cut_count += 1
                    self._cut(connection)
                    return True
            now_ms = self._clock_ms()
            if now_ms < self._next_look_ms:
                return False
            self._next_look_ms = now_ms + self._look() // _LOOKS_PER_MS
            if not self._found:
                return False

    def _look(self) -> int:
        """Returns the number of connections that it looked at."""
        strangers: list[C] = []
        silent: list[C] = []
        looked = 0
        for connection in self._connections():
            looked += 1
            if self._is_stranger(connection):
                strangers.append(connection)
            elif self._is_silent(connection):
                silent.append(connection)
        counts = Counter(map(self._host, strangers))
        strangers.sort(key=lambda each: -counts[self._host(each)])
        self._found.extend(strangers or silent)
        return looked
