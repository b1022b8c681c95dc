"""Warnings about clocks: this node's own is wrong, no majority agrees, or retention follows a step of time."""

from collections.abc import Iterable
from typing import Final, Protocol

from flotilla.broker.cluster_clock import ClusterClock
from flotilla.types.ids import NodeId
from flotilla.types.notation import DURATION_UNITS
from flotilla.types.operations.cluster import CLOCK_OFF, CLOCKS_DISAGREE, RETENTION_BEHIND, NodeWarning

#: Retention that is later than this follows a step of time, or a long stop.
BEHIND_MS_MIN: Final = 600_000


class Keeper(Protocol):
    """A partition."""

    @property
    def retention_behind_ms(self) -> int: ...


def clock_warnings(node: NodeId, clock: ClusterClock, partitions: Iterable[Keeper]) -> list[NodeWarning]:
    clock.now_ms()
    found = []
    if clock.is_off:
        side = "ahead of" if clock.offset_ms > 0 else "behind"
        distance = about(abs(clock.offset_ms))
        message = f"the clock of node {node} is {distance} {side} the time of the cluster, which does not follow it"
        found.append(NodeWarning(CLOCK_OFF, message, node))
    if not clock.has_agreement:
        message = f"node {node} knows of no majority of brokers whose clocks agree: it goes on with its monotonic clock"
        found.append(NodeWarning(CLOCKS_DISAGREE, message, node))
    behind_ms = max([partition.retention_behind_ms for partition in partitions], default=0)
    if behind_ms >= BEHIND_MS_MIN:
        message = f"retention on node {node} removes {about(behind_ms)} of overdue messages step by step"
        found.append(NodeWarning(RETENTION_BEHIND, message, node))
    return found


def about(duration_ms: int) -> str:
    """A duration for people, in the largest unit of which there are two."""
    name, factor = next(
        (unit for unit in reversed(DURATION_UNITS.items()) if duration_ms >= 2 * unit[1]), ("ms", DURATION_UNITS["ms"])
    )
    return f"{duration_ms // factor}{name}"
