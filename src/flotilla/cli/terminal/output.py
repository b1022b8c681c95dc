"""The output of commands: tables for people, JSON for programs, one line for a mistake.

On a terminal a table has colours and fits the width. Elsewhere it is plain text with one line per row, whatever its
length, so that `grep` and `awk` work. Values are data: brackets in them are no markup, and control characters are
escaped.
"""

import json
import sys
from collections.abc import Iterable, Sequence

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from flotilla.types.operations import Metadata

#: Rows that go to a file or a pipe are never folded.
_UNBOUNDED_WIDTH = 10_000


def console(*, is_stderr: bool = False) -> Console:
    """Made for each use: tests replace the streams between two commands."""
    stream = sys.stderr if is_stderr else sys.stdout
    width = None if stream.isatty() else _UNBOUNDED_WIDTH
    return Console(file=stream, width=width, highlight=False, soft_wrap=not stream.isatty())


def print_json(value: object) -> None:
    typer.echo(json.dumps(value, ensure_ascii=False))


def print_done(done: object, text: str, *, as_json: bool) -> None:
    """The result of a command: JSON for programs, a sentence for people."""
    if as_json:
        print_json(done)
    else:
        typer.echo(text)


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, is_terminal: bool = True) -> Table:
    """A column of integers is aligned right, any other left. `-` stands for a missing integer."""
    kept = list(rows)
    made = Table(box=None, pad_edge=False, header_style="bold")
    for at, column in enumerate(columns):
        is_number = bool(kept) and all(type(row[at]) is int or row[at] == "-" for row in kept)
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
    # Rich pads every line to the full width of its table.
    with printer.capture() as capture:
        printer.print(made)
    for line in capture.get().splitlines():
        typer.echo(line.rstrip())


def shown(value: object, *, is_terminal: bool = True) -> str:
    """One printable line. Numbers have thousands separators on a terminal only."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = f"{value:,}" if isinstance(value, int) and is_terminal else str(value)
    return text if text.isprintable() else escaped(text)


def escaped(text: str) -> str:
    """The text without control characters."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def complain(message: str) -> None:
    """One line on standard error."""
    typer.echo(f"flotilla: {' '.join(message.split())}", err=True)


def note(message: str) -> None:
    """A line on standard error that is not part of the result."""
    typer.echo(message, err=True)


def note_stale(metadata: Metadata) -> None:
    if metadata.is_stale:
        note("the metadata have no quorum: recent changes of topics and brokers may be missing")


def age(duration_ms: int) -> str:
    """A duration with one unit, as in `3.5 min`."""
    if duration_ms < 1_000:
        return f"{duration_ms} ms"
    seconds = duration_ms / 1_000
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"


def ago(duration_ms: int) -> str:
    return f"{age(duration_ms)} ago"


def oldest(age_ms: int) -> str:
    """The age of the oldest message that waits; `-` if none does."""
    return age(age_ms) if age_ms else "-"
