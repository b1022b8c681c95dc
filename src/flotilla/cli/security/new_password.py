"""New passwords on the command line: from a file, or asked for."""

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from flotilla.security.secret_file import read_secret

PasswordFile: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--password-file",
        metavar="FILE",
        help="Read it from the first line of a file that only its owner may read; else it is asked for.",
    ),
]


def read_password(file: Path | None, name: str) -> str:
    """A new password, from a file or asked for twice: never from the command line, where others see it.

    Raises InvalidArgumentError for a file that others than its owner may read.
    """
    if file is None:
        asked: str = typer.prompt(f"password of {name}", hide_input=True, confirmation_prompt=True, err=True)
        return asked
    return read_secret(str(file))
