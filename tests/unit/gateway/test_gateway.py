"""The gateway over TCP against real brokers: what is shared by many callers harms none of them."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Any

import pytest

from flotilla.codec.batch.records import encode_batch
from flotilla.codec.batch.view import BatchView
from flotilla.gateway import long_poll_connections
from flotilla.gateway import poll as gateway_poll
from flotilla.gateway import subscription as gateway_subscription
from flotilla.gateway.gateway import Gateway
from flotilla.gateway.long_poll_connections import LONG_POLLS_MAX
from flotilla.types.address import read_addresses
from flotilla.types.errors import InvalidArgumentError, NotFoundError, OutcomeUnknownError, UnavailableError
from flotilla.types.operations import AlterTopic, CreateTopic, Fetch, Produce, Produced
from flotilla.types.operations.queue import (
    ACK,
    DescribeGroup,
    Extend,
    LeaseRange,
    Poll,
    Polled,
    Pushed,
    Settle,
    Settled,
    Subscribe,
    Withdraw,
)
from flotilla.types.records import Record
from tests.unit.client.broker_servers import broker_servers
from tests.unit.client.brokers import Brokers
from tests.unit.client.shells import TcpServers

_WAIT_SECONDS_MAX = 30
_HOUR_MS = 3_600_000


@pytest.fixture
def servers() -> Iterator[TcpServers]:
    with broker_servers(Brokers(2)) as opened:
        yield opened


@pytest.fixture
def long_parking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Polls that are parked at a leader stay there for longer than a test lasts, unless they are withdrawn."""
    monkeypatch.setattr(gateway_poll, "LONG_POLL_MS", _HOUR_MS)
    monkeypatch.setattr(gateway_subscription, "LONG_POLL_MS", _HOUR_MS)


Work = Callable[[Gateway], Coroutine[Any, Any, None]]


@pytest.fixture
def play(servers: TcpServers) -> Callable[[Work], None]:
    """Runs a coroutine with a gateway to both nodes; topic `one` has a partition, `two` one at each node."""
    servers.cluster.create("one", 1)
    servers.cluster.create("two", 2)
    assert [servers.cluster.leader("two", number).node for number in (0, 1)] == [1, 2]

    async def run(work: Work) -> None:
        gateway = Gateway(lambda: read_addresses(servers.addresses))
        try:
            async with asyncio.timeout(_WAIT_SECONDS_MAX):
                await work(gateway)
        finally:
            await gateway.close()

    return lambda work: asyncio.run(run(work))


def values(found: Polled | Pushed) -> list[bytes]:
    return [value for delivery in found.deliveries for value in BatchView(delivery.batch).payloads()]


async def until(is_so: Callable[[], bool] | Callable[[], Awaitable[bool]]) -> None:
    while True:
        found = is_so()
        if found if isinstance(found, bool) else await found:
            return
        await asyncio.sleep(0.005)


def records(*payloads: bytes, **fields: Any) -> list[Record]:
    return [Record(payload, **fields) for payload in payloads]


# Any request.


def test_a_request_goes_to_the_leader(play: Callable[[Work], None], servers: TcpServers) -> None:
    async def work(gateway: Gateway) -> None:
        for partition in (0, 1):
            produced = await gateway.ask(Produce("two", partition, encode_batch(records(b"x"))))
            assert produced == Produced(0)
        servers.cluster.move("two", 0, 2)
        assert await gateway.ask(Produce("two", 0, encode_batch(records(b"y")))) == Produced(1)
        reply = await gateway.ask(CreateTopic("three", 3))
        assert len(reply.topic.partitions) == 3
        assert await gateway.partitions("three") == [0, 1, 2]
        assert (await gateway.topic("three")).name == "three"
        assert [topic.name for topic in (await gateway.metadata(["two"])).topics] == ["two"]
        fetched = await gateway.ask(Fetch("two", 0, 0, 1000))
        assert fetched.next_offset == 2

    play(work)


def test_a_missing_topic_is_not_found(play: Callable[[Work], None], servers: TcpServers) -> None:
    async def work(gateway: Gateway) -> None:
        with pytest.raises(NotFoundError):
            await gateway.topic("none")
        with pytest.raises(NotFoundError):
            await gateway.poll(Poll("none", "g", "me"))
        with pytest.raises(NotFoundError):
            await gateway.produce("none", records(b"x"))
        with pytest.raises(NotFoundError):
            await gateway.poll(Poll("two", "g", "me", [7]))
        with pytest.raises(InvalidArgumentError):
            await gateway.ask(Subscribe("two", "g", "me", 1))

    play(work)


