"""A user's own code against a whole cluster with faults, in simulated time: `flotilla.testing.simulate`.

The scenario is a coroutine. It, the processes that it starts and the brokers run on simulated event loops; a minute of
their time takes seconds, and the same seed gives the same run.
"""

import traceback
from collections.abc import Callable, Coroutine, Sequence
from datetime import timedelta
from random import Random
from typing import Any, Final, TypeAlias

from flotilla.client.async_client import AsyncClient
from flotilla.sim.checkers.violation import Violation
from flotilla.sim.devices.world import MS, SECOND
from flotilla.sim.garbage import rare_collections
from flotilla.sim.whole.cluster import Broker
from flotilla.sim.whole.faults.faults import DRAWN_FAULTS, FAULTS, WholeFaults
from flotilla.sim.whole.plan import PLANNED_JUMPS, WholePlan
from flotilla.sim.whole.process import Host, Process
from flotilla.sim.whole.simulation import Simulation
from flotilla.types.errors import FlotillaError
from flotilla.types.ids import NodeId

_STEP_US: Final = 10 * MS
#: Of all faults, those that one seed draws.
_FAULT_SHARE: Final = 0.3
_NEVER_US: Final = 1 << 60

Main: TypeAlias = Callable[[], Coroutine[Any, Any, None]]
Scenario: TypeAlias = Callable[["SimulatedCluster"], Coroutine[Any, Any, None]]


class SimulationFailedError(AssertionError):
    """The scenario raised, or did not come to its end. `story` tells what happened before. Made by `simulate`."""

    def __init__(self, seed: int, reason: str, story: Sequence[str]) -> None:
        told = "".join(f"\n  {line}" for line in story)
        super().__init__(f"seed {seed}: {reason}{told}\nsimulate({seed}, ...) repeats it")
        self.seed = seed
        self.story = list(story)


class SimulatedProcess:
    """One process of a scenario: a coroutine on a host of its own. Made by `SimulatedCluster.process`."""

    def __init__(self, cluster: "SimulatedCluster", host: Host, main: Main) -> None:
        self._cluster = cluster
        self._host = host
        self._main = main
        self._process: Process | None = None
        self.start()

    @property
    def name(self) -> str:
        return self._host.name

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.is_alive

    def start(self) -> None:
        """Starts it again after it was killed."""
        assert not self.is_alive, f"{self.name} runs already"
        self._process = self._cluster.simulation.cluster.run(self._host, self._main)

    def kill(self) -> None:
        """As `kill -9`: nothing of it runs any more, and its connections are reset."""
        if self._process is not None and self._process.is_alive:
            self._cluster.tell(f"{self.name} is killed")
            self._process.die(is_heard=True)

    def pause(self) -> None:
        """As SIGSTOP."""
        if self._process is not None:
            self._process.pause()

    def resume(self) -> None:
        if self._process is not None:
            self._process.resume()


