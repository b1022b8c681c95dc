"""The trace of a run for people: one line per event, with its time and node.

Tracing is off in a swarm, and takes no part in the digest.
"""

from flotilla.sim.devices.world import SECOND, World
from flotilla.types.ids import NodeId

#: Stands for the cluster as a whole.
EVERYONE: NodeId = 0


class Trace:
    """Collects lines if tracing is on."""

    __slots__ = ("_world", "is_traced", "lines")

    def __init__(self, world: World, *, is_traced: bool) -> None:
        self._world = world
        self.is_traced = is_traced
        self.lines: list[str] = []

    def note(self, node: NodeId, text: str) -> None:
        if self.is_traced:
            label = f"node {node}" if node else ""
            self.lines.append(f"{self._world.now_us / SECOND:10.4f} s  {label:<7} {text}")
