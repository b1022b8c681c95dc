"""Which cluster a command talks to: `--servers`, else FLOTILLA_SERVERS, else the local default port."""

import sys
import time
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from flotilla.cli.terminal.output import note
from flotilla.types.errors import DeadlineError, InvalidArgumentError, NotFoundError, UnavailableError
from flotilla.types.notation import parse_duration
from flotilla.types.operations import TopicInfo

if TYPE_CHECKING:
    from flotilla.client.client import Client

#: For clients only: a node that finds it in its environment passes it over.
SERVERS_VARIABLE = "FLOTILLA_SERVERS"
DEFAULT_SERVERS = "127.0.0.1:7600"
DEFAULT_TIMEOUT = "10s"
#: How long people are left alone with a silent command.
_PATIENCE_MS = 1_500
#: How far a broker may lag behind the one that leads the metadata before its word counts.
_LAG_MS = 500
#: Any broker can answer what is known of it: nothing. No topic can have this name.
_NO_TOPIC = "."

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
    """A client of the cluster. It tells people, but not scripts, when nobody answers at once."""
    # Only now: what a client is made of takes longer to load than `--help` should.
    from flotilla.client.client import Client

    client = Client(servers, timeout_ms=read_duration(timeout, "--timeout"))
    if sys.stderr.isatty():
        _tell_silence(client, servers, timeout)
    return client


def _tell_silence(client: "Client", servers: str, timeout: str) -> None:
    try:
        client.metadata([_NO_TOPIC], timeout_ms=_PATIENCE_MS)
    except (DeadlineError, UnavailableError):
        note(f"no answer from {servers} yet; trying for {timeout}")
    except BaseException:
        client.close()
        raise


def find_topic(client: "Client", name: str) -> TopicInfo:
    """A topic that may have been made a moment ago: a broker that lags behind is asked again. Raises NotFoundError."""
    deadline = time.monotonic() + _LAG_MS / 1000
    while True:
        try:
            return client.describe_topic(name)
        except NotFoundError:
            if time.monotonic() > deadline:
                raise
        time.sleep(_LAG_MS / 10_000)


def read_duration(text: str, flag: str) -> int:
    """Milliseconds. Raises InvalidArgumentError."""
    try:
        duration_ms = parse_duration(text)
    except ValueError as error:
        raise InvalidArgumentError(f"{flag} {text!r}: {error}, as in 500ms, 10s or 2m") from None
    if duration_ms < 1:
        raise InvalidArgumentError(f"{flag} {text!r}: it must be longer than nothing")
    return duration_ms
