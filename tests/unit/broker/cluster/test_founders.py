"""New partitions in the first moments of a cluster, while founders have not registered yet."""

from flotilla.broker.cluster.founders import WAIT_MS
from flotilla.types.ids import NodeId
from flotilla.types.operations import AlterTopic, CreateTopic, GetMetadata, Request
from tests.unit.broker.fleet import Fleet, Node


def begun() -> tuple[Fleet, Node]:
    """At the first moment of a cluster at which a broker has registered; and the leader of its metadata."""
    fleet = Fleet(3)
    fleet.wait(lambda: any(box.catalog.brokers() for box in fleet.nodes.values()))
    controller = fleet.controller()
    assert len(controller.catalog.brokers()) == 1
    return fleet, controller


def without_third() -> Fleet:
    """A cluster whose third founder never came."""
    fleet = Fleet(3)
    fleet.isolate(3)
    fleet.wait(lambda: len(fleet.controller().catalog.brokers()) == 2)
    return fleet


def replicas(box: Node, topic: str = "t") -> list[list[NodeId]]:
    return [sorted(place.replicas) for place in box.catalog.topic(topic).partitions]


def asked_until_created(fleet: Fleet, request: Request, limit_ms: int = 2_000) -> list[str]:
    """The codes of the answers that a client gets which asks again and again."""
    codes: list[str] = []

    def is_answered() -> bool:
        codes.append(fleet.controller().call(request).code)
        return codes[-1] in ("TopicReply", "Metadata")

    fleet.wait(is_answered, limit_ms)
    return codes


def test_a_topic_of_the_first_moment_has_all_its_replicas_from_the_beginning() -> None:
    for factor in (3, 0):
        fleet, _ = begun()
        codes = asked_until_created(fleet, CreateTopic("t", 2, factor))
        assert {*codes[:-1]} == {"UNAVAILABLE"}
        assert replicas(fleet.controller()) == [[1, 2, 3]] * 2


def test_as_many_brokers_as_the_factor_needs_are_enough() -> None:
    _, controller = begun()
    refused = controller.call(CreateTopic("pair", 1, 2))
    assert refused.code == "UNAVAILABLE"
    assert "have not registered yet: " in str(refused.result)
    assert controller.call(CreateTopic("t", 1, 1)).code == "TopicReply"


def test_what_can_never_be_is_refused_at_once() -> None:
    _, controller = begun()
    assert controller.call(CreateTopic("t", 1, 4)).code == "INVALID_ARGUMENT"
    assert controller.call(CreateTopic("t", 5_000, 3)).code == "INVALID_ARGUMENT"
    assert controller.call(CreateTopic("t", 1, 1)).code == "TopicReply"
    assert controller.call(CreateTopic("t", 1, 3)).code == "ALREADY_EXISTS"


def test_a_topic_that_is_created_on_demand_waits_as_well() -> None:
    fleet, _ = begun()
    codes = asked_until_created(fleet, GetMetadata(["t"], create=True))
    assert {*codes[:-1]} == {"UNAVAILABLE"}
    assert replicas(fleet.controller()) == [[1, 2, 3]]


def test_the_default_factor_goes_on_with_a_majority_after_a_while() -> None:
    fleet = without_third()
    codes = asked_until_created(fleet, CreateTopic("t"), WAIT_MS + 1_000)
    assert codes[0] == "UNAVAILABLE"
    assert replicas(fleet.controller()) == [[1, 2]]
    assert "TopicReply" in asked_until_created(fleet, CreateTopic("later"), 1)


def test_a_default_factor_is_never_placed_on_less_than_a_majority() -> None:
    fleet, controller = begun()
    fleet.clock.now_ms += WAIT_MS
    assert controller.ask(CreateTopic("t")).code == "UNAVAILABLE"


def test_a_factor_asked_for_by_name_is_kept_or_refused() -> None:
    fleet = without_third()
    fleet.advance(2 * WAIT_MS)
    assert fleet.controller().call(CreateTopic("t", 1, 3)).code == "UNAVAILABLE"
    assert fleet.controller().call(CreateTopic("pair", 1, 2)).code == "TopicReply"
    fleet.heal(3)
    asked_until_created(fleet, CreateTopic("t", 1, 3))
    assert replicas(fleet.controller()) == [[1, 2, 3]]


def test_a_topic_that_grows_waits_as_well() -> None:
    fleet = without_third()
    asked_until_created(fleet, CreateTopic("t"), WAIT_MS + 1_000)
    for node in (1, 2):
        fleet.kill(node)
    for node in (1, 2):
        fleet.restart(node)
    codes = asked_until_created(fleet, AlterTopic("t", 2), WAIT_MS + 1_000)
    assert codes[0] == "UNAVAILABLE"
    assert replicas(fleet.controller()) == [[1, 2], [1, 2]]
    assert fleet.controller().call(AlterTopic("t", settings={"max_deliveries": "2"})).code == "TopicReply"


def test_a_joined_node_takes_the_place_of_a_founder_that_never_came() -> None:
    fleet = without_third()
    fleet.add(4)
    fleet.let_in(4)
    fleet.wait(lambda: 4 in fleet.controller().catalog.brokers())
    assert fleet.controller().call(CreateTopic("t", 1, 3)).code == "TopicReply"
    assert replicas(fleet.controller()) == [[1, 2, 4]]


def test_a_cluster_of_one_waits_for_nobody() -> None:
    fleet = Fleet(1).form()
    assert fleet.nodes[1].call(CreateTopic("t")).code == "TopicReply"
