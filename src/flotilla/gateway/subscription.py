"""A subscription of a gateway's client: messages of all leaders of a topic, as many as there is credit for.

Leaders are asked all the time, each for its part of the credit, and for one message at least so that none is
forgotten. What comes beyond the credit waits here until there is more of it, and goes back to the group, uncounted,
when that takes half of its lease. Credit may be overdrawn by the last delivery, never by a second one.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Self

from flotilla.client._core.asyncio_network import Network, now_ms
from flotilla.client._core.timers import Timer
from flotilla.client.queue._polls import Polls
from flotilla.client.queue.options import LONG_POLL_MS, POLL_MESSAGES_MAX
from flotilla.gateway.forwarded_leases import ForwardedLease
from flotilla.types.errors import FlotillaError, InvalidArgumentError
from flotilla.types.limits import MIB
from flotilla.types.operations.queue import RELEASE, Delivery, Poll, Polled, Pushed, Settle, Subscribe

#: Of one answer of a leader.
_POLL_BYTES_MAX = 2 * MIB
CREDIT_MAX = 1_000_000
#: When so many deliveries are remembered, those that are settled are looked for.
_FORWARDED_MAX = 1_024


class _Waiting(NamedTuple):
    delivery: Delivery
    visibility_ms: int
    #: From when on somebody else should have it.
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
        give_back: Callable[[Settle], None],
        moved: Callable[[int], None],
        closed: Callable[[], None],
    ) -> None:
        """`forward` is told what is handed out, `release` what arrived for nobody, `moved` what others lead now."""
        if not 0 <= request.credit <= CREDIT_MAX:
            raise InvalidArgumentError(f"credit is 0 to {CREDIT_MAX} messages, not {request.credit}")
        self._network = network
        self._request = request
        self._forward = forward
        self._release = release
        self._settle = give_back
        self._closed = closed
        self._credit = request.credit
        self._waiting: deque[_Waiting] = deque()
        self._waiting_count = 0
        #: What was handed out, with what of it is not settled.
        self._forwarded: list[ForwardedLease] = []
        self._error: FlotillaError | None = None
        self._news = asyncio.Event()
        self._timer: Timer | None = None
        self._is_closed = False
        self._is_scheduled = False
        network.session.now_ms = now_ms()
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

    def add_credit(self, messages: int) -> None:
        """So many more messages may come. Raises InvalidArgumentError."""
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
        """What has arrived since. Raises why nothing more will come."""
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
                return pushed
            self._news.clear()
            await self._news.wait()

    def close(self) -> None:
        """Ends it: nothing more comes, and everything that is not settled goes back, uncounted."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        if not self._network.session.is_closed:
            self._network.session.now_ms = now_ms()
            self._polls.withdraw()
            self._network.wake()
        self._give_back(len(self._waiting))
        for forwarded in self._forwarded:
            lease = forwarded.lease
            if ranges := list(lease.runs(lease.unsettled)):
                self._settle(Settle(lease.topic, lease.partition, lease.group, RELEASE, ranges, delay_ms=0))
        self._news.set()
        self._closed()

    # Asking.

    def _on_credit(self) -> None:
        self._is_scheduled = False
        self._network.session.now_ms = now_ms()
        self._pump()
        self._network.perform()

    def _pump(self) -> None:
        if self._is_closed or self._error is not None:
            return
        free = self._credit - self._waiting_count
        if free > 0:
            # Polls that are parked at leaders which have nothing must not keep the others from being asked.
            room = max(free - self._polls.messages_in_flight, 1)
            self._polls.ask(min(room, POLL_MESSAGES_MAX), LONG_POLL_MS, is_shared=True)
        self._set_timer(is_asking=free > 0)

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
        )

    def _set_timer(self, *, is_asking: bool) -> None:
        times = [self._waiting[0].return_ms if self._waiting else None, self._polls.next_ms if is_asking else None]
        due_ms = min([time_ms for time_ms in times if time_ms is not None], default=None)
        if self._timer is not None:
            if self._timer.action is not None and self._timer.when_ms == due_ms:
                return
            self._timer.cancel()
        self._timer = None if due_ms is None else self._network.session.timers.at(due_ms, self._on_time)

    def _on_time(self) -> None:
        now = self._network.session.now_ms
        self._give_back(sum([each.return_ms <= now for each in self._waiting]))
        self._pump()

    # What arrives.

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
        """As much as there is credit for."""
        taken: list[Delivery] = []
        visibility_ms = 0
        while self._waiting and self._credit > 0:
            delivery, visibility_ms, _ = self._waiting.popleft()
            self._waiting_count -= delivery.count
            self._credit -= delivery.count
            taken.append(delivery)
        return Pushed(taken, visibility_ms) if taken else None

    def _give_back(self, count: int) -> None:
        """The oldest of what waits. What was acknowledged as it left cannot go back, and waits on."""
        if self._request.is_auto_ack and not self._is_closed:
            return
        returned = [self._waiting.popleft().delivery for _ in range(count)]
        if returned:
            self._waiting_count -= sum([delivery.count for delivery in returned])
            self._release(Polled(returned))


def _ignore(partition: int) -> None:
    """Who has answered makes no difference here."""
