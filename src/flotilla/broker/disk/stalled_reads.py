"""Warnings about the disk of this node: replicas that wait for a read which it does not return."""

from collections.abc import Callable, Mapping
from typing import Final

from flotilla.types.ids import GroupId, NodeId
from flotilla.types.limits import WARNED_PARTITIONS_MAX
from flotilla.types.operations.cluster import DISK_STALLED, NodeWarning

#: A sentence names at most this many partitions, with their files.
_NAMED_MAX: Final = 5


def disk_warnings(
    node: NodeId, stalled: Mapping[GroupId, str], name_of: Callable[[GroupId], object]
) -> list[NodeWarning]:
    """`stalled`: the file of each group whose reads do not return."""
    files = sorted((str(name_of(group)), path) for group, path in stalled.items())
    if not files:
        return []
    listed = ", ".join(f"{name} ({path})" for name, path in files[:_NAMED_MAX]) + (
        ", ..." if files[_NAMED_MAX:] else ""
    )
    count = f"{len(files)} partition{'s' if len(files) > 1 else ''}"
    message = f"the disk of node {node} does not return reads of {count}: {listed}"
    return [NodeWarning(DISK_STALLED, message, node, [name for name, _ in files[:WARNED_PARTITIONS_MAX]])]
