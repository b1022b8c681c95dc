"""Wraps the methods of the client that send, receive, process and settle.

A record that carries a trace context already is sent as it is: the method that was called first has made the span.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import wraps
from inspect import iscoroutinefunction
from time import perf_counter
from typing import Any, Final

from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import TracerProvider

from flotilla.client.async_client import AsyncClient
from flotilla.client.client import Client
from flotilla.client.producer.aio import AsyncProducer
from flotilla.client.producer.sync import Producer
from flotilla.client.queue.aio import AsyncQueueConsumer, AsyncQueueMessage
from flotilla.client.queue.sync import QueueConsumer, QueueMessage
from flotilla.client.reader.aio import AsyncReader
from flotilla.client.reader.sync import Reader
from flotilla.client.stream.aio import AsyncStreamConsumer
from flotilla.client.stream.sync import StreamConsumer
from flotilla.client.transaction.aio import AsyncTransaction
from flotilla.client.transaction.sync import Transaction
from flotilla.client.worker import Worker
from flotilla.otel.propagation import HeaderPairs, as_pairs, has_context, with_context
from flotilla.otel.signals import Signals
from flotilla.types.operations.queue import ACK, FAIL, REJECT, RELEASE
from flotilla.types.records import Headers, Record

_OUTCOMES: Final = {ACK: "ack", FAIL: "nack", RELEASE: "release", REJECT: "reject"}
Method = Callable[..., Any]


@dataclass(slots=True)
class _Call:
    """One call of a wrapped method: a scope may change its arguments first, and look at its result afterwards."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: Any = None

    def argument(self, position: int, name: str) -> Any:
        return self.args[position] if len(self.args) > position else self.kwargs.get(name)


Scope = Callable[[_Call], AbstractContextManager[None]]


class FlotillaInstrumentor:
    """Switches traces and metrics of the client on, for the whole process.

    `opentelemetry-instrument` finds it by itself. All instances are one.
    """

    _originals: Final[list[tuple[type, str, Method]]] = []

    def instrument(
        self, *, tracer_provider: TracerProvider | None = None, meter_provider: MeterProvider | None = None, **_: object
    ) -> None:
        """Without providers it uses the global ones. Called again it changes nothing."""
        if self._originals:
            return
        signals = Signals(tracer_provider, meter_provider)
        scopes = _Scopes(signals)
        for owner in (Client, AsyncClient):
            self._wrap(owner, "produce", scopes.send)
            self._wrap(owner, "request", scopes.send)
            self._wrap(owner, "produce_many", scopes.send_many)
        for transaction in (Transaction, AsyncTransaction):
            self._wrap(transaction, "produce", scopes.send)
            self._wrap(transaction, "stage", scopes.send_many)
        for producer in (Producer, AsyncProducer):
            self._wrap(producer, "send", scopes.send_soon)
        for consumer in (QueueConsumer, StreamConsumer, Reader):
            self._wrap(consumer, "poll", scopes.receive)
            self._wrap(consumer, "__next__", scopes.consume)
        for async_consumer in (AsyncQueueConsumer, AsyncStreamConsumer, AsyncReader):
            self._wrap(async_consumer, "poll", scopes.receive)
            self._wrap(async_consumer, "__anext__", scopes.consume)
        for queue in (QueueConsumer, AsyncQueueConsumer):
            self._wrap(queue, "settle", scopes.settle)
        for message, enter, leave in (
            (QueueMessage, "__enter__", "__exit__"),
            (AsyncQueueMessage, "__aenter__", "__aexit__"),
        ):
            self._wrap(message, "then", scopes.send)
            self._wrap(message, enter, scopes.enter)
            self._wrap(message, leave, scopes.leave)
        self._wrap(Worker, "_await", scopes.process)
        self._wrap(Worker, "_call", scopes.process)

    def uninstrument(self, **_: object) -> None:
        """Switches everything off again."""
        while self._originals:
            owner, name, method = self._originals.pop()
            setattr(owner, name, method)

    def _wrap(self, owner: type, name: str, scope: Scope) -> None:
        method: Method = getattr(owner, name)
        self._originals.append((owner, name, method))
        setattr(owner, name, _within(scope, method))


