"""One run of the whole product: a cluster, its clients and its faults, in simulated time.

    start -> prepare (topics) -> work under faults -> heal -> calm (clients finish) -> judge

A run is a function of its plan. Everything it draws comes from streams of its world.
"""

import traceback
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, Final, Protocol

from flotilla.client.async_client import AsyncClient
from flotilla.sim.checkers.violation import Violation
from flotilla.sim.devices.world import MS, SECOND, World
from flotilla.sim.whole.cluster import Broker, Cluster
from flotilla.sim.whole.convergence import Convergence
from flotilla.sim.whole.coverage import Sometimes
from flotilla.sim.whole.history import KILLED, OPEN, History
from flotilla.sim.whole.judges import judge_answers, judge_time_limits
from flotilla.sim.whole.models.service import ServiceWatch
from flotilla.sim.whole.plan import WholePlan
from flotilla.sim.whole.process import Process
from flotilla.sim.whole.watch import ConsensusWatch
from flotilla.types.errors import FlotillaError
from flotilla.types.ids import GroupId, NodeId

#: The cluster must be up within this time,
_START_US: Final = 60 * SECOND
#: and its clients must come to their end within this time after everything has healed.
CALM_US: Final = 180 * SECOND
_STEP_US: Final = 250 * MS
#: What a failure names of all that is missing.
_TOLD_MAX: Final = 10
#: More calls are not open at once.
_OPEN_CALLS_MAX: Final = 200


class Workload(Protocol):
    """A kind of clients, and what they may expect."""

    async def prepare(self, client: AsyncClient) -> None:
        """Makes what its clients need. Tried again after a FlotillaError."""

    def start(self) -> None:
        """Starts its client processes."""

    def calm(self) -> None:
        """Everything has healed: its clients finish what they have begun and begin nothing new."""

    def is_done(self) -> bool:
        """Whether all its clients have finished."""

    def describe(self) -> str:
        """What its clients wait for, for a failure report."""

    def judge(self) -> None:
        """Raises Violation."""


class Faults(Protocol):
    def start(self) -> None: ...

    def heal(self) -> None: ...

    def excuses(self, broker: Broker, failure: BaseException) -> bool:
        """Whether a fault explains that the broker ended by itself."""

    def expelled(self, broker: Broker, code: str) -> bool:
        """A broker has no place in its cluster. False: nobody wanted that."""

    count: int
    #: Once everything has healed: the brokers that are whole again, without those that left for good.
    healed: list[Broker]


