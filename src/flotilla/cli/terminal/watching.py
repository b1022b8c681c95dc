"""`--watch`: a command that shows something shows it again every two seconds, until Ctrl-C."""

import time
from collections.abc import Callable
from typing import Annotated, TypeAlias

import typer

from flotilla.cli.terminal.output import complain, console
from flotilla.types.errors import DeadlineError, UnavailableError

EVERY_S = 2.0

Watch: TypeAlias = Annotated[bool, typer.Option("--watch", "-w", help="Show it again every 2 s, until Ctrl-C.")]


def show_again(show: Callable[[], object], *, is_watched: bool) -> None:
    """On a terminal the screen is cleared before each time; elsewhere each is a block of lines."""
    if not is_watched:
        show()
        return
    printer = console()
    while True:
        if printer.is_terminal:
            printer.clear()
        try:
            show()
        except (DeadlineError, UnavailableError) as error:
            # Watching is for the time when something is wrong.
            complain(str(error))
        if not printer.is_terminal:
            typer.echo()
        time.sleep(EVERY_S)