def _within(scope: Scope, method: Method) -> Method:
    """The method, inside a scope for each call."""
    if iscoroutinefunction(method):

        @wraps(method)
        async def run(*args: Any, **kwargs: Any) -> Any:
            call = _Call(args, kwargs)
            with scope(call):
                call.result = await method(*call.args, **call.kwargs)
            return call.result

        return run

    @wraps(method)
    def execute(*args: Any, **kwargs: Any) -> Any:
        call = _Call(args, kwargs)
        with scope(call):
            call.result = method(*call.args, **call.kwargs)
        return call.result

    return execute


class _Scopes:
    """What happens around the calls."""

    def __init__(self, signals: Signals) -> None:
        self._signals = signals
        #: The scopes of `with message:` blocks. A message that is in a block is alive, and its id its own.
        self._blocks: dict[int, AbstractContextManager[Any]] = {}

    @contextmanager
    def send(self, call: _Call) -> Iterator[None]:
        """One record, to a topic that is named first."""
        payload = call.argument(2, "payload")
        if has_context(as_pairs(call.kwargs.get("headers"))):
            yield
            return
        with self._signals.sending(call.argument(1, "topic"), 1, _size(payload)):
            call.kwargs["headers"] = with_context(call.kwargs.get("headers"))
            yield

    @contextmanager
    def send_many(self, call: _Call) -> Iterator[None]:
        """One span for all records. Records that were given as such have headers of their own."""
        payloads = list(call.argument(2, "payloads"))
        with self._signals.sending(call.argument(1, "topic"), len(payloads), None):
            carried = [
                each._replace(headers=_stored(with_context(each.headers)))
                if isinstance(each, Record) and not has_context(as_pairs(each.headers))
                else each
                for each in payloads
            ]
            if not has_context(as_pairs(call.kwargs.get("headers"))):
                call.kwargs["headers"] = with_context(call.kwargs.get("headers"))
            call.kwargs.pop("payloads", None)
            call.args = (call.args[0], call.argument(1, "topic"), carried, *call.args[3:])
            call.kwargs.pop("topic", None)
            yield

    @contextmanager
    def send_soon(self, call: _Call) -> Iterator[None]:
        """One record of a producer: its span ends when the record is stored, or has failed."""
        signals = self._signals
        if has_context(as_pairs(call.kwargs.get("headers"))):
            yield
            return
        topic, payload, started = call.args[0].topic, call.argument(1, "payload"), perf_counter()
        with signals.sending(topic, 1, _size(payload), ends=False) as span:
            call.kwargs["headers"] = with_context(call.kwargs.get("headers"))
            yield
        batch = call.result.batch
        batch.when_done(lambda: signals.sent(span, topic, 1, started, batch.error))

    @contextmanager
    def receive(self, call: _Call) -> Iterator[None]:
        started = perf_counter()
        yield
        consumer = call.args[0]
        self._signals.received(consumer.topic, getattr(consumer, "group", ""), call.result, started)

    @contextmanager
    def consume(self, call: _Call) -> Iterator[None]:
        yield
        consumer = call.args[0]
        self._signals.consumed(consumer.topic, getattr(consumer, "group", ""))

    @contextmanager
    def settle(self, call: _Call) -> Iterator[None]:
        messages = tuple(call.argument(1, "messages"))
        call.kwargs.pop("messages", None)
        call.args = (call.args[0], messages, *call.args[2:])
        if not messages:
            yield
            return
        outcome = call.argument(2, "outcome")
        with self._signals.settling(messages, _OUTCOMES.get(outcome.kind, "settle")):
            yield

    @contextmanager
    def process(self, call: _Call) -> Iterator[None]:
        with self._signals.processing(call.args[1]):
            yield

    @contextmanager
    def enter(self, call: _Call) -> Iterator[None]:
        yield
        block = self._signals.processing(call.args[0])
        block.__enter__()
        self._blocks[id(call.args[0])] = block

    @contextmanager
    def leave(self, call: _Call) -> Iterator[None]:
        """The message is settled inside the span of its processing."""
        block = self._blocks.pop(id(call.args[0]), None)
        try:
            yield
        finally:
            if block is not None:
                block.__exit__(*call.args[1:])


def _size(payload: object) -> int | None:
    """None: it is no payload, and the client will say so."""
    return len(payload) if isinstance(payload, bytes) else None


def _stored(pairs: HeaderPairs) -> Headers:
    return tuple((name, value.encode() if isinstance(value, str) else value) for name, value in pairs)
