"""What counts from now on counts by the brokers' clock, however far ours is from it."""

import asyncio
import time
from collections.abc import Iterator

import pytest

from flotilla import Record
from flotilla.client._core.broker_clock import (
    CLOCKS_HERE,
    BrokerTime,
    ClockDifference,
    after_jump,
    difference_here,
    difference_of,
)
from flotilla.client.producer.record_fields import as_records, make_record
from flotilla.gateway.gateway import Gateway
from flotilla.types.address import Address, read_addresses
from flotilla.types.limits import TIME_MS_MAX
from flotilla.types.operations import InitCluster
from flotilla.types.operations.request import ANY
from tests.unit.client.broker_servers import broker_servers
from tests.unit.client.brokers import Brokers
from tests.unit.client.shells import TcpServers
from tests.unit.client.world import World

HOUR_MS = 3_600_000
#: What a machine that is busy may take for something quick.
SLACK_MS = 60_000
BROKER = Address("broker", 7600)


def now_ms():
    return time.time_ns() // 1_000_000


# The difference.


def test_the_difference_is_known_up_to_the_round_trip():
    # Asked at 1_000 and heard at 1_030, when it was 500_030 here: the broker said it between 500_000 and 500_030.
    broker_time = BrokerTime(BROKER, 600_010, asked_ms=1_000)
    assert difference_of(broker_time, 1_030, 500_030) == ClockDifference(99_979, 100_011)


@pytest.mark.parametrize(
    ("least_ms", "most_ms", "likely_ms"),
    [(0, 0, 0), (-20, 5, 0), (-5, 0, 0), (0, 9, 0), (1, 9, 9), (-9, -1, -1)],
)
def test_clocks_that_may_agree_are_taken_to_agree_where_early_and_late_are_alike(least_ms, most_ms, likely_ms):
    assert ClockDifference(least_ms, most_ms).likely_ms == likely_ms


def test_a_broker_in_this_process_is_looked_at_when_it_matters():
    broker_time = BrokerTime(BROKER, 1, asked_ms=0)
    assert difference_here(None, 1_000) is None
    assert difference_here(broker_time, 1_000) is None
    CLOCKS_HERE[BROKER] = lambda: 5_000
    try:
        assert difference_here(broker_time, 1_000) == ClockDifference(3_999, 4_000)
        assert difference_here(broker_time._replace(address=Address("broker", 7601)), 1_000) is None
    finally:
        del CLOCKS_HERE[BROKER]


# Records.


def test_a_delay_is_never_early():
    record = make_record(b"x", None, {"delay_ms": 1_000}, 50_000, ClockDifference(-10, 30))
    assert (record.timestamp_ms, record.deliver_at_ms) == (50_000, 51_030)
    behind = make_record(b"x", None, {"delay_ms": 1_000}, 50_000, ClockDifference(-20_030, -20_000))
    assert (behind.timestamp_ms, behind.deliver_at_ms) == (50_000, 31_000)


def test_a_time_that_is_said_stays_as_it_is():
    far = ClockDifference(HOUR_MS, HOUR_MS)
    assert make_record(b"x", None, {"deliver_at": 77_000}, 50_000, far).deliver_at_ms == 77_000
    kept = make_record(b"x", None, {"timestamp_ms": 40_000, "ttl_ms": 500}, 50_000, far)
    assert (kept.timestamp_ms, kept.ttl_ms) == (40_000, 500)
    assert make_record(b"x", None, {"delay_ms": 0}, 50_000, far).deliver_at_ms == 0


@pytest.mark.parametrize("ahead_ms", [HOUR_MS, -30_000, -60_000, -HOUR_MS])
def test_a_record_expires_by_the_brokers_clock(ahead_ms):
    record = make_record(b"x", None, {"ttl_ms": 60_000}, 8 * HOUR_MS, ClockDifference(ahead_ms - 3, ahead_ms))
    assert record.timestamp_ms + record.ttl_ms == 8 * HOUR_MS + ahead_ms + 60_000
    assert record.ttl_ms > 0
    if ahead_ms > -60_000:
        assert record.timestamp_ms == 8 * HOUR_MS


def test_a_ttl_stays_as_it_was_said_as_long_as_the_clocks_may_agree():
    record = make_record(b"x", None, {"ttl_ms": 60_000}, 50_000, ClockDifference(-2, 3))
    assert (record.timestamp_ms, record.ttl_ms) == (50_000, 60_000)


def test_a_ttl_for_ever_and_the_longest_one_stay():
    far = ClockDifference(HOUR_MS, HOUR_MS)
    assert make_record(b"x", None, {"priority": 1}, 50_000, far).ttl_ms == 0
    assert make_record(b"x", None, {"ttl_ms": TIME_MS_MAX}, 50_000, far).ttl_ms == TIME_MS_MAX


def test_a_record_without_a_time_counts_from_now():
    far = ClockDifference(HOUR_MS, HOUR_MS)
    given = [Record(b"1", ttl_ms=500), Record(b"2", ttl_ms=500, timestamp_ms=40_000), b"3"]
    first, second, third = as_records(given, None, {"ttl_ms": 700}, 50_000, far)
    assert (first.timestamp_ms, first.ttl_ms) == (50_000, HOUR_MS + 500)
    assert (second.timestamp_ms, second.ttl_ms) == (40_000, 500)
    assert (third.timestamp_ms, third.ttl_ms) == (50_000, HOUR_MS + 700)


