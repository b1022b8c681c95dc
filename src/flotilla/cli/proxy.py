"""`flotilla proxy`: the gRPC and HTTP endpoints of a cluster in a process without data.

For clients that know one address instead of all nodes. A proxy has the same endpoints over the same gateway as every
node, finds leaders by itself, and keeps no state that matters: any number may run after a load balancer and stop at any
time.
"""

import asyncio
import signal
import sys
from typing import Annotated

import typer
import uvloop

from flotilla.cli.serve import EndOfInput, report_traces
from flotilla.cli.terminal.exit_codes import FAILED, OK
from flotilla.cli.terminal.output import complain
from flotilla.cli.terminal.servers import DEFAULT_SERVERS, Servers
from flotilla.machine import here
from flotilla.runtime.descriptors import budget_descriptors, raise_descriptor_limit
from flotilla.runtime.observability.logs import configure_logs, get_logger, remove_logs
from flotilla.security.client_tls import fresh_context, tls_of_environment
from flotilla.security.endpoint_tls import EndpointTls, TlsFiles, fresh_certificates
from flotilla.security.grpc_environment import prepare_grpc
from flotilla.security.tls_endpoints import TlsDialler
from flotilla.types.address import Address, parse_address
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.setting_kinds import hosts
from flotilla.types.settings import INSECURE_RULE

#: How long a stopping proxy lets calls finish.
_DRAIN_MS = 2_000
_OFF = "off"

log = get_logger("proxy")


def proxy(
    servers: Servers = DEFAULT_SERVERS,
    grpc_listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where gRPC clients connect; off: nowhere.")
    ] = "127.0.0.1:7650",
    http_listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where HTTP is served; off: nowhere.")
    ] = "127.0.0.1:7680",
    http_hosts: Annotated[
        str,
        typer.Option(
            metavar="NAME,...", help="Names by which HTTP clients call this proxy, beside addresses and localhost."
        ),
    ] = "",
    listen_certificate: Annotated[
        str,
        typer.Option(
            metavar="FILE",
            help="Speak TLS with clients, with this certificate; --tls-ca in front of the command is for brokers.",
            show_default="no TLS",
        ),
    ] = "",
    listen_key: Annotated[
        str, typer.Option(metavar="FILE", help="The key of it, which only its owner may read.", show_default="none")
    ] = "",
    insecure: Annotated[
        bool,
        typer.Option("--insecure", help="Listen beyond loopback without authentication."),
    ] = False,
    traces: Annotated[
        bool, typer.Option("--traces", help="Report spans of requests to OpenTelemetry; needs the extra otel.")
    ] = False,
    log_level: Annotated[str, typer.Option(metavar="LEVEL", help="debug, info, warning or error.")] = "info",
    stop_with_stdin: Annotated[
        bool, typer.Option("--stop-with-stdin", help="Stop when standard input is closed.")
    ] = False,
) -> None:
    """Run the gRPC and HTTP endpoints of a cluster in a process without data.

    Example: `flotilla proxy --servers node1:7600,node2:7600 --http-listen 127.0.0.1:7680`
    """
    listeners = {
        "--grpc-listen": read_listener("--grpc-listen", grpc_listen),
        "--http-listen": read_listener("--http-listen", http_listen),
    }
    if not any(listeners.values()):
        raise InvalidArgumentError("a proxy needs a listener: --grpc-listen or --http-listen")
    exposed = [address for address in listeners.values() if address is not None and not address.is_loopback]
    if exposed and not insecure:
        advice = "add --insecure if the network keeps everybody else out"
        raise InvalidArgumentError(f"{exposed[0]}: {INSECURE_RULE}; {advice}")
    if bool(listen_certificate) != bool(listen_key):
        raise InvalidArgumentError("--listen-certificate and --listen-key go together")
    tls = EndpointTls(TlsFiles(listen_certificate, listen_key)) if listen_certificate else None
    if traces:
        report_traces()
    configure_logs(level=log_level, format="auto", stream=sys.stderr)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            code = runner.run(_run(servers, listeners, read_hosts(http_hosts), tls, stop_with_stdin=stop_with_stdin))
    finally:
        remove_logs()
    raise typer.Exit(code)