class SimulatedCluster:
    """The cluster of a scenario. Made by `simulate`."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        #: For choices of the scenario: drawn from the seed.
        self.random: Random = simulation.stream("scenario")

    @property
    def servers(self) -> list[str]:
        return self.simulation.cluster.servers

    @property
    def brokers(self) -> dict[NodeId, Broker]:
        """By node id. A broker can `kill()`, `cut_power()`, `stop()` and `start()`."""
        return self.simulation.cluster.brokers

    def client(self, *, timeout_ms: int | timedelta = 30_000, name: str = "") -> AsyncClient:
        """A client of the cluster for the process that calls this."""
        return AsyncClient(self.servers, timeout_ms=timeout_ms, name=name)

    def process(self, name: str, main: Main) -> SimulatedProcess:
        """Starts a process of its own: it can be killed without the others."""
        return SimulatedProcess(self, self.simulation.cluster.client_host(name), main)

    def isolate(self, node: NodeId) -> None:
        """Cuts a broker off from all others and from all clients."""
        self.tell(f"broker {node} is cut off")
        self.simulation.cluster.internet.isolate(self.brokers[node].host)

    def heal(self) -> None:
        """Ends all faults: every path is open and every broker runs."""
        self.tell("everything heals")
        if self.simulation.faults is not None:
            self.simulation.faults.heal()
        self.simulation.cluster.heal()

    def tell(self, sentence: str) -> None:
        """Adds a sentence to the story that a failure prints."""
        self.simulation.tell(sentence)

    @property
    def now_s(self) -> float:
        """Simulated seconds since the start."""
        return self.simulation.world.now_us / SECOND


@rare_collections()
def simulate(
    seed: int,
    scenario: Scenario,
    *,
    brokers: int = 3,
    faults: Sequence[str] | None = None,
    limit_s: int = 600,
    **settings: Any,
) -> list[str]:
    """Runs `scenario(cluster)` against a cluster of real brokers in simulated time; returns the story.

    seed: everything that is drawn comes from it: the order of events, delays, faults, `cluster.random`.
    faults: names of faults that happen while the scenario runs, until `cluster.heal()`; None: drawn from the seed.
    limit_s: simulated seconds after which the scenario must have ended.
    settings: of the brokers, as in docs/reference/settings.md.

    Raises SimulationFailedError when the scenario or one of its processes raises, or does not end; when a broker ends
    by itself, breaks a rule of consensus, or leaves an exception unhandled.
    """
    # The clock jumps where faults are drawn, as in the project's own runs.
    plan = WholePlan(
        seed,
        brokers,
        _NEVER_US,
        faults=_chosen(seed, faults),
        workloads=(),
        jumps_clock=faults is None or PLANNED_JUMPS in faults,
    )
    simulation = Simulation(plan, **settings)
    if plan.strikes:
        simulation.faults = WholeFaults(simulation)
    cluster = SimulatedCluster(simulation)
    ended: list[bool] = []

    async def main() -> None:
        async with cluster.client(name="scenario") as client:
            await _wait_for_cluster(client)
        if simulation.faults is not None:
            simulation.faults.start()
        await scenario(cluster)
        ended.append(True)

    failures: list[str] = []
    simulation.cluster.on_client_failed = lambda process, failure: failures.append(_text(process, failure))
    simulation.cluster.start()
    simulation.client("scenario", main)
    try:
        while not ended and not failures:
            if simulation.world.now_us > limit_s * SECOND:
                failures.append(f"the scenario did not end within {limit_s} simulated seconds")
                break
            simulation.world.run_until(simulation.world.now_us + _STEP_US)
            if simulation.found is not None:
                failures.append(str(simulation.found))
        if not failures:
            simulation.judge_brokers()
    except Violation as violation:
        failures.append(str(violation))
    finally:
        simulation.close()
    story = [f"{at_us / SECOND:8.3f} s  {sentence}" for at_us, sentence in simulation.story]
    if failures:
        raise SimulationFailedError(seed, failures[0], story)
    return story


def _chosen(seed: int, faults: Sequence[str] | None) -> tuple[str, ...]:
    """Raises ValueError for a name that no fault has."""
    if faults is None:
        chance = Random(f"faults of scenario {seed}")
        return tuple(name for name in DRAWN_FAULTS if chance.random() < _FAULT_SHARE)
    unknown = [name for name in faults if name not in FAULTS and name != PLANNED_JUMPS]
    if unknown:
        raise ValueError(f"no such faults: {', '.join(unknown)}; there are {', '.join(FAULTS)}")
    return tuple(name for name in faults if name != PLANNED_JUMPS)


async def _wait_for_cluster(client: AsyncClient) -> None:
    while True:
        try:
            await client.topics()
        except FlotillaError:
            continue
        return


def _text(process: Process, failure: BaseException) -> str:
    return f"{process.host.name} failed:\n" + "".join(traceback.format_exception(failure))
