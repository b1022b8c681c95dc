"""Labels of nodes, from registration to placement, warnings and moves, in clusters of real brokers."""

import pytest

from flotilla.broker.cluster.controller import JOINING_VERSION
from flotilla.metadata.values import Labels
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.ids import NodeId
from flotilla.types.operations import CreateTopic, GetMetadata, JoinCluster, Metadata
from flotilla.types.operations.cluster import (
    LABELS_TOO_FEW,
    ONE_PLACE,
    REPLICAS_TOGETHER,
    DrainNode,
    MovesPlanned,
    Rebalance,
    UpgradeCluster,
)
from flotilla.types.version import NODES_LABELLED
from tests.unit.broker.cluster.test_moves import LONG_MS, is_still
from tests.unit.broker.cluster.test_upgrades import founded
from tests.unit.broker.fleet import Fleet, client_address, peer_address
from tests.unit.broker.test_replica_warnings import warnings

PAIRS = {node: Labels(f"m{(node + 1) // 2}") for node in range(1, 7)}


def zones(*names: str) -> dict[NodeId, Labels]:
    return {node: Labels("", name) for node, name in enumerate(names, 1)}


def replicas(fleet: Fleet) -> list[tuple[NodeId, ...]]:
    return [place.wanted for topic in fleet.controller().catalog.topics() for place in topic.partitions]


def codes(fleet: Fleet) -> set[str]:
    return {warning.code for warning in warnings(fleet)}


def test_replicas_are_on_different_machines_from_the_first_topic_on() -> None:
    fleet = Fleet(6, labels=PAIRS).form()
    fleet.create("t", 6)
    assert all({PAIRS[node].machine for node in placed} == {"m1", "m2", "m3"} for placed in replicas(fleet))
    fleet.advance(5_000)
    assert codes(fleet) == set()
    described = fleet.controller().call(GetMetadata()).result
    assert isinstance(described, Metadata)
    assert {broker.node: Labels(broker.machine, broker.zone) for broker in described.brokers} == PAIRS


def test_replicas_that_share_a_machine_are_reported_and_separated_by_a_rebalance() -> None:
    fleet = Fleet(4).form()
    fleet.create("t", 2)
    fleet.settle()
    held = replicas(fleet)[0]
    fleet.labels = {held[0]: Labels("m1"), held[1]: Labels("m1")}
    for node in held[:2]:
        fleet.kill(node)
        fleet.restart(node)
    fleet.wait(lambda: len(fleet.controller().machine.state.labels) == 2)
    fleet.wait(lambda: REPLICAS_TOGETHER in codes(fleet), LONG_MS)
    (named,) = [warning for warning in warnings(fleet) if "t/0" in warning.partitions]
    assert named.code == REPLICAS_TOGETHER
    assert "run `flotilla topic rebalance`" in named.message
    planned = fleet.controller().call(Rebalance()).result
    assert isinstance(planned, MovesPlanned)
    assert planned.moves
    fleet.wait(lambda: is_still(fleet), LONG_MS)
    assert not any(set(held[:2]) <= set(placed) for placed in replicas(fleet))
    fleet.wait(lambda: codes(fleet) == set(), LONG_MS)


def test_replicas_that_must_share_a_zone_are_reported() -> None:
    fleet = Fleet(3, labels=zones("a", "a", "b")).form()
    assert fleet.controller().call(CreateTopic("t", 1, 3)).code == "TopicReply"
    fleet.leader("t")
    fleet.wait(lambda: codes(fleet) == {LABELS_TOO_FEW})
    assert "fewer of them than replicas: t/0" in warnings(fleet)[0].message
    planned = fleet.controller().call(Rebalance(is_dry_run=True)).result
    assert isinstance(planned, MovesPlanned)
    assert not any(set(move.target) - set(move.replicas) for move in planned.moves)


@pytest.mark.parametrize(
    ("labels", "place"),
    [
        ([Labels("m")] * 3, "on one machine"),
        ([Labels("m", "a")] * 3, "on one machine"),
        ([Labels("", "a")] * 3, "in one zone"),
        ([Labels(f"m{n}", "a") for n in range(3)], "in one zone"),
    ],
)
def test_nodes_that_are_all_in_one_place_are_mentioned_once(labels: list[Labels], place: str) -> None:
    fleet = Fleet(3, labels=dict(enumerate(labels, 1))).form()
    fleet.create("t", 4)
    fleet.wait(lambda: codes(fleet) == {ONE_PLACE})
    fleet.advance(5_000)
    (said,) = warnings(fleet)
    assert (said.code, said.partitions, said.node) == (ONE_PLACE, [], 0)
    assert f"all nodes are {place}" in said.message


def test_a_zone_that_is_everybodys_hides_no_machine_that_is_not() -> None:
    fleet = Fleet(3, labels={1: Labels("m", "a"), 2: Labels("m", "a"), 3: Labels("n", "a")}).form()
    assert fleet.controller().call(CreateTopic("t", 1, 3)).code == "TopicReply"
    fleet.leader("t")
    fleet.wait(lambda: codes(fleet) == {LABELS_TOO_FEW, ONE_PLACE})


def test_a_single_node_with_labels_is_in_no_place_of_note() -> None:
    fleet = Fleet(1, labels=zones("a")).form()
    fleet.create("t")
    fleet.advance(5_000)
    assert codes(fleet) == set()


def test_a_node_that_joins_is_known_with_its_labels_at_once() -> None:
    """Missing replicas are added as soon as there is a broker for them."""
    fleet = Fleet(1, labels=zones("a", "b")).form()
    state = fleet.controller().machine.state
    fleet.add(2)
    fleet.let_in(2)
    fleet.wait(lambda: 2 in state.brokers)
    assert state.brokers[2].version == JOINING_VERSION, "it has not registered itself yet"
    assert state.labels[2] == Labels("", "b")
    third = JoinCluster(3, peer_address(3), client_address(3), zone="no spaces")
    assert isinstance(fleet.controller().call(third).result, InvalidArgumentError)


@pytest.mark.parametrize("drained", [1, 4])
def test_a_node_that_drains_gives_replicas_to_its_own_machine(drained: NodeId) -> None:
    fleet = Fleet(6, labels=PAIRS).form()
    fleet.create("t", 4)
    fleet.settle()
    fleet.controller().call(DrainNode(drained))
    fleet.wait(lambda: not any(drained in placed for placed in replicas(fleet)) and is_still(fleet), LONG_MS)
    assert all({PAIRS[node].machine for node in placed} == {"m1", "m2", "m3"} for placed in replicas(fleet))


def test_a_cluster_of_an_earlier_version_has_no_labels_until_it_is_upgraded() -> None:
    labels = zones("a", "b", "b")
    fleet = founded(NODES_LABELLED - 1, labels)
    fleet.advance(2_000)
    assert fleet.controller().machine.state.labels == {}
    assert fleet.controller().call(UpgradeCluster()).code == "ClusterUpgraded"
    fleet.wait(lambda: all(box.machine.state.labels == labels for box in fleet.nodes.values()))