# Reports.


def test_a_session_remembers_what_the_newest_welcome_said():
    cluster = Brokers(2).form(now_ms() + HOUR_MS)
    cluster.create("orders", 2)
    world = World(cluster, bootstrap=(1,))
    assert world.session.broker_time is None
    world.session.resolve("orders", world.now_ms + 99_000, lambda found: None, world.now_ms)
    world.act()
    # Hello takes a while; the report counts from the time when it left.
    asked_ms, world.now_ms = world.now_ms, world.now_ms + 40
    world.run()
    broker_time = world.session.broker_time
    assert (broker_time.address.port, broker_time.asked_ms) == (7600, asked_ms)
    assert abs(broker_time.time_ms - now_ms() - HOUR_MS) < SLACK_MS
    # A broker that does not send its time takes nothing back.
    cluster.now_ms = lambda: 0
    world.cut(1)
    world.call(InitCluster({}), ANY)
    world.run()
    assert world.session.broker_time is broker_time


@pytest.fixture
def ahead_ms() -> int:
    return 0


@pytest.fixture
def servers(ahead_ms: int) -> Iterator[TcpServers]:
    """Their clocks are that far ahead of ours."""
    with broker_servers(Brokers(2), ahead_ms) as opened:
        opened.cluster.create("orders")
        yield opened


def deliver(client, way, fields):
    if way == "produce":
        client.produce("orders", b"x", **fields)
    elif way == "values":
        client.produce_many("orders", [b"x"], **fields)
    elif way == "records":
        client.produce_many("orders", [b"x"], key=b"k", **fields)
    else:
        with client.producer("orders") as producer:
            producer.send(b"x", **fields)


@pytest.mark.parametrize("ahead_ms", [24 * HOUR_MS, -24 * HOUR_MS])
@pytest.mark.parametrize("way", ["produce", "values", "records", "producer"])
def test_the_first_record_of_a_client_counts_by_the_brokers_clock(connect, servers, way, ahead_ms):
    before_ms = now_ms()
    deliver(connect(), way, {"delay_ms": HOUR_MS, "ttl_ms": 48 * HOUR_MS})
    (record,) = servers.cluster.records("orders")
    broker_ms = before_ms + ahead_ms
    assert broker_ms + HOUR_MS <= record.deliver_at_ms < broker_ms + HOUR_MS + SLACK_MS
    expires_ms = record.timestamp_ms + record.ttl_ms
    assert broker_ms + 48 * HOUR_MS <= expires_ms < broker_ms + 48 * HOUR_MS + SLACK_MS
    assert before_ms <= record.timestamp_ms <= now_ms()


@pytest.mark.parametrize("way", ["produce", "values", "records", "producer"])
def test_a_broker_without_a_clock_reading_is_assumed_to_have_our_time(connect, servers, way):
    servers.cluster.now_ms = lambda: 0
    before_ms = now_ms()
    deliver(connect(), way, {"delay_ms": HOUR_MS, "ttl_ms": HOUR_MS})
    (record,) = servers.cluster.records("orders")
    assert before_ms + HOUR_MS <= record.deliver_at_ms <= now_ms() + HOUR_MS
    assert record.ttl_ms == HOUR_MS


def test_a_ttl_is_not_touched_when_the_clocks_agree(connect, servers):
    client = connect()
    client.produce("orders", b"1", ttl_ms=5_000)
    client.produce_many("orders", [b"2"], ttl_ms=5_000)
    assert [record.ttl_ms for record in servers.cluster.records("orders")] == [5_000, 5_000]


# Gateways.


@pytest.mark.parametrize("ahead_ms", [24 * HOUR_MS])
def test_a_gateway_has_the_brokers_time_once_it_has_asked(servers, ahead_ms):
    async def run():
        gateway = Gateway(lambda: read_addresses(servers.addresses))
        try:
            assert abs(gateway.now_ms() - now_ms()) < SLACK_MS
            await gateway.learn_time()
            asked = len(servers.cluster.requests)
            assert abs(gateway.now_ms() - now_ms() - ahead_ms) < SLACK_MS
            await gateway.learn_time()
            assert len(servers.cluster.requests) == asked
        finally:
            await gateway.close()

    asyncio.run(run())


def test_a_gateway_beside_a_broker_has_its_clock():
    gateway = Gateway(list, clock=lambda: 123)
    asyncio.run(gateway.learn_time())
    assert gateway.now_ms() == 123


@pytest.mark.parametrize("jump_ms", [8 * 86_400_000, -8 * 86_400_000])
def test_a_wall_clock_that_is_set_later_changes_no_time_of_the_brokers(jump_ms):
    measured = ClockDifference(40, 50)
    moved = after_jump(measured, 1_000_000, 1_000_000 + jump_ms)
    assert moved == ClockDifference(40 - jump_ms, 50 - jump_ms)
    assert after_jump(measured, 1_000_000, 1_000_900) is measured
