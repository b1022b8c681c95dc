"""The clients of a chaos run, each a loop that writes every answer into the history until it is told to stop.

An error of a call is no reason to end: OutcomeUnknownError is written down as unknown, any other typed error as
certainly not done, as the client promises.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from random import Random
from typing import TYPE_CHECKING, Final

from flotilla.cli.chaos.judge.history import (
    OK,
    REFUSED,
    UNKNOWN,
    Ack,
    Delivery,
    EndRead,
    History,
    OffsetCommit,
    OffsetRead,
    Place,
    Read,
    Send,
    StreamDelivery,
    TransactionEnd,
)
from flotilla.cli.chaos.workload.direct_connection import DirectConnection
from flotilla.codec.batch.view import BatchView
from flotilla.types.errors import FlotillaError, LeaseExpiredError, OutcomeUnknownError
from flotilla.types.operations.log import Fetch, Fetched

if TYPE_CHECKING:
    from flotilla.client.async_client import AsyncClient
    from flotilla.client.producer.aio import AsyncDelivery
    from flotilla.client.queue.aio import AsyncQueueMessage

BOOKS: Final = "books"
PAIRS: Final = "pairs"
PARTITIONS: Final = 3
QUEUE_GROUP: Final = "workers"
OFFSET_GROUP: Final = "offsets"
STREAM_GROUP: Final = "stream"
_FETCH_BYTES: Final = 4 << 20
_NACK_SHARE: Final = 0.02
_ABORT_SHARE: Final = 0.15
#: Polls whose messages are settled one after the other.
_ONE_BY_ONE_SHARE: Final = 0.25
#: How long a member of the stream group stays.
_STAY_S: Final = (3.0, 12.0)
_PAUSE_S: Final = 0.05
_SLOW_S: Final = 5.0
_SETTLE_MS: Final = 8_000
_PADDING_MAX: Final = 3_000
#: Reads that begin somewhere in the log, and so in files; the others begin near its end.
_OLD_SHARE: Final = 0.2
_OLD_BYTES: Final = 64 << 10


class Books:
    """The history that clients write, and what they need to know about the cluster."""

    def __init__(self, random: Random, addresses: Callable[[], dict[int, str]]) -> None:
        """`addresses` names the nodes that run now, for reads at one of them."""
        self.history = History(queue_topic=BOOKS, replication={BOOKS: 3, PAIRS: 3})
        self.random = random
        self.addresses = addresses
        #: Grows when the topic does.
        self.partitions = PARTITIONS
        #: The producers have stopped; consumers go on until everything is delivered.
        self.is_quiet = False
        self.is_over = False
        #: What happens sometimes, and should.
        self.counts: Counter[str] = Counter()

    def pad(self, payload: str) -> bytes:
        """A record that begins with its name: records of any size end anywhere in a sector."""
        return f"{payload} {'-' * self.random.randrange(_PADDING_MAX)}".encode()

    def stays(self, until: float) -> bool:
        """Whether a member that comes and goes stays: until a time, and at the end until everything is read."""
        return not self.is_over and (self.is_quiet or time.monotonic() < until)

    def place(self) -> Place:
        return Place(BOOKS, self.random.randrange(self.partitions))


def name_of(payload: bytes) -> str:
    """The name of a record, without what it was padded with."""
    return payload.partition(b" ")[0].decode()


def outcome_of(error: FlotillaError) -> str:
    return UNKNOWN if isinstance(error, OutcomeUnknownError) else REFUSED


async def _try(books: Books, call: Awaitable[object]) -> object | None:
    """The answer; None: it failed."""
    try:
        return await call
    except (FlotillaError, OSError, EOFError, TimeoutError) as error:
        books.counts[f"failed: {getattr(error, 'code', type(error).__name__)}"] += 1
        return None


async def produce_one_by_one(books: Books, client: "AsyncClient", name: str) -> None:
    numbers: Counter[Place] = Counter()
    while not books.is_quiet:
        place = books.place()
        numbers[place] += 1
        send = Send(name, numbers[place], place, f"{name}.{place.partition}.{numbers[place]}", time.monotonic(), 0, OK)
        try:
            receipt = await client.produce(place.topic, books.pad(send.payload), partition=place.partition)
            send.offset = receipt.offset
        except FlotillaError as error:
            send.outcome = outcome_of(error)
        send.ended = time.monotonic()
        books.history.sends.append(send)
        await asyncio.sleep(_PAUSE_S * books.random.random())


async def produce_in_a_pipeline(books: Books, client: "AsyncClient", name: str) -> None:
    numbers: Counter[Place] = Counter()
    answers: set[asyncio.Task[None]] = set()
    async with client.producer(BOOKS, linger_ms=2) as producer:
        while not books.is_quiet:
            place = books.place()
            numbers[place] += 1
            payload = f"{name}.{place.partition}.{numbers[place]}"
            send = Send(name, numbers[place], place, payload, time.monotonic(), 0, REFUSED)
            try:
                delivery = await producer.send(books.pad(payload), partition=place.partition)
            except FlotillaError as error:
                send.outcome, send.ended = outcome_of(error), time.monotonic()
                books.history.sends.append(send)
                continue
            task = asyncio.create_task(_await_delivery(books, send, delivery))
            answers.add(task)
            task.add_done_callback(answers.discard)
            await asyncio.sleep(_PAUSE_S * books.random.random())
        await asyncio.gather(*answers)


async def _await_delivery(books: Books, send: Send, delivery: "AsyncDelivery") -> None:
    try:
        send.offset, send.outcome = (await delivery).offset, OK
    except FlotillaError as error:
        send.outcome = outcome_of(error)
    send.ended = time.monotonic()
    books.history.sends.append(send)


async def transact(books: Books, client: "AsyncClient", name: str) -> None:
    number = 0
    while not books.is_quiet:
        number += 1
        one, other = books.place(), Place(PAIRS, 0)
        records = [(one, f"{name}.{number}.a"), (other, f"{name}.{number}.b")]
        ending = TransactionEnd(f"{name}.{number}", records, REFUSED)
        transaction = client.transaction()
        try:
            for place, payload in records:
                await transaction.stage(place.topic, [books.pad(payload)], partition=place.partition)
            if books.random.random() < _ABORT_SHARE:
                await transaction.abort()
            else:
                await transaction.commit()
                ending.outcome = OK
        except FlotillaError as error:
            ending.outcome = outcome_of(error)
        books.history.transactions.append(ending)
        await asyncio.sleep(4 * _PAUSE_S * books.random.random())


async def work(books: Books, client: "AsyncClient", name: str) -> None:
    """A member of the queue group: acknowledges, and fails a few."""
    async with client.queue(BOOKS, QUEUE_GROUP, push=False, timeout_ms=_SETTLE_MS) as consumer:
        while not books.is_over:
            asked = time.monotonic()
            try:
                messages = await consumer.poll(16, wait_ms=1_000)
            except FlotillaError:
                await asyncio.sleep(_PAUSE_S)
                continue
            for message in messages:
                place = Place(message.topic, message.partition)
                delivery = Delivery(name, place, message.offset, name_of(message.payload), asked)
                books.history.deliveries.append(delivery)
            settling = [_settle(books, name, message) for message in messages]
            if books.random.random() < _ONE_BY_ONE_SHARE:
                for each in settling:
                    await each
            else:
                # A request for many; also, the group keeps up with the producers however long the run.
                await asyncio.gather(*settling)


async def _settle(books: Books, member: str, message: "AsyncQueueMessage") -> None:
    """Acknowledges a message, or fails it. A message whose settlement failed stays leased: it is settled again."""
    is_nack = books.random.random() < _NACK_SHARE
    place = Place(message.topic, message.partition)
    ack = Ack(member, place, message.offset, time.monotonic(), 0, OK)
    while True:
        try:
            await (message.nack(delay_ms=0) if is_nack else message.ack())
            break
        except FlotillaError as error:
            books.counts[f"settlements failed: {error.code}"] += 1
            if isinstance(error, LeaseExpiredError) or books.is_over:
                ack.outcome = UNKNOWN
                break
        await asyncio.sleep(_PAUSE_S)
    ack.ended = time.monotonic()
    if ack.ended - ack.began > _SLOW_S:
        books.counts["settlements slower than 5 s"] += 1
    if not is_nack:
        books.history.acks.append(ack)


async def read_replicas(books: Books, client: "AsyncClient", name: str) -> None:
    """Linearizable reads near the end of the log, at one node after the other, and reads of the end at the leader."""
    ends: dict[Place, int] = {}
    while not books.is_over:
        addresses = books.addresses()
        if addresses:
            node = books.random.choice(list(addresses))
            await _try(books, _read_at(books, node, addresses[node], ends))
        place = books.place()
        began = time.monotonic()
        found = await _try(books, client.find_offset(place.topic, place.partition, "latest"))
        if isinstance(found, int):
            books.history.end_reads.append(EndRead(place, began, found))
        await asyncio.sleep(2 * _PAUSE_S * books.random.random())


async def _read_at(books: Books, node: int, address: str, ends: dict[Place, int]) -> None:
    async with DirectConnection(address) as connection:
        for _ in range(8):
            place = books.place()
            is_old = books.random.random() < _OLD_SHARE
            end = ends.get(place, 0)
            first = books.random.randrange(end + 1) if is_old else max(end - books.random.randrange(4), 0)
            size = _OLD_BYTES if is_old else _FETCH_BYTES
            request = Fetch(*place, first, size, is_any_replica=True, is_linearizable=True)
            began = time.monotonic()
            answer = await connection.ask(request)
            if not isinstance(answer, Fetched):
                books.counts["reads refused"] += 1
                return
            payloads = records_from(answer, first)
            ends[place] = max(end, first + len(payloads))
            books.history.reads.append(Read(node, place, began, first, payloads, answer.next_offset))


def records_from(answer: Fetched, first: int) -> list[str]:
    """The payloads of a fetch from an offset on; its first batch may begin before."""
    found: list[str] = []
    for batch in answer.batches:
        view = BatchView(batch)
        found += map(name_of, view.payloads()[max(first - view.header.base_offset, 0) :])
    return found


async def commit_offsets(books: Books, client: "AsyncClient", name: str) -> None:
    offset = 0
    while not books.is_over:
        place = books.place()
        offset += 1
        commit = OffsetCommit(place, offset, 0, OK)
        try:
            commit.offset = await client.commit_offset(place.topic, OFFSET_GROUP, place.partition, offset)
        except FlotillaError as error:
            commit.outcome = outcome_of(error)
        commit.ended = time.monotonic()
        books.history.commits.append(commit)
        place = books.place()
        began = time.monotonic()
        try:
            found = await client.committed_offset(place.topic, OFFSET_GROUP, place.partition)
            books.history.offset_reads.append(OffsetRead(place, found or 0, began))
        except FlotillaError:
            pass
        await asyncio.sleep(2 * _PAUSE_S * books.random.random())


async def stream(books: Books, client: "AsyncClient", name: str) -> None:
    """A member of the stream group that comes and goes, in order or without a word."""
    while not books.is_over:
        books.counts["stream members"] += 1
        until = time.monotonic() + books.random.uniform(*_STAY_S)
        consumer = client.stream(BOOKS, STREAM_GROUP, session_ms=6_000)
        try:
            while books.stays(until):
                for message in await consumer.poll(200, wait_ms=500):
                    place = Place(message.topic, message.partition)
                    books.history.stream.append(StreamDelivery(place, message.offset, name_of(message.payload)))
                if books.random.random() < 0.5:
                    await consumer.commit()
        except FlotillaError:
            await asyncio.sleep(_PAUSE_S)
        finally:
            await _try(books, consumer.close(timeout_ms=2_000))


Worker = Callable[[Books, "AsyncClient", str], Coroutine[None, None, None]]
#: Every client by name, each with a connection of its own.
CLIENTS: Final[dict[str, Worker]] = {
    "one": produce_one_by_one,
    "two": produce_one_by_one,
    "three": produce_one_by_one,
    "pipe": produce_in_a_pipeline,
    "pair": transact,
    "work1": work,
    "work2": work,
    "read1": read_replicas,
    "read2": read_replicas,
    "commit": commit_offsets,
    "stream1": stream,
    "stream2": stream,
}
