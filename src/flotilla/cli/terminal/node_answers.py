"""What each node says of itself: warnings, for `cluster status`, and clients. A node that does not answer is left out.

Only the leader of a partition knows how its replicas are, and only a node who is connected to it.
"""

from contextlib import suppress
from typing import Final

from flotilla.cli.terminal.servers import Cluster
from flotilla.types.errors import FlotillaError, PermissionDeniedError
from flotilla.types.operations import BrokerInfo, Metadata
from flotilla.types.operations.cluster import REPLICA_FORGETFUL, UNDER_REPLICATED, ClientList, NodeWarning

#: Warnings of a replica that is missing, or as good as missing: the cluster is not whole.
MISSING: Final = (UNDER_REPLICATED, REPLICA_FORGETFUL)
_ANSWER_MAX: Final = "2s"


def warnings_of(metadata: Metadata) -> list[NodeWarning]:
    """What the brokers that can be reached warn of, by node."""
    found: list[NodeWarning] = []
    for broker in sorted(metadata.brokers, key=lambda each: each.node):
        if broker.is_alive:
            with suppress(FlotillaError), Cluster(broker.client, _ANSWER_MAX).connect() as client:
                found += client.admin.describe_node().warnings
    return found


def clients_of(broker: BrokerInfo, limit: int) -> ClientList | None:
    """Who is connected to a broker; None: it does not answer. Raises PermissionDeniedError."""
    try:
        with Cluster(broker.client, _ANSWER_MAX).connect() as client:
            return client.admin.connected_clients(limit)
    except PermissionDeniedError:
        raise
    except FlotillaError:
        return None
