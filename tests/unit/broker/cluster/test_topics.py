"""Topics: refusals, creation on demand, and changes at the leader only."""

import pytest

from flotilla.broker.catalog import METADATA_GROUP
from flotilla.metadata import commands
from flotilla.metadata.commands import encode_command
from flotilla.types.errors import UnavailableError
from flotilla.types.operations import (
    AlterTopic,
    CreateTopic,
    DeleteTopic,
    GetMetadata,
    Metadata,
    Request,
    TopicInfo,
    TopicReply,
)
from tests.unit.broker.fleet import Answer, Fleet, Node, client_address, single_node, three


def topic_of(answer: Answer) -> TopicInfo:
    assert isinstance(answer.result, TopicReply)
    return answer.result.topic


def names(node: Node, *asked: str, create: bool = False) -> list[str]:
    answer = node.call(GetMetadata(list(asked), create)).result
    assert isinstance(answer, Metadata)
    return [topic.name for topic in answer.topics]


@pytest.fixture
def node() -> Node:
    node = single_node()
    node.fleet.create("orders")
    return node


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (CreateTopic("../x"), "INVALID_ARGUMENT"),
        (CreateTopic(".."), "INVALID_ARGUMENT"),
        (CreateTopic(""), "INVALID_ARGUMENT"),
        (CreateTopic("a" * 201), "INVALID_ARGUMENT"),
        (CreateTopic("ä"), "INVALID_ARGUMENT"),
        (CreateTopic("__system"), "INVALID_ARGUMENT"),
        (CreateTopic("orders"), "ALREADY_EXISTS"),
        (CreateTopic("t", partitions=1025), "INVALID_ARGUMENT"),
        (CreateTopic("t", partitions=2**32 - 1), "INVALID_ARGUMENT"),
        (CreateTopic("t", partitions=-1), "INVALID_ARGUMENT"),
        (CreateTopic("t", replication_factor=8), "INVALID_ARGUMENT"),
        (CreateTopic("t", replication_factor=2), "INVALID_ARGUMENT"),
        (CreateTopic("t", settings={"nothing": "1"}), "INVALID_ARGUMENT"),
        (CreateTopic("t", settings={"retention_ms": "soon"}), "INVALID_ARGUMENT"),
        (CreateTopic("t", settings={"max_deliveries": "0"}), "INVALID_ARGUMENT"),
        (CreateTopic("t", settings={"max_deliveries": "9" * 30}), "INVALID_ARGUMENT"),
        (CreateTopic("t", settings={"nack_backoff_ms": "10m"}), "INVALID_ARGUMENT"),
        (AlterTopic("nowhere", settings={"max_deliveries": "3"}), "NOT_FOUND"),
        (AlterTopic("orders", partitions=1025), "INVALID_ARGUMENT"),
        (AlterTopic("orders", settings={"nothing": ""}), "INVALID_ARGUMENT"),
        (AlterTopic("orders", settings={"nothing": "1"}), "INVALID_ARGUMENT"),
        (AlterTopic("orders", settings={"nack_backoff_ms": "10m"}), "INVALID_ARGUMENT"),
        (DeleteTopic("nowhere"), "NOT_FOUND"),
        (DeleteTopic("../x"), "NOT_FOUND"),
        (GetMetadata(["good", "../x"], create=True), "INVALID_ARGUMENT"),
    ],
)
def test_bad_requests_are_refused_before_anything_is_proposed(node: Node, request_: Request, code: str) -> None:
    replica = node.replica(METADATA_GROUP)
    assert replica is not None
    logged = replica.raft.log.last_index
    assert node.ask(request_).code == code
    assert replica.raft.log.last_index == logged


def test_a_change_is_checked_together_with_the_present_settings(node: Node) -> None:
    """A delay of ten minutes is above the default bound, but not above this topic's."""
    assert node.call(AlterTopic("orders", settings={"nack_backoff_max_ms": "1h"})).code == "TopicReply"
    assert node.call(AlterTopic("orders", settings={"nack_backoff_ms": "10m"})).code == "TopicReply"
    assert node.call(AlterTopic("orders", settings={"nack_backoff_max_ms": ""})).code == "INVALID_ARGUMENT"


def test_two_creations_at_once_make_one_topic(node: Node) -> None:
    answers = [node.ask(CreateTopic("twice")), node.ask(CreateTopic("twice"))]
    node.fleet.settle()
    assert [answer.code for answer in answers] == ["TopicReply", "ALREADY_EXISTS"]