def test_an_index_that_a_caller_has_seen_elsewhere_holds_for_all_answers(
    play: Callable[[Work], None], servers: TcpServers
) -> None:
    async def work(gateway: Gateway) -> None:
        assert gateway.metadata_index == 0
        index = servers.cluster.node(1).metadata_index
        await gateway.reach(index)
        assert gateway.metadata_index == index
        with pytest.raises(InvalidArgumentError):
            await gateway.reach(2**62)
        # What one caller makes up is asked of no broker for another one.
        assert gateway.metadata_index == index
        assert (await gateway.metadata()).cluster_id == servers.cluster.cluster_id

    play(work)


def test_no_brokers_are_known_yet() -> None:
    async def run() -> None:
        gateway = Gateway(list)
        with pytest.raises(UnavailableError):
            await gateway.metadata()
        await gateway.close()

    asyncio.run(run())


def test_a_fetch_that_is_cancelled_waits_nowhere(play: Callable[[Work], None], servers: TcpServers) -> None:
    async def work(gateway: Gateway) -> None:
        for _ in range(3):
            waiting = asyncio.ensure_future(gateway.ask(Fetch("one", 0, 0, 100, wait_ms=_HOUR_MS)))
            await until(lambda: len(servers.cluster.waiting) == 1)
            waiting.cancel()
            await until(lambda: not servers.cluster.waiting)
            assert (await asyncio.gather(waiting, return_exceptions=True))[0].__class__ is asyncio.CancelledError
        assert servers.cluster.count(Fetch) == 3

    play(work)


# Producing.


def test_records_of_many_callers_share_batches(play: Callable[[Work], None], servers: TcpServers) -> None:
    async def work(gateway: Gateway) -> None:
        await gateway.produce("one", records(b"first"))
        servers.cluster.requests.clear()
        receipts = await asyncio.gather(*[gateway.produce("one", records(b"%d" % n)) for n in range(100)])
        assert sorted(receipt.offset for (receipt,) in receipts) == list(range(1, 101))
        assert servers.cluster.count(Produce) <= 10
        assert sorted(servers.cluster.stored("one")) == sorted([b"first", *[b"%d" % n for n in range(100)]])

    play(work)


def test_receipts_come_in_the_order_of_the_records(play: Callable[[Work], None], servers: TcpServers) -> None:
    async def work(gateway: Gateway) -> None:
        mixed = [Record(b"%d" % n, key=b"%d" % n, priority=n % 3) for n in range(20)]
        receipts = await gateway.produce("two", mixed)
        for record, receipt in zip(mixed, receipts, strict=True):
            fetched = await gateway.ask(Fetch("two", receipt.partition, receipt.offset, 1))
            view = BatchView(fetched.batches[0])
            assert view.payload(receipt.offset - view.header.base_offset) == record.payload
        named = await gateway.produce("two", records(b"x", b"y"), partition=1)
        assert [receipt.partition for receipt in named] == [1, 1]

    play(work)


def test_an_oversized_record_harms_no_other_caller(play: Callable[[Work], None], servers: TcpServers) -> None:
    async def work(gateway: Gateway) -> None:
        await gateway.ask(AlterTopic("one", settings={"payload_bytes_max": "10B"}))
        await gateway.produce("one", records(b"warm"))
        results = await asyncio.gather(
            *[gateway.produce("one", records(b"x" * (20 if n == 3 else 5))) for n in range(6)], return_exceptions=True
        )
        assert [isinstance(result, InvalidArgumentError) for result in results] == [n == 3 for n in range(6)]

    play(work)


def test_a_batch_refused_for_the_record_of_another_call_is_sent_again(
    play: Callable[[Work], None], servers: TcpServers
) -> None:
    def refuse_strangers(node: int, request: object) -> InvalidArgumentError | None:
        is_bad = isinstance(request, Produce) and b"bad" in BatchView(request.batch).payloads()
        return InvalidArgumentError("a record is bad") if is_bad else None

    servers.cluster.fault = refuse_strangers

    async def work(gateway: Gateway) -> None:
        await gateway.produce("one", records(b"warm"))
        payloads = [b"bad" if n == 3 else b"%d" % n for n in range(6)]
        results = await asyncio.gather(
            *[gateway.produce("one", records(payload)) for payload in payloads], return_exceptions=True
        )
        assert [isinstance(result, InvalidArgumentError) for result in results] == [n == 3 for n in range(6)]
        assert sorted(servers.cluster.stored("one")) == sorted([b"warm", *[p for p in payloads if p != b"bad"]])

    play(work)


