"""New passwords on the command line: from a file, or asked for."""

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from flotilla.types.errors import InvalidArgumentError

PasswordFile: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--password-file", metavar="FILE", help="Read it from the first line of a file; else it is asked for."
    ),
]


def read_password(file: Path | None, name: str) -> str:
    """A new password, from a file or asked for twice: never from the command line, where others see it."""
    if file is None:
        asked: str = typer.prompt(f"password of {name}", hide_input=True, confirmation_prompt=True, err=True)
        return asked
    with file.open(encoding="utf-8") as lines:
        text = lines.readline().rstrip("\r\n")
    if not text:
        raise InvalidArgumentError(f"{file} is empty")
    return text
