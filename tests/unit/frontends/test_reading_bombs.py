"""Compressed batches that are small on disk and large when they are opened, as readers over HTTP and gRPC get them."""

import json
import os
import threading
from collections.abc import Iterator
from typing import Any

import grpc
import httpx
import pytest

from flotilla.codec.batch.compression import ZSTD
from flotilla.codec.batch.records import encode_batch
from flotilla.codec.batch.view import BatchView
from flotilla.codec.generated import flotilla_pb2 as pb
from flotilla.codec.generated.flotilla_pb2_grpc import FlotillaStub
from flotilla.frontends.grpc import subscribe
from flotilla.frontends.http.api import events, messages, record_view
from flotilla.testing import LocalBroker
from flotilla.types.address import Address
from flotilla.types.records import Record

pytestmark = pytest.mark.slow

ANY_PORT = Address("127.0.0.1", 0)
PATH = "/v1/topics/bombs/partitions/0"
#: Of a batch, each of a megabyte: two batches open to more than an answer may have.
RECORDS, BATCHES = 5, 3


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker(http_listen=ANY_PORT, grpc_listen=ANY_PORT) as started:
        with started.client() as client:
            client.create_topic("bombs")
        yield started


@pytest.fixture(scope="module")
def http(broker: LocalBroker) -> Iterator[httpx.Client]:
    url = f"http://{broker._server._own.http_address}"  # type: ignore[union-attr]
    with httpx.Client(base_url=url, timeout=30) as client:
        batch = encode_batch([Record(os.urandom(20_000) + bytes(980_000))] * RECORDS, compression=ZSTD)
        for _ in range(BATCHES):
            headers = {"Content-Type": "application/vnd.flotilla.batch"}
            assert client.post(f"{PATH}/batches", content=batch, headers=headers).status_code == 201
        yield client


def test_an_answer_over_http_opens_a_bounded_part_and_says_where_to_go_on(http):
    offset, offsets = 0, []
    while offset < RECORDS * BATCHES:
        answer = http.get(f"{PATH}/records", params={"offset": offset}).json()
        assert [each["offset"] for each in answer["records"]] == list(range(offset, offset + RECORDS))
        offset = answer["next"]
        offsets.append(offset)
    assert offsets == [5, 10, 15]


def test_server_sent_events_have_every_record_in_bounded_parts(http):
    found = []
    with http.stream("GET", f"{PATH}/follow", params={"offset": 0}) as answer:
        for line in answer.iter_lines():
            if line.startswith("data:"):
                found.append(json.loads(line[5:])["offset"])
                if len(found) == RECORDS * BATCHES:
                    break
    assert found == list(range(RECORDS * BATCHES))


def test_an_answer_over_grpc_opens_a_bounded_part_and_says_where_to_go_on(broker, http):
    options = [("grpc.max_receive_message_length", -1)]
    with grpc.insecure_channel(broker.grpc_address, options=options) as channel:
        stub = FlotillaStub(channel)
        offset, offsets = 0, []
        while offset < RECORDS * BATCHES:
            reply = stub.Fetch(pb.FetchRequest(topic="bombs", offset=offset), timeout=30)
            assert [each.offset for each in reply.messages] == list(range(offset, offset + RECORDS))
            offset = reply.resume_offset
            offsets.append(offset)
        assert offsets == [5, 10, 15]
        # Batches as they are are not opened.
        reply = stub.Fetch(pb.FetchRequest(topic="bombs", batches=True), timeout=30)
        assert (len(reply.batches), reply.resume_offset) == (BATCHES, RECORDS * BATCHES)


def test_large_batches_are_opened_beside_the_loop(http, monkeypatch):
    threads: list[str] = []

    def opened(*args: Any) -> BatchView:
        threads.append(threading.current_thread().name)
        return BatchView(*args)

    monkeypatch.setattr(record_view, "BatchView", opened)
    monkeypatch.setattr(messages, "BatchView", lambda data, verify: opened(data))
    assert http.get(f"{PATH}/records", params={"offset": 0}).status_code == 200
    body = {"member": "m", "max_messages": RECORDS, "wait_ms": 5_000}
    polled = http.post("/v1/topics/bombs/groups/g/poll", json=body)
    assert len(polled.json()["messages"]) == RECORDS
    assert len(threads) == 2
    assert all(name.startswith(("asyncio_", "uvloop_")) for name in threads), threads


