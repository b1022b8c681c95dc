"""Many seeds of the whole product over all cores, with what they found added up."""

import os
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial

from flotilla.sim.swarm import Totals, add_up, results
from flotilla.sim.whole.faults.faults import DRAWN_FAULTS, LATER_FAULTS
from flotilla.sim.whole.mutants.mutant import MUTANT_FAULT_INTERVAL_US
from flotilla.sim.whole.mutants.table import WHOLE_MUTANTS, applied_whole
from flotilla.sim.whole.plan import DURATION_S, WholePlan, draw_whole_plan
from flotilla.sim.whole.run import DRAWN, LATER, WholeResult, simulate_whole


@dataclass(frozen=True, slots=True)
class WholeOrder:
    """What to run for every seed. What is None or empty is drawn."""

    nodes: int | None = None
    duration_s: int = DURATION_S
    faults: tuple[str, ...] | None = None
    workloads: tuple[str, ...] = ()
    #: Name of a deliberate bug; empty: none.
    mutant: str = ""

    def plan(self, seed: int) -> WholePlan:
        plan = draw_whole_plan(
            seed,
            known_faults=DRAWN_FAULTS,
            known_workloads=DRAWN,
            later_faults=LATER_FAULTS,
            later_workloads=LATER,
            duration_s=self.duration_s,
            faults=self.faults,
            workloads=self.workloads or None,
            nodes=self.nodes,
        )
        return replace(plan, fault_interval_us=MUTANT_FAULT_INTERVAL_US) if self.mutant else plan

    def command(self, seed: int) -> str:
        """One line that repeats a run."""
        options = "" if self.nodes is None else f" --nodes {self.nodes}"
        if self.duration_s != DURATION_S:
            options += f" --ticks {self.duration_s * 10}"
        if self.faults is not None:
            options += f" --faults {','.join(self.faults) or 'none'}"
        if self.workloads:
            options += f" --workload {','.join(self.workloads)}"
        if self.mutant:
            options += f" --mutant {self.mutant}"
        return f"flotilla sim --whole --seed {seed}{options}"


def mutant_order(name: str) -> WholeOrder:
    """Runs that can catch a deliberate bug."""
    mutant = WHOLE_MUTANTS[name]
    return WholeOrder(duration_s=mutant.duration_s, faults=mutant.faults, workloads=mutant.workloads, mutant=name)


def simulate_order(plan: WholePlan, order: WholeOrder) -> WholeResult:
    """Runs a plan of the order, with its deliberate bug."""
    with applied_whole(order.mutant) if order.mutant else nullcontext():
        return simulate_whole(plan)


def run_whole_seed(seed: int, order: WholeOrder) -> WholeResult:
    result = simulate_order(order.plan(seed), order)
    # It holds the whole run.
    result.history = None
    return result


def run_mutant_seed(seed: int, name: str) -> WholeResult:
    """A seed catches a mutant if it fails with it, and holds without it."""
    order = mutant_order(name)
    result = run_whole_seed(seed, order)
    if not result.is_good and not simulate_whole(order.plan(seed)).is_good:
        result.promise = result.failure = ""
    return result


def find_catch(name: str, seeds: Iterable[int], workers: int | None = None) -> WholeResult | None:
    """The first of these runs that catches a mutant; None: none does."""
    run = partial(run_mutant_seed, name=name)
    caught = [result for result in results(seeds, run, workers or os.cpu_count() or 1, 1) if not result.is_good]
    return min(caught, key=lambda result: result.plan.seed, default=None)


def run_whole_swarm(
    seeds: Iterable[int],
    order: WholeOrder,
    *,
    workers: int | None = None,
    failures_max: int = 5,
    report: Callable[[WholeResult], None] | None = None,
) -> Totals[WholeResult]:
    """Runs all seeds, or until enough of them failed. `report` gets each result as it arrives."""
    return add_up(seeds, partial(run_whole_seed, order=order), workers, failures_max, report)
