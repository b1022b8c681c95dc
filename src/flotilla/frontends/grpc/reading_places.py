"""The places of the streams that are read, shared out among connections.

The library receives a whole message of a stream as soon as it is asked for one, and the question cannot be taken back.
So each stream that is read can fill one message that nobody has counted: places bound the memory of all of them.

A connection with many streams must not keep the others from streaming. A free place goes to the connection that has
the fewest. A stream of a connection that has more than its share gives its place to another connection between two
messages, and when it sends nothing for a while, the node ends it.
"""

import asyncio
from typing import Final, Protocol

from flotilla.types.errors import OverloadedError
from flotilla.types.limits import GRPC_READ_STREAM_COUNT_MAX

#: How long a stream waits for a place until an idle one must end for it.
_PATIENCE_S: Final = 1.0


class Reader(Protocol):
    """A stream that has a place."""

    @property
    def peer(self) -> str:
        """Its connection."""

    def end(self, error: OverloadedError) -> None:
        """It loses its place to others."""


class ReadingPlaces:
    def __init__(self, count_max: int = GRPC_READ_STREAM_COUNT_MAX) -> None:
        self._count_max = count_max
        self._used_count = 0
        #: Of each connection, the streams that have a place; the one that has been silent longest is the first.
        self._readers: dict[str, dict[Reader, None]] = {}
        #: In order of arrival.
        self._waiting: dict[Reader, asyncio.Future[None]] = {}

    @property
    def is_scarce(self) -> bool:
        """More than half of the places are taken."""
        return 2 * self._used_count > self._count_max

    async def wait(self, reader: Reader) -> None:
        """Takes a place."""
        if self._used_count < self._count_max:
            self._take(reader)
            return
        granted = self._waiting[reader] = asyncio.get_running_loop().create_future()
        try:
            while not (await asyncio.wait((granted,), timeout=_PATIENCE_S))[0]:
                self._end_one(reader)
        except asyncio.CancelledError:
            if granted.done():
                self.give(reader)
            else:
                del self._waiting[reader]
            raise

    def give(self, reader: Reader) -> None:
        readers = self._readers[reader.peer]
        del readers[reader]
        if not readers:
            del self._readers[reader.peer]
        self._used_count -= 1
        if self._waiting:
            # Of equals the first.
            next_one = min(self._waiting, key=lambda each: self._count(each.peer))
            self._take(next_one)
            self._waiting.pop(next_one).set_result(None)

    def heard(self, reader: Reader) -> None:
        """A message of the stream has come."""
        readers = self._readers[reader.peer]
        readers[reader] = readers.pop(reader)

    def is_wanted(self, peer: str) -> bool:
        """Whether a stream waits whose connection has fewer places, also after it would have got one of this one."""
        return any(self._has_less(each.peer, peer) for each in self._waiting)

    def too_many(self) -> OverloadedError:
        return OverloadedError(f"too many streams: the limit is {self._count_max} from which requests are read")

    def _take(self, reader: Reader) -> None:
        self._used_count += 1
        self._readers.setdefault(reader.peer, {})[reader] = None

    def _count(self, peer: str) -> int:
        return len(self._readers.get(peer, ()))

    def _has_less(self, peer: str, other: str) -> bool:
        return self._count(peer) + 1 < self._count(other)

    def _end_one(self, reader: Reader) -> None:
        """Ends the most silent stream of the connection that has most places, if it has more than a fair share."""
        largest = max(self._readers, key=self._count)
        if self._has_less(reader.peer, largest):
            next(iter(self._readers[largest])).end(self.too_many())