def all_of(parts: list[list[int]]) -> list[int]:
    return [offset for part in parts for offset in part]


def test_a_poll_brings_a_bounded_part(broker, http):
    """Two batches would open to more than an answer may have."""
    body = {"member": "m", "max_messages": 1_000, "wait_ms": 5_000}
    parts = []
    for _ in range(BATCHES):
        found = http.post("/v1/topics/bombs/groups/over-http/poll", json=body).json()["messages"]
        parts.append([each["offset"] for each in found])
    assert [len(part) for part in parts] == [RECORDS] * BATCHES
    assert all_of(parts) == list(range(RECORDS * BATCHES))
    options = [("grpc.max_receive_message_length", -1)]
    with grpc.insecure_channel(broker.grpc_address, options=options) as channel:
        request = pb.PollRequest(topic="bombs", group="over-grpc", member="m", max_messages=1_000, wait_ms=5_000)
        parts = [[each.offset for each in FlotillaStub(channel).Poll(request, timeout=30).messages]]
        assert parts == [list(range(RECORDS))]


def test_a_subscription_brings_bounded_parts_that_are_made_beside_the_loop(broker, http, monkeypatch):
    threads: list[str] = []
    written = subscribe.write_pushed

    def write_pushed(*args: Any, **named: Any) -> Any:
        threads.append(threading.current_thread().name)
        return written(*args, **named)

    monkeypatch.setattr(subscribe, "write_pushed", write_pushed)
    options = [("grpc.max_receive_message_length", -1)]
    with grpc.insecure_channel(broker.grpc_address, options=options) as channel:
        opening = pb.SubscribeRequest.Open(topic="bombs", group="pushed", member="m", credit=1_000)
        stream = FlotillaStub(channel).Subscribe(iter([pb.SubscribeRequest(open=opening)]), timeout=30)
        parts: list[list[int]] = []
        while len(all_of(parts)) < RECORDS * BATCHES:
            parts.append([each.offset for each in next(stream).messages])
        stream.cancel()
    assert all_of(parts) == list(range(RECORDS * BATCHES))
    assert [len(part) for part in parts if part] == [RECORDS] * BATCHES
    assert all(name.startswith(("asyncio_", "uvloop_")) for name in threads), threads


def test_messages_as_server_sent_events_are_made_beside_the_loop(http, monkeypatch):
    threads: list[str] = []
    shown = events.show_delivery

    def show_delivery(delivery: Any) -> Any:
        threads.append(threading.current_thread().name)
        return shown(delivery)

    monkeypatch.setattr(events, "show_delivery", show_delivery)
    body = {"group": "events", "member": "m", "max_in_flight": 1_000}
    found: list[int] = []
    with http.stream("POST", "/v1/topics/bombs/subscribe", json=body) as answer:
        for line in answer.iter_lines():
            if line.startswith("data:"):
                found.append(json.loads(line[5:])["offset"])
                if len(found) == RECORDS * BATCHES:
                    break
    assert found == list(range(RECORDS * BATCHES))
    assert len(threads) == BATCHES
    assert all(name.startswith(("asyncio_", "uvloop_")) for name in threads), threads


def test_a_poll_with_a_filter_finds_what_is_behind_batches_that_are_opened_beside_the_loop(http):
    record = {"payload": "", "headers": [{"name": "kind", "value": "bGF0ZQ=="}]}
    assert http.post("/v1/topics/bombs/records", json={"records": [record]}).status_code == 201
    body = {"member": "m", "wait_ms": 10_000, "headers": record["headers"]}
    found = http.post("/v1/topics/bombs/groups/filtered/poll", json=body).json()["messages"]
    assert [each["offset"] for each in found] == [RECORDS * BATCHES]


def test_all_endpoints_of_a_node_share_the_turns_of_large_answers(broker):
    server = broker._server
    assert server is not None
    assert server._grpc._large is server._tcp.budgets.large_answers
