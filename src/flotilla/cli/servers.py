"""Which cluster a command talks to: `--servers`, else FLOTILLA_SERVERS, else the local default port."""

from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from flotilla.types.errors import InvalidArgumentError
from flotilla.types.notation import parse_duration

if TYPE_CHECKING:
    from flotilla.client import Client

#: For clients only: a node that finds it in its environment passes it over.
SERVERS_VARIABLE = "FLOTILLA_SERVERS"
DEFAULT_SERVERS = "127.0.0.1:7600"
DEFAULT_TIMEOUT = "10s"

Servers: TypeAlias = Annotated[
    str,
    typer.Option(
        "--servers",
        "-s",
        metavar="HOST:PORT,...",
        envvar=SERVERS_VARIABLE,
        help="Brokers to ask first, separated by commas; one of them is enough.",
    ),
]
Timeout: TypeAlias = Annotated[
    str, typer.Option("--timeout", metavar="DURATION", help="How long to try before giving up.")
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def connect(servers: str = DEFAULT_SERVERS, timeout: str = DEFAULT_TIMEOUT) -> "Client":
    """A client of the cluster. Nothing is sent before something is asked."""
    # Only now: what a client is made of takes longer to load than `--help` should.
    from flotilla.client import Client

    return Client(servers, timeout_ms=read_duration(timeout, "--timeout"))


def read_duration(text: str, flag: str) -> int:
    """Milliseconds. Raises InvalidArgumentError."""
    try:
        duration_ms = parse_duration(text)
    except ValueError as error:
        raise InvalidArgumentError(f"{flag} {text!r}: {error}, as in 500ms, 10s or 2m") from None
    if duration_ms < 1:
        raise InvalidArgumentError(f"{flag} {text!r}: it must be longer than nothing")
    return duration_ms
