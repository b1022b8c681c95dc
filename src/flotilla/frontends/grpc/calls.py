"""The unary calls: each is read, asked of the cluster through the gateway, and its answer written."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import grpc

from flotilla.codec.grpc import calls as api
from flotilla.codec.grpc.queue import read_produce, write_produced, write_receipts
from flotilla.codec.grpc.values import (
    EachPartition,
    Expired,
    ExtendLeases,
    FetchMessages,
    GroupEnd,
    GroupMove,
    PollMessages,
    ProduceRecords,
    QueueLeave,
    SettleLeases,
    TopicTrim,
)
from flotilla.frontends.grpc import metadata_index
from flotilla.frontends.grpc.dead_letters import DeadLetterCalls
from flotilla.frontends.grpc.errors import Context, fail, time_left_ms
from flotilla.frontends.large_answers import LargeAnswers
from flotilla.gateway.gateway import Gateway
from flotilla.types.errors import FlotillaError, InvalidArgumentError, LeaseExpiredError, NotFoundError
from flotilla.types.ids import Offset
from flotilla.types.lease_tokens import LeasePlace
from flotilla.types.operations import Reply, Request
from flotilla.types.operations.queue import Extend, GroupReset, LeaseRange, Settle

#: From the value that was read and the time left to the answer.
_Answer: TypeAlias = Callable[[Any, int], Awaitable[Any]]
#: Leases in one call.
LEASE_COUNT_MAX = 10_000


class Calls:
    def __init__(self, gateway: Gateway, large: LargeAnswers) -> None:
        self._gateway = gateway
        self._large = large

    def handlers(self) -> "dict[str, grpc.RpcMethodHandler[Any, Any]]":
        """Every unary call of the contract, by name."""
        found = {call.name: self._unary(call, self._ask) for call in api.REQUESTS}
        found |= {call.name: self._unary(call, self._ask_each) for call in api.OF_PARTITIONS}
        found |= {call.name: self._unary(call, self.settle) for call in api.OF_LEASES}
        found |= {call.name: self._unary(call, self._trim) for call in api.OF_TRIMMING}
        letters = DeadLetterCalls(self._gateway)
        found["ListDeadLetters"] = self._unary(api.LIST_DEAD_LETTERS, letters.list_some)
        found["RedriveDeadLetters"] = self._unary(api.REDRIVE_DEAD_LETTERS, letters.redrive)
        found["PurgeDeadLetters"] = self._unary(api.PURGE_DEAD_LETTERS, letters.purge)
        found["ResetGroup"] = self._unary(api.RESET_GROUP, self._reset_group)
        found["LeaveQueue"] = self._unary(api.LEAVE_QUEUE, self._leave_queue)
        found["DeleteGroup"] = self._unary(api.DELETE_GROUP, self._delete_group)
        found["Fetch"] = self._handler("Fetch", self._fetch)
        found["Poll"] = self._handler("Poll", self._poll)
        found["Produce"] = self._handler("Produce", self._produce)
        return found

    def _unary(self, call: api.Call, answer: _Answer) -> "grpc.RpcMethodHandler[Any, Any]":
        read, write = call.read, call.write

        async def handle(message: Any, context: Context) -> Any:
            try:
                asked = read(message)
                return write(asked, await answer(asked, time_left_ms(context)))
            except FlotillaError as error:
                await fail(context, error)

        return self._handler(call.name, handle)

    def _handler(
        self, name: str, handle: Callable[[Any, Context], Awaitable[Any]]
    ) -> "grpc.RpcMethodHandler[Any, Any]":
        decode = api.decoder(name)

        async def indexed(data: bytes, context: Context) -> Any:
            try:
                message = decode(data)
            except InvalidArgumentError as error:
                await fail(context, error)
            await metadata_index.reach(self._gateway, context)
            answer = await handle(message, context)
            metadata_index.report(self._gateway, context)
            return answer

        # Without a deserializer: the library would answer what it raises with UNKNOWN.
        return grpc.unary_unary_rpc_method_handler(indexed, response_serializer=api.encoder(name))

    # How each kind of call is answered.

    async def _ask(self, request: Request, timeout_ms: int) -> Reply:
        return await self._gateway.ask(request, timeout_ms=timeout_ms)

    async def _ask_each(self, asked: EachPartition, timeout_ms: int) -> dict[int, Reply]:
        gateway = self._gateway
        numbers = asked.partitions or await gateway.partitions(asked.topic, timeout_ms=timeout_ms)
        requests = [gateway.ask(asked.make(number), timeout_ms=timeout_ms) for number in numbers]
        outcomes = dict(zip(numbers, await asyncio.gather(*requests, return_exceptions=True), strict=True))
        replies: dict[int, Reply] = {}
        for number, outcome in outcomes.items():
            if isinstance(outcome, Reply):
                replies[number] = outcome
            elif not (asked.is_partial and isinstance(outcome, NotFoundError)):
                raise outcome
        if not replies:
            first = outcomes[numbers[0]]
            assert isinstance(first, NotFoundError)
            raise first
        return replies

    async def _reset_group(self, asked: GroupMove, timeout_ms: int) -> dict[int, GroupReset]:
        groups = self._gateway.groups(asked.topic, timeout_ms=timeout_ms)
        return await groups.move(asked.group, asked.start, asked.partitions or None, dry_run=asked.is_dry_run)

    async def _delete_group(self, asked: GroupEnd, timeout_ms: int) -> None:
        groups = self._gateway.groups(asked.topic, timeout_ms=timeout_ms)
        await groups.delete(asked.group, asked.partitions or None, is_forced=asked.is_forced)

    async def _leave_queue(self, asked: QueueLeave, timeout_ms: int) -> None:
        await self._gateway.leave(asked.topic, asked.group, asked.member, timeout_ms=timeout_ms)

    async def _trim(self, asked: TopicTrim, timeout_ms: int) -> dict[int, Offset]:
        return await self._gateway.trim(asked.topic, asked.offsets, timeout_ms=timeout_ms)

    async def _fetch(self, message: Any, context: Context) -> Any:
        try:
            asked: FetchMessages = api.FETCH.read(message)
            fetched = await self._gateway.ask(asked.request, timeout_ms=time_left_ms(context))
            opened = [] if asked.has_batches else fetched.batches
            return await self._large.make(opened, lambda: api.FETCH.write(asked, fetched))
        except FlotillaError as error:
            await fail(context, error)

    async def _poll(self, message: Any, context: Context) -> Any:
        try:
            asked: PollMessages = api.POLL.read(message)
            polled = await self._gateway.poll(asked.request, timeout_ms=time_left_ms(context))
            opened = [] if asked.has_batches else [delivery.batch for delivery in polled.deliveries]
            return await self._large.make(opened, lambda: api.POLL.write(asked, polled))
        except FlotillaError as error:
            await fail(context, error)

    async def _produce(self, message: Any, context: Context) -> Any:
        try:
            return await self._store(message, context)
        except FlotillaError as error:
            await fail(context, error)

    async def _store(self, message: Any, context: Context) -> Any:
        await self._gateway.learn_time()
        asked = read_produce(message, self._gateway.now_ms())
        if isinstance(asked, ProduceRecords):
            # Not by `produce`: gRPC itself keeps the deadline.
            sent = await self._gateway.send(asked.topic, asked.records, partition=asked.partition)
            return write_receipts(await sent.receipts())
        produced = await self._gateway.ask(asked, timeout_ms=time_left_ms(context))
        return write_produced(asked, produced)

    # Leases.

    async def settle(self, asked: SettleLeases | ExtendLeases, timeout_ms: int) -> Expired:
        """The leases that were refused. Raises LeaseExpiredError when all of them were."""
        expired = await self.settle_some(asked, timeout_ms)
        if count_of(expired.held) == count_of(asked.held):
            raise LeaseExpiredError("the lease has expired, or the message was settled before; nothing was done")
        return expired

    async def settle_some(self, asked: SettleLeases | ExtendLeases, timeout_ms: int) -> Expired:
        if count_of(asked.held) > LEASE_COUNT_MAX:
            raise InvalidArgumentError(f"a call names at most {LEASE_COUNT_MAX} messages")
        requests = {place: _request(asked, place, held) for place, held in asked.held.items()}
        asking = [self._gateway.ask(each, timeout_ms=timeout_ms) for each in requests.values()]
        # Nearly always it is one partition, and then there is nothing to gather.
        outcomes = [await asking[0]] if len(asking) == 1 else await asyncio.gather(*asking)
        return Expired({place: reply.expired for place, reply in zip(requests, outcomes, strict=True) if reply.expired})


def _request(asked: SettleLeases | ExtendLeases, place: LeasePlace, held: list[LeaseRange]) -> Settle | Extend:
    topic_id, partition = place
    if isinstance(asked, ExtendLeases):
        return Extend(asked.topic, partition, asked.group, asked.member, held, asked.visibility_ms, topic_id)
    return Settle(
        asked.topic,
        partition,
        asked.group,
        asked.kind,
        held,
        asked.reason,
        asked.delay_ms,
        topic_id=topic_id,
        results=asked.results.get(place, []),
    )


def count_of(held: dict[LeasePlace, list[LeaseRange]]) -> int:
    """The number of messages in these ranges."""
    return sum([run.end - run.first for runs in held.values() for run in runs])
