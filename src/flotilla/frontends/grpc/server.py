"""The gRPC server of a node or a proxy, with health and reflection for load balancers and tools.

The handlers share the loop with the rest of the node and only translate; the gRPC library works on its own threads.
Sizes, streams and silence are bounded here.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc  # type: ignore[import-untyped,unused-ignore]
from grpc_reflection.v1alpha import reflection  # type: ignore[import-untyped,unused-ignore]

from flotilla.codec.grpc import calls as api
from flotilla.frontends.caller import Callers
from flotilla.frontends.forwarded_callers import ForwardedCallers
from flotilla.frontends.grpc import metadata_index
from flotilla.frontends.grpc.admission import Admission
from flotilla.frontends.grpc.authentication import AuthenticationInterceptor, ForwardingInterceptor
from flotilla.frontends.grpc.calls import Calls
from flotilla.frontends.grpc.errors import Context
from flotilla.frontends.grpc.open_calls import OpenCalls
from flotilla.frontends.grpc.produce_stream import ProduceStream
from flotilla.frontends.grpc.reading_places import ReadingPlaces
from flotilla.frontends.grpc.reception import ReceptionInterceptor
from flotilla.frontends.grpc.subscribe import SubscribeStream
from flotilla.frontends.grpc.tls import listen, principal_of
from flotilla.frontends.grpc.unread_answers import UnreadAnswers
from flotilla.frontends.large_answers import LargeAnswers
from flotilla.frontends.tcp.budget import OutputBudget
from flotilla.gateway.gateway import Gateway
from flotilla.security.endpoint_tls import EndpointTls
from flotilla.types.access import Principal
from flotilla.types.address import Address
from flotilla.types.limits import (
    CLIENT_FRAME_BYTES_MAX,
    GRPC_CALL_COUNT_MAX,
    GRPC_CONNECTION_CALL_COUNT_MAX,
    GRPC_CONNECTION_COUNT_MAX,
    GRPC_MESSAGE_BYTES_MAX,
    HANDSHAKE_MS_MAX,
    IDLE_MS_MAX,
    MIB,
)

#: A reply holds at most one poll or one batch, and the fields of its messages.
_REPLY_BYTES_MAX: Final = CLIENT_FRAME_BYTES_MAX + 16 * MIB
#: Interval at which a node that is not part of a cluster checks again.
_MEMBER_POLL_MS: Final = 100
_OPTIONS: Final = (
    ("grpc.max_receive_message_length", GRPC_MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", _REPLY_BYTES_MAX),
    ("grpc.max_concurrent_streams", GRPC_CONNECTION_CALL_COUNT_MAX),
    # Otherwise the library receives megabytes ahead of every call, by how fast the connection is.
    ("grpc.http2.bdp_probe", 0),
    # Another process at the same port must fail, not share it.
    ("grpc.so_reuseport", 0),
    # Those that say nothing make room soon, and others when they have asked for nothing for long.
    ("grpc.server_handshake_timeout_ms", HANDSHAKE_MS_MAX),
    ("grpc.max_connection_idle_ms", IDLE_MS_MAX),
    # Detects clients that vanished, and allows clients to ping as often.
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 5_000),
)


class GrpcServer:
    def __init__(
        self,
        gateway: Gateway,
        is_member: Callable[[], bool] | None = None,
        connections_max: int = GRPC_CONNECTION_COUNT_MAX,
        tls: EndpointTls | None = None,
        callers: Callers | ForwardedCallers | None = None,
        output: OutputBudget | None = None,
        large: LargeAnswers | None = None,
    ) -> None:
        """The library closes connections beyond `connections_max` as it accepts them.

        `is_member` says whether the node is part of a cluster; None: this is a proxy. With `tls` connections are
        encrypted. `callers` asks clients who they are; then `gateway` is a guarded one. `output` bounds the unread
        answers of all endpoints together; None: of this one. `large` makes the large ones, likewise.

        Health is NOT_SERVING until then, and SERVING until the endpoint closes: other nodes may answer what this node
        cannot.
        """
        self._gateway = gateway
        self._is_member = is_member
        self._tls = tls
        self._callers = callers
        self._connections_max = connections_max
        self._joining: asyncio.Task[None] | None = None
        self._server: grpc.aio.Server | None = None
        self._health = health.aio.HealthServicer()
        #: The memory of calls in flight.
        self.admission = Admission()
        self.places = ReadingPlaces()
        self._answers = UnreadAnswers(output)
        self._large = large or LargeAnswers()
        self.calls = OpenCalls()

    async def start(self, host: str, port: int, encrypted: Address | None = None) -> int:
        """Listens, and returns the port. Raises OSError.

        Where TLS is optional this address is without it, because the library cannot tell, and `encrypted` is with it.
        """
        server = grpc.aio.server(
            interceptors=self._interceptors(),
            options=(*_OPTIONS, ("grpc.max_allowed_incoming_connections", self._connections_max)),
            maximum_concurrent_rpcs=GRPC_CALL_COUNT_MAX,
        )
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(api.SERVICE_NAME, self._handlers()),))
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        names = (api.SERVICE_NAME, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, server)
        address = Address(host, port)
        tls = self._tls
        try:
            bound = listen(server, address, None if tls is None or tls.is_optional else tls)
            if encrypted is not None and tls is not None:
                listen(server, encrypted, tls)
        except RuntimeError as error:
            raise OSError(f"cannot listen at {address}: {error}") from error
        await server.start()
        self._server = server
        await self._say(is_serving=self._is_member is None)
        if self._is_member is not None:
            self._joining = asyncio.create_task(self._wait_member(self._is_member))
        return int(bound)

    def _interceptors(self) -> list[grpc.aio.ServerInterceptor]:
        """A caller is asked who it is before its message is received."""
        receiving = ReceptionInterceptor(self.admission, self.places, self.calls, self._answers)
        if self._callers is None:
            return [receiving]
        if isinstance(self._callers, ForwardedCallers):
            return [ForwardingInterceptor(self._callers), receiving]
        tls = self._tls

        def certified(context: Context) -> Principal | None:
            return None if tls is None else principal_of(context, tls.cluster)

        return [AuthenticationInterceptor(self._callers, certified), receiving]

    async def _wait_member(self, is_member: Callable[[], bool]) -> None:
        while not is_member():
            await asyncio.sleep(_MEMBER_POLL_MS / 1000)
        await self._say(is_serving=True)

    async def _say(self, *, is_serving: bool) -> None:
        response = health_pb2.HealthCheckResponse
        for name in ("", api.SERVICE_NAME):
            await self._health.set(name, response.SERVING if is_serving else response.NOT_SERVING)

    async def close(self, drain_ms: int) -> None:
        """Accepts no more calls, lets those in flight finish, and cancels the rest after `drain_ms`."""
        if self._joining is not None:
            self._joining.cancel()
            self._joining = None
        if self._server is not None:
            await self._health.enter_graceful_shutdown()
            await self._server.stop(drain_ms / 1000)
            self._server = None

    def _handlers(self) -> dict[str, Any]:
        calls = Calls(self._gateway, self._large)

        async def produce_stream(requests: Any, context: Context) -> None:
            await metadata_index.reach(self._gateway, context)
            await ProduceStream(self._gateway, self.admission, self._answers).handle(requests, context)

        async def subscribe(requests: Any, context: Context) -> None:
            await metadata_index.reach(self._gateway, context)
            await SubscribeStream(self._gateway, calls, self._answers, self._large).handle(requests, context)

        streams = {"ProduceStream": produce_stream, "Subscribe": subscribe}
        # They encode their replies themselves.
        handlers: dict[str, Any] = {
            name: grpc.stream_stream_rpc_method_handler(handle) for name, handle in streams.items()
        }
        return {**calls.handlers(), **handlers}
