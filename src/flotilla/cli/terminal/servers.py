"""The cluster that a command talks to: `--servers`, else FLOTILLA_SERVERS, else the local default port.

Whether it speaks TLS is said in front of the command (`cli/app.py`), and stands in the environment.
"""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from flotilla.cli.terminal.first_administrator import NAME as ADMINISTRATOR
from flotilla.cli.terminal.output import note
from flotilla.cli.terminal.shared_options import share_options
from flotilla.security.client_tls import Tls, tls_of_environment
from flotilla.types.errors import DeadlineError, InvalidArgumentError, NotFoundError, UnavailableError
from flotilla.types.notation import parse_duration
from flotilla.types.operations import TopicInfo

if TYPE_CHECKING:
    from flotilla.client.async_client import AsyncClient
    from flotilla.client.client import Client
    from flotilla.client.credentials import CredentialsProvider

#: For clients only: a node ignores it.
SERVERS_VARIABLE = "FLOTILLA_SERVERS"
DEFAULT_SERVERS = "127.0.0.1:7600"
DEFAULT_TIMEOUT = "10s"
#: A command on a terminal says so when it waits longer.
_PATIENCE_MS = 1_500
#: How long a broker may not know of a topic that was just created.
_LAG_MS = 500
#: No topic can have this name, so every broker answers at once that it knows none.
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


@dataclass(frozen=True, slots=True)
class Cluster:
    """The cluster that `--servers` and `--timeout` name."""

    servers: str = DEFAULT_SERVERS
    timeout: str = DEFAULT_TIMEOUT
    #: Started by this command, without TLS.
    is_local: bool = False
    #: The file with the join secret, which counts instead of a user.
    join_secret: Path | None = None
    #: The file with the password of the first administrator, which counts instead of the environment's user.
    administrator: Path | None = None

    @property
    def has_tls(self) -> bool:
        return not self.is_local and tls_of_environment() is not None

    @property
    def timeout_ms(self) -> int:
        """Raises InvalidArgumentError."""
        return read_duration(self.timeout, "--timeout")

    def connect(self) -> "Client":
        """A client. On a terminal it says so when no broker answers at once. Raises InvalidArgumentError."""
        # Imported late: a client takes longer to load than `--help` should.
        from flotilla.client.client import Client

        client = Client(self.servers, timeout_ms=self.timeout_ms, tls=self._tls(), credentials=self._credentials())
        if sys.stderr.isatty():
            try:
                report_silence(client, f"no answer from {self.servers} yet; trying for {self.timeout}")
            except BaseException:
                client.close()
                raise
        return client

    def connect_async(self) -> "AsyncClient":
        """The same for coroutines. It says nothing while no broker answers."""
        from flotilla.client.async_client import AsyncClient

        return AsyncClient(self.servers, timeout_ms=self.timeout_ms, tls=self._tls(), credentials=self._credentials())

    def _tls(self) -> Tls | None:
        return None if self.is_local else tls_of_environment()

    def _credentials(self) -> "CredentialsProvider | None":
        from flotilla.client.app.environment import environment_credentials

        if self.administrator is not None:
            return _administrator(self.administrator)
        return environment_credentials() if self.join_secret is None else _join_credentials(self.join_secret)


def _administrator(file: Path) -> "CredentialsProvider":
    from flotilla.client.credentials import Password
    from flotilla.security.secret_file import read_secret

    password = Password(ADMINISTRATOR, read_secret(str(file)))
    return lambda: password


def _join_credentials(file: Path) -> "CredentialsProvider":
    from flotilla.client.credentials import JoinCredentials
    from flotilla.security.join_secret import JoinSecret
    from flotilla.security.secret_file import read_secret

    return JoinCredentials("command", JoinSecret(read_secret(str(file))))


def report_silence(client: "Client", text: str) -> None:
    """Prints the text if no broker answers at once."""
    try:
        client.admin.metadata([_NO_TOPIC], timeout_ms=_PATIENCE_MS)
    except (DeadlineError, UnavailableError):
        note(text)


def takes_cluster(command: Callable[..., None], *, timeout: str = DEFAULT_TIMEOUT) -> Callable[..., None]:
    """Turns `command(cluster, **own)` into one with `--servers` and `--timeout`."""
    option = partial(Parameter, kind=Parameter.KEYWORD_ONLY)
    options = (
        option("servers", default=DEFAULT_SERVERS, annotation=Servers),
        option("timeout", default=timeout, annotation=Timeout),
    )
    return share_options(command, options, Cluster)


def find_topic(client: "Client", name: str) -> TopicInfo:
    """Retries for a moment: a lagging broker may not know a new topic yet. Raises NotFoundError."""
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
        raise InvalidArgumentError(f"{flag} {text!r}: {error}") from None
    if duration_ms < 1:
        raise InvalidArgumentError(f"{flag} {text!r}: it must be longer than 0")
    return duration_ms
