"""Traces and metrics of the client, as the SDK of OpenTelemetry gets them, against a real broker."""

import asyncio
import importlib
import tomllib
from pathlib import Path

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from flotilla import AsyncClient, Client, InvalidArgumentError, Record, Reject, Release, Worker, WrongTypeError
from flotilla.otel import FlotillaInstrumentor
from flotilla.testing import LocalBroker
from tests.integration.testing.waiting import eventually


@pytest.fixture(scope="module")
def broker():
    with LocalBroker() as broker:
        yield broker


@pytest.fixture
def client(broker):
    with Client(broker.address) as client:
        yield client


class Recorded:
    def __init__(self):
        self._exporter = InMemorySpanExporter()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self._exporter))
        self._metrics = InMemoryMetricReader()
        self.meters = MeterProvider([self._metrics])

    @property
    def tracer(self):
        return self.tracers.get_tracer("application")

    def spans(self, name):
        return [span for span in self._exporter.get_finished_spans() if span.name == name]

    def one(self, name):
        found = eventually(lambda: self.spans(name))
        assert len(found) == 1
        return found[0]

    def points(self, name):
        data = self._metrics.get_metrics_data()
        return [
            point
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        ]


@pytest.fixture
def recorded():
    recorded = Recorded()
    FlotillaInstrumentor().instrument(tracer_provider=recorded.tracers, meter_provider=recorded.meters)
    try:
        yield recorded
    finally:
        FlotillaInstrumentor().uninstrument()


def test_a_message_is_one_trace_from_its_sender_to_its_ack(client, recorded):
    with recorded.tracer.start_as_current_span("checkout") as checkout:
        client.produce("orders", b"first", headers={"shop": "7"})
    with client.queue("orders", group="mail") as consumer:
        message = next(consumer)
        with message, recorded.tracer.start_as_current_span("handler"):
            pass
        consumer.flush()
    assert message.header("shop") == b"7"
    send, process, handler = recorded.one("send orders"), recorded.one("process orders"), recorded.one("handler")
    settle = recorded.one("settle orders")
    assert {span.context.trace_id for span in (send, process, handler, settle)} == {checkout.context.trace_id}
    assert send.parent.span_id == checkout.context.span_id
    assert process.parent.span_id == send.context.span_id
    assert {handler.parent.span_id, settle.parent.span_id} == {process.context.span_id}
    assert (send.kind, process.kind, settle.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER, SpanKind.CLIENT)
    assert dict(process.attributes) == {
        "messaging.system": "flotilla",
        "messaging.operation.type": "process",
        "messaging.operation.name": "process",
        "messaging.destination.name": "orders",
        "messaging.destination.partition.id": str(message.partition),
        "messaging.consumer.group.name": "mail",
        "messaging.flotilla.message.offset": message.offset,
        "messaging.flotilla.delivery.attempt": 1,
        "messaging.message.body.size": 5,
    }


def test_a_poll_has_links_to_the_senders(client, recorded):
    client.produce_many("batch", [b"1", b"2", Record(b"3", headers=(("own", b"1"),))])
    assert recorded.one("send batch").attributes["messaging.batch.message_count"] == 3
    with client.queue("batch", group="mail") as consumer:
        got = []
        while len(got) < 3:
            messages = consumer.poll(3 - len(got))
            got += messages
            consumer.ack(messages)
    sender = recorded.one("send batch").context
    for span in recorded.spans("receive batch"):
        assert {link.context.span_id for link in span.links} == {sender.span_id}
    received = sum(span.attributes["messaging.batch.message_count"] for span in recorded.spans("receive batch"))
    assert received == 3
    assert any(message.header("own") for message in got)


def test_a_poll_without_messages_has_no_span(client, recorded):
    client.create_topic("silence")
    with client.queue("silence", group="mail") as consumer:
        assert consumer.poll(wait_ms=1) == []
    assert recorded.spans("receive silence") == []


def test_the_span_of_a_send_ends_when_the_record_is_stored(client, recorded):
    with client.producer("soon", linger_ms=60_000) as producer:
        delivery = producer.send(b"1")
        assert recorded.spans("send soon") == []
        producer.flush()
        assert delivery.result().offset == 0
    assert recorded.one("send soon").status.status_code is StatusCode.UNSET


def test_a_send_that_is_refused_is_an_error(client, recorded):
    with pytest.raises(InvalidArgumentError):
        client.produce("orders", b"1", priority=99)
    span = recorded.one("send orders")
    assert span.status.status_code is StatusCode.ERROR
    assert span.attributes["error.type"] == "INVALID_ARGUMENT"
    assert any(point.attributes.get("error.type") for point in recorded.points("messaging.client.sent.messages"))


def test_an_argument_of_another_type_gets_the_error_of_the_client(client, recorded):
    with pytest.raises(WrongTypeError):
        client.produce("orders", 7)
    assert recorded.one("send orders").status.status_code is StatusCode.ERROR


