"""The upgrade of the cluster version: all nodes must be up and support it; nodes that do not cannot join."""

from collections.abc import Mapping

import pytest

from flotilla.metadata.values import Labels
from flotilla.types.errors import ConfigurationChangeError
from flotilla.types.ids import NodeId
from flotilla.types.operations import ClusterReply
from flotilla.types.operations.cluster import (
    UPGRADE_POSSIBLE,
    ClusterUpgraded,
    DescribeNode,
    NodeDescribed,
    UpgradeCluster,
)
from flotilla.types.version import CLUSTER_VERSION_MAX, SUPPORTED, VersionRange
from tests.unit.broker.cluster.test_registration import join
from tests.unit.broker.fleet import Fleet, Node


def founded(version: int, labels: Mapping[NodeId, Labels] | None = None) -> Fleet:
    fleet = Fleet(3, labels=labels)
    for box in fleet.nodes.values():
        box.membership.founding_version = lambda: version
    fleet.wait(lambda: all(len(box.catalog.brokers()) == 3 for box in fleet.nodes.values()))
    return fleet


def versions(fleet: Fleet) -> set[int]:
    return {box.catalog.cluster_version for box in fleet.nodes.values()}


def is_upgrade_advised(node: Node) -> bool:
    described = node.call(DescribeNode()).result
    assert isinstance(described, NodeDescribed)
    return UPGRADE_POSSIBLE in [warning.code for warning in described.warnings]


def test_a_new_cluster_begins_with_the_version_that_its_founders_share() -> None:
    assert versions(founded(1)) == {1}
    assert versions(founded(CLUSTER_VERSION_MAX)) == {CLUSTER_VERSION_MAX}


def test_all_nodes_follow_an_upgrade() -> None:
    fleet = founded(1)
    controller = fleet.controller()
    assert [is_upgrade_advised(box) for box in fleet.nodes.values()] == [
        box is controller for box in fleet.nodes.values()
    ]
    latest = CLUSTER_VERSION_MAX
    assert controller.call(UpgradeCluster(is_dry_run=True)).result == ClusterUpgraded(latest, 1)
    assert versions(fleet) == {1}
    assert controller.call(UpgradeCluster()).result == ClusterUpgraded(latest, 1)
    fleet.wait(lambda: versions(fleet) == {latest})
    assert controller.call(UpgradeCluster()).result == ClusterUpgraded(latest, latest)
    assert not is_upgrade_advised(controller)


def test_a_node_of_the_earlier_program_prevents_it() -> None:
    fleet = founded(1)
    controller = fleet.controller()
    old = next(box for box in fleet.nodes.values() if box is not controller)
    old.versions = VersionRange(1, 1)
    assert not is_upgrade_advised(controller)
    refused = controller.call(UpgradeCluster(2)).result
    assert isinstance(refused, ConfigurationChangeError)
    assert f"not all nodes support cluster version 2: node {old.node} supports version 1 only" in str(refused)
    assert controller.call(UpgradeCluster()).result == ClusterUpgraded(1, 1)
    assert versions(fleet) == {1}


def test_a_node_that_is_away_prevents_it() -> None:
    fleet = founded(1)
    controller = fleet.controller()
    away = next(box for box in fleet.nodes.values() if box is not controller)
    fleet.isolate(away.node)
    refused = controller.call(UpgradeCluster()).result
    assert isinstance(refused, ConfigurationChangeError)
    assert f"start node {away.node}" in str(refused)


def test_nodes_that_have_not_registered_count() -> None:
    fleet = Fleet(1)
    controller = fleet.controller()
    assert not controller.catalog.brokers()
    assert isinstance(controller.call(UpgradeCluster(CLUSTER_VERSION_MAX + 1)).result, ConfigurationChangeError)
    assert controller.catalog.cluster_version <= CLUSTER_VERSION_MAX


@pytest.mark.parametrize("version", [1, CLUSTER_VERSION_MAX + 1])
def test_it_never_goes_back_nor_beyond_what_all_support(version: int) -> None:
    fleet = founded(2)
    assert isinstance(fleet.controller().call(UpgradeCluster(version)).result, ConfigurationChangeError)
    assert versions(fleet) == {2}


@pytest.mark.parametrize(("supported", "is_admitted"), [((0, 0), False), ((1, 1), False), (SUPPORTED, True)])
def test_a_node_that_does_not_support_the_version_cannot_join(supported: tuple[int, int], is_admitted: bool) -> None:
    fleet = founded(2)
    fleet.add(4)
    asked = join(4)
    asked.version_min, asked.version_max = supported
    result = fleet.controller().call(asked).result
    assert isinstance(result, ClusterReply if is_admitted else ConfigurationChangeError)
