"""Who calls over gRPC: asked in front of every method of every service, health excepted.

The metadata `authorization` is the header of HTTP: `Basic` with user and password, or `Bearer` with a token.
"""

import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final
from urllib.parse import unquote

import grpc

from flotilla.broker.observability.proxy_meter import GRPC
from flotilla.broker.security.guard import Session
from flotilla.frontends.caller import Callers
from flotilla.frontends.forwarded_callers import ForwardedCallers
from flotilla.frontends.grpc.errors import Context, fail
from flotilla.gateway.guarded import CALLER
from flotilla.types.access import Principal
from flotilla.types.address import Address
from flotilla.types.errors import FlotillaError

_HEALTH: Final = "/grpc.health.v1.Health/"
_PEER = re.compile(r"ipv[46]:\[?(?P<host>[^\]]+?)\]?:(?P<port>[0-9]+)")


class Interceptor(grpc.aio.ServerInterceptor):
    """Wraps every method of every service but health's by `_call`, with its name. All of them are streams by then."""

    async def intercept_service(self, continuation: Callable[[Any], Awaitable[Any]], handler_call_details: Any) -> Any:
        handler = await continuation(handler_call_details)
        if handler is None or handler_call_details.method.startswith(_HEALTH):
            return handler
        return self._guarded(handler, handler_call_details.method)

    def _guarded(self, handler: Any, name: str) -> Any:
        codec = {
            "request_deserializer": handler.request_deserializer,
            "response_serializer": handler.response_serializer,
        }
        if handler.response_streaming:
            return grpc.stream_stream_rpc_method_handler(self._call(handler.stream_stream, name), **codec)
        return grpc.stream_unary_rpc_method_handler(self._call(handler.stream_unary, name), **codec)

    def _call(self, inner: Callable[[Any, Any], Any], name: str) -> Callable[[Any, Any], Any]:
        raise NotImplementedError


class ForwardingInterceptor(Interceptor):
    """Of a proxy: every call is made with the credentials of its caller."""

    def __init__(self, callers: ForwardedCallers) -> None:
        self._callers = callers

    def _call(self, inner: Callable[[Any, Any], Any], name: str) -> Callable[[Any, Any], Any]:
        async def call(request: Any, context: Context) -> Any:
            with self._metered(context):
                try:
                    with self._serving(context):
                        return await inner(request, context)
                except FlotillaError as error:
                    await fail(context, error)

        return call

    @contextmanager
    def _metered(self, context: Context) -> Iterator[None]:
        with self._callers.meter.passing(GRPC) as passed:
            try:
                yield
                passed.status = grpc.StatusCode.OK.name
            except Exception:
                # A call that is refused ends by an exception, and has its code then; one that fails has a number.
                passed.status = getattr(context.code(), "name", grpc.StatusCode.UNKNOWN.name)
                raise

    def _serving(self, context: Context) -> AbstractContextManager[None]:
        is_encrypted = _is_encrypted(context)
        return self._callers.serving(_authorization(context), address_of(context.peer()), is_encrypted=is_encrypted)


class AuthenticationInterceptor(Interceptor):
    def __init__(self, callers: Callers, principal_of: Callable[[Context], Principal | None]) -> None:
        """`principal_of` says whom the certificate of a caller names."""
        self._callers = callers
        self._principal_of = principal_of

    def _call(self, inner: Callable[[Any, Any], Any], name: str) -> Callable[[Any, Any], Any]:
        async def call(request: Any, context: Context) -> Any:
            session, caller = await self._enter(context)
            try:
                return await inner(request, context)
            finally:
                session.leave(caller)

        return call

    async def _enter(self, context: Context) -> tuple[Session, Principal]:
        """Ends the call of a caller who cannot prove who it is, or who has as many calls in flight as it may."""
        certificate = self._principal_of(context)
        try:
            session = await self._callers.session(
                _authorization(context), address_of(context.peer()), certificate, is_encrypted=_is_encrypted(context)
            )
            caller = session.enter()
        except FlotillaError as error:
            await fail(context, error)
        # The task of this call is its own.
        CALLER.set(session)
        return session, caller


def _authorization(context: Context) -> str:
    found = [value for name, value in context.invocation_metadata() or () if name == "authorization"]
    return found[0] if len(found) == 1 and isinstance(found[0], str) else ""


def _is_encrypted(context: Context) -> bool:
    return b"ssl" in context.auth_context().get("transport_security_type", ())


def address_of(peer: str) -> Address | None:
    match = _PEER.fullmatch(unquote(peer))
    return None if match is None else Address(match["host"], int(match["port"]))