@pytest.mark.parametrize("is_async", [False, True])
def test_a_worker_carries_the_trace_into_handlers_and_what_they_send(broker, client, recorded, is_async):
    topic, following = f"work-{is_async}", f"next-{is_async}"
    client.create_topic(topic, nack_backoff_ms=1)

    def step(message):
        with recorded.tracer.start_as_current_span(f"step {message.attempt}"):
            if message.attempt == 1:
                raise ValueError("bad luck")

    def blocking(message):
        step(message)
        message.then(following, b"2")

    async def on_loop(message):
        step(message)
        await message.then(following, b"2")

    with recorded.tracer.start_as_current_span("begin") as begin:
        client.produce(topic, b"1")
    with Worker(broker.address, topic, "mail", on_loop if is_async else blocking):
        eventually(lambda: recorded.spans(f"send {following}"))
        first, second = eventually(lambda: len(found := recorded.spans(f"process {topic}")) == 2 and found)
    assert first.status.status_code is StatusCode.ERROR
    assert first.events[0].attributes["exception.message"] == "bad luck"
    assert first.attributes["error.type"] == "ValueError"
    assert second.status.status_code is StatusCode.UNSET
    for name, process in (("step 1", first), ("step 2", second), (f"send {following}", second)):
        assert recorded.one(name).parent.span_id == process.context.span_id
    assert recorded.one(f"send {following}").context.trace_id == begin.context.trace_id


def test_giving_a_message_back_is_no_error(client, recorded):
    client.produce("back", b"1")
    with client.queue("back", group="mail") as consumer, next(consumer):
        raise Release(delay_ms=60_000)
    assert recorded.one("process back").status.status_code is StatusCode.UNSET
    assert recorded.one("settle back").attributes["messaging.operation.name"] == "release"


def test_a_trace_survives_the_dead_letter_and_the_redrive(client, recorded):
    client.produce("risky", b"1")
    with client.queue("risky", group="mail") as consumer:
        with next(consumer):
            raise Reject("never")
        consumer.flush()
        letters = client.dead_letters("risky", "mail")
        eventually(lambda: letters.list())
        letters.redrive()
        with next(consumer):
            pass
    first, second = recorded.spans("process risky")
    assert first.context.trace_id == second.context.trace_id == recorded.spans("send risky")[0].context.trace_id


def test_coroutines(broker, recorded):
    async def scenario():
        async with AsyncClient(broker.address) as client:
            with recorded.tracer.start_as_current_span("checkout"):
                await client.produce("async", b"1")
                async with client.transaction() as transaction:
                    await transaction.produce("async", b"2")
                async with client.producer("async") as producer:
                    await (await producer.send(b"3"))
            async with client.queue("async", group="mail") as consumer:
                for _ in range(3):
                    async with await anext(consumer):
                        pass

    asyncio.run(scenario())
    sends, processed = recorded.spans("send async"), recorded.spans("process async")
    assert {span.parent.span_id for span in sends} == {recorded.one("checkout").context.span_id}
    assert {span.parent.span_id for span in processed} == {span.context.span_id for span in sends}


def test_what_has_a_trace_context_keeps_it(client, recorded):
    context = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    client.produce("kept", b"1", headers={"traceparent": context})
    with client.reader("kept", offset="earliest") as reader:
        message = next(reader)
    assert message.headers == (("traceparent", context.encode()),)
    assert recorded.spans("send kept") == []


def test_metrics(client, recorded):
    client.produce_many("counted", [b"1", b"2"])
    with client.queue("counted", group="mail") as consumer:
        for message in (next(consumer), next(consumer)):
            with message:
                pass
        consumer.flush()
    labels = {"messaging.system": "flotilla", "messaging.destination.name": "counted"}
    (sent,) = recorded.points("messaging.client.sent.messages")
    assert (sent.value, dict(sent.attributes)) == (2, {**labels, "messaging.operation.name": "send"})
    (consumed,) = recorded.points("messaging.client.consumed.messages")
    assert consumed.value == 2
    (processed,) = recorded.points("messaging.process.duration")
    assert (processed.count, processed.attributes["messaging.consumer.group.name"]) == (2, "mail")
    operations = recorded.points("messaging.client.operation.duration")
    assert {point.attributes["messaging.operation.name"] for point in operations} == {"send", "settle"}


def test_switched_off_nothing_is_left(client, recorded):
    FlotillaInstrumentor().uninstrument()
    client.produce("plain", b"1")
    with client.reader("plain", offset="earliest") as reader:
        assert next(reader).headers == ()
    assert recorded.spans("send plain") == []


def test_the_entry_point_names_the_instrumentor():
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text("utf-8"))["project"]
    module, _, name = project["entry-points"]["opentelemetry_instrumentor"]["flotilla"].partition(":")
    assert getattr(importlib.import_module(module), name) is FlotillaInstrumentor
