"""`flotilla sim --mutants`: tries every deliberate bug until a judge notices it, and prints each when it is done."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from rich.console import Console

from flotilla.cli.sim.progress import show_progress


class Catch(NamedTuple):
    """The run that noticed a mutant."""

    seed: int
    promise: str


def try_mutants(
    printer: Console, mistakes: Mapping[str, str], seeds_max: int, find: Callable[[str], Catch | None]
) -> dict[str, Any]:
    """`mistakes` by the names of mutants. `find` runs up to `seeds_max` seeds. None: no judge noticed."""
    found: dict[str, str | None] = {}
    with show_progress(printer) as progress:
        task = progress.add_task("mutants", total=len(mistakes))
        for name, mistake in mistakes.items():
            catch = find(name)
            found[name] = None if catch is None else catch.promise
            if catch is None:
                printer.print(f"[red]{name}[/] ({mistake}): no judge noticed it in {seeds_max} seeds", soft_wrap=True)
            else:
                printer.print(f"{name} ({mistake}): seed {catch.seed}: {catch.promise}", soft_wrap=True)
            progress.advance(task)
    count = sum(promise is not None for promise in found.values())
    printer.print(f"{count} of {len(mistakes)} mutants caught")
    return {"caught_by": found, "is_good": count == len(mistakes)}
