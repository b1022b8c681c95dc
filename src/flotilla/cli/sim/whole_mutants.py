"""`flotilla sim --whole --mutants`: tries every deliberate bug of the whole product until a judge speaks."""

from typing import Any, Final

from rich.console import Console
from rich.table import Table

from flotilla.cli.sim.progress import show_progress
from flotilla.sim.whole.mutants.table import WHOLE_MUTANTS
from flotilla.sim.whole.swarm import find_catch

#: Every mutant must be caught within this many seeds.
SEEDS_MAX: Final = 60


def try_mutants(printer: Console, workloads: tuple[str, ...], workers: int | None) -> dict[str, Any]:
    """`workloads`: only mutants that these can catch; empty: all."""
    table = Table("mutant", "the mistake", "seeds", "caught by")
    tried = [each for each in WHOLE_MUTANTS.values() if not workloads or set(each.workloads) & set(workloads)]
    found: dict[str, str | None] = {}
    with show_progress(printer) as progress:
        task = progress.add_task("mutants", total=len(tried))
        for mutant in tried:
            caught = find_catch(mutant.name, range(1, SEEDS_MAX + 1), workers)
            found[mutant.name] = None if caught is None else caught.promise
            if caught is None:
                table.add_row(mutant.name, mutant.mistake, f"[red]{SEEDS_MAX}+[/]", "[red]no judge[/]")
            else:
                table.add_row(mutant.name, mutant.mistake, str(caught.plan.seed), caught.promise)
            progress.advance(task)
    printer.print(table)
    count = sum(promise is not None for promise in found.values())
    printer.print(f"{count} of {len(tried)} mutants caught")
    return {"caught_by": found, "is_good": count == len(tried)}
