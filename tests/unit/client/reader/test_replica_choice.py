"""Reading from followers: which replica is asked, and what happens when it cannot answer."""

from collections.abc import Callable, Iterator

import pytest

from flotilla import InvalidArgumentError, OffsetOutOfRangeError
from flotilla.client._core.calls import ClientCall
from flotilla.client._core.session_options import SessionOptions
from flotilla.client.reader._replica_choice import LEADER, NEAREST, SPREAD, ReplicaChoice
from flotilla.types.errors import FlotillaError, NotLeaderError, ReplicaBehindError
from flotilla.types.ids import NO_NODE
from flotilla.types.operations import Fetch, GetMetadata, Request
from flotilla.types.operations.request import Route
from flotilla.types.records import Record
from tests.unit.client.broker_servers import broker_servers
from tests.unit.client.brokers import Brokers
from tests.unit.client.shells import Shell, TcpServers
from tests.unit.client.world import World

TOPIC = "orders"


# The choice.


def world(cluster: Brokers, **options: object) -> World:
    """One whose session knows the topic and its replicas."""
    made = World(cluster, options=SessionOptions(**options))  # type: ignore[arg-type]
    made.session.resolve(TOPIC, made.now_ms + 1_000, lambda result: None, made.now_ms)
    made.run()
    return made


@pytest.fixture
def cluster() -> Brokers:
    cluster = Brokers(3).form()
    cluster.create(TOPIC, 3)
    return cluster


def test_the_leader_is_asked_unless_something_else_is_said(cluster: Brokers) -> None:
    session = world(cluster).session
    assert ReplicaChoice(session, TOPIC, LEADER).choose(0) == NO_NODE
    assert ReplicaChoice(session, "unknown", SPREAD).choose(0) == NO_NODE
    assert ReplicaChoice(session, TOPIC, SPREAD).choose(7) == NO_NODE


def test_each_reader_begins_at_another_replica(cluster: Brokers) -> None:
    session = world(cluster).session
    readers = [ReplicaChoice(session, TOPIC, SPREAD) for _ in range(3)]
    for partition in range(3):
        assert sorted(reader.choose(partition) for reader in readers) == [1, 2, 3]
    assert sorted(readers[0].choose(partition) for partition in range(3)) == [1, 2, 3]
    assert readers[0].choose(0) == readers[0].choose(0)


def test_a_replica_that_could_not_answer_is_avoided_for_longer_each_time(cluster: Brokers) -> None:
    made = world(cluster)
    reader = ReplicaChoice(made.session, TOPIC, SPREAD)
    first = reader.choose(0)
    waits = []
    for _ in range(3):
        reader.failed(0, first)
        assert reader.choose(0) not in (first, NO_NODE)
        assert reader.choose(1) != NO_NODE
        before = made.now_ms
        while reader.choose(0) != first:
            made.pass_ms(100)
        waits.append(made.now_ms - before)
    assert waits == [500, 1_000, 2_000]
    reader.answered(0, first)
    reader.failed(0, first)
    made.pass_ms(500)
    assert reader.choose(0) == first


def test_when_no_replica_is_left_the_leader_is_asked(cluster: Brokers) -> None:
    reader = ReplicaChoice(world(cluster).session, TOPIC, SPREAD)
    for node in (1, 2, 3):
        reader.failed(0, node)
    assert reader.choose(0) == NO_NODE


def test_a_broker_that_is_silent_is_not_chosen(cluster: Brokers) -> None:
    made = world(cluster)
    reader = ReplicaChoice(made.session, TOPIC, SPREAD)
    first = reader.choose(0)
    address = made.session.routes.address(first)
    assert address is not None
    made.session.routes.suspects[address] = None
    assert reader.choose(0) not in (first, NO_NODE)


def test_the_nearest_is_here_or_answers_soonest(cluster: Brokers) -> None:
    made = world(cluster)
    reader = ReplicaChoice(made.session, TOPIC, NEAREST)
    routes = made.session.routes
    routes.round_trips_ms.clear()
    addresses = {node: routes.address(node) for node in (1, 2, 3)}
    for node, round_trip_ms in ((1, 9), (2, 3), (3, 5)):
        address = addresses[node]
        assert address is not None
        routes.measured(address, round_trip_ms)
        if node < 3:
            assert reader.choose(0) not in (1, 2)[:node], "one that was never spoken with is tried first"
    assert reader.choose(0) == 2
    here = world(cluster, host="node1")
    assert ReplicaChoice(here.session, TOPIC, NEAREST).choose(0) == 1