def read_listener(flag: str, text: str) -> Address | None:
    """The address to listen at; None: nowhere. Raises InvalidArgumentError."""
    if text == _OFF:
        return None
    try:
        return parse_address(text)
    except ValueError as error:
        raise InvalidArgumentError(f"{flag} {text!r}: {error}; write host:port, or off") from None


def read_hosts(text: str) -> tuple[str, ...]:
    """Names of hosts. Raises InvalidArgumentError."""
    kind = hosts()
    try:
        found: tuple[str, ...] = kind.read(text)
    except ValueError:
        raise InvalidArgumentError(f"--http-hosts {text!r}: expected {kind.allowed}") from None
    return found


async def _run(
    servers: str,
    listeners: dict[str, Address | None],
    names: tuple[str, ...],
    tls: EndpointTls | None,
    *,
    stop_with_stdin: bool,
) -> int:
    if tls is not None:
        prepare_grpc()
    # Imported late: the endpoints take longer to load than `--help` should.
    from flotilla.client.app.environment import environment_credentials
    from flotilla.client.credentials import CredentialsProvider
    from flotilla.frontends.forwarded_callers import ForwardedCallers
    from flotilla.frontends.grpc.server import GrpcServer
    from flotilla.frontends.http.server import HttpServer
    from flotilla.frontends.listener import ConnectionBudget
    from flotilla.gateway.caller_gateways import CallerGateways
    from flotilla.gateway.gateway import Gateway
    from flotilla.types.address import read_addresses

    addresses = read_addresses(servers)
    to_brokers = tls_of_environment()
    dialler = None if to_brokers is None else TlsDialler(fresh_context(to_brokers).get)

    def make(credentials: CredentialsProvider | None) -> Gateway:
        return Gateway(lambda: addresses, "proxy", tls=dialler, credentials=credentials)

    gateways = CallerGateways(make(environment_credentials()), make)
    gateway, callers = gateways.gateway, ForwardedCallers(gateways)
    raise_descriptor_limit()
    # No store, but connections to brokers.
    descriptors = budget_descriptors(here().descriptors_max(), segments_max=0, has_grpc=True)
    known = [*names, here().host_name(), *(address.host for address in listeners.values() if address is not None)]
    opened: dict[str, GrpcServer | HttpServer] = {
        "--grpc-listen": GrpcServer(gateway, connections_max=descriptors.grpc, tls=tls, callers=callers),
        "--http-listen": HttpServer(
            None,
            gateway,
            status_connections_max=descriptors.status,
            budget=ConnectionBudget(descriptors.clients),
            hosts=known,
            tls=tls,
            callers=callers,
        ),
    }
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    fresh = None if tls is None else fresh_certificates(tls, log)
    loop.add_signal_handler(signal.SIGHUP, lambda: None if fresh is None else fresh.look(is_forced=True))
    if fresh is not None:
        fresh.start()
    if stop_with_stdin:
        await loop.connect_read_pipe(lambda: EndOfInput(stopping), sys.stdin)
    try:
        for flag, address in listeners.items():
            if address is None:
                continue
            try:
                port = await opened[flag].start(address.host, address.port)
            except OSError as error:
                complain(f"cannot listen at {address} ({flag}): {error.strerror or error}")
                return FAILED.code
            log.info(
                "listening",
                listener=flag.removeprefix("--").removesuffix("-listen"),
                at=str(Address(address.host, port)),
            )
        await stopping.wait()
        log.info("stopping")
        return OK.code
    finally:
        if fresh is not None:
            fresh.close()
        await asyncio.gather(*[server.close(_DRAIN_MS) for server in opened.values()])
        await gateways.close()
