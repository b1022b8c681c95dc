"""Clusters that tests share: starting three processes takes longer than most of what is done with them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.broker.cluster import BrokerCluster


@pytest.fixture(scope="package")
def shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerCluster]:
    cluster = BrokerCluster(tmp_path_factory.mktemp("shared"))
    try:
        yield cluster
    finally:
        cluster.end()


@pytest.fixture
def own_cluster(tmp_path: Path) -> Iterator[BrokerCluster]:
    """Three nodes that are running, for a test after which they would be of no use to others."""
    cluster = BrokerCluster(tmp_path)
    cluster.start()
    try:
        yield cluster
    finally:
        cluster.end()


@pytest.fixture
def cluster(shared_cluster: BrokerCluster) -> BrokerCluster:
    """Three nodes, all of them running, with whatever earlier tests left in them: use topics of your own."""
    shared_cluster.start()
    return shared_cluster
