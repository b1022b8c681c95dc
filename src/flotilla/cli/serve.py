"""`flotilla serve`: one broker in this process, until a signal ends it.

The first SIGTERM or SIGINT stops it in order: no new clients, leadership handed over, requests in flight answered and
written, then exit code 0. A second signal, or ten seconds, ends it at once with exit code 1; the next start then begins
with a recovery. A broker that cannot start prints one line that says what to change. One whose cluster has removed its
node, or knows a later start of its data directory, ends by itself with exit code 7.
"""

import asyncio
import errno
import os
import socket
import sys
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated

import typer
import uvloop

from flotilla.cli.security.audit_file import AuditFile
from flotilla.cli.terminal.exit_codes import EXPELLED, FAILED, OK
from flotilla.cli.terminal.output import complain
from flotilla.cli.terminal.service_manager import READY, STOPPING, notify
from flotilla.cli.terminal.settings_flags import setting_flags
from flotilla.cli.terminal.stop_signals import StopSignals
from flotilla.runtime.descriptors import raise_descriptor_limit
from flotilla.runtime.observability.logs import configure_logs, get_logger, remove_logs, set_level
from flotilla.runtime.process import tune_process
from flotilla.security.grpc_environment import prepare_grpc
from flotilla.types.address import Address
from flotilla.types.errors import FlotillaError, UnsupportedError
from flotilla.types.settings import LoadedSettings, NodeSettings

if TYPE_CHECKING:
    from flotilla.server import Server

#: Longer than handing over leadership and draining may take together.
STOP_S_MAX = 10
#: Settings that SIGHUP has read again.
RELOADED = ("log_level", "move_bytes_per_second", "scrub_bytes_per_second")

log = get_logger("serve")


@setting_flags
def serve(
    loaded: LoadedSettings,
    stop_with_stdin: Annotated[
        bool, typer.Option("--stop-with-stdin", help="Stop when standard input is closed.")
    ] = False,
) -> None:
    """Run a broker: alone, with --peers, or into a running cluster with --join.

    SIGTERM and Ctrl-C stop it in order, with exit code 0; a second one ends it at once, with 1. SIGHUP has
    certificates, keys of tokens, the log level and the rates of moves and scrubbing read again, and the audit log
    opened again. The exit code is 7 when the cluster has removed the node.

    Example: `flotilla serve --data-dir /var/lib/flotilla --listen 127.0.0.1:7600`
    """
    if not __debug__:
        complain("a broker does not run under `python -O`, which removes the checks that keep data safe")
        raise typer.Exit(FAILED.code)
    settings = loaded.settings
    configure_logs(level=settings.log_level, format=settings.log_format, stream=sys.stderr)
    raise_descriptor_limit()
    audit = AuditFile(settings.audit_log) if settings.audit_log else None
    try:
        with StopSignals() as signals, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            code = runner.run(_run(loaded, signals, audit, stop_with_stdin=stop_with_stdin))
    finally:
        if audit is not None:
            audit.close()
        remove_logs()
    raise typer.Exit(code)


def report_traces() -> None:
    """`--traces`: switches spans on, before a server is made. Raises UnsupportedError."""
    try:
        from flotilla.otel.broker import BrokerInstrumentor
    except ModuleNotFoundError as missing:
        if not (missing.name or "").startswith("opentelemetry"):
            raise
        advice = "pip install 'flotilla-mq[otel]' opentelemetry-distro"
        raise UnsupportedError(f"--traces needs OpenTelemetry, which is not installed: {advice}") from None
    BrokerInstrumentor().instrument()


