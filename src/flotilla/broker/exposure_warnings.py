"""The warning about a node that other machines can connect to, without authentication or without encryption."""

from flotilla.types.operations.cluster import INSECURE, NodeWarning
from flotilla.types.settings import NodeSettings


def exposure_warnings(settings: NodeSettings) -> list[NodeWarning]:
    if not settings.unguarded:
        return []
    listed = ", ".join(map(str, settings.unguarded))
    parts = {"authentication": settings.authentication, "encryption": settings.needs_tls}
    missing = " and ".join(name for name, is_there in parts.items() if not is_there)
    risk = "the network can read its data" if settings.authentication else "whoever connects owns its data"
    node = settings.node_id
    return [NodeWarning(INSECURE, f"node {node} listens at {listed} without {missing}: {risk}", node)]
