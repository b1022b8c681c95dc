"""`flotilla debug bundle`: one archive with what support needs, without payloads and secrets.

It has what commands and `/metrics` print, the end of log files, settings with their origins, and `node check` of
stopped nodes. No record is read. Names of topics and groups are in it, and so are addresses.
"""

import io
import json
import os
import platform
import sys
import tarfile
import time
import urllib.request
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from importlib.metadata import distributions
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from flotilla.cli.config import as_json_text
from flotilla.cli.node import inspect, plain_report
from flotilla.cli.terminal.output import print_done
from flotilla.cli.terminal.servers import AsJson, Cluster, takes_cluster
from flotilla.runtime.settings_loader import load_settings
from flotilla.security.client_tls import fresh_context, tls_of_environment
from flotilla.types.errors import FlotillaError
from flotilla.types.limits import MIB
from flotilla.types.operations import Metadata
from flotilla.types.version import __version__

if TYPE_CHECKING:
    from flotilla.client.client import Client

debug_app = typer.Typer(name="debug", help="What helps to find out what is wrong.", no_args_is_help=True)

_LOG_BYTES_MAX: Final = 1 * MIB
_HTTP_S: Final = 5.0
_NODE_TIMEOUT: Final = "5s"


@debug_app.callback()
def debug() -> None:
    """What helps to find out what is wrong."""


@debug_app.command("bundle")
@takes_cluster
def bundle(
    cluster: Cluster,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="The archive.", show_default="flotilla-debug-TIME.tgz")
    ] = None,
    logs: Annotated[
        list[Path], typer.Option("--log", metavar="FILE", help="A log file of a node, of which the end is taken.")
    ] = [],  # noqa: B006 - typer copies it.
    data_dirs: Annotated[
        list[Path], typer.Option("--data-dir", metavar="DIR", help="A data directory of a stopped node, to check.")
    ] = [],  # noqa: B006 - typer copies it.
    config_file: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="The file with the settings of a node.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Collect status, metrics, settings, logs and versions in one archive, without payloads and secrets.

    What cannot be had is in it as a sentence: a bundle of a broken cluster is made all the same.

    Example: `flotilla debug bundle --log /var/log/flotilla.log --config /etc/flotilla.toml`
    """
    path = out or Path(time.strftime("flotilla-debug-%Y%m%d-%H%M%S.tgz", time.gmtime()))
    made = _Bundle()
    made.add("versions.json", _versions)
    made.add("settings.json", lambda: as_json_text(load_settings({}, _node_environment(), config_file)))
    made.add_cluster(cluster)
    for number, file in enumerate(logs):
        made.add(f"logs/{number}-{file.name}", partial(_tail, file))
    for number, folder in enumerate(data_dirs):
        made.add(f"checks/{number}.json", partial(_check, folder))
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as opened:
        opened.write(made.archive())
    text = f"{path} has {len(made.parts)} files; {len(made.failed)} could not be had"
    print_done({"file": str(path), "parts": sorted(made.parts), "failed": made.failed}, text, as_json=as_json)


class _Bundle:
    def __init__(self) -> None:
        self.parts: dict[str, bytes] = {}
        #: Parts that have a sentence in place of their content.
        self.failed: list[str] = []

    def add(self, name: str, make: Callable[[], str | bytes]) -> None:
        try:
            content = make()
        except (FlotillaError, OSError, ValueError) as error:
            self.failed.append(name)
            content = f"not available: {error}\n"
        self.parts[name] = content if isinstance(content, bytes) else content.encode("utf-8", "backslashreplace")

    def add_cluster(self, cluster: Cluster) -> None:
        found: list[Metadata] = []

        def look() -> str:
            with cluster.connect() as client:
                found.append(client.admin.metadata())
                self.add("groups.json", lambda: _json(_groups(client, found[0])))
                self.add("schedules.json", lambda: _json(_schedules(client)))
                self.add("transactions.json", lambda: _json(asdict(client.admin.transactions())))
            return _json(asdict(found[0]))

        self.add("cluster.json", look)
        for broker in found[0].brokers if found else ():
            folder = f"nodes/{broker.node}"
            self.add(f"{folder}/node.json", partial(_describe, broker.client))
            for page in ("metrics", "ready") if broker.http else ():
                self.add(f"{folder}/{page}.txt", partial(_http, broker.http, page))

    def archive(self) -> bytes:
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as tar:
            for name, content in sorted(self.parts.items()):
                member = tarfile.TarInfo(f"flotilla-debug/{name}")
                member.size, member.mtime, member.mode = len(content), int(time.time()), 0o600
                tar.addfile(member, io.BytesIO(content))
        return packed.getvalue()


def _json(value: object) -> str:
    return json.dumps(value, indent=2, default=str)


def _versions() -> str:
    packages = {found.metadata["Name"]: found.version for found in distributions()}
    machine = {"system": platform.platform(), "processors": os.cpu_count(), "python": sys.version}
    return _json({"flotilla": __version__, **machine, "packages": dict(sorted(packages.items()))})


def _node_environment() -> dict[str, str]:
    """Without variables of clients, which name users and files with passwords."""
    of_clients = ("FLOTILLA_SERVERS", "FLOTILLA_TLS_", "FLOTILLA_USER", "FLOTILLA_PASSWORD", "FLOTILLA_TOKEN_FILE")
    return {name: value for name, value in os.environ.items() if not name.startswith(of_clients)}


def _check(folder: Path) -> str:
    return _json(plain_report(inspect(folder), folder))


def _describe(address: str) -> str:
    with Cluster(address, _NODE_TIMEOUT).connect() as client:
        return _json(asdict(client.admin.describe_node()))


def _groups(client: "Client", metadata: Metadata) -> dict[str, Any]:
    described: dict[str, Any] = {}
    for topic in metadata.topics:
        try:
            names = client.groups(topic.name)
            described[topic.name] = {name: asdict(client.describe_group(topic.name, name)) for name in names}
        except FlotillaError as error:
            described[topic.name] = f"not available: {error}"
    return described


def _schedules(client: "Client") -> list[dict[str, Any]]:
    """Without what they produce."""
    return [
        {
            **asdict(each),
            "definition": {
                name: value
                for name, value in asdict(each.definition).items()
                if name not in ("payload", "key", "headers")
            },
        }
        for each in client.schedules.list()
    ]


def _http(address: str, page: str) -> str:
    tls = tls_of_environment()
    scheme, context = ("http", None) if tls is None else ("https", fresh_context(tls).get())
    with urllib.request.urlopen(f"{scheme}://{address}/{page}", timeout=_HTTP_S, context=context) as answer:
        content: bytes = answer.read()
    return content.decode("utf-8", "backslashreplace")


def _tail(file: Path) -> bytes:
    with file.open("rb") as opened:
        opened.seek(max(0, file.stat().st_size - _LOG_BYTES_MAX))
        return opened.read(_LOG_BYTES_MAX)
