"""A session wants from every broker what it has seen at any: the newest metadata index of all its connections."""

from random import Random

from flotilla.client._core.seen_metadata import SeenMetadata
from flotilla.client._core.session import Session
from flotilla.client._core.session_options import SessionOptions
from flotilla.types.address import parse_address
from flotilla.types.operations import ANY, CONTROLLER, CreateTopic, GetMetadata, Metadata, TopicInfo, TopicReply
from tests.unit.client.core.test_session import LATEST, ROUTE, cluster_of
from tests.unit.client.world import World


def test_a_broker_gets_the_index_that_another_one_reported_until_it_reports_it_itself():
    world = World(cluster_of(3, leader=3), bootstrap=(1,))
    world.indexes = {1: 40, 3: 30}
    world.call(GetMetadata(), ANY)
    world.run()
    assert world.needed == []
    results = world.call(LATEST, ROUTE)
    world.run()
    assert results == []
    assert world.needed == [(3, 40)]
    world.indexes[3] = 41
    world.pass_ms(100)
    assert len(results) == 1
    needed = list(world.needed)
    world.call(LATEST, ROUTE)
    world.run()
    assert world.needed == needed, "the broker has said that it knows as much"
    assert world.session.seen.index == 41


def test_the_answer_to_a_change_moves_the_index():
    world = World(cluster_of(3), bootstrap=(1,))
    world.indexes = {1: 7}
    results = world.call(CreateTopic("new"), CONTROLLER)
    world.run()
    assert isinstance(results[0], TopicReply)
    assert world.session.seen.index == 7


def test_a_call_for_any_broker_leaves_one_that_is_behind():
    world = World(cluster_of(3))
    world.session.seen.joined(world.cluster.cluster_id)
    world.session.seen.note(9)
    world.indexes = {2: 9, 3: 9}
    world.call(LATEST, ROUTE)
    world.run()
    results = world.call(GetMetadata(), ANY)
    world.pass_ms(1_000)
    assert [type(result) for result in results] == [Metadata]


def test_a_topic_is_described_again_when_something_newer_was_seen():
    world = World(cluster_of(1))
    found: list[object] = []

    def resolve() -> None:
        world.session.resolve("orders", world.now_ms + 5_000, found.append, world.now_ms)
        world.run()

    resolve()
    resolve()
    assert world.cluster.count(GetMetadata) == 1
    world.indexes = {1: 5}
    world.session.seen.note(5)
    resolve()
    assert world.cluster.count(GetMetadata) == 2
    assert all(isinstance(topic, TopicInfo) for topic in found)
    # Without an answer the old description serves.
    world.silent = {1}
    world.session.seen.note(6)
    resolve()
    world.pass_ms(6_000)
    assert [type(topic) for topic in found] == [TopicInfo] * 4


def test_an_index_of_another_cluster_is_forgotten():
    seen = SeenMetadata()
    seen.joined("one")
    seen.note(90)
    seen.note(80)
    seen.joined("")
    seen.joined("one")
    assert seen.index == 90
    seen.joined("two")
    assert seen.index == 0


def test_sessions_of_one_client_share_what_they_have_seen():
    seen = SeenMetadata()
    address = [parse_address("node1:7600")]
    one, other = [Session(address, Random(1), SessionOptions(), 0, seen) for _ in range(2)]
    one.seen.note(12)
    assert other.seen.index == 12