def test_a_topic_is_described_created_altered_and_deleted(node: Node) -> None:
    created = topic_of(node.call(CreateTopic("t", 2, 1, {"retention_ms": "1h"})))
    assert created.settings == {"retention_ms": "3600000", "replication_factor": "1"}
    assert [(part.number, part.replicas) for part in created.partitions] == [(0, [1]), (1, [1])]
    altered = topic_of(node.call(AlterTopic("t", 3, {"retention_ms": "", "max_deliveries": "2"})))
    assert altered.settings == {"max_deliveries": "2", "replication_factor": "1"}
    assert len(altered.partitions) == 3
    assert node.call(AlterTopic("t", 2)).code == "INVALID_ARGUMENT"
    assert topic_of(node.call(DeleteTopic("t"))).topic_id == created.topic_id
    assert names(node) == ["orders"]
    assert topic_of(node.call(CreateTopic("t"))).topic_id > created.topic_id


def test_a_deletion_means_the_topic_it_was_asked_for(node: Node) -> None:
    """A creation that another node forwarded comes between two deletions: the new topic was not meant."""
    creation = encode_command(commands.CreateTopic("orders", 1, 1, (), node.now_ms()))
    first = node.ask(DeleteTopic("orders"))
    node.propose(METADATA_GROUP, creation, lambda _: None)
    second = node.ask(DeleteTopic("orders"))
    node.fleet.settle()
    assert (first.code, second.code) == ("TopicReply", "NOT_FOUND")
    assert names(node) == ["orders"]


def test_metadata_leaves_out_missing_topics(node: Node) -> None:
    node.fleet.create("b")
    assert names(node) == ["orders", "b"]
    assert names(node, "b", "nowhere", "b", "../x") == ["b"]
    assert names(node, "nowhere", create=False) == []
    assert names(node, "nowhere") == []


def test_missing_topics_come_to_be_on_demand(node: Node) -> None:
    assert node.call(GetMetadata(["a", "a", "orders"], create=True)).code == "UNAVAILABLE"
    assert names(node, "a", "orders", create=True) == ["a", "orders"]
    assert len(node.catalog.topics()) == 2


def test_topics_are_not_created_where_that_is_not_allowed() -> None:
    node = single_node(auto_create_topics=False)
    assert node.call(GetMetadata(["a"], create=True)).code == "NOT_FOUND"
    assert names(node) == []


def test_defaults_of_the_cluster_are_used() -> None:
    node = single_node(default_partitions=3, default_replication_factor=2)
    created = topic_of(node.call(CreateTopic("t")))
    assert (len(created.partitions), created.settings["replication_factor"]) == (3, "2")


def test_any_node_creates_on_demand_and_only_the_leader_by_request() -> None:
    fleet = three()
    controller = fleet.controller()
    follower = next(box for box in fleet.nodes.values() if box is not controller)
    for request in (CreateTopic("t"), AlterTopic("t"), DeleteTopic("t")):
        refused = follower.call(request).result
        assert getattr(refused, "address", None) == client_address(controller.node)
    assert follower.call(GetMetadata(["t"], create=True)).code == "UNAVAILABLE"
    fleet.advance(500)
    assert [names(box, "t") for box in fleet.nodes.values()] == [["t"]] * 3


def test_creation_on_demand_during_a_hand_over_is_harmless() -> None:
    fleet = three()
    controller = fleet.controller()
    for box in fleet.nodes.values():
        box.is_disk_stuck = box is not controller
    heir = next(node for node in fleet.nodes if node != controller.node)
    controller.ask(CreateTopic("held"))
    controller.transfer(METADATA_GROUP, heir)
    answer = controller.ask(GetMetadata(["t"], create=True))
    assert answer.code == "UNAVAILABLE"
    for box in fleet.nodes.values():
        box.is_disk_stuck = False
    fleet.advance(5000)
    fleet.check_answers()


def test_a_node_that_may_not_know_all_topics_lists_none() -> None:
    fleet = three()
    fleet.create("t")
    fleet.advance(1000)
    assert [names(box) for box in fleet.nodes.values()] == [["t"]] * 3
    for node in fleet.nodes:
        fleet.kill(node)
    survivor = fleet.restart(1)
    fleet.advance(5000)
    refused = survivor.call(GetMetadata()).result
    assert isinstance(refused, UnavailableError)
    assert refused.retryable
    assert "node 1 cannot reach nodes 2, 3" in str(refused)
    fleet.restart(2)
    fleet.wait(lambda: survivor.ask(GetMetadata()).code == "Metadata")
    assert names(survivor) == ["t"]


def test_a_node_without_a_cluster_lists_no_topics() -> None:
    fleet = Fleet(3)
    for founder in fleet.nodes.values():
        assert founder.ask(GetMetadata()).code == "UNAVAILABLE"
    assert fleet.add(4).ask(GetMetadata()).code == "UNAVAILABLE"
    fleet.wait(lambda: founder.ask(GetMetadata()).code == "Metadata")
    assert names(founder) == []


def test_a_leaderless_metadata_says_so() -> None:
    fleet = three()
    controller = fleet.controller()
    fleet.isolate(controller.node)
    in_flight = controller.ask(CreateTopic("t"))
    fleet.advance(5000)
    assert in_flight.code == "OUTCOME_UNKNOWN"
    assert controller.call(CreateTopic("t")).code == "NOT_LEADER"
