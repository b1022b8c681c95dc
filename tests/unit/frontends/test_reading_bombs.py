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
from flotilla.frontends.http.api import messages, record_view
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
