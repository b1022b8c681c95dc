"""`flotilla sim`: a whole cluster under faults, in one process, from one integer.

Runs one seed, or many as a swarm. `--mutants` breaks the code on purpose and shows how soon the checkers notice. A
failure prints one command that repeats it, and the exit code is 1.
"""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from flotilla.cli.sim.mutants import Catch, try_mutants
from flotilla.cli.sim.progress import show_progress
from flotilla.cli.terminal.output import print_json
from flotilla.cli.terminal.servers import AsJson
from flotilla.sim.coverage import missing
from flotilla.sim.devices.world import SECOND
from flotilla.sim.mutants.mutants import MUTANTS, applied
from flotilla.sim.plan import FAULTS, NODES_MIN
from flotilla.sim.run import Result, simulate
from flotilla.sim.swarm import Order, Totals, run_swarm

#: Every mutant must be caught within this many seeds.
MUTANT_SEEDS_MAX = 2_000


def sim(
    seed: Annotated[int, typer.Option(help="Run this seed.")] = 1,
    trace: Annotated[bool, typer.Option("--trace", help="Print every step of the run, with --seed.")] = False,
    seeds: Annotated[
        str, typer.Option(metavar="FIRST:END", help="Run a swarm: seeds from FIRST to before END, or a count from 1.")
    ] = "",
    nodes: Annotated[
        int | None, typer.Option(min=NODES_MIN, help="Size of the cluster, instead of a drawn one.")
    ] = None,
    ticks: Annotated[
        int | None,
        typer.Option(min=0, help="Length of the faulty phase, in ticks of 100 ms, instead of a drawn one."),
    ] = None,
    faults: Annotated[str, typer.Option(help="Faults, instead of drawn ones: a,b,c, all or none.")] = "",
    mutant: Annotated[str, typer.Option(help="Break the code on purpose, with the mutant of this name.")] = "",
    mutants: Annotated[bool, typer.Option("--mutants", help="Try every mutant; all must be caught.")] = False,
    workload: Annotated[
        str, typer.Option(help="Kinds of clients with --whole, instead of drawn ones: a,b,c, all or none.")
    ] = "",
    whole: Annotated[
        bool, typer.Option("--whole", help="Run whole brokers and whole clients, instead of their core alone.")
    ] = False,
    history: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write what the clients did and saw as JSON lines, with --whole --seed."),
    ] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes of a swarm; all cores by default.")] = None,
    as_json: AsJson = False,
) -> None:
    """Simulate a cluster under faults and check every promise after every event.

    Example: `flotilla sim --seed 7 --trace`, or `flotilla sim --seeds 200`
    """
    # Mutants take hours: those that are done are printed beside the JSON.
    printer = Console(highlight=False, quiet=as_json and not mutants, stderr=as_json)
    if whole:
        # Imported late: brokers and clients take long to load.
        from flotilla.cli.sim.whole import run_whole

        chosen = parse_seeds(seeds) if seeds else range(seed, seed + 1)
        found = run_whole(
            printer,
            chosen,
            is_swarm=bool(seeds),
            nodes=nodes,
            ticks=ticks,
            faults=faults,
            workload=workload,
            workers=workers,
            history=history,
            mutant=mutant,
            mutants=mutants,
        )
        if as_json:
            print_json(found)
        raise typer.Exit(0 if found["is_good"] else 1)
    if mutant and mutant not in MUTANTS:
        raise typer.BadParameter(f"unknown mutant; there are {', '.join(MUTANTS)}", param_hint="--mutant")
    if workload:
        raise typer.BadParameter("needs --whole", param_hint="--workload")
    order = Order(nodes=nodes, ticks=ticks, faults=_parse_faults(faults), mutant=mutant)
    if mutants:
        found = _try_mutants(printer, order, workers)
    elif seeds:
        found = _swarm(printer, parse_seeds(seeds), order, workers)
    else:
        found = _run_seed(printer, seed, order, is_traced=trace)
    if as_json:
        print_json(found)
    raise typer.Exit(0 if found["is_good"] else 1)


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


