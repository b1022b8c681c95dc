"""Options that several commands share, handed to a command as one value."""

from collections.abc import Callable, Iterable
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any


def share_options(
    command: Callable[..., None], options: Iterable[Parameter], make: Callable[..., object]
) -> Callable[..., None]:
    """Turns `command(made, **own)` into a command that takes these options after its own.

    `make` gets the options by name; what it returns is the command's first argument.
    """
    first, *own = signature(command).parameters.values()
    shared = list(options)
    names = {each.name for each in shared}
    assert not any(each.name in names for each in own)

    @wraps(command)
    def with_options(**given: Any) -> None:
        made = make(**{name: given.pop(name) for name in names})
        command(**{first.name: made}, **given)

    parameters = [each.replace(kind=Parameter.KEYWORD_ONLY) for each in (*own, *shared)]
    # Typer reads both.
    with_options.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    with_options.__annotations__ = {each.name: each.annotation for each in parameters}
    return with_options
