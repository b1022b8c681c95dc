"""A session wants from every broker what it has seen at any: the newest metadata index of all its connections."""

from random import Random

import pytest

from flotilla.client._core.seen_metadata import SeenMetadata
from flotilla.client._core.session import Session
from flotilla.client._core.session_options import SessionOptions
from flotilla.types.address import parse_address
from flotilla.types.errors import FlotillaError, ReplicaBehindError, UnavailableError
from flotilla.types.operations import ANY, CONTROLLER, CreateTopic, GetMetadata, Metadata, TopicInfo, TopicReply
from tests.unit.client.core.test_session import LATEST, ROUTE, cluster_of
from tests.unit.client.world import World


def test_a_broker_gets_the_index_that_another_one_reported_until_it_reports_it_itself():
    cluster = cluster_of(3, leader=3)
    cluster.move_metadata(1)
    world = World(cluster, bootstrap=(1,))
    world.call(LATEST, ROUTE)
    world.run()
    world.needed.clear()
    cluster.fleet.isolate(3)
    world.call(CreateTopic("new"), CONTROLLER)
    world.run()
    results = world.call(LATEST, ROUTE)
    world.run()
    assert results == []
    assert world.needed == [(3, cluster.node(1).metadata_index)]
    cluster.fleet.heal(3)
    world.pass_ms(500)
    assert len(results) == 1
    needed = list(world.needed)
    world.call(LATEST, ROUTE)
    world.run()
    assert world.needed == needed, "the broker has said that it knows as much"
    assert world.session.seen.index == cluster.node(3).metadata_index


def test_the_answer_to_a_change_moves_the_index():
    world = World(cluster_of(1))
    world.call(LATEST, ROUTE)
    world.run()
    before = world.session.seen.index
    results = world.call(CreateTopic("new"), CONTROLLER)
    world.run()
    assert isinstance(results[0], TopicReply)
    assert world.session.seen.index == world.cluster.node(1).metadata_index > before


@pytest.mark.parametrize(
    "error", [ReplicaBehindError("behind"), UnavailableError("the node is not part of a cluster yet")], ids=type
)
def test_a_call_for_any_broker_leaves_one_that_knows_too_little(error: FlotillaError):
    cluster = cluster_of(3)
    world = World(cluster, bootstrap=(1,))
    world.call(LATEST, ROUTE)
    world.run()
    cluster.fault = lambda node, request: error if node == 1 else None
    results = world.call(GetMetadata(), ANY)
    world.pass_ms(1_000)
    assert [type(result) for result in results] == [Metadata]
    asked = [node for node, request in cluster.requests if isinstance(request, GetMetadata)]
    assert asked[-2] == 1 != asked[-1]


def test_a_topic_is_described_again_when_something_newer_was_seen():
    world = World(cluster_of(1))
    found: list[object] = []

    def resolve() -> None:
        world.session.resolve("orders", world.now_ms + 5_000, found.append, world.now_ms)
        world.run()

    resolve()
    resolve()
    assert world.cluster.count(GetMetadata) == 1
    world.call(CreateTopic("new"), CONTROLLER)
    world.run()
    resolve()
    assert world.cluster.count(GetMetadata) == 2
    assert all(isinstance(topic, TopicInfo) for topic in found)
    # Without an answer the old description serves.
    world.silent = {1}
    world.session.seen.note(world.session.seen.index + 1)
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