def test_a_caller_without_time_fails_alone(play: Callable[[Work], None], servers: TcpServers) -> None:
    async def work(gateway: Gateway) -> None:
        await gateway.produce("one", records(b"warm"))
        is_held = True
        servers.cluster.fault = lambda node, request: (
            UnavailableError("held") if is_held and isinstance(request, Produce) else None
        )
        patient = asyncio.ensure_future(gateway.produce("one", records(b"patient"), timeout_ms=20_000))
        with pytest.raises(OutcomeUnknownError):
            await gateway.produce("one", records(b"hasty"), timeout_ms=50)
        is_held = False
        assert len(await patient) == 1
        # That its caller is gone does not take a record back.
        assert sorted(servers.cluster.stored("one")) == [b"hasty", b"patient", b"warm"]

    play(work)


# Polling.


def test_a_poll_finds_messages_of_every_leader(play: Callable[[Work], None]) -> None:
    async def work(gateway: Gateway) -> None:
        for partition in (0, 1):
            await gateway.produce("two", records(b"%d" % partition), partition=partition)
        found = [values(await gateway.poll(Poll("two", "g", "me"))) for _ in range(2)]
        assert sorted(found) == [[b"0"], [b"1"]]
        assert await gateway.poll(Poll("two", "g", "me")) == Polled([], retry_after_ms=0)
        assert values(await gateway.poll(Poll("two", "other", "me", [1]))) == [b"1"]

    play(work)


def test_no_leader_is_forgotten_while_another_has_much(play: Callable[[Work], None]) -> None:
    async def work(gateway: Gateway) -> None:
        for partition in (0, 1):
            await gateway.produce("two", records(*[b"%d" % partition] * 8), partition=partition)
        found = [(await gateway.poll(Poll("two", "g", "me", max_messages=1))).deliveries for _ in range(8)]
        assert {delivery.partition for deliveries in found for delivery in deliveries} == {0, 1}

    play(work)


@pytest.mark.usefixtures("long_parking")
def test_a_parked_poll_is_woken_by_any_leader_and_leaves_nothing_behind(
    play: Callable[[Work], None], servers: TcpServers
) -> None:
    async def work(gateway: Gateway) -> None:
        await gateway.poll(Poll("two", "g", "me"))
        for partition in (1, 0, 1):
            waiting = asyncio.ensure_future(gateway.poll(Poll("two", "g", "me", wait_ms=_HOUR_MS)))
            await until(lambda: len(servers.cluster.waiting) == 2)
            await gateway.produce("two", records(b"%d" % partition), partition=partition)
            assert values(await waiting) == [b"%d" % partition]
            await until(lambda: not servers.cluster.waiting)
        assert servers.cluster.count(Withdraw) == 0, "a connection's own matter"

    play(work)


@pytest.mark.usefixtures("long_parking")
def test_a_poll_that_is_cancelled_holds_nothing(play: Callable[[Work], None], servers: TcpServers) -> None:
    async def work(gateway: Gateway) -> None:
        for topic, leaders in (("one", 1), ("two", 2)):
            waiting = asyncio.ensure_future(gateway.poll(Poll(topic, "g", "me", wait_ms=_HOUR_MS)))
            await until(lambda leaders=leaders: len(servers.cluster.waiting) == leaders)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            await until(lambda: not servers.cluster.waiting)
            await gateway.produce(topic, records(b"x"), partition=0)
            assert values(await gateway.poll(Poll(topic, "g", "you", wait_ms=5_000))) == [b"x"]

    play(work)


