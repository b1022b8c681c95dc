"""`flotilla sim --whole`: real brokers and real clients under faults, in simulated time.

One seed tells its story in sentences; many seeds are a swarm. A failure prints the command that repeats it.
"""

from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from flotilla.cli.sim.mutants import Catch, try_mutants
from flotilla.cli.sim.progress import show_progress
from flotilla.sim.devices.world import SECOND
from flotilla.sim.swarm import Totals
from flotilla.sim.whole.coverage import missing
from flotilla.sim.whole.faults.faults import FAULTS
from flotilla.sim.whole.mutants.table import WHOLE_MUTANTS
from flotilla.sim.whole.plan import PLANNED_JUMPS
from flotilla.sim.whole.run import WORKLOADS, WholeResult
from flotilla.sim.whole.swarm import WholeOrder, find_catch, mutant_order, run_whole_swarm, simulate_order

#: A swarm this large reaches every event of the list, or has failed.
COVERAGE_SEEDS_MIN = 1_000
#: Every mutant must be caught within this many seeds.
MUTANT_SEEDS_MAX = 60


def run_whole(
    printer: Console,
    seeds: range,
    *,
    is_swarm: bool,
    nodes: int | None,
    ticks: int | None,
    faults: str,
    workload: str,
    workers: int | None,
    history: Path | None,
    mutant: str,
    mutants: bool,
) -> dict[str, Any]:
    chosen = _parse(workload, tuple(WORKLOADS), "--workload") if workload else ()
    if mutants:
        return _try_mutants(printer, chosen, workers)
    if mutant:
        _parse(mutant, tuple(WHOLE_MUTANTS), "--mutant")
    default = mutant_order(mutant) if mutant else WholeOrder()
    order = WholeOrder(
        nodes=nodes,
        duration_s=default.duration_s if ticks is None else max(1, ticks // 10),
        faults=_parse(faults, (*FAULTS, PLANNED_JUMPS), "--faults") if faults else default.faults,
        workloads=chosen or default.workloads,
        mutant=mutant,
    )
    if is_swarm:
        return _swarm(printer, seeds, order, workers)
    return _run_seed(printer, seeds[0], order, history)


def _parse(text: str, known: tuple[str, ...], option: str) -> tuple[str, ...]:
    if text == "all":
        return known
    names = () if text == "none" else tuple(text.split(","))
    unknown = [name for name in names if name not in known]
    if unknown:
        raise typer.BadParameter(f"unknown {unknown}; there are {', '.join(known)}", param_hint=option)
    return names


def _try_mutants(printer: Console, workloads: tuple[str, ...], workers: int | None) -> dict[str, Any]:
    """`workloads`: only mutants that these can catch; empty: all."""
    tried = [each for each in WHOLE_MUTANTS.values() if not workloads or set(each.workloads) & set(workloads)]

    def find(name: str) -> Catch | None:
        first = WHOLE_MUTANTS[name].seed
        others = [seed for seed in range(1, MUTANT_SEEDS_MAX + 1) if seed != first]
        caught = find_catch(name, [first], workers) or find_catch(name, others, workers)
        return None if caught is None else Catch(caught.plan.seed, caught.promise)

    return try_mutants(printer, {each.name: each.mistake for each in tried}, MUTANT_SEEDS_MAX, find)


def _run_seed(printer: Console, seed: int, order: WholeOrder, history: Path | None) -> dict[str, Any]:
    plan = order.plan(seed)
    printer.print(f"[bold]seed {seed}[/]: {plan.nodes} brokers, clients: {', '.join(plan.workloads)}")
    printer.print(f"faults: {', '.join(plan.strikes) or 'none'}")
    result = simulate_order(plan, order)
    for at_us, sentence in result.story:
        printer.print(f"{at_us / SECOND:8.3f} s  {sentence}", markup=False)
    reached = [f"{name} ({count})" for name, count in result.sometimes.items() if count]
    printer.print(f"reached: {', '.join(reached) or 'nothing of the list'}")
    printer.print(
        f"{result.simulated_us // SECOND} s simulated, {result.events:,} events, {result.faults} faults, "
        f"{result.calls:,} calls of clients, run {result.digest:016x}"
    )
    if history is not None and result.history is not None:
        with history.open("w", encoding="utf-8") as file:
            result.history.write(file)
        printer.print(f"what the clients did and saw is in {history}", markup=False)
    if result.is_good:
        printer.print("[green]every promise held[/]")
    else:
        _print_failure(printer, result, order)
    return {
        "seed": seed,
        "nodes": plan.nodes,
        "workloads": plan.workloads,
        "faults": plan.strikes,
        "simulated_s": result.simulated_us // SECOND,
        "events": result.events,
        "calls": result.calls,
        "digest": f"{result.digest:016x}",
        "reached": result.sometimes,
        "story": [{"at_us": at_us, "what": sentence} for at_us, sentence in result.story],
        "failure": result.failure,
        "is_good": result.is_good,
    }


def _swarm(printer: Console, seeds: range, order: WholeOrder, workers: int | None) -> dict[str, Any]:
    with show_progress(printer) as progress:
        task = progress.add_task("seeds", total=len(seeds))

        def report(result: WholeResult) -> None:
            progress.advance(task)
            if not result.is_good:
                _print_failure(printer, result, order)

        totals = run_whole_swarm(seeds, order, workers=workers, report=report)
    unreached = missing(totals.sometimes)
    is_covered = not unreached or totals.seeds < COVERAGE_SEEDS_MIN
    _print_totals(printer, totals, unreached)
    return {
        "seeds": totals.seeds,
        "simulated_s": totals.simulated_s,
        "events": totals.events,
        "faults": totals.faults,
        "calls": totals.operations,
        "unreached": unreached,
        "failed": [{"seed": each.plan.seed, "failure": each.failure} for each in totals.failures],
        "is_good": not totals.failures and is_covered,
    }


def _print_totals(printer: Console, totals: Totals[WholeResult], unreached: list[str]) -> None:
    speed = totals.simulated_s / totals.elapsed_s if totals.elapsed_s else 0
    printer.print(
        f"{totals.seeds} seeds, {totals.simulated_s:,} s simulated ({speed:,.0f} times real time), "
        f"{totals.events:,} events, {totals.faults:,} faults, {totals.operations:,} calls of clients"
    )
    if unreached:
        colour = "red" if totals.seeds >= COVERAGE_SEEDS_MIN else "yellow"
        printer.print(f"[{colour}]never reached:[/] {', '.join(unreached)}")
    if not totals.failures:
        printer.print("[green]every promise held[/]")
    else:
        printer.print(f"[red]{len(totals.failures)} failed:[/] {', '.join(str(f.plan.seed) for f in totals.failures)}")


def _print_failure(printer: Console, result: WholeResult, order: WholeOrder) -> None:
    printer.print(f"[red]seed {result.plan.seed} failed[/]")
    printer.print(result.failure, markup=False)
    printer.print(f"repeat: [bold]{order.command(result.plan.seed)}[/]", soft_wrap=True)
