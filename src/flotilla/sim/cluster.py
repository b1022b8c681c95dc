"""The nodes of a run, the network between them and the observers beside them."""

from collections.abc import Set
from random import Random

from flotilla.raft.messages import Configuration
from flotilla.raft.node import RaftNode
from flotilla.runtime.driver import DriverOptions
from flotilla.sim.coverage import Sometimes
from flotilla.sim.devices.clock import NodeClock
from flotilla.sim.devices.network import Network
from flotilla.sim.devices.world import World
from flotilla.sim.node import DOWN, RUNNING, SimNode, Surroundings
from flotilla.sim.observer import GroupObserver
from flotilla.sim.plan import Plan
from flotilla.sim.trace import Trace
from flotilla.types.ids import GroupId, NodeId


class Cluster:
    """Everything in a run besides its clients and its faults."""

    __slots__ = ("network", "nodes", "observers", "plan", "sometimes", "trace", "world")

    def __init__(self, world: World, plan: Plan, *, is_traced: bool) -> None:
        self.world = world
        self.plan = plan
        self.sometimes = Sometimes()
        self.trace = Trace(world, is_traced=is_traced)
        self.network = Network(world, plan.weather, self._deliver, self._hint)
        members = Configuration(voters=tuple(range(1, plan.nodes + 1)))
        self.observers: dict[GroupId, GroupObserver] = {
            group: GroupObserver(group, members, self.sometimes, self.trace) for group in range(1, plan.groups + 1)
        }
        around = Surroundings(
            world,
            self.network,
            self.observers,
            self.sometimes,
            self.trace,
            DriverOptions(replica=plan.replica),
            plan.store,
            plan.kept_entries,
        )
        random = world.stream("clocks")
        self.nodes: dict[NodeId, SimNode] = {}
        for node_id in range(1, plan.nodes + plan.spares + 1):
            drift_ppm = random.randint(-plan.drift_ppm_max, plan.drift_ppm_max)
            node = SimNode(node_id, around, NodeClock(drift_ppm))
            self.nodes[node_id] = node
            self.network.add(node_id)
            if node_id <= plan.nodes:
                node.memberships = dict.fromkeys(self.observers, members)

    def start(self) -> None:
        for node in self.nodes.values():
            node.start()

    def restart(self, node: SimNode, interrupt_after: int = -1) -> None:
        """Starts a node that is down and may come back; tries again later if its disk fails."""
        if node.status == DOWN and not node.is_lost:
            self.trace.note(node.id, "starts")
            if not node.start(interrupt_after) and not node.is_lost:
                self.world.after(1_000_000, self.restart, node)

    def running(self) -> list[SimNode]:
        return [node for node in self.nodes.values() if node.status == RUNNING]

    def leader(self, group: GroupId) -> SimNode | None:
        """The newest leader, if its process runs. It may have been deposed without knowing it."""
        node = self.nodes.get(self.observers[group].leader)
        return node if node is not None and node.status == RUNNING else None

    def raft(self, node: SimNode, group: GroupId) -> RaftNode | None:
        if node.driver is None or group not in node.driver.replicas:
            return None
        return node.driver.replicas[group].raft

    def can_spare(self, away: set[NodeId]) -> bool:
        """Whether every group has a majority without these."""
        there = self.nodes.keys() - away
        return all(self.is_majority(group, there) for group in self.observers)

    def is_majority(self, group: GroupId, nodes: Set[NodeId]) -> bool:
        """Of each half of the committed configuration, and of every other in a log."""
        # All nodes may be down, and then no log can be asked.
        configurations = [self.observers[group].newest_configuration]
        for node in self.nodes.values():
            raft = self.raft(node, group)
            configurations += [configuration for _, configuration in raft.log.configurations] if raft else []
        for configuration in configurations:
            for voters in (configuration.voters, configuration.outgoing):
                if voters and 2 * sum(1 for voter in voters if voter in nodes) <= len(voters):
                    return False
        return True

    def pick_group(self, random: Random) -> GroupId:
        return 1 + random.randrange(self.plan.groups)

    def _deliver(self, to: NodeId, sender: NodeId, frame: bytes) -> None:
        self.nodes[to].frame_arrived(frame)

    def _hint(self, node: NodeId, peer: NodeId, is_up: bool) -> None:
        self.nodes[node].peer_changed(peer, is_up)