def test_messages_of_a_caller_that_left_are_released(play: Callable[[Work], None], servers: TcpServers) -> None:
    """Polls are cancelled just as messages come: whatever was leased for them is soon there for others, uncounted."""

    async def work(gateway: Gateway) -> None:
        await gateway.poll(Poll("one", "g", "me"))
        for number in range(20):
            waiting = asyncio.ensure_future(gateway.poll(Poll("one", "g", "me", wait_ms=20_000)))
            await until(lambda: bool(servers.cluster.waiting))
            await gateway.produce("one", records(b"%d" % number))
            waiting.cancel()
            result = (await asyncio.gather(waiting, return_exceptions=True))[0]
            if isinstance(result, Polled):
                held = [LeaseRange(each.lease_id, each.first, each.first + each.count) for each in result.deliveries]
                await gateway.ask(Settle("one", 0, "g", ACK, held))
                continue
            polled = await gateway.poll(Poll("one", "g", "you", wait_ms=20_000))
            assert values(polled) == [b"%d" % number]
            assert [delivery.attempt for delivery in polled.deliveries] == [1]
            held = [LeaseRange(each.lease_id, each.first, each.first + each.count) for each in polled.deliveries]
            assert await gateway.ask(Settle("one", 0, "g", ACK, held)) == Settled([])

    play(work)


def test_a_poll_rides_through_a_change_of_leaders(play: Callable[[Work], None], servers: TcpServers) -> None:
    async def work(gateway: Gateway) -> None:
        waiting = asyncio.ensure_future(gateway.poll(Poll("one", "g", "me", wait_ms=20_000)))
        await until(lambda: len(servers.cluster.waiting) == 1)
        servers.cluster.move("one", 0, 2)
        await gateway.produce("one", records(b"x"))
        assert values(await waiting) == [b"x"]

    play(work)


def test_with_auto_ack_one_leader_is_polled_at_a_time(play: Callable[[Work], None], servers: TcpServers) -> None:
    async def work(gateway: Gateway) -> None:
        waiting = asyncio.ensure_future(gateway.poll(Poll("two", "g", "me", wait_ms=20_000, is_auto_ack=True)))
        await until(lambda: servers.cluster.count(Poll) >= 3)
        assert not any(request.wait_ms for _, request in servers.cluster.requests if isinstance(request, Poll))
        await gateway.produce("two", records(b"x"), partition=1)
        polled = await waiting
        assert values(polled) == [b"x"]
        assert [delivery.lease_id for delivery in polled.deliveries] == [0]

    play(work)


def test_long_polls_delay_no_other_request(play: Callable[[Work], None], servers: TcpServers) -> None:
    """More long polls than a connection may carry, and still everything else is answered."""
    total = 2 * LONG_POLLS_MAX + 50

    async def work(gateway: Gateway) -> None:
        polls = [
            asyncio.ensure_future(gateway.poll(Poll("one", "g", f"m{n}", max_messages=1, wait_ms=25_000)))
            for n in range(total)
        ]
        await until(lambda: len(servers.cluster.waiting) == total)
        await gateway.produce("one", records(*[b"%d" % n for n in range(total)]))
        found = [value for polled in await asyncio.gather(*polls) for value in values(polled)]
        assert sorted(found) == sorted(b"%d" % n for n in range(total))

    play(work)


def test_partitions_that_a_topic_gets_later_are_found(
    play: Callable[[Work], None], servers: TcpServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_poll_connections, "FRESH_MS", 0)

    async def work(gateway: Gateway) -> None:
        await gateway.produce("one", records(b"0"))
        assert values(await gateway.poll(Poll("one", "g", "me"))) == [b"0"]
        await gateway.ask(AlterTopic("one", 2))

        async def has_spread() -> bool:
            (receipt,) = await gateway.produce("one", records(b"x"))
            return receipt.partition == 1

        await until(has_spread)
        found: list[int] = []

        async def is_found() -> bool:
            polled = await gateway.poll(Poll("one", "g", "me", wait_ms=100))
            found.extend(delivery.partition for delivery in polled.deliveries)
            return 1 in found

        await until(is_found)

    play(work)


# Leases.


