"""The asyncio side of one queue consumer, for both shells: drives its core and waits for results.

Everything here runs on the loop. Settlements of one loop iteration leave together, at its end.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Generic

from flotilla.client._core.answer import Answer
from flotilla.client._core.asyncio_network import Network
from flotilla.client._core.positions import chosen_partitions, find_topic
from flotilla.client.queue._core import PendingSettlement, QueueCore
from flotilla.client.queue._leases import Lease
from flotilla.client.queue._polls import LEAVE_MS_MAX
from flotilla.client.queue.message import Message
from flotilla.client.queue.options import QueueOptions
from flotilla.client.queue.outcome import Outcome
from flotilla.machine import here, steady_ms
from flotilla.types.errors import ConnectionClosedError, FlotillaError, InvalidArgumentError, OutcomeUnknownError
from flotilla.types.group_settings import EPHEMERAL_PREFIX
from flotilla.types.operations import GetMetadata, Route

#: Messages whose unawaited settlement has no answer; beyond that, settling waits.
UNCONFIRMED_MAX = 8_192


class QueueLoop(Generic[Message]):
    def __init__(
        self, network: Network, topic: str, group: str, options: QueueOptions, kind: type[Message], owner: object
    ) -> None:
        self.topic = topic
        chance = network.session.chance
        self.group = group = group or f"{EPHEMERAL_PREFIX}{chance.getrandbits(64):016x}"
        #: The member name of its leases, for operators of the group.
        self.member = f"{here().host_name()}-{here().process_id()}-{chance.getrandbits(32):08x}"
        self._network = network
        self._options = options
        self._news = asyncio.Event()
        #: Called once, with the next news: each wakes a thread that waits for them.
        self.wakers: deque[Callable[[], None]] = deque()
        self._is_scheduled = False
        self._is_prepared = False
        #: Held while preparing: concurrent callers wait for the same answers.
        self._preparing = asyncio.Lock()
        #: Held while closing: another call of `close` waits, and goes on if the first one was cancelled.
        self._closing = asyncio.Lock()
        self._has_left = False
        #: It has no partitions before `prepare`.
        self.reader: QueueCore[Message] = QueueCore(
            network.session, topic, group, self.member, options, kind=kind, owner=owner, news=self._notify
        )

    # Messages.

    async def prepare(self) -> None:
        """Looks up the partitions and their leaders."""
        self.check_open()
        if self._is_prepared:
            return
        deadline_ms = steady_ms() + self._options.timeout_ms
        async with self._preparing:
            if not self._is_prepared:
                await self._find_partitions(deadline_ms)

    async def _find_partitions(self, deadline_ms: int) -> None:
        session = self._network.session
        topic = await find_topic(self._network, self.topic, deadline_ms - steady_ms())
        numbers = chosen_partitions(topic, self._options.partitions)
        if None in [session.routes.find(Route(self.topic, number)) for number in numbers]:
            found = await self._network.call(GetMetadata([self.topic]), deadline_ms - steady_ms())
            session.routes.update(found, [self.topic])
        self.check_open()
        self.reader.adapt()
        self._is_prepared = True

    async def fetch(self, max_messages: int, wait_ms: int) -> None:
        """Returns when messages are ready, or when the time is over and there are none.

        Leaders that do not answer hold it up by one `timeout_ms` in all, however many there are.
        """
        if max_messages < 1 or wait_ms < 0:
            raise InvalidArgumentError("max_messages is at least 1, and wait_ms at least 0")
        deadline_ms = steady_ms() + wait_ms
        search_end_ms = deadline_ms + self._options.timeout_ms
        await self.prepare()
        reader = self.reader
        reader.want(max_messages, deadline_ms, steady_ms())
        self._network.perform()
        try:
            while not reader.ready and not reader.errors:
                now_ms = steady_ms()
                end_ms = search_end_ms if now_ms >= deadline_ms and reader.is_searching else deadline_ms
                if now_ms >= end_ms:
                    return
                await self._wait(end_ms - now_ms)
        finally:
            reader.rest()

    async def flow(self) -> None:
        """Starts iterating, and returns when a message or an error is ready."""
        if not self.reader.is_closed:
            await self.prepare()
            self.reader.flow()
            self.schedule()
        while not self.reader.ready and not self.reader.errors:
            self.check_more()
            await self._wait(None)

    # Settlements.

    def settle_soon(self, masks: dict[Lease, int], outcome: Outcome) -> None:
        """Settles without waiting; the next call raises the error."""
        self.reader.settle(masks, outcome, None)
        self.schedule()

    def settle(self, masks: dict[Lease, int], outcome: Outcome) -> "asyncio.Future[FlotillaError | None]":
        """Completes when a majority has it on disk: with None, LeaseExpiredError, or an error without an answer."""
        self.check_open()
        pending = _AwaitedSettlement(self.reader)
        self.reader.settle(masks, outcome, pending)
        self.schedule()
        return pending.future

    async def extend(self, lease: Lease, mask: int, visibility_ms: int) -> None:
        self.check_open()
        if visibility_ms < 1:
            raise InvalidArgumentError("visibility_ms is at least 1")
        self.reader.pump(steady_ms())
        answer: Answer[None] = Answer()
        self.reader.extend(lease, mask, visibility_ms, answer.set)
        self.schedule()
        await answer.wait()

    @property
    def is_crowded(self) -> bool:
        """Too many settlements have no answer: the next one must wait."""
        return self.reader.unconfirmed > UNCONFIRMED_MAX

    async def make_room(self) -> None:
        """Waits until fewer settlements have no answer."""
        while self.is_crowded and not self.reader.is_closed:
            await self._wait(None)

    async def flush(self) -> None:
        """Waits until every settlement has its answer, and raises the first error."""
        self.reader.hurry(steady_ms())
        self._network.perform()
        while self.reader.unconfirmed:
            await self._wait(None)
        self.raise_error()

    async def close(self, drain_ms: int, timeout_ms: int | None) -> None:
        """Stops polling, waits for messages in handlers, releases the rest, and raises the first error.

        A call beside another one waits for that, up to its own limits.
        """
        limit_ms = self._options.timeout_ms if timeout_ms is None else timeout_ms
        try:
            async with asyncio.timeout((drain_ms + limit_ms) / 1000):
                await self._closing.acquire()
        except TimeoutError:
            return
        try:
            if not self._has_left:
                await self._leave(drain_ms, limit_ms)
        finally:
            self._closing.release()

    def has_left(self) -> bool:
        """`close` is done."""
        return self._has_left

    async def _leave(self, drain_ms: int, limit_ms: int) -> None:
        reader = self.reader
        reader.stop(steady_ms())
        self._network.perform()
        self._notify()
        await self._wait_while(lambda: bool(reader.leases.unsettled_count), drain_ms)
        reader.abandon(steady_ms())
        self._network.perform()
        await self._wait_while(lambda: bool(reader.unconfirmed), limit_ms)
        if not self._network.session.is_closed:
            reader.leave(steady_ms())
            self._network.perform()
            await self._wait_while(lambda: reader.is_leaving or not reader.is_over, min(limit_ms, LEAVE_MS_MAX))
        self._has_left = True
        self._notify()
        if reader.unconfirmed and not reader.errors:
            text = f"{reader.unconfirmed} messages were settled without an answer within {limit_ms} ms"
            raise OutcomeUnknownError(text)
        self.raise_error()

    async def _wait_while(self, is_so: Callable[[], bool], limit_ms: int) -> None:
        deadline_ms = steady_ms() + limit_ms
        while is_so() and steady_ms() < deadline_ms and not self._network.session.is_closed:
            await self._wait(deadline_ms - steady_ms())

    # Inside.

    def check_open(self) -> None:
        if self.reader.is_closed:
            raise consumer_closed()

    def check_more(self) -> None:
        """As `check_open`, and messages that are acknowledged on delivery have all come."""
        if self._has_left or self.reader.is_over:
            raise consumer_closed()

    def raise_error(self) -> None:
        """Raises an error of background work. Any thread may call it."""
        if not self.reader.errors:
            return
        try:
            error = self.reader.errors.popleft()
        except IndexError:
            return
        raise error

    def schedule(self) -> None:
        """Schedules one `pump` for the end of this loop iteration."""
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self.pump)

    def pump(self) -> None:
        self._is_scheduled = False
        self.reader.pump(steady_ms())
        self._network.perform()

    def _notify(self) -> None:
        self._news.set()
        while self.wakers:
            self.wakers.popleft()()

    async def _wait(self, wait_ms: int | None) -> None:
        """Until the core notifies, or the time is over."""
        self._news.clear()
        if wait_ms is None:
            await self._news.wait()
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_ms / 1000):
                await self._news.wait()


class _AwaitedSettlement(PendingSettlement):
    """A settlement that a coroutine awaits."""

    __slots__ = ("future",)

    def __init__(self, reader: QueueCore[Any]) -> None:
        super().__init__(reader)
        self.future: asyncio.Future[FlotillaError | None] = asyncio.get_running_loop().create_future()

    def done(self, error: FlotillaError | None) -> None:
        # Cancelled: nobody awaits it any more.
        if not self.future.done():
            self.future.set_result(error)


def consumer_closed() -> ConnectionClosedError:
    return ConnectionClosedError("the consumer is closed")
