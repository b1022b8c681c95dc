"""The warning about a node that other machines can connect to, while nothing asks who they are."""

from collections.abc import Sequence

from flotilla.types.address import Address
from flotilla.types.ids import NodeId
from flotilla.types.operations.cluster import INSECURE, NodeWarning


def exposure_warnings(
    node: NodeId, exposed: Sequence[Address], *, is_encrypted: bool = False, is_authenticated: bool = False
) -> list[NodeWarning]:
    """`exposed`: the addresses at which other machines can connect."""
    if not exposed:
        return []
    listed = ", ".join(map(str, exposed))
    lacks = [("authentication", is_authenticated), ("encryption", is_encrypted)]
    missing = " and ".join(name for name, is_there in lacks if not is_there)
    message = f"node {node} listens at {listed} without {missing}: whoever connects owns its data"
    return [NodeWarning(INSECURE, message, node)]
