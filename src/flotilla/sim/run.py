"""One run: faults, healing, progress, convergence, and the judgement of the history.

A run is a function of its plan. It never raises for a fault of the product: what was found is in the
result, with one command that finds it again.
"""

import traceback
from dataclasses import dataclass, field

from flotilla.sim.checkers.violation import Violation
from flotilla.sim.cluster import Cluster
from flotilla.sim.devices.clock import TICK_US
from flotilla.sim.devices.crash import SimulatedCrash
from flotilla.sim.devices.world import MS, SECOND, World
from flotilla.sim.faults import FaultInjector
from flotilla.sim.good_copies import can_heal
from flotilla.sim.node import SimNode
from flotilla.sim.operator import Operator
from flotilla.sim.plan import Plan
from flotilla.sim.trace import EVERYONE
from flotilla.sim.workload import Workload
from flotilla.types.ids import GroupId, NodeId

#: After the last fault every group must acknowledge an append within this time,
PROGRESS_US = 30 * SECOND
#: and all replicas must hold the same within this.
CONVERGENCE_US = 120 * SECOND
#: How often both are looked for: often, since most runs have them at once, and a swarm runs thousands.
LOOK_US = 100 * MS
#: The clients go on for so long when all nodes are back.
LAST_WORK_US = SECOND


@dataclass(slots=True)
class Result:
    """The result of a run."""

    plan: Plan
    digest: int = 0
    #: Empty when everything held.
    promise: str = ""
    failure: str = ""
    simulated_us: int = 0
    events: int = 0
    acknowledged: int = 0
    faults: int = 0
    sometimes: dict[str, int] = field(default_factory=dict)
    trace: list[str] = field(default_factory=list)
    command: str = ""

    @property
    def operations(self) -> int:
        return self.acknowledged

    @property
    def is_good(self) -> bool:
        return not self.failure


