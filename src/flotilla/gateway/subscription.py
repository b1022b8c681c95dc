"""A subscription of a gateway's caller: messages of all leaders of a topic, within a credit.

Leaders are polled all the time, each for its share of the credit, and for one message at least so that none is
neglected. Messages beyond the credit wait here for more of it, and are released when half of their lease is over. The
last delivery may overdraw the credit, a second one never does.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import NamedTuple, Self

from flotilla.client._core.asyncio_network import Network
from flotilla.client._core.timers import Alarm, earliest_ms
from flotilla.client.queue._polls import Polls
from flotilla.client.queue.options import LONG_POLL_MS, POLL_MESSAGES_MAX
from flotilla.gateway.forwarded_leases import ForwardedLease
from flotilla.machine import steady_ms
from flotilla.types.errors import FlotillaError, InvalidArgumentError
from flotilla.types.limits import MIB
from flotilla.types.operations.queue import RELEASE, Delivery, Poll, Polled, Pushed, Settle, Subscribe

#: Of one answer of a leader.
_POLL_BYTES_MAX = 2 * MIB
CREDIT_MAX = 1_000_000
#: The count of deliveries from which on settled ones are removed.
_FORWARDED_MAX = 1_024


class _Waiting(NamedTuple):
    delivery: Delivery
    visibility_ms: int
    #: When it is released, for another consumer.
    return_ms: int


class GatewaySubscription:
    """Made by `Gateway.subscribe`. Iterate it for Pushed values, and close it."""

    def __init__(
        self,
        network: Network,
        request: Subscribe,
        *,
        timeout_ms: int,
        forward: Callable[[Pushed], list[ForwardedLease]],
        release: Callable[[Polled], None],
        settle: Callable[[Settle], None],
        moved: Callable[[int], None],
        closed: Callable[[], None],
    ) -> None:
        """`forward` gets delivered messages, `release` those without a caller, `moved` partitions with a new leader."""
        if not 0 <= request.credit <= CREDIT_MAX:
            raise InvalidArgumentError(f"credit is 0 to {CREDIT_MAX} messages, not {request.credit}")
        self._network = network
        self._request = request
        self._forward = forward
        self._release = release
        self._settle = settle
        self._closed = closed
        self._credit = request.credit
        self._waiting: deque[_Waiting] = deque()
        self._waiting_count = 0
        #: Leases of delivered messages, some of which may be settled.
        self._forwarded: list[ForwardedLease] = []
        self._error: FlotillaError | None = None
        #: Awaited with each Pushed before it is passed on.
        self.paced: Callable[[Pushed], Awaitable[None]] | None = None
        self._news = asyncio.Event()
        self._is_closed = False
        self._is_scheduled = False
        self._alarm = Alarm(network.session.timers, self._on_alarm)
        network.session.now_ms = steady_ms()
        self._polls = Polls(
            network.session,
            request.topic,
            request.partitions or None,
            request=self._part,
            arrived=self._arrived,
            failed=self._failed,
            answered=_ignore,
            moved=moved,
            timeout_ms=timeout_ms,
        )
        self._pump()
        network.wake()

    @property
    def has_credit(self) -> bool:
        return self._credit > 0

    def add_credit(self, messages: int) -> None:
        """Adds to the credit. Raises InvalidArgumentError."""
        if not 0 <= self._credit + messages <= CREDIT_MAX or messages < 0:
            raise InvalidArgumentError(f"credit is 0 to {CREDIT_MAX} messages")
        self._credit += messages
        if self._waiting:
            self._news.set()
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._on_credit)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Pushed:
        """The messages that have arrived since. Raises the error that ended the subscription."""
        while True:
            if self._error is not None:
                raise self._error
            if self._is_closed:
                raise StopAsyncIteration
            pushed = self._take()
            if pushed is not None:
                if len(self._forwarded) >= _FORWARDED_MAX:
                    self._forwarded = [forwarded for forwarded in self._forwarded if forwarded.lease.unsettled]
                self._forwarded += self._forward(pushed)
                if self.paced is not None:
                    await self.paced(pushed)
                return pushed
            self._news.clear()
            await self._news.wait()

    def end(self, error: FlotillaError) -> None:
        """Whoever iterates it gets the error."""
        self._failed(error)

    def close(self) -> None:
        """Ends it, and releases every unsettled message."""
        if self._is_closed:
            return
        self._is_closed = True
        self._alarm.set(None)
        if not self._network.session.is_closed:
            self._network.session.now_ms = steady_ms()
            self._polls.withdraw()
            self._network.wake()
        self._release_waiting(len(self._waiting))
        for forwarded in self._forwarded:
            lease = forwarded.lease
            if ranges := list(lease.runs(lease.unsettled)):
                topic_id = lease.topic_id
                self._settle(
                    Settle(lease.topic, lease.partition, lease.group, RELEASE, ranges, delay_ms=0, topic_id=topic_id)
                )
        self._news.set()
        self._closed()

    # Polling.

    def _on_credit(self) -> None:
        self._is_scheduled = False
        self._network.session.now_ms = steady_ms()
        self._pump()
        self._network.perform()

    def _pump(self) -> None:
        if self._is_closed or self._error is not None:
            return
        free = self._credit - self._waiting_count
        if free > 0:
            # Polls that are parked at leaders without messages must not keep the other leaders from being polled.
            room = max(free - self._polls.messages_in_flight, 1)
            self._polls.ask(min(room, POLL_MESSAGES_MAX), LONG_POLL_MS, is_shared=True)
        returned_ms = self._waiting[0].return_ms if self._waiting else None
        self._alarm.set(earliest_ms(returned_ms, self._polls.next_ms if free > 0 else None))

    def _part(self, partitions: list[int], messages: int, wait_ms: int) -> Poll:
        request = self._request
        return Poll(
            topic=request.topic,
            group=request.group,
            member=request.member,
            partitions=partitions,
            max_messages=messages,
            max_bytes=_POLL_BYTES_MAX,
            visibility_ms=request.visibility_ms,
            wait_ms=wait_ms,
            is_auto_ack=request.is_auto_ack,
            is_ordered_by_key=request.is_ordered_by_key,
            start=request.start,
            topic_id=self._polls.topic_id,
            types=request.types,
            headers=request.headers,
        )

    def _on_alarm(self) -> None:
        now = self._network.session.now_ms
        self._release_waiting(sum([each.return_ms <= now for each in self._waiting]))
        self._pump()

    # Deliveries.

    def _arrived(self, polled: Polled) -> None:
        if self._is_closed:
            self._release(polled)
            return
        visibility_ms = polled.visibility_ms
        return_ms = self._network.session.now_ms + visibility_ms // 2
        for delivery in polled.deliveries:
            self._waiting.append(_Waiting(delivery, visibility_ms, return_ms))
            self._waiting_count += delivery.count
        if polled.deliveries:
            self._news.set()
        self._pump()

    def _failed(self, error: FlotillaError) -> None:
        if not self._is_closed:
            self._error = error
            self._news.set()

    def _take(self) -> Pushed | None:
        """The waiting messages, within the credit."""
        taken: list[Delivery] = []
        visibility_ms = 0
        while self._waiting and self._credit > 0:
            delivery, visibility_ms, _ = self._waiting.popleft()
            self._waiting_count -= delivery.count
            self._credit -= delivery.count
            taken.append(delivery)
        return Pushed(taken, visibility_ms) if taken else None

    def _release_waiting(self, count: int) -> None:
        """Releases the oldest waiting deliveries. Messages that were acknowledged on delivery stay."""
        if self._request.is_auto_ack and not self._is_closed:
            return
        returned = [self._waiting.popleft().delivery for _ in range(count)]
        if returned:
            self._waiting_count -= sum([delivery.count for delivery in returned])
            self._release(Polled(returned))


def _ignore(partition: int) -> None:
    """The subscription does not need to know which leader answered."""