def test_leases_outlive_their_leader(play: Callable[[Work], None], servers: TcpServers) -> None:
    """Forwarded leases are presented to the next leader, which keeps them and honours the ack."""

    async def work(gateway: Gateway) -> None:
        await gateway.produce("one", records(b"a", b"b"))
        polled = await gateway.poll(Poll("one", "g", "me", visibility_ms=60_000))
        (delivery,) = polled.deliveries
        topic_id = delivery.topic_id
        await gateway.ask(Settle("one", 0, "g", ACK, [LeaseRange(delivery.lease_id, 0, 1)], topic_id=topic_id))
        servers.cluster.requests.clear()
        servers.cluster.move("one", 0, 2)
        await asyncio.get_running_loop().run_in_executor(None, servers.shut, 1)
        await until(lambda: servers.cluster.count(Extend) > 0)
        shown = [request for _, request in servers.cluster.requests if isinstance(request, Extend)]
        assert shown[0].leases == [LeaseRange(delivery.lease_id, 1, 2)]
        assert 0 < shown[0].visibility_ms <= 60_000
        assert values(await gateway.poll(Poll("one", "g", "you", wait_ms=300))) == []
        last = Settle("one", 0, "g", ACK, [LeaseRange(delivery.lease_id, 1, 2)], topic_id=topic_id)
        assert await gateway.ask(last) == Settled([])
        found = await gateway.ask(DescribeGroup("one", 0, "g"))
        assert (found.lag, found.expired_total) == (0, 0)

    play(work)


# Subscribing.


def test_a_subscription_delivers_within_its_credit(play: Callable[[Work], None]) -> None:
    async def work(gateway: Gateway) -> None:
        await gateway.produce("one", records(*[b"%d" % n for n in range(10)]))
        subscription = await gateway.subscribe(Subscribe("one", "g", "me", 4))
        assert values(await anext(subscription)) == [b"0", b"1", b"2", b"3"]
        following = asyncio.ensure_future(anext(subscription))
        subscription.add_credit(3)
        assert values(await following) == [b"4", b"5", b"6"]
        subscription.close()
        with pytest.raises(StopAsyncIteration):
            await anext(subscription)
        assert values(await gateway.poll(Poll("one", "g", "you", wait_ms=5_000))) == [b"7", b"8", b"9"]

    play(work)


@pytest.mark.usefixtures("long_parking")
def test_a_subscription_spans_all_leaders_and_their_changes(play: Callable[[Work], None], servers: TcpServers) -> None:
    async def work(gateway: Gateway) -> None:
        subscription = await gateway.subscribe(Subscribe("two", "g", "me", 100))
        found: list[bytes] = []
        for number, partition in enumerate((0, 1, 0, 1)):
            if number == 2:
                servers.cluster.move("two", 0, 2)
            await gateway.produce("two", records(b"%d" % number), partition=partition)
            while len(found) <= number:
                found += values(await anext(subscription))
        assert found == [b"0", b"1", b"2", b"3"]
        subscription.close()
        await until(lambda: not servers.cluster.waiting)

    play(work)


def test_messages_beyond_the_credit_wait_and_are_released(play: Callable[[Work], None]) -> None:
    """With a credit of one and two leaders, one message is delivered, and the other one is soon released."""

    async def work(gateway: Gateway) -> None:
        subscription = await gateway.subscribe(Subscribe("two", "g", "me", 1, visibility_ms=4_000))
        for partition in (0, 1):
            await gateway.produce("two", records(b"%d" % partition), partition=partition)
        first = values(await anext(subscription))
        assert len(first) == 1
        other = await gateway.poll(Poll("two", "g", "you", wait_ms=20_000, visibility_ms=60_000))
        assert len(values(other)) == 1
        # Given back, and not run out: that would have been counted.
        assert [delivery.attempt for delivery in other.deliveries] == [1]
        assert values(other) != first
        subscription.close()

    play(work)


def test_a_subscription_raises_a_lasting_error(play: Callable[[Work], None], servers: TcpServers) -> None:
    servers.cluster.fault = lambda node, request: InvalidArgumentError("no") if isinstance(request, Poll) else None

    async def work(gateway: Gateway) -> None:
        subscription = await gateway.subscribe(Subscribe("one", "g", "me", 1))
        with pytest.raises(InvalidArgumentError):
            await anext(subscription)
        subscription.close()
        with pytest.raises(InvalidArgumentError):
            subscription.add_credit(-1)

    play(work)


def test_what_was_done_before_the_gateway_closed_needs_no_topic_of_it(play: Callable[[Work], None]) -> None:
    async def work(gateway: Gateway) -> None:
        await gateway.produce("one", [Record(b"x")])
        assert gateway.known_topic("one") is not None
        await gateway.close()
        assert gateway.known_topic("one") is None

    play(work)
