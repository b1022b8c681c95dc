"""Spans and metrics in the words of OpenTelemetry's messaging conventions (version 1.45, in development there)."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter, time_ns
from typing import Any, Final

from opentelemetry.metrics import MeterProvider, get_meter
from opentelemetry.trace import Link, Span, SpanKind, StatusCode, TracerProvider, get_current_span, get_tracer

from flotilla.client.message import AnyMessage
from flotilla.client.queue.outcome import kind_of
from flotilla.otel.propagation import context_of
from flotilla.types.operations.queue import FAIL, REJECT
from flotilla.types.version import __version__

SYSTEM: Final = "flotilla"
#: Of a span for many messages.
_LINKS_MAX: Final = 128

Attributes = dict[str, str | int]


class Signals:
    """Makes all spans and metrics of the client."""

    def __init__(self, tracers: TracerProvider | None, meters: MeterProvider | None) -> None:
        self._tracer = get_tracer("flotilla", __version__, tracers)
        meter = get_meter("flotilla", __version__, meters)
        self._sent = meter.create_counter(
            "messaging.client.sent.messages", "{message}", "Messages that the client has tried to send."
        )
        self._consumed = meter.create_counter(
            "messaging.client.consumed.messages", "{message}", "Messages that the application got."
        )
        self._operation_s = meter.create_histogram(
            "messaging.client.operation.duration", "s", "Duration of sending, receiving and settling."
        )
        self._process_s = meter.create_histogram("messaging.process.duration", "s", "Duration of handlers.")

    @contextmanager
    def sending(self, topic: str, count: int, size_bytes: int | None, *, ends: bool = True) -> Iterator[Span]:
        """The span is current inside. Unless it `ends` with the block, `sent` must end it."""
        attributes = _attributes("send", "send", topic)
        if count > 1:
            attributes["messaging.batch.message_count"] = count
        if size_bytes is not None:
            attributes["messaging.message.body.size"] = size_bytes
        started = perf_counter()
        with self._tracer.start_as_current_span(
            f"send {topic}", kind=SpanKind.PRODUCER, attributes=attributes, end_on_exit=False
        ) as span:
            try:
                yield span
            except BaseException as error:
                self.sent(span, topic, count, started, error)
                raise
            if ends:
                self.sent(span, topic, count, started)

    def sent(self, span: Span, topic: str, count: int, started: float, error: BaseException | None = None) -> None:
        if error is not None and span.is_recording():
            span.set_attribute("error.type", _kind(error))
            span.set_status(StatusCode.ERROR, str(error))
        span.end()
        labels = _labels("send", topic, error)
        self._sent.add(count, labels)
        self._operation_s.record(perf_counter() - started, labels)

    def received(self, topic: str, group: str, messages: Sequence[AnyMessage], started: float) -> None:
        """A poll that has brought messages: a span with a link to the sender of each."""
        if not messages:
            return
        duration_s = perf_counter() - started
        labels = _labels("receive", topic, group=group)
        self._consumed.add(len(messages), labels)
        self._operation_s.record(duration_s, labels)
        end_ns = time_ns()
        attributes = _attributes("receive", "poll", topic, group)
        attributes["messaging.batch.message_count"] = len(messages)
        senders = [get_current_span(context_of(message)).get_span_context() for message in messages[:_LINKS_MAX]]
        span = self._tracer.start_span(
            f"receive {topic}",
            kind=SpanKind.CLIENT,
            attributes=attributes,
            links=[Link(sender) for sender in senders if sender.is_valid],
            start_time=end_ns - int(duration_s * 1e9),
        )
        span.end(end_ns)

    def consumed(self, topic: str, group: str) -> None:
        """One message of an iteration, which comes out of a buffer."""
        self._consumed.add(1, _labels("receive", topic, group=group))

    @contextmanager
    def processing(self, message: Any) -> Iterator[Span]:
        """The handling of one message, in the trace of its sender."""
        topic, group = message.topic, message._lease.group
        attributes = _attributes("process", "process", topic, group)
        attributes |= {
            "messaging.destination.partition.id": str(message.partition),
            "messaging.flotilla.message.offset": message.offset,
            "messaging.flotilla.delivery.attempt": message.attempt,
            "messaging.message.body.size": len(message.payload),
        }
        started = perf_counter()
        failure: BaseException | None = None
        with self._tracer.start_as_current_span(
            f"process {topic}",
            context=context_of(message),
            kind=SpanKind.CONSUMER,
            attributes=attributes,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield span
            except BaseException as error:
                # A handler that gives its message back has not failed.
                failure = error if kind_of(error) in (FAIL, REJECT) else None
                if failure is not None:
                    span.record_exception(failure)
                    span.set_attribute("error.type", _kind(failure))
                    span.set_status(StatusCode.ERROR, str(failure))
                raise
            finally:
                self._process_s.record(perf_counter() - started, _labels("process", topic, failure, group))

    @contextmanager
    def settling(self, messages: Sequence[Any], outcome: str) -> Iterator[None]:
        """In the span of the processing; where that is over, in the trace of the first message's sender."""
        topic, group = messages[0].topic, messages[0]._lease.group
        attributes = _attributes("settle", outcome, topic, group)
        if len(messages) > 1:
            attributes["messaging.batch.message_count"] = len(messages)
        context = None if get_current_span().get_span_context().is_valid else context_of(messages[0])
        started = perf_counter()
        failure: BaseException | None = None
        with self._tracer.start_as_current_span(
            f"settle {topic}", context=context, kind=SpanKind.CLIENT, attributes=attributes
        ):
            try:
                yield
            except BaseException as error:
                failure = error
                raise
            finally:
                self._operation_s.record(perf_counter() - started, _labels("settle", topic, failure, group))


def _attributes(kind: str, name: str, topic: str, group: str = "") -> Attributes:
    attributes: Attributes = {
        "messaging.system": SYSTEM,
        "messaging.operation.type": kind,
        "messaging.operation.name": name,
        "messaging.destination.name": topic,
    }
    if group:
        attributes["messaging.consumer.group.name"] = group
    return attributes


def _labels(name: str, topic: str, error: BaseException | None = None, group: str = "") -> Attributes:
    labels: Attributes = {
        "messaging.system": SYSTEM,
        "messaging.operation.name": name,
        "messaging.destination.name": topic,
    }
    if group:
        labels["messaging.consumer.group.name"] = group
    if error is not None:
        labels["error.type"] = _kind(error)
    return labels


def _kind(error: BaseException) -> str:
    """The code of our own errors, which all clients share, or the name of the exception."""
    return str(getattr(error, "code", "") or type(error).__qualname__)
