"""Stored batches of a range of offsets, as bytes, for bulk readers that fill columns instead of messages.

It belongs to the thread that iterates it. While that works on one answer the next fetch is in flight; nothing more is
buffered. Every wait is bounded by the time limit, and leaders are found as everywhere in the client.
"""

from collections.abc import Iterator
from concurrent.futures import Future
from typing import Final

from flotilla.client._core.calls import CallResult
from flotilla.client.client import Client
from flotilla.codec.batch.header import parse_header
from flotilla.machine import steady_ms
from flotilla.types.errors import CorruptionError, DeadlineError, FlotillaError, InvalidArgumentError
from flotilla.types.ids import Offset
from flotilla.types.limits import MIB
from flotilla.types.operations import Fetch, Fetched, Route

#: How long a broker that has just become the leader may wait for records that it should have.
_WAIT_MS: Final = 1_000
#: Beyond the time limit of a call, which then ends by itself.
_GRACE_MS: Final = 5_000


class StoredBatches:
    """Iterates over the batches that hold [first, end) of one partition, in order.

    The first one may begin before the range, and the last one end after it. Raises OffsetOutOfRangeError when retention
    has removed the next offset, CorruptionError for a malformed batch, and DeadlineError when no leader returns the
    next batch within `timeout_ms`.
    """

    def __init__(
        self,
        client: Client,
        topic: str,
        partition: int,
        first: Offset,
        end: Offset,
        *,
        fetch_bytes: int = 4 * MIB,
        timeout_ms: int = 60_000,
    ) -> None:
        self._channel = client._channel()
        self._route = Route(topic, partition)
        self._end = end
        self._fetch_bytes = fetch_bytes
        self._timeout_ms = timeout_ms
        #: The offset of the next record.
        self.position = first

    def __iter__(self) -> Iterator[bytes | memoryview]:
        if self.position >= self._end:
            return
        answer = self._fetch(self.position)
        give_up_ms = steady_ms() + self._timeout_ms
        while True:
            batches = self._taken(answer).batches
            if batches:
                next_offset = self._next_offset(batches[-1])
                give_up_ms = steady_ms() + self._timeout_ms
            elif steady_ms() > give_up_ms:
                raise DeadlineError(f"no leader has offset {self.position} of {self._named()}, which was there before")
            else:
                next_offset = self.position
            if next_offset < self._end:
                answer = self._fetch(next_offset)
            self.position = next_offset
            yield from batches
            if next_offset >= self._end:
                return

    def _fetch(self, offset: Offset) -> "Future[CallResult]":
        answer: Future[CallResult] = Future()
        request = Fetch(self._route.topic, self._route.partition, offset, self._fetch_bytes, _WAIT_MS)
        self._channel.submit(request, self._timeout_ms, answer.set_result)
        return answer

    def _taken(self, answer: "Future[CallResult]") -> Fetched:
        try:
            result = answer.result((self._timeout_ms + _GRACE_MS) / 1000)
        except TimeoutError:
            raise DeadlineError(f"no answer about {self._named()} within {self._timeout_ms} ms") from None
        if isinstance(result, FlotillaError):
            result.add_note(f"while reading {self._named()} from offset {self.position} to {self._end}")
            raise result
        assert isinstance(result, Fetched)
        return result

    def _next_offset(self, batch: bytes | memoryview) -> Offset:
        try:
            header = parse_header(batch)
        except InvalidArgumentError as error:
            raise CorruptionError(f"{self._named()} at offset {self.position}: {error}") from error
        return header.base_offset + header.count

    def _named(self) -> str:
        return f"partition {self._route.partition} of topic {self._route.topic}"
