"""The Subscribe call: messages out; credit, acks, nacks and extensions in, on one stream.

Three tasks run at once: one carries out the client's commands, one takes messages from the gateway while there is
credit, and one writes in order. Settled messages return their credit. A client that has finished sending still gets
messages: it may settle them by unary calls. When the stream ends, its leases are released.

A client that has credit and no unsettled message has nothing to say. Where many streams are read, its stream rests
until it gets a message: a node serves more consumers than it can read from at a time.
"""

import asyncio
from functools import partial
from typing import Any, Final

from flotilla.codec.batch.columns import size_when_open
from flotilla.codec.grpc import calls as api
from flotilla.codec.grpc.queue import read_subscribe, write_pushed, write_refused
from flotilla.codec.grpc.values import AddSubscriptionCredit, ExtendLeases, OpenSubscription, SettleLeases
from flotilla.frontends.grpc.calls import Calls, count_of
from flotilla.frontends.grpc.errors import Context, fail, time_left_ms
from flotilla.frontends.grpc.stream_requests import StreamRequests
from flotilla.frontends.grpc.unread_answers import UnreadAnswers
from flotilla.frontends.large_answers import LargeAnswers, parts_of
from flotilla.gateway.gateway import TIMEOUT_MS_DEFAULT, Gateway
from flotilla.gateway.subscription import GatewaySubscription
from flotilla.types.errors import FlotillaError, InvalidArgumentError
from flotilla.types.limits import MIB

#: Replies that wait for the client to read.
_OUTPUT_COUNT_MAX: Final = 4
#: Size of a reply: gRPC clients accept 4 MiB by default.
_REPLY_BYTES_MAX: Final = 2 * MIB
#: Commands of the client in flight; then reading stops.
_SETTLING_COUNT_MAX: Final = 256

_decode, _encode = api.decoder("Subscribe"), api.encoder("Subscribe")


class SubscribeStream:
    """One stream."""

    def __init__(self, gateway: Gateway, calls: Calls, answers: UnreadAnswers, large: LargeAnswers) -> None:
        self._gateway = gateway
        self._large = large
        self._answers = answers
        self._calls = calls
        #: Replies to write; an error ends the stream.
        self._output: asyncio.Queue[Any | FlotillaError] = asyncio.Queue(_OUTPUT_COUNT_MAX)
        self._settling: dict[asyncio.Task[None], None] = {}
        self._room = asyncio.Event()
        #: Messages that the client got and has not settled on this stream.
        self._unsettled_count = 0
        self._has_pushed = asyncio.Event()

    async def handle(self, requests: StreamRequests, context: Context) -> None:
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
                await self._answers.write(context, _encode(reply))
                # Or this frame would keep it until the next one comes.
                del reply
        finally:
            tasks += self._settling
            for task in tasks:
                task.cancel()
            subscription.close()
            # Their exceptions are dropped: the client may have disconnected in the middle of a message.
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _open(self, requests: StreamRequests, context: Context) -> tuple[OpenSubscription, GatewaySubscription]:
        async for data in requests:
            opened = read_subscribe(_decode(data))
            if not isinstance(opened, OpenSubscription):
                break
            return opened, await self._gateway.subscribe(opened.request, timeout_ms=time_left_ms(context))
        raise InvalidArgumentError("the first request of a subscription opens it")

    # Messages out.

    async def _push(self, subscription: GatewaySubscription, *, has_batches: bool) -> None:
        try:
            async for pushed in subscription:
                self._unsettled_count += sum([delivery.count for delivery in pushed.deliveries])
                self._has_pushed.set()
                for part in parts_of(pushed.deliveries, _REPLY_BYTES_MAX, len if has_batches else size_when_open):
                    opened = [] if has_batches else [delivery.batch for delivery in part]
                    write = partial(write_pushed, part, pushed.visibility_ms, has_batches=has_batches)
                    await self._output.put(await self._large.make(opened, write))
        except FlotillaError as error:
            await self._output.put(error)

    # Commands of the client in.

    async def _listen(
        self, requests: StreamRequests, opened: OpenSubscription, subscription: GatewaySubscription
    ) -> None:
        try:
            await self._rest(requests, subscription)
            async for data in requests:
                command = read_subscribe(_decode(data))
                # Or this frame would keep it until the next one comes.
                del data
                if isinstance(command, AddSubscriptionCredit):
                    subscription.add_credit(command.messages)
                elif isinstance(command, OpenSubscription):
                    raise InvalidArgumentError("the subscription is already open")
                else:
                    await self._begin(command, opened, subscription)
                await self._rest(requests, subscription)
        except FlotillaError as error:
            await self._output.put(error)

    async def _rest(self, requests: StreamRequests, subscription: GatewaySubscription) -> None:
        has_credit = subscription.has_credit or self._settling
        while has_credit and not self._unsettled_count and requests.rest():
            self._has_pushed.clear()
            await self._has_pushed.wait()

    async def _begin(
        self, command: SettleLeases | ExtendLeases, opened: OpenSubscription, subscription: GatewaySubscription
    ) -> None:
        command.topic = command.topic or opened.request.topic
        command.group = command.group or opened.request.group
        if isinstance(command, ExtendLeases):
            command.member = command.member or opened.request.member
        else:
            self._unsettled_count = max(self._unsettled_count - count_of(command.held), 0)
        while len(self._settling) >= _SETTLING_COUNT_MAX:
            self._room.clear()
            await self._room.wait()
        task = asyncio.create_task(self._carry_out(command, subscription))
        self._settling[task] = None
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._settling[task]
        self._room.set()

    async def _carry_out(self, command: SettleLeases | ExtendLeases, subscription: GatewaySubscription) -> None:
        try:
            expired = await self._calls.settle_some(command, TIMEOUT_MS_DEFAULT)
            if isinstance(command, SettleLeases):
                # Refused leases are not held by this client either, so all of them return their credit.
                subscription.add_credit(count_of(command.held))
            if expired.held:
                await self._output.put(write_refused(expired, is_by_token=command.is_by_token))
        except FlotillaError as error:
            await self._output.put(error)