class Simulation:
    def __init__(self, plan: WholePlan, **settings: Any) -> None:
        """`settings` are those of NodeSettings, beside those of the plan."""
        self.plan = plan
        self.world = World(plan.seed)
        self.cluster = Cluster(self.world, plan.nodes, **{**plan.settings, **settings})
        self.history = History(self.world)
        self.workloads: dict[str, Workload] = {}
        self.faults: Faults | None = None
        #: What happened, for people: (time, sentence).
        self.story: list[tuple[int, str]] = []
        #: How often each interesting event happened.
        self.sometimes = Sometimes()
        #: A promise that was broken during the run; the first one is raised at the next step.
        self.found: Violation | None = None
        self.watch = ConsensusWatch(self.world, self.sometimes, self._broken, self._led)
        self.service = ServiceWatch(self.world, self._broken, self.note)
        self.service.registry.on_decided = self._decided
        self.cluster.on_broker_opened = self.watch.attach
        self.cluster.on_broker_failed = self._broker_failed
        self.cluster.on_broker_expelled = self._broker_expelled
        self.cluster.on_client_failed = self._client_failed

    def stream(self, name: str) -> Random:
        return self.world.stream(name)

    def tell(self, sentence: str) -> None:
        self.story.append((self.world.now_us, sentence))

    def note(self, event: str) -> None:
        self.sometimes.seen(event)

    def client(self, name: str, main: Callable[[], Coroutine[Any, Any, None]]) -> Process:
        """Starts a client process on a host of its own."""
        return self.cluster.run(self.cluster.client_host(name), main)

    def go(self) -> None:
        """Raises Violation."""
        with self.service.watching():
            self._go()

    def _go(self) -> None:
        self.tell(f"{self.plan.nodes} brokers start")
        self.cluster.start()
        self._prepare()
        for workload in self.workloads.values():
            workload.start()
        if self.faults is not None:
            self.faults.start()
        end_us = self.world.now_us + self.plan.duration_us
        while self.world.now_us < end_us:
            self._step()
        if self.faults is not None:
            self.faults.heal()
        self.tell("everything has healed; the clients finish")
        for workload in self.workloads.values():
            workload.calm()
        self._wait(self._is_calm, CALM_US, "progress after healing")
        self._wait(self.service.is_settled, CALM_US, "every transaction ends")
        brokers = list(self.cluster.brokers.values()) if self.faults is None else self.faults.healed
        convergence = Convergence(brokers)
        self._wait(
            convergence.is_reached, CALM_US, "all replicas converge", lambda: ", ".join(convergence.missing[:_TOLD_MAX])
        )
        self.service.judge()
        self.judge_brokers()
        judge_time_limits(self.history, self.world.now_us)
        if self.faults is None:
            judge_answers(self.history)
        for workload in self.workloads.values():
            workload.judge()

    def _prepare(self) -> None:
        prepared: list[bool] = []

        async def main() -> None:
            async with AsyncClient(self.cluster.servers, name="setup") as client:
                for workload in self.workloads.values():
                    while True:
                        try:
                            await workload.prepare(client)
                            break
                        except FlotillaError:
                            pass
            prepared.append(True)

        self.client("setup", main)
        self._wait(lambda: bool(prepared), _START_US, "a cluster starts")

    def _is_calm(self) -> bool:
        return all(workload.is_done() for workload in self.workloads.values())

    def _wait(
        self, is_done: Callable[[], bool], limit_us: int, promise: str, describe: Callable[[], str] | None = None
    ) -> None:
        deadline_us = self.world.now_us + limit_us
        while not is_done():
            if self.world.now_us >= deadline_us:
                text = (describe or self.describe)()
                raise Violation(promise, f"not within {limit_us // SECOND} s: {text}")
            self._step()

    def _step(self) -> None:
        self.world.run_until(self.world.now_us + _STEP_US)
        if self.found is not None:
            raise self.found

    def close(self) -> None:
        """Ends every process."""
        for process in self.cluster.processes:
            process.die(is_heard=False)
        for process in self.cluster.processes:
            process.loop.dissolve()

    def _broker_failed(self, broker: Broker, failure: BaseException) -> None:
        if self.faults is None or not self.faults.excuses(broker, failure):
            text = "".join(traceback.format_exception(failure, limit=-8))
            self._broken(Violation("no broker ends by itself", f"broker {broker.node}: {text}"))

    def _broker_expelled(self, broker: Broker, code: str) -> None:
        if self.faults is None or not self.faults.expelled(broker, code):
            self._broken(Violation("no broker is expelled", f"broker {broker.node}: {code}"))

    def _broken(self, violation: Violation) -> None:
        self.found = self.found or violation

    def _led(self, node: NodeId, group: GroupId, name: str) -> None:
        self.tell(f"broker {node} leads {name}")
        if any(call.outcome == OPEN for call in self.history.calls[-_OPEN_CALLS_MAX:]):
            self.note("leader changed while a call was open")

    def _decided(self, transaction_id: str) -> None:
        calls = [call for call in self.history.of("transaction") if call.arguments["id"] == transaction_id]
        if any(call.error == KILLED for call in calls):
            self.note("transaction decided after its coordinator died")

    def _client_failed(self, process: Process, failure: Exception) -> None:
        """An error that the code of a workload does not expect."""
        if isinstance(failure, Violation):
            self.found = failure
        else:
            text = "".join(traceback.format_exception(failure, limit=-6))
            self.found = Violation("clients get typed errors", f"{process.name}: {text}")

    def judge_brokers(self) -> None:
        """No exception is left to nobody, in any life of any process. Raises Violation."""
        for process in self.cluster.processes:
            if process.failures:
                context = process.failures[0]
                text = f"{process.name}: {context.get('message')}: {context.get('exception')!r}"
                raise Violation("no exception is left to nobody", text)

    def describe(self) -> str:
        brokers = [
            f"broker {broker.node} {'up' if broker.is_running else 'paused' if broker.is_up else 'down'}"
            for broker in self.cluster.brokers.values()
        ]
        waits = [f"{name}: {workload.describe()}" for name, workload in self.workloads.items()]
        return "; ".join([*brokers, *waits])
