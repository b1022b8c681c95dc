"""Runs one plan of the whole product and says what came of it."""

import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from flotilla.sim.checkers.violation import Violation
from flotilla.sim.garbage import rare_collections
from flotilla.sim.whole.coverage import LogWatch, count_outcomes
from flotilla.sim.whole.faults.faults import WholeFaults
from flotilla.sim.whole.history import UNKNOWN, History
from flotilla.sim.whole.plan import WholePlan
from flotilla.sim.whole.simulation import Simulation, Workload
from flotilla.sim.whole.workloads.admin import AdminWorkload
from flotilla.sim.whole.workloads.log import LogWorkload
from flotilla.sim.whole.workloads.queue import QueueWorkload
from flotilla.sim.whole.workloads.readers import ReadersWorkload
from flotilla.sim.whole.workloads.replaced_topic.workload import ReplacedTopicWorkload
from flotilla.sim.whole.workloads.stream_group.members import StreamWorkload
from flotilla.sim.whole.workloads.task_api.tasks import TasksWorkload
from flotilla.sim.whole.workloads.transactions import TransactionsWorkload
from flotilla.sim.whole.workloads.trimmed_topic.workload import TrimmedWorkload

WORKLOADS: Final[dict[str, Callable[[Simulation], Workload]]] = {
    "admin": AdminWorkload,
    "log": LogWorkload,
    "queue": QueueWorkload,
    "readers": ReadersWorkload,
    "replaced": ReplacedTopicWorkload,
    "stream": StreamWorkload,
    "tasks": TasksWorkload,
    "transactions": TransactionsWorkload,
    "trimmed": TrimmedWorkload,
}
#: They came later, and are drawn from a stream of their own: all else in a seed stays as it was.
LATER: Final = ("replaced", "trimmed")
DRAWN: Final = tuple(name for name in WORKLOADS if name not in LATER)


@dataclass(slots=True)
class WholeResult:
    plan: WholePlan
    digest: int = 0
    #: Empty when everything held.
    promise: str = ""
    failure: str = ""
    simulated_us: int = 0
    events: int = 0
    calls: int = 0
    faults: int = 0
    sometimes: dict[str, int] = field(default_factory=dict)
    #: (time, sentence)
    story: list[tuple[int, str]] = field(default_factory=list)
    history: History | None = None

    @property
    def operations(self) -> int:
        return self.calls

    @property
    def is_good(self) -> bool:
        return not self.failure


@rare_collections()
def simulate_whole(plan: WholePlan) -> WholeResult:
    """Runs a plan to its end or to the first broken promise. Never raises for a fault of the product."""
    simulation = Simulation(plan)
    for name in plan.workloads:
        simulation.workloads[name] = WORKLOADS[name](simulation)
    if plan.is_mixed:
        simulation.cluster.mix_settings()
        simulation.note("settings differed")
    if plan.strikes:
        simulation.faults = WholeFaults(simulation)
    result = WholeResult(plan)
    try:
        with LogWatch(simulation.sometimes):
            simulation.go()
    except Violation as violation:
        result.promise, result.failure = violation.promise, str(violation)
    except Exception as error:
        result.promise = type(error).__name__
        result.failure = "".join(traceback.format_exception(error, limit=-8))
    finally:
        simulation.close()
    unknown = sum(call.outcome == UNKNOWN for call in simulation.history.calls)
    brokers = [broker.host for broker in simulation.cluster.brokers.values()]
    count_outcomes(simulation.sometimes, unknown, simulation.cluster.internet, brokers)
    result.digest = simulation.world.digest
    result.simulated_us = simulation.world.now_us
    result.events = simulation.world.event_count
    result.calls = len(simulation.history.calls)
    result.faults = 0 if simulation.faults is None else simulation.faults.count
    result.sometimes = simulation.sometimes.counts
    result.story = simulation.story
    result.history = simulation.history
    return result
