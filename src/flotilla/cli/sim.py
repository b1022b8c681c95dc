"""`flotilla sim`: a whole cluster under faults, in one process, from one integer.

One seed prints its trace; many run as a swarm; `--mutants` breaks the code on purpose and shows how soon
that is noticed. A failure prints one command that repeats it, and the exit code is 1.
"""

from dataclasses import replace
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from flotilla.sim.coverage import missing
from flotilla.sim.devices.world import SECOND
from flotilla.sim.mutants.mutants import MUTANTS, applied
from flotilla.sim.plans.run import DEFAULT_TICKS, FAULTS, NODES_MIN, WORKLOADS
from flotilla.sim.run import Result, simulate
from flotilla.sim.swarm import Order, Totals, run_swarm

#: Within so many seeds every mutant must be caught.
MUTANT_SEEDS_MAX = 400

console = Console(highlight=False)


def sim(
    seed: Annotated[int, typer.Option(help="Run this seed and print its trace.")] = 1,
    seeds: Annotated[str, typer.Option(help="Run a swarm: FIRST:END, or a count of seeds from 1 on.")] = "",
    nodes: Annotated[
        int | None, typer.Option(min=NODES_MIN, help="Size of the cluster instead of the drawn one: three or more.")
    ] = None,
    ticks: Annotated[int, typer.Option(min=0, help="Length of the chaos, in ticks of 100 ms.")] = DEFAULT_TICKS,
    faults: Annotated[str, typer.Option(help="Faults instead of the drawn ones: a,b,c, or 'all', or 'none'.")] = "",
    mutant: Annotated[str, typer.Option(help="Break the code on purpose, with the mutant of this name.")] = "",
    mutants: Annotated[bool, typer.Option("--mutants", help="Try every mutant; all must be caught.")] = False,
    workload: Annotated[
        str, typer.Option(help="Use the cluster as a ledger, a queue or a stream; drawn by default.")
    ] = "",
    workers: Annotated[int | None, typer.Option(min=1, help="Processes of a swarm; all cores by default.")] = None,
) -> None:
    """Simulate a cluster under faults and check every promise after every event."""
    if mutant and mutant not in MUTANTS:
        raise typer.BadParameter(f"unknown mutant; there are {', '.join(MUTANTS)}", param_hint="--mutant")
    if workload and workload not in WORKLOADS:
        raise typer.BadParameter(f"unknown workload; there are {', '.join(WORKLOADS)}", param_hint="--workload")
    if mutant:
        workload = workload or MUTANTS[mutant].workload
    order = Order(nodes=nodes, ticks=ticks, faults=_parse_faults(faults), mutant=mutant, workload=workload)
    if mutants:
        good = _try_mutants(order, workers)
    elif seeds:
        good = _swarm(_parse_seeds(seeds), order, workers)
    else:
        good = _tell(seed, order)
    raise typer.Exit(0 if good else 1)


def _parse_faults(text: str) -> tuple[str, ...] | None:
    if not text:
        return None
    if text == "all":
        return tuple(FAULTS)
    names = () if text == "none" else tuple(text.split(","))
    unknown = [name for name in names if name not in FAULTS]
    if unknown:
        raise typer.BadParameter(f"unknown {unknown}; there are {', '.join(FAULTS)}", param_hint="--faults")
    return names


def _parse_seeds(text: str) -> range:
    first, colon, end = text.partition(":")
    try:
        seeds = range(int(first), int(end)) if colon else range(1, int(first) + 1)
    except ValueError:
        raise typer.BadParameter("expected FIRST:END or a count", param_hint="--seeds") from None
    if not seeds:
        raise typer.BadParameter(f"there is no seed in {text}; END is the one behind the last", param_hint="--seeds")
    return seeds


def _tell(seed: int, order: Order) -> bool:
    plan = order.plan(seed)
    console.print(
        f"[bold]seed {seed}[/]: {plan.workload}, {plan.nodes} nodes, {plan.spares} spare, {plan.groups} group(s)"
    )
    console.print(f"faults: {', '.join(plan.faults) or 'none'}")
    if order.mutant:
        with applied(order.mutant):
            result = simulate(plan, is_traced=True)
    else:
        result = simulate(plan, is_traced=True)
    for line in result.trace:
        console.print(line, markup=False)
    reached = [f"{name} ({count})" for name, count in result.sometimes.items() if count]
    console.print(f"\nreached: {', '.join(reached)}")
    console.print(
        f"{result.simulated_us // SECOND} s simulated, {result.events:,} events, {result.faults} faults, "
        f"{result.acknowledged:,} operations acknowledged, trace {result.digest:016x}"
    )
    if result.is_good:
        console.print("[green]every promise held[/]")
    else:
        _print_failure(result, order)
    return result.is_good


def _swarm(seeds: range, order: Order, workers: int | None) -> bool:
    with _progress() as progress:
        task = progress.add_task("seeds", total=len(seeds))

        def report(result: Result) -> None:
            progress.advance(task)
            if not result.is_good:
                # At once: a long swarm may be stopped before its end.
                _print_failure(result, order)

        totals = run_swarm(seeds, order, workers=workers, report=report)
    _print_totals(totals)
    return not totals.failures


def _progress() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True)


def _print_totals(totals: Totals) -> None:
    speed = totals.simulated_s / totals.elapsed_s if totals.elapsed_s else 0
    console.print(
        f"{totals.seeds} seeds, {totals.simulated_s:,} s simulated ({speed:,.0f} times real time), "
        f"{totals.events:,} events, {totals.faults:,} faults, {totals.acknowledged:,} operations acknowledged"
    )
    unreached = missing(totals.sometimes)
    if unreached:
        console.print(f"[yellow]never reached:[/] {', '.join(unreached)}")
    if not totals.failures:
        console.print("[green]every promise held[/]")
    else:
        console.print(f"[red]{len(totals.failures)} failed:[/] {', '.join(str(f.plan.seed) for f in totals.failures)}")


def _print_failure(result: Result, order: Order) -> None:
    console.print(f"[red]seed {result.plan.seed} failed[/]")
    console.print(result.failure, markup=False)
    mutant = f" --mutant {order.mutant}" if order.mutant else ""
    console.print(f"repeat: [bold]{result.command}{mutant}[/]", soft_wrap=True)


def _try_mutants(order: Order, workers: int | None) -> bool:
    table = Table("mutant", "the mistake", "seeds", "caught by")
    survivors = 0
    with _progress() as progress:
        tried = [mutant for mutant in MUTANTS.values() if order.workload in ("", mutant.workload)]
        task = progress.add_task("mutants", total=len(tried))
        for mutant in tried:
            broken = replace(order, mutant=mutant.name, workload=mutant.workload)
            totals = run_swarm(range(1, MUTANT_SEEDS_MAX + 1), broken, workers=workers, failures_max=1)
            if totals.failures:
                first = totals.failures[0]
                table.add_row(mutant.name, mutant.mistake, str(first.plan.seed), first.promise)
            else:
                survivors += 1
                table.add_row(mutant.name, mutant.mistake, f"[red]{totals.seeds}+[/]", "[red]nobody[/]")
            progress.advance(task)
    console.print(table)
    console.print(f"{len(tried) - survivors} of {len(tried)} mutants caught")
    return survivors == 0
