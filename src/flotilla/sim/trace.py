"""A run told for people: one line per turn of events, with the time and who it happened to.

Telling is off in a swarm. It takes no part in the digest: the trace of a run is not the run.
"""

from flotilla.sim.devices.world import SECOND, World
from flotilla.types.ids import NodeId

#: Told of the cluster, not of a node.
EVERYONE: NodeId = 0


class Trace:
    """Collects lines when it is wanted, and nothing otherwise."""

    __slots__ = ("_world", "is_traced", "lines")

    def __init__(self, world: World, *, is_traced: bool) -> None:
        self._world = world
        self.is_traced = is_traced
        self.lines: list[str] = []

    def note(self, node: NodeId, text: str) -> None:
        if self.is_traced:
            who = f"node {node}" if node else ""
            self.lines.append(f"{self._world.now_us / SECOND:10.4f} s  {who:<7} {text}")
