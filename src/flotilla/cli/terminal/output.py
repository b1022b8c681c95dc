"""How commands print: tables for people, JSON for machines, one line for a mistake.

On a terminal a table has colours and fits the width. Elsewhere it is plain text with one line per row, whatever its
length, so that `grep` and `awk` work. Values are data: brackets in them are no markup, and what could steer a
terminal is shown escaped.
"""

import json
import sys
from collections.abc import Iterable, Sequence

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

#: Wide enough that no row of a table is ever folded when nobody looks at it.
_UNBOUNDED_WIDTH = 10_000


def console(*, is_stderr: bool = False) -> Console:
    """For this very moment: tests and pipes may replace the streams between two commands."""
    stream = sys.stderr if is_stderr else sys.stdout
    width = None if stream.isatty() else _UNBOUNDED_WIDTH
    return Console(file=stream, width=width, highlight=False, soft_wrap=not stream.isatty())


def print_json(value: object) -> None:
    typer.echo(json.dumps(value, ensure_ascii=False))


def print_done(done: object, told: str, *, as_json: bool) -> None:
    """What a command has done: JSON for machines, words for people."""
    if as_json:
        print_json(done)
    else:
        typer.echo(told)


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, is_terminal: bool = True) -> Table:
    """Integers stand at the right of their column, everything else at the left."""
    kept = list(rows)
    made = Table(box=None, pad_edge=False, header_style="bold")
    for at, column in enumerate(columns):
        is_number = bool(kept) and type(kept[0][at]) is int
        made.add_column(column, justify="right" if is_number else "left", overflow="fold")
    for row in kept:
        made.add_row(*(cell if isinstance(cell, Text) else Text(shown(cell, is_terminal=is_terminal)) for cell in row))
    return made


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    printer = console()
    made = table(columns, rows, is_terminal=printer.is_terminal)
    if printer.is_terminal:
        printer.print(made)
        return
    # Rich pads every line to the full width of its table; a pipe has no use for that.
    with printer.capture() as capture:
        printer.print(made)
    for line in capture.get().splitlines():
        typer.echo(line.rstrip())


def shown(value: object, *, is_terminal: bool = True) -> str:
    """One printable line. Large numbers are cut into thousands for people only."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = f"{value:,}" if isinstance(value, int) and is_terminal else str(value)
    return text if text.isprintable() else escaped(text)


def escaped(text: str) -> str:
    """Without anything that a terminal would obey."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def complain(message: str) -> None:
    """One line on standard error."""
    typer.echo(f"flotilla: {' '.join(message.split())}", err=True)


def note(message: str) -> None:
    """Something worth knowing that is no part of the result."""
    typer.echo(message, err=True)


def age(duration_ms: int) -> str:
    """A duration as people say it, to two digits or so: nobody wants the milliseconds of a day."""
    if duration_ms < 1_000:
        return f"{duration_ms} ms"
    seconds = duration_ms / 1_000
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"
