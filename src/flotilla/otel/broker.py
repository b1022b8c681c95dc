"""Spans of a broker: one for each HTTP and gRPC request, with the steps of what it stores as events.

    append   the leader has put an entry of the request into its log
    sync     the leader's journal has it on disk
    quorum   a majority has it on disk: it is committed, and applied here

A request for a partition that another node leads has no events: that node knows nothing of the trace. Sampling is that
of the tracer: a request that is not sampled costs a look at its headers. Without `instrument` nothing of this runs.
"""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from inspect import isasyncgenfunction
from typing import Any, Final
from weakref import WeakKeyDictionary

from opentelemetry.propagate import extract
from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer, TracerProvider, get_current_span, get_tracer

from flotilla.frontends.grpc.authentication import Interceptor
from flotilla.frontends.grpc.server import GrpcServer
from flotilla.frontends.http.framework.router import Router
from flotilla.runtime.node import NodeRuntime
from flotilla.types.errors import FlotillaError
from flotilla.types.version import __version__

Method = Callable[..., Any]


class BrokerInstrumentor:
    """Switches the spans of brokers and proxies in this process on. `opentelemetry-instrument` finds it by itself.

    It must run before the server is made. All instances are one.
    """

    _originals: Final[list[tuple[type, str, Method]]] = []

    def instrument(self, *, tracer_provider: TracerProvider | None = None, **_: object) -> None:
        """Without a provider it uses the global one. Called again it changes nothing."""
        if self._originals:
            return
        tracer = get_tracer("flotilla.broker", __version__, tracer_provider)
        steps = _Steps()
        self._replace(Router, "_answer", _traced_answer(tracer))
        self._replace(GrpcServer, "_interceptors", _traced_interceptors(tracer))
        self._replace(NodeRuntime, "propose", steps.propose)
        self._replace(NodeRuntime, "_write", steps.write)
        self._replace(NodeRuntime, "_note_written", steps.note_written)

    def uninstrument(self, **_: object) -> None:
        """Servers that are made from now on have no spans."""
        while self._originals:
            owner, name, method = self._originals.pop()
            setattr(owner, name, method)

    def _replace(self, owner: type, name: str, around: Callable[[Method], Method]) -> None:
        method: Method = getattr(owner, name)
        self._originals.append((owner, name, method))
        setattr(owner, name, around(method))


def _traced_answer(tracer: Tracer) -> Callable[[Method], Method]:
    def around(method: Method) -> Method:
        async def answer(router: Any, scope: Any, receive: Any) -> Any:
            headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
            route = router.route_of(scope)
            with tracer.start_as_current_span(
                f"{scope['method']} {route}",
                extract(headers),
                SpanKind.SERVER,
                {"http.request.method": scope["method"], "http.route": route, "url.path": scope["path"]},
            ) as span:
                response = await method(router, scope, receive)
                span.set_attribute("http.response.status_code", response.status)
                if response.status >= 500:
                    span.set_status(StatusCode.ERROR)
                return response

        return answer

    return around


def _traced_interceptors(tracer: Tracer) -> Callable[[Method], Method]:
    def around(method: Method) -> Method:
        return lambda server: [_TracingInterceptor(tracer), *method(server)]

    return around


class _TracingInterceptor(Interceptor):
    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def _call(self, inner: Callable[[Any, Any], Any], name: str) -> Callable[[Any, Any], Any]:
        async def call(request: Any, context: Any) -> Any:
            with self._span(name, context):
                return await inner(request, context)

        async def stream(request: Any, context: Any) -> AsyncIterator[Any]:
            with self._span(name, context):
                async for reply in inner(request, context):
                    yield reply

        return stream if isasyncgenfunction(inner) else call

    @contextmanager
    def _span(self, name: str, context: Any) -> Iterator[None]:
        carrier = {key: value for key, value in context.invocation_metadata() or () if isinstance(value, str)}
        service, _, method = name.strip("/").partition("/")
        attributes = {"rpc.system": "grpc", "rpc.service": service, "rpc.method": method}
        with self._tracer.start_as_current_span(
            name.strip("/"), extract(carrier), SpanKind.SERVER, attributes, record_exception=False
        ) as span:
            try:
                yield
            finally:
                code = context.code()
                span.set_attribute("rpc.grpc.status_code", getattr(code, "value", (code or 0,))[0])


class _Steps:
    """The events of what is proposed while a span is current."""

    def __init__(self) -> None:
        #: Spans with entries that no block holds yet, and those of the block that is being written.
        self._appended: WeakKeyDictionary[NodeRuntime, list[Span]] = WeakKeyDictionary()
        self._written: WeakKeyDictionary[NodeRuntime, list[Span]] = WeakKeyDictionary()

    def propose(self, method: Method) -> Method:
        def propose(runtime: NodeRuntime, group: int, data: Any, reply: Method, *, frees_space: bool = False) -> bool:
            span = get_current_span()
            if not span.is_recording():
                accepted: bool = method(runtime, group, data, reply, frees_space=frees_space)
                return accepted
            accepted = method(runtime, group, data, _told(span, reply), frees_space=frees_space)
            if accepted:
                span.add_event("append", {"flotilla.group": group, "flotilla.entry.size": len(data)})
                self._appended.setdefault(runtime, []).append(span)
            return accepted

        return propose

    def write(self, method: Method) -> Method:
        def write(runtime: NodeRuntime, block: Any) -> None:
            appended = self._appended.pop(runtime, None)
            if appended:
                # One block at a time is written.
                self._written.setdefault(runtime, []).extend(appended)
            method(runtime, block)

        return write

    def note_written(self, method: Method) -> Method:
        def note_written(runtime: NodeRuntime, block: Any, error: FlotillaError | None) -> None:
            for span in self._written.pop(runtime, ()):
                span.add_event("sync", {} if error is None else {"error.type": error.code})
            method(runtime, block, error)

        return note_written


def _told(span: Span, reply: Method) -> Method:
    def replied(result: object) -> None:
        if isinstance(result, FlotillaError):
            span.add_event("refused", {"error.type": result.code})
        else:
            span.add_event("quorum")
        reply(result)

    return replied
