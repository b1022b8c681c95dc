"""Spans of a broker: its HTTP and gRPC requests continue the trace of their caller and show how a message is stored."""

import asyncio

import grpc
import httpx
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

from flotilla.codec.generated import flotilla_pb2 as pb
from flotilla.codec.generated.flotilla_pb2_grpc import FlotillaStub
from flotilla.otel.broker import BrokerInstrumentor
from flotilla.runtime.node import NodeRuntime
from flotilla.testing import LocalBroker
from flotilla.types.address import Address
from tests.integration.ports import free_ports
from tests.integration.testing.waiting import eventually

TRACE = "0af7651916cd43dd8448eb211c80319c"
SAMPLED = f"00-{TRACE}-b7ad6b7169203331-01"
UNSAMPLED = f"00-{TRACE}-b7ad6b7169203331-00"
STORED = ["append", "sync", "quorum"]


@pytest.fixture(scope="module")
def spans():
    exporter = InMemorySpanExporter()
    tracers = TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    propose = NodeRuntime.propose
    BrokerInstrumentor().instrument(tracer_provider=tracers)
    assert NodeRuntime.propose is not propose
    yield exporter
    BrokerInstrumentor().uninstrument()
    assert NodeRuntime.propose is propose


@pytest.fixture(scope="module")
def broker(spans):
    http, rpc = (Address("127.0.0.1", port) for port in free_ports(2))
    with LocalBroker(http_listen=http, grpc_listen=rpc) as broker:
        with broker.client() as client:
            client.create_topic("orders", partitions=1)
        broker.http = f"http://{http}"
        yield broker


@pytest.fixture(autouse=True)
def nothing_recorded(spans):
    spans.clear()


def one(spans, name):
    (span,) = eventually(lambda: [span for span in spans.get_finished_spans() if span.name == name])
    return span


def events(span):
    return [event.name for event in span.events]


def produce(broker, traceparent):
    body = {"records": [{"payload": "eA=="}]}
    answer = httpx.post(
        f"{broker.http}/v1/topics/orders/records", json=body, headers={"traceparent": traceparent}, timeout=30
    )
    assert answer.status_code == 201, answer.text


def test_a_produce_over_http_shows_append_sync_and_quorum(broker, spans):
    produce(broker, SAMPLED)
    span = one(spans, "POST /v1/topics/{topic}/records")
    assert f"{span.context.trace_id:032x}" == TRACE
    assert span.kind == SpanKind.SERVER
    assert span.attributes["http.response.status_code"] == 201
    assert events(span) == STORED
    times = [event.timestamp for event in span.events]
    assert times == sorted(times)


def test_a_request_that_is_not_sampled_has_no_span(broker, spans):
    produce(broker, UNSAMPLED)
    assert httpx.get(f"{broker.http}/v1/nowhere", headers={"traceparent": SAMPLED}, timeout=30).status_code == 404
    assert one(spans, "GET *").attributes["http.response.status_code"] == 404
    assert [span.name for span in spans.get_finished_spans()] == ["GET *"]


def test_a_produce_over_grpc_shows_the_same(broker, spans):
    async def play():
        async with grpc.aio.insecure_channel(broker.grpc_address) as channel:
            stub = FlotillaStub(channel)
            request = pb.ProduceRequest(topic="orders", records=[pb.Record(payload=b"x")])
            await stub.Produce(request, metadata=(("traceparent", SAMPLED),), timeout=30)

    asyncio.run(play())
    span = one(spans, "flotilla.v1.Flotilla/Produce")
    assert f"{span.context.trace_id:032x}" == TRACE
    assert (span.attributes["rpc.method"], span.attributes["rpc.grpc.status_code"]) == ("Produce", 0)
    assert events(span) == STORED
