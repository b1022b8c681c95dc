"""Waits for the results of messages: callers of one partition and group share long polls.

A broker bounds the requests in flight on a connection, and a long poll counts until it is answered. So callers do not
have one each: a partition has up to two in flight, one for the callers that wait for long and one for those that came
last. A new caller has the younger one withdrawn and sent again with its message, and when that one has grown, both
become one. Reading a result changes nothing, so an answer that crosses a withdrawal is not missed: it comes again.
"""

import asyncio
from typing import Final, NamedTuple

from flotilla.client._core.asyncio_network import Network
from flotilla.client._core.calls import CallResult, ClientCall
from flotilla.client.queue.options import LONG_POLL_MS
from flotilla.machine import steady_ms
from flotilla.types.dead_letters import summary
from flotilla.types.errors import (
    DeadlineError,
    FlotillaError,
    ForgottenError,
    MessageFailedError,
    OffsetOutOfRangeError,
)
from flotilla.types.ids import Offset
from flotilla.types.limits import RESULT_WAIT_COUNT_MAX
from flotilla.types.operations.queue import ACKED_STATE, FORGOTTEN_STATE, EndedMessage, ReadResults, ResultsRead

#: Messages of the younger long poll of a partition, before both become one.
YOUNG_MAX: Final = 32
#: Beyond the wait of a long poll, for its answer.
_ANSWER_MS: Final = 10_000


class Place(NamedTuple):
    topic: str
    partition: int
    group: str
    #: A later topic of the name is refused; 0: any.
    topic_id: int = 0


class _Read:
    """A long poll in flight."""

    __slots__ = ("call", "is_withdrawn", "offsets")

    def __init__(self, offsets: list[Offset]) -> None:
        self.offsets = offsets
        self.call: ClientCall | None = None
        self.is_withdrawn = False


class _Callers:
    """The callers of one place."""

    __slots__ = ("is_due", "reads", "waiting")

    def __init__(self) -> None:
        self.waiting: dict[Offset, list[asyncio.Future[EndedMessage]]] = {}
        #: The oldest first.
        self.reads: list[_Read] = []
        self.is_due = False


class ResultWaits:
    """All waits of one client."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._places: dict[Place, _Callers] = {}

    async def wait(self, place: Place, offset: Offset, timeout_ms: int) -> bytes:
        """The result of a message; empty if it was acked without one.

        Raises MessageFailedError, ForgottenError, OffsetOutOfRangeError; DeadlineError when it has not ended in time.
        """
        callers = self._places.setdefault(place, _Callers())
        future: asyncio.Future[EndedMessage] = asyncio.get_running_loop().create_future()
        callers.waiting.setdefault(offset, []).append(future)
        self._read_soon(place, callers)
        try:
            async with asyncio.timeout(timeout_ms / 1000) as limit:
                ended = await future
        except TimeoutError:
            if not limit.expired():
                raise
            raise DeadlineError(f"{_named(place, offset)} has not ended within {timeout_ms} ms") from None
        finally:
            self._left(place, callers, offset, future)
        return _result_of(place, ended)

    def _left(self, place: Place, callers: _Callers, offset: Offset, future: "asyncio.Future[EndedMessage]") -> None:
        futures = callers.waiting.get(offset, [])
        if future in futures:
            futures.remove(future)
            if not futures:
                del callers.waiting[offset]
        for read in list(callers.reads):
            if not any(each in callers.waiting for each in read.offsets):
                self._withdraw(callers, read)
        if not callers.waiting and not callers.is_due and self._places.get(place) is callers:
            del self._places[place]

    # Long polls.

    def _read_soon(self, place: Place, callers: _Callers) -> None:
        """At the end of this turn of the loop: callers that come together share a request."""
        if not callers.is_due:
            callers.is_due = True
            asyncio.get_running_loop().call_soon(self._read, place, callers)

    def _read(self, place: Place, callers: _Callers) -> None:
        callers.is_due = False
        asked = {offset for read in callers.reads for offset in read.offsets}
        offsets = [offset for offset in callers.waiting if offset not in asked]
        if not offsets:
            if not callers.waiting and self._places.get(place) is callers:
                del self._places[place]
            return
        while len(callers.reads) > 1 or (callers.reads and len(offsets) > YOUNG_MAX):
            youngest = callers.reads[-1]
            if len(youngest.offsets) + len(offsets) > RESULT_WAIT_COUNT_MAX:
                break
            self._withdraw(callers, youngest)
            offsets = [*[offset for offset in youngest.offsets if offset in callers.waiting], *offsets]
            if len(offsets) <= YOUNG_MAX:
                break
        for start in range(0, len(offsets), RESULT_WAIT_COUNT_MAX):
            self._send(place, callers, offsets[start : start + RESULT_WAIT_COUNT_MAX])

    def _send(self, place: Place, callers: _Callers, offsets: list[Offset]) -> None:
        read = _Read(offsets)
        callers.reads.append(read)
        request = ReadResults(place.topic, place.partition, place.group, offsets, LONG_POLL_MS, place.topic_id)

        def done(result: CallResult) -> None:
            if not read.is_withdrawn:
                callers.reads.remove(read)
                self._answered(place, callers, read, result)

        read.call = self._network.submit(request, LONG_POLL_MS + _ANSWER_MS, done)

    def _withdraw(self, callers: _Callers, read: _Read) -> None:
        callers.reads.remove(read)
        read.is_withdrawn = True
        assert read.call is not None
        self._network.session.withdraw(read.call, steady_ms())
        self._network.wake()

    def _answered(self, place: Place, callers: _Callers, read: _Read, result: CallResult) -> None:
        if isinstance(result, ResultsRead):
            for ended in result.ended:
                for future in callers.waiting.pop(ended.offset, ()):
                    if not future.done():
                        future.set_result(ended)
        elif isinstance(result, FlotillaError) and not isinstance(result, DeadlineError):
            # The client has retried as long as that can help. Without an answer it goes on: callers have limits.
            for offset in read.offsets:
                for future in callers.waiting.pop(offset, ()):
                    if not future.done():
                        future.set_exception(result)
        self._read_soon(place, callers)


def _named(place: Place, offset: Offset) -> str:
    return f"message {offset} of partition {place.partition} of {place.topic}, group {place.group}"


def _result_of(place: Place, ended: EndedMessage) -> bytes:
    if ended.state == ACKED_STATE:
        return ended.result
    named = _named(place, ended.offset)
    if not ended.state:
        raise OffsetOutOfRangeError(f"{named}: there is no such message")
    if ended.state == FORGOTTEN_STATE:
        raise ForgottenError(f"{named}: {ended.reason}")
    because = f": {summary(ended.reason)}" if ended.reason else ""
    raise MessageFailedError(f"{named} is {ended.state}{because}", ended.state, ended.reason, ended.attempts)
