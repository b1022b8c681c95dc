"""Warnings of all nodes, for `cluster status`: only the leader of a partition knows how its replicas are."""

from contextlib import suppress
from typing import Final

from flotilla.cli.terminal.servers import Cluster
from flotilla.types.errors import FlotillaError
from flotilla.types.operations import Metadata
from flotilla.types.operations.cluster import REPLICA_FORGETFUL, UNDER_REPLICATED, NodeWarning

#: Warnings of a replica that is missing, or as good as missing: the cluster is not whole.
MISSING: Final = (UNDER_REPLICATED, REPLICA_FORGETFUL)
#: A node that does not answer in time is left out.
_ANSWER_MAX: Final = "2s"


def warnings_of(metadata: Metadata) -> list[NodeWarning]:
    """What the brokers that can be reached warn of, by node."""
    found: list[NodeWarning] = []
    for broker in sorted(metadata.brokers, key=lambda each: each.node):
        if broker.is_alive:
            with suppress(FlotillaError), Cluster(broker.client, _ANSWER_MAX).connect() as client:
                found += client.admin.describe_node().warnings
    return found