def test_round_trips_are_measured_when_a_connection_opens(cluster: Brokers) -> None:
    made = World(cluster, bootstrap=(2,))
    made.call(GetMetadata([TOPIC]), Route())
    made.act()
    made.act()
    made.serve()
    made.now_ms += 7
    made.run()
    address = made.session.routes.address(2) or next(iter(made.session.routes.round_trips_ms))
    assert made.session.routes.round_trips_ms[address] == 7


# Through both clients.


@pytest.fixture
def servers() -> Iterator[TcpServers]:
    with broker_servers(Brokers(3)) as opened:
        opened.cluster.create(TOPIC)
        for _ in range(3):
            opened.cluster.produce(TOPIC, 0, Record(b"x"))
        yield opened


def first_records(reader: Shell, count: int = 3) -> list[int]:
    return [message.offset for message in reader.take(count)]


def is_of_any(request: Request) -> bool:
    return isinstance(request, Fetch) and request.is_any_replica


def fetches(servers: TcpServers) -> list[tuple[int, Fetch]]:
    return [(node, request) for node, request in servers.cluster.requests if isinstance(request, Fetch)]


@pytest.mark.parametrize("read_from", ["nearest", "spread"])
def test_readers_are_served_by_replicas(connect: Callable[..., Shell], servers: TcpServers, read_from: str) -> None:
    client = connect()
    readers = [client.reader(TOPIC, offset=0, read_from=read_from) for _ in range(3)]
    assert [first_records(reader) for reader in readers] == [[0, 1, 2]] * 3
    served = fetches(servers)
    assert all(request.is_any_replica and request.wait_ms <= 1_000 for _, request in served)
    if read_from == "spread":
        assert {node for node, _ in served} == {1, 2, 3}


def test_a_replica_that_is_behind_is_passed_over(connect: Callable[..., Shell], servers: TcpServers) -> None:
    refusals: dict[int, FlotillaError] = {
        2: ReplicaBehindError("cut off"),
        3: NotLeaderError(1, servers.cluster.addresses[1]),
    }
    servers.cluster.fault = lambda node, request: refusals.get(node) if is_of_any(request) else None
    client = connect()
    readers = [client.reader(TOPIC, offset=0, read_from="spread") for _ in range(3)]
    assert [first_records(reader) for reader in readers] == [[0, 1, 2]] * 3
    assert {node for node, _ in fetches(servers)} == {1, 2, 3}


def test_when_all_are_behind_the_leader_answers(connect: Callable[..., Shell], servers: TcpServers) -> None:
    servers.cluster.fault = lambda node, request: ReplicaBehindError("cut off") if is_of_any(request) else None
    reader = connect().reader(TOPIC, offset=0, read_from="spread")
    assert first_records(reader) == [0, 1, 2]
    served = fetches(servers)
    assert {node for node, request in served if request.is_any_replica} == {1, 2, 3}
    assert any(not request.is_any_replica for _, request in served)


def test_a_broker_that_is_gone_is_passed_over(connect: Callable[..., Shell], servers: TcpServers) -> None:
    client = connect()
    readers = [client.reader(TOPIC, offset=0, read_from="spread") for _ in range(3)]
    assert [first_records(reader, 1) for reader in readers] == [[0]] * 3
    servers.shut(3)
    servers.cluster.produce(TOPIC, 0, Record(b"y"))
    assert [first_records(reader, 3) for reader in readers] == [[1, 2, 3]] * 3


def test_a_missing_offset_is_reported_by_the_leader(connect: Callable[..., Shell], servers: TcpServers) -> None:
    reader = connect().reader(TOPIC, offset=9, read_from="spread")
    with pytest.raises(OffsetOutOfRangeError):
        reader.poll(wait_ms=5_000)


def test_linearizable_goes_with_every_fetch(connect: Callable[..., Shell], servers: TcpServers) -> None:
    client = connect()
    for read_from in ("leader", "spread"):
        reader = client.reader(TOPIC, offset=0, read_from=read_from, linearizable=True)
        assert first_records(reader) == [0, 1, 2]
    assert all(request.is_linearizable for _, request in fetches(servers))


def test_an_unknown_choice_of_replicas_is_refused(connect: Callable[..., Shell]) -> None:
    with pytest.raises(InvalidArgumentError, match="nearest"):
        connect().reader(TOPIC, read_from="mars")


def test_a_replica_that_stops_speaking_does_not_hold_its_readers_for_long(cluster: Brokers) -> None:
    made = world(cluster)
    results: list[object] = []
    made.silent = {2}
    request = Fetch(TOPIC, 0, 0, 1_000, 1_000, is_any_replica=True)
    call = ClientCall(request, made.now_ms + 60_000, results.append, route=Route(TOPIC, 0, 2), is_single=True)
    made.session.submit(call, made.now_ms)
    made.pass_ms(2_500)
    assert [type(result).__name__ for result in results] == ["UnavailableError"]
    assert isinstance(results[0], FlotillaError)