async def _run(loaded: LoadedSettings, signals: StopSignals, audit: AuditFile | None, *, stop_with_stdin: bool) -> int:
    settings = loaded.settings
    if settings.has_tls:
        prepare_grpc()
    if settings.traces:
        report_traces()
    # Imported late: a broker takes longer to load than most commands run.
    from flotilla.server import Server

    try:
        server = Server(settings)
    except OSError as error:
        complain(f"cannot keep data in {settings.data_dir} (--data-dir): {error.strerror or error}")
        return FAILED.code
    try:
        await server.start()
    except FlotillaError:
        raise
    except OSError as error:
        reason = _reason(settings, error)
        await _stop(server)
        # The last line of the log, where a supervisor looks first.
        complain(reason)
        return FAILED.code
    tune_process()
    return await _serve_until_stopped(server, loaded, signals, audit, stop_with_stdin=stop_with_stdin)


async def _serve_until_stopped(
    server: "Server", loaded: LoadedSettings, signals: StopSignals, audit: AuditFile | None, *, stop_with_stdin: bool
) -> int:
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    signals.notify(loop, stopping.set)
    signals.notify_hangup(loop, lambda: _reload(server, loaded, audit))
    notify(READY)
    server.entry.on_expelled = stopping.set
    if server.entry.expulsion is not None:
        stopping.set()
    if stop_with_stdin:
        await loop.connect_read_pipe(lambda: EndOfInput(stopping), sys.stdin)
    asked = asyncio.ensure_future(stopping.wait())
    broken = asyncio.ensure_future(server.node.runtime.wait_stopped())
    await asyncio.wait((asked, broken), return_when=asyncio.FIRST_COMPLETED)
    asked.cancel()
    if broken.done() and broken.exception() is not None:
        log.error("the broker failed and stops as in a crash", error=broken.exception())
        broken.result()
    log.info("stopping", signal=signals.asked_by or "none")
    notify(STOPPING)
    code = await _stop(server)
    signals.done()
    return EXPELLED.code if server.entry.expulsion is not None else code


def _reload(server: "Server", loaded: LoadedSettings, audit: AuditFile | None) -> None:
    """SIGHUP: files, the log level and rates are taken over; of other changed settings the log tells."""
    if audit is not None:
        try:
            audit.reopen()
        except FlotillaError as error:
            log.error("the audit log stays in the file of before", error=str(error))
    server.reload_files()
    if loaded.reload is None:
        return
    try:
        settings = loaded.reload().settings
    except FlotillaError as error:
        log.error("the settings are as before", error=str(error))
        return
    set_level(settings.log_level)
    server.take_rates(settings)
    taken = {name: getattr(settings, name) for name in RELOADED}
    before = asdict(replace(loaded.settings, **taken))
    changed = [name for name, value in asdict(settings).items() if value != before[name]]
    log.info("settings read again", **taken, need_restart=changed)


async def _stop(server: "Server") -> int:
    try:
        await asyncio.wait_for(server.stop(), STOP_S_MAX)
    except TimeoutError:
        log.error("the broker did not stop in time", seconds=STOP_S_MAX)
        # An ordinary exit would wait for hanging threads.
        os._exit(FAILED.code)
    return OK.code


class EndOfInput(asyncio.Protocol):
    """Stops when the parent process ends or closes the other end of standard input."""

    def __init__(self, stopping: asyncio.Event) -> None:
        self._stopping = stopping

    def connection_lost(self, exc: Exception | None) -> None:
        self._stopping.set()


def _reason(settings: NodeSettings, error: OSError) -> str:
    """The address that cannot be bound, and its setting."""
    for name in ("listen", "peer_listen", "http_listen", "grpc_listen"):
        address: Address | None = getattr(settings, name)
        if address is None:
            continue
        found = _listening_error(address)
        if found is not None:
            flag = f"--{name.replace('_', '-')}"
            hint = f"; another process may listen there, {flag} takes another address"
            is_taken = found.errno == errno.EADDRINUSE
            return f"cannot listen at {address} ({flag}): {found.strerror}{hint if is_taken else ''}"
    return f"cannot start: {error.strerror or error}"


def _listening_error(address: Address) -> OSError | None:
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(where)
    except OSError as error:
        return error
    return None
