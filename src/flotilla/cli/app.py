"""The `flotilla` command: verbs are registered here and live in modules of their own.

Nothing is decided here. A verb's module holds one function with typed parameters, which typer
turns into arguments and help.
"""

import typer

from flotilla import __version__

app = typer.Typer(
    name="flotilla",
    help="A message queue in which every partition is its own Raft group.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def root() -> None:
    """A message queue in which every partition is its own Raft group."""


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(__version__)


def main() -> None:
    app()
