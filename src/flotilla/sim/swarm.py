"""Many seeds over all cores, with what they found added up.

Each seed runs in a worker process from the first to the last line, so nothing is shared and the order in
which they finish means nothing. The first failures are kept; every failure has the command that repeats it.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from time import perf_counter
from typing import Generic, Protocol, TypeVar

from flotilla.sim.devices.world import SECOND
from flotilla.sim.mutants.mutants import MUTANTS, applied
from flotilla.sim.plan import Plan, draw_plan
from flotilla.sim.run import Result, simulate


class Seeded(Protocol):
    @property
    def seed(self) -> int: ...


class Outcome(Protocol):
    """The result of one seed, of either simulator."""

    simulated_us: int
    events: int
    faults: int
    sometimes: dict[str, int]

    @property
    def plan(self) -> Seeded: ...

    @property
    def operations(self) -> int: ...

    @property
    def is_good(self) -> bool: ...


R = TypeVar("R", bound=Outcome)


@dataclass(frozen=True, slots=True)
class Order:
    """What to run for every seed."""

    nodes: int | None = None
    #: None: drawn.
    ticks: int | None = None
    faults: tuple[str, ...] | None = None
    mutant: str = ""

    def plan(self, seed: int) -> Plan:
        faults = MUTANTS[self.mutant].faults if self.mutant and self.faults is None else self.faults
        return draw_plan(seed, nodes=self.nodes, ticks=self.ticks, faults=faults)


@dataclass(slots=True)
class Totals(Generic[R]):
    """What a swarm found, added up."""

    seeds: int = 0
    simulated_us: int = 0
    events: int = 0
    operations: int = 0
    faults: int = 0
    elapsed_s: float = 0.0
    sometimes: dict[str, int] = field(default_factory=dict)
    failures: list[R] = field(default_factory=list)

    def add(self, result: R) -> None:
        self.seeds += 1
        self.simulated_us += result.simulated_us
        self.events += result.events
        self.operations += result.operations
        self.faults += result.faults
        for name, count in result.sometimes.items():
            self.sometimes[name] = self.sometimes.get(name, 0) + count
        if not result.is_good:
            self.failures.append(result)

    @property
    def simulated_s(self) -> int:
        return self.simulated_us // SECOND


def run_seed(seed: int, order: Order) -> Result:
    """One seed, in this process."""
    plan = order.plan(seed)
    with ExitStack() as stack:
        if order.mutant:
            stack.enter_context(applied(order.mutant))
        return simulate(plan)


def run_swarm(
    seeds: Iterable[int],
    order: Order,
    *,
    workers: int | None = None,
    failures_max: int = 5,
    report: Callable[[Result], None] | None = None,
) -> Totals[Result]:
    """Runs all seeds, or until enough of them failed. `report` gets each result as it arrives."""
    return add_up(seeds, partial(run_seed, order=order), workers, failures_max, report)


def add_up(
    seeds: Iterable[int],
    run: Callable[[int], R],
    workers: int | None,
    failures_max: int,
    report: Callable[[R], None] | None,
) -> Totals[R]:
    totals = Totals[R]()
    started_s = perf_counter()
    for result in results(seeds, run, workers or os.cpu_count() or 1, failures_max):
        totals.add(result)
        if report is not None:
            report(result)
    totals.failures.sort(key=lambda result: result.plan.seed)
    totals.elapsed_s = perf_counter() - started_s
    return totals


def results(seeds: Iterable[int], run: Callable[[int], R], workers: int, failures_max: int) -> Iterator[R]:
    """Each seed runs in a process of its own pool, or in this one if there is one worker."""
    failed = 0
    if workers == 1:
        for seed in seeds:
            result = run(seed)
            yield result
            failed += not result.is_good
            if failed >= failures_max:
                return
        return
    waiting = iter(seeds)
    with ProcessPoolExecutor(workers, mp_context=get_context("fork")) as pool:
        pending: set[Future[R]] = set()
        while True:
            while failed < failures_max and len(pending) < 2 * workers:
                following = next(waiting, None)
                if following is None:
                    break
                pending.add(pool.submit(run, following))
            if not pending:
                return
            done, pending = wait(pending, return_when=FIRST_COMPLETED)
            for future in done:
                result = future.result()
                failed += not result.is_good
                yield result