class Run:
    """A cluster with its clients, its operator and its faults."""

    def __init__(self, plan: Plan, *, is_traced: bool = False) -> None:
        self.plan = plan
        self.world = World(plan.seed)
        self.cluster = Cluster(self.world, plan, is_traced=is_traced)
        self.workload = Workload(self.cluster)
        self.operator = Operator(self.cluster)
        self.faults = FaultInjector(self.cluster, self.workload)

    def go(self) -> None:
        """Raises Violation, or the assertion of the product that did not hold."""
        self.cluster.start()
        self.workload.start()
        self.operator.start()
        self.faults.start()
        self.world.run_until(self.plan.chaos_us)
        self._heal()
        absent = self._hold_back()
        self._wait_for_progress()
        self._bring_back(absent)
        self._wait_for_convergence()
        self.workload.judge()

    def _heal(self) -> None:
        self.cluster.trace.note(EVERYONE, "all faults end")
        self.faults.heal()
        self.operator.calm()
        self.workload.calm()

    def _hold_back(self) -> list[SimNode]:
        """Keeps a minority down: the others must make progress without it, whatever they know of it.

        A node whose disk has rotted is one of the others: it must heal with what they have.
        """
        random = self.world.stream("hold back")
        absent: list[SimNode] = []
        for node in random.sample(list(self.cluster.nodes.values()), len(self.cluster.nodes)):
            away = {node.id, *(other.id for other in self.cluster.nodes.values() if other.driver is None)}
            if random.random() < 0.5 and node.driver is not None and self._can_spare(away):
                node.crash(power=True, announced=random.random() < 0.5)
                absent.append(node)
        return absent

    def _can_spare(self, away: set[NodeId]) -> bool:
        if not self.cluster.can_spare(away):
            return False
        return not any(map(self._has_lost_entries, self.cluster.nodes.values())) or can_heal(
            self.cluster, frozenset(away)
        )

    def _has_lost_entries(self, node: SimNode) -> bool:
        """To rot, or to a power cut that left the head of an entry without its body."""
        replicas = [] if node.driver is None else node.driver.replicas.values()
        return bool(node.rots) or any(replica.raft.damaged for replica in replicas)

    def _bring_back(self, absent: list[SimNode]) -> None:
        for node in absent:
            self.cluster.restart(node)
        self.workload.read_again()

    def _wait_for_progress(self) -> None:
        progress = self.workload.progress
        before = {group: progress(group) for group in self.cluster.observers}
        deadline_us = self.world.now_us + PROGRESS_US
        while stuck := [group for group, count in before.items() if progress(group) == count]:
            if self.world.now_us >= deadline_us:
                raise Violation("progress after healing", f"groups {stuck} acknowledged nothing: {self.describe()}")
            self.world.run_until(self.world.now_us + LOOK_US)

    def _wait_for_convergence(self) -> None:
        self.cluster.trace.note(EVERYONE, "the clients stop")
        deadline_us = self.world.now_us + CONVERGENCE_US
        self.world.run_until(self.world.now_us + LAST_WORK_US)
        self.workload.stop()
        while not all(self._has_converged(group) for group in self.cluster.observers):
            if self.world.now_us >= deadline_us:
                promise = self.workload.unfinished or "replicas converge"
                raise Violation(promise, f"not after {CONVERGENCE_US // SECOND} s: {self.describe()}")
            self.world.run_until(self.world.now_us + LOOK_US)

    def _has_converged(self, group: GroupId) -> bool:
        observer = self.cluster.observers[group]
        configuration = observer.newest_configuration
        if configuration.is_joint or any(node.is_lost for node in self.cluster.nodes.values()):
            return False
        for member in configuration.members():
            driver = self.cluster.nodes[member].driver
            replica = None if driver is None else driver.replicas.get(group)
            if replica is None:
                return False
            if replica.applied != observer.log.commit or not self.workload.has_converged(group, replica):
                return False
            raft = replica.raft
            is_mending = raft.damaged or raft.log.stored.unsaved_repair_bytes()
            if raft.log.last_index != observer.log.commit or is_mending:
                return False
        return True

    def describe(self) -> str:
        """The state of every replica, for a failure report."""
        parts = [self.workload.describe()]
        for group, observer in self.cluster.observers.items():
            parts.append(f"group {group} committed {observer.log.commit}, {observer.newest_configuration}")
            for node in self.cluster.nodes.values():
                raft = self.cluster.raft(node, group)
                if raft is None:
                    parts.append(f"node {node.id} down" if node.driver is None else f"node {node.id} no member")
                else:
                    parts.append(
                        f"node {node.id} role {raft.role} term {raft.term} leader {raft.leader} "
                        f"log {raft.log.base}..{raft.log.last_index} committed {raft.log.committed} "
                        f"handed {raft.log.handed} durable {raft.log.durable} damaged {raft.damaged} "
                        f"quiescent {raft.quiescent} voters {raft.configuration.voters}"
                    )
        return "\n  ".join(parts)


def simulate(plan: Plan, *, is_traced: bool = False) -> Result:
    """Runs a plan to its end or to the first broken promise."""
    run = Run(plan, is_traced=is_traced)
    result = Result(plan, command=repeat_command(plan))
    try:
        run.go()
    except Violation as violation:
        result.promise, result.failure = violation.promise, str(violation)
    except (SimulatedCrash, Exception) as error:
        result.promise = type(error).__name__
        result.failure = "".join(traceback.format_exception(error, limit=-8))
    world = run.world
    result.digest = world.digest
    result.simulated_us = world.now_us
    result.events = world.event_count
    result.acknowledged = run.workload.acknowledged
    result.faults = run.faults.count
    network = run.cluster.network
    result.sometimes = run.cluster.sometimes.counts
    result.sometimes["frame lost"] = network.dropped_count
    result.sometimes["frame repeated"] = network.repeated_count
    result.trace = run.cluster.trace.lines
    return result


def repeat_command(plan: Plan) -> str:
    """One line that repeats a run, given as it was."""
    faults = ",".join(plan.faults) or "none"
    ticks = plan.chaos_us // TICK_US
    return f"flotilla sim --seed {plan.seed} --nodes {plan.nodes} --faults {faults} --ticks {ticks}"
