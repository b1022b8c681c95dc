"""A subscription: messages out; credit, acks, nacks and extensions in, on one stream.

Three things go on at once: words of the client are carried out as they come, messages are taken from the gateway as
long as there is credit, and what is to be written leaves in order. Whatever is settled gives its credit back. When
the client says no more, messages still come: it may settle them by calls of their own. When the stream ends, what it
holds goes back.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final

from flotilla.codec.grpc.queue import read_subscribe, write_pushed, write_refused
from flotilla.codec.grpc.values import AddSubscriptionCredit, ExtendLeases, OpenSubscription, SettleLeases
from flotilla.frontends.grpc.calls import Calls, count_of
from flotilla.frontends.grpc.errors import Context, fail, time_left_ms
from flotilla.gateway.gateway import TIMEOUT_MS_DEFAULT, Gateway
from flotilla.gateway.subscription import GatewaySubscription
from flotilla.types.errors import FlotillaError, InvalidArgumentError
from flotilla.types.limits import MIB
from flotilla.types.operations.queue import Delivery, Pushed

#: Messages of the contract that wait for the client to read.
_OUTPUT_COUNT_MAX: Final = 4
#: One message of the contract: clients take 4 MiB unless they are set otherwise. One delivery always goes out whole.
_REPLY_BYTES_MAX: Final = 2 * MIB
#: Words of the client that are carried out at the same time; then nothing more is read.
_SETTLING_COUNT_MAX: Final = 256


class SubscribeStream:
    """One stream."""

    def __init__(self, gateway: Gateway, calls: Calls) -> None:
        self._gateway = gateway
        self._calls = calls
        #: What is to be written; an error is the end.
        self._output: asyncio.Queue[Any | FlotillaError] = asyncio.Queue(_OUTPUT_COUNT_MAX)
        self._settling: dict[asyncio.Task[None], None] = {}
        self._room = asyncio.Event()

    async def handle(self, requests: AsyncIterator[Any], context: Context) -> None:
        try:
            opened, subscription = await self._open(requests, context)
        except FlotillaError as error:
            await fail(context, error)
        tasks = [
            asyncio.create_task(self._push(subscription, has_batches=opened.has_batches)),
            asyncio.create_task(self._listen(requests, opened, subscription)),
        ]
        try:
            while True:
                reply = await self._output.get()
                if isinstance(reply, FlotillaError):
                    await fail(context, reply)
                await context.write(reply)
        finally:
            tasks += self._settling
            for task in tasks:
                task.cancel()
            subscription.close()
            # However they have ended: the client may have hung up in the middle of a word.
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _open(
        self, requests: AsyncIterator[Any], context: Context
    ) -> tuple[OpenSubscription, GatewaySubscription]:
        async for message in requests:
            opened = read_subscribe(message)
            if not isinstance(opened, OpenSubscription):
                break
            return opened, await self._gateway.subscribe(opened.request, timeout_ms=time_left_ms(context))
        raise InvalidArgumentError("the first request of a subscription opens it")

    # Messages out.

    async def _push(self, subscription: GatewaySubscription, *, has_batches: bool) -> None:
        try:
            async for pushed in subscription:
                for part in _parts(pushed):
                    await self._output.put(write_pushed(part, pushed.visibility_ms, has_batches=has_batches))
        except FlotillaError as error:
            await self._output.put(error)

    # Words of the client in.

    async def _listen(
        self, requests: AsyncIterator[Any], opened: OpenSubscription, subscription: GatewaySubscription
    ) -> None:
        try:
            async for message in requests:
                word = read_subscribe(message)
                if isinstance(word, AddSubscriptionCredit):
                    subscription.add_credit(word.messages)
                elif isinstance(word, OpenSubscription):
                    raise InvalidArgumentError("the subscription is open")
                else:
                    await self._begin(word, opened, subscription)
        except FlotillaError as error:
            await self._output.put(error)

    async def _begin(
        self, word: SettleLeases | ExtendLeases, opened: OpenSubscription, subscription: GatewaySubscription
    ) -> None:
        word.topic = word.topic or opened.request.topic
        word.group = word.group or opened.request.group
        if isinstance(word, ExtendLeases):
            word.member = word.member or opened.request.member
        while len(self._settling) >= _SETTLING_COUNT_MAX:
            self._room.clear()
            await self._room.wait()
        task = asyncio.create_task(self._carry_out(word, subscription))
        self._settling[task] = None
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._settling[task]
        self._room.set()

    async def _carry_out(self, word: SettleLeases | ExtendLeases, subscription: GatewaySubscription) -> None:
        try:
            expired = await self._calls.settle_some(word, TIMEOUT_MS_DEFAULT)
            if isinstance(word, SettleLeases):
                # What was refused is held by nobody here either.
                subscription.add_credit(count_of(word.held))
            if expired.held:
                await self._output.put(write_refused(expired, is_by_token=word.is_by_token))
        except FlotillaError as error:
            await self._output.put(error)


def _parts(pushed: Pushed) -> Iterator[list[Delivery]]:
    """Deliveries as they fit into messages of the contract."""
    part: list[Delivery] = []
    size_bytes = 0
    for delivery in pushed.deliveries:
        if part and size_bytes + len(delivery.batch) > _REPLY_BYTES_MAX:
            yield part
            part, size_bytes = [], 0
        part.append(delivery)
        size_bytes += len(delivery.batch)
    yield part