def parse_seeds(text: str) -> range:
    first, colon, end = text.partition(":")
    try:
        seeds = range(int(first), int(end)) if colon else range(1, int(first) + 1)
    except ValueError:
        raise typer.BadParameter("expected FIRST:END or a count", param_hint="--seeds") from None
    if not seeds:
        raise typer.BadParameter(f"there is no seed in {text}; END is the first that is not run", param_hint="--seeds")
    return seeds


def _run_seed(printer: Console, seed: int, order: Order, *, is_traced: bool) -> dict[str, Any]:
    plan = order.plan(seed)
    printer.print(f"[bold]seed {seed}[/]: {plan.nodes} nodes, {plan.spares} spare, {plan.groups} group(s)")
    printer.print(f"faults: {', '.join(plan.faults) or 'none'}")
    with applied(order.mutant) if order.mutant else nullcontext():
        result = simulate(plan, is_traced=is_traced)
    for line in result.trace:
        printer.print(line, markup=False)
    reached = [f"{name} ({count})" for name, count in result.sometimes.items() if count]
    printer.print(f"reached: {', '.join(reached)}")
    printer.print(
        f"{result.simulated_us // SECOND} s simulated, {result.events:,} events, {result.faults} faults, "
        f"{result.acknowledged:,} operations acknowledged, trace {result.digest:016x}"
    )
    if result.is_good:
        printer.print("[green]every promise held[/]")
    else:
        _print_failure(printer, result, order)
    if not is_traced:
        printer.print("[dim]--trace prints every step[/]")
    return {
        "seed": seed,
        "nodes": plan.nodes,
        "faults": plan.faults,
        "simulated_s": result.simulated_us // SECOND,
        "events": result.events,
        "acknowledged": result.acknowledged,
        "digest": f"{result.digest:016x}",
        "reached": result.sometimes,
        "trace": result.trace,
        "failure": result.failure,
        "is_good": result.is_good,
    }


def _swarm(printer: Console, seeds: range, order: Order, workers: int | None) -> dict[str, Any]:
    with show_progress(printer) as progress:
        task = progress.add_task("seeds", total=len(seeds))

        def report(result: Result) -> None:
            progress.advance(task)
            if not result.is_good:
                # At once: a long swarm may be stopped before its end.
                _print_failure(printer, result, order)

        totals = run_swarm(seeds, order, workers=workers, report=report)
    _print_totals(printer, totals)
    return {
        "seeds": totals.seeds,
        "simulated_s": totals.simulated_s,
        "events": totals.events,
        "faults": totals.faults,
        "acknowledged": totals.operations,
        "unreached": missing(totals.sometimes),
        "failed": [{"seed": each.plan.seed, "failure": each.failure} for each in totals.failures],
        "is_good": not totals.failures,
    }


def _print_totals(printer: Console, totals: Totals[Result]) -> None:
    speed = totals.simulated_s / totals.elapsed_s if totals.elapsed_s else 0
    printer.print(
        f"{totals.seeds} seeds, {totals.simulated_s:,} s simulated ({speed:,.0f} times real time), "
        f"{totals.events:,} events, {totals.faults:,} faults, {totals.operations:,} operations acknowledged"
    )
    unreached = missing(totals.sometimes)
    if unreached:
        printer.print(f"[yellow]never reached:[/] {', '.join(unreached)}")
    if not totals.failures:
        printer.print("[green]every promise held[/]")
    else:
        printer.print(f"[red]{len(totals.failures)} failed:[/] {', '.join(str(f.plan.seed) for f in totals.failures)}")


def _print_failure(printer: Console, result: Result, order: Order) -> None:
    printer.print(f"[red]seed {result.plan.seed} failed[/]")
    printer.print(result.failure, markup=False)
    mutant = f" --mutant {order.mutant}" if order.mutant else ""
    printer.print(f"repeat: [bold]{result.command}{mutant}[/]", soft_wrap=True)


def _try_mutants(printer: Console, order: Order, workers: int | None) -> dict[str, Any]:
    def find(name: str) -> Catch | None:
        broken = replace(order, mutant=name)
        totals = run_swarm(range(1, MUTANT_SEEDS_MAX + 1), broken, workers=workers, failures_max=1)
        return Catch(totals.failures[0].plan.seed, totals.failures[0].promise) if totals.failures else None

    return try_mutants(printer, {each.name: each.mistake for each in MUTANTS.values()}, MUTANT_SEEDS_MAX, find)
