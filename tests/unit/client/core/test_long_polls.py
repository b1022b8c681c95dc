"""Long polls of a session: at a broker that falls silent, and at one that another broker replaces."""

from flotilla.types.operations import ANY, Fetch, Fetched, GetMetadata, Metadata, OffsetFound
from flotilla.types.records import Record
from tests.unit.client.core.test_session import LATEST, ROUTE, cluster_of, with_a_silent_leader
from tests.unit.client.world import World


def test_a_long_poll_leaves_a_silent_broker_as_soon_as_another_call_does():
    world = with_a_silent_leader()
    world.cluster.produce("orders", 0, Record(b"x"))
    results = world.call(Fetch("orders", 0, 0, 1_000, wait_ms=30_000), ROUTE)
    world.cluster.move("orders", 0, 2)
    world.pass_ms(999)
    assert results == []
    assert world.cluster.count(GetMetadata) == 1
    world.pass_ms(101)
    assert [type(result) for result in results] == [Fetched]


def test_a_broker_that_answers_pings_keeps_its_long_polls():
    world = World(cluster_of(3, leader=1))
    results = world.call(Fetch("orders", 0, 0, 1_000, wait_ms=5_000), ROUTE)
    world.pass_ms(4_900)
    assert results == []
    assert world.pinged == [1] * 9
    assert world.cluster.count(Fetch) == 1
    assert world.cluster.count(GetMetadata) == 1


def test_a_connection_without_long_polls_is_not_pinged():
    world = World(cluster_of(3, leader=1))
    assert world.call(LATEST, ROUTE) == []
    world.pass_ms(5_000)
    assert world.pinged == []


def test_a_connection_that_is_full_of_long_polls_has_room_for_a_ping():
    world = World(cluster_of(3, leader=1), requests_max=3)
    polls = [world.call(Fetch("orders", 0, 0, 1_000, wait_ms=5_000), ROUTE) for _ in range(3)]
    world.pass_ms(600)
    assert world.pinged == [1]
    assert world.cluster.count(Fetch) == 2
    assert polls == [[], [], []]


def test_a_long_poll_at_a_silent_broker_waits_again_when_the_client_was_paused():
    world = World(cluster_of(3, leader=1))
    world.call(Fetch("orders", 0, 0, 1_000, wait_ms=60_000), ROUTE)
    world.run()
    world.now_ms += 20_000
    world.session.tick(world.now_ms)
    world.pass_ms(400)
    assert world.pinged == [1]
    assert not world.session.routes.suspects
    assert world.cluster.count(Fetch) == 1


def test_a_long_poll_ends_at_a_broker_that_another_one_replaced():
    world = World(cluster_of(3, leader=1))
    results = world.call(Fetch("orders", 0, 0, 1_000, wait_ms=30_000), ROUTE)
    world.run()
    world.cluster.move("orders", 0, 2)
    world.cluster.produce("orders", 0, Record(b"x"))
    metadata = world.call(GetMetadata(["orders"]), ANY)
    world.run()
    assert isinstance(metadata[0], Metadata)
    world.session.routes.update(metadata[0], ["orders"])
    world.session.tick(world.now_ms)
    world.run()
    assert [type(result) for result in results] == [Fetched]
    assert world.cluster.count(Fetch) == 2


def test_a_redirect_of_one_call_ends_the_long_polls_of_others():
    world = World(cluster_of(3, leader=1))
    results = world.call(Fetch("orders", 0, 0, 1_000, wait_ms=30_000), ROUTE)
    world.run()
    world.cluster.move("orders", 0, 2)
    world.cluster.produce("orders", 0, Record(b"x"))
    latest = world.call(LATEST, ROUTE)
    world.run()
    assert latest == [OffsetFound(1)]
    assert [type(result) for result in results] == [Fetched]
