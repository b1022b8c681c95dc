"""The memory that all endpoints of a node may take together."""

import os
import time
from collections.abc import Callable, Iterator

import httpx
import pytest

from flotilla.codec.batch.records import encode_batch
from flotilla.codec.generated import flotilla_pb2 as pb
from flotilla.frontends.grpc import unread_answers
from flotilla.frontends.tcp.budget import Budgets
from flotilla.testing import LocalBroker
from flotilla.types.address import Address
from flotilla.types.records import Record
from tests.attacks.half_messages import RESET, UnreadCalls

ANY_PORT = Address("127.0.0.1", 0)
BATCHES = "/v1/topics/t/partitions/0/batches"
BATCH_TYPE = {"Content-Type": "application/vnd.flotilla.batch"}


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker(http_listen=ANY_PORT, grpc_listen=ANY_PORT) as started:
        with started.client() as client:
            client.create_topic("t")
        yield started


@pytest.fixture(scope="module")
def budgets(broker: LocalBroker) -> Budgets:
    return broker._server._tcp.budgets  # type: ignore[union-attr]


@pytest.fixture(scope="module")
def http(broker: LocalBroker) -> Iterator[httpx.Client]:
    url = f"http://{broker._server._own.http_address}"  # type: ignore[union-attr]
    with httpx.Client(base_url=url, timeout=30) as client:
        yield client


def batch(size_bytes: int) -> bytes:
    return encode_batch([Record(bytes(size_bytes))])


def test_bodies_over_http_share_the_budget_of_requests_over_tcp(http, budgets):
    assert budgets.large.take(budgets.large.bytes_max)
    try:
        assert http.post(BATCHES, content=batch(100_000), headers=BATCH_TYPE).status_code == 429
        assert http.post(BATCHES, content=batch(100), headers=BATCH_TYPE).status_code == 201
    finally:
        budgets.large.give(budgets.large.bytes_max)
    assert http.post(BATCHES, content=batch(100_000), headers=BATCH_TYPE).status_code == 201


def test_a_body_that_takes_the_whole_budget_is_stored(http, budgets, monkeypatch):
    monkeypatch.setattr(budgets.large, "bytes_max", 100_000)
    assert http.post(BATCHES, content=batch(99_000), headers=BATCH_TYPE).status_code == 201


@pytest.mark.slow
def test_answers_over_grpc_that_may_not_come_are_bounded_and_end(broker, budgets, monkeypatch):
    monkeypatch.setattr(budgets.output, "bytes_max", 40_000_000)
    monkeypatch.setattr(unread_answers, "TRANSFER_MS_MAX", 0)
    monkeypatch.setattr(unread_answers, "TRANSFER_BYTES_PER_SECOND_MIN", 2_000_000)
    with broker.client() as client:
        client.create_topic("large")
        client.produce_many("large", [os.urandom(1_000_000)] * 8)
    message = pb.FetchRequest(topic="large", max_bytes=8_000_000).SerializeToString()
    calls = UnreadCalls(int(broker.grpc_address.rpartition(":")[2]), b"/flotilla.v1.Flotilla/Fetch", 4, message)
    held = []
    try:
        for kind in calls.read():
            held.append(budgets.output.used_bytes)
            if kind == RESET:
                break
    finally:
        calls.close()
    # An answer and its copy.
    assert 10_000_000 < max(held) <= 40_000_000
    until(lambda: not budgets.output.used_bytes)


def until(is_so: Callable[[], bool]) -> None:
    ends_s = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < ends_s
        time.sleep(0.01)
