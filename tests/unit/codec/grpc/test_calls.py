"""The gRPC contract: reading is total, and every call has its way in and out."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flotilla.codec.generated import flotilla_pb2 as pb
from flotilla.codec.grpc import calls as api
from flotilla.codec.grpc.queue import read_ack, read_produce, read_subscribe
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.lease_tokens import LeasePlace
from flotilla.types.operations.queue import MessageResult

READERS: dict[str, Any] = {
    **{call.name: call.read for call in (*api.REQUESTS, *api.OF_PARTITIONS, *api.OF_LEASES, api.FETCH, api.POLL)},
    **{call.name: call.read for call in (api.RESET_GROUP, api.DELETE_GROUP, api.LEAVE_QUEUE, *api.OF_TRIMMING)},
    **{call.name: call.read for call in (api.LIST_DEAD_LETTERS, api.REDRIVE_DEAD_LETTERS, api.PURGE_DEAD_LETTERS)},
    "Produce": lambda message: read_produce(message, 1_000),
    "ProduceStream": lambda message: read_produce(message, 1_000),
    "Subscribe": read_subscribe,
}


def test_every_call_is_read() -> None:
    assert sorted(READERS) == sorted(api.call_names())


@pytest.mark.parametrize("name", READERS)
def test_a_message_that_says_nothing_is_read_or_refused(name: str) -> None:
    message = api.decoder(name)(b"")
    with suppress(InvalidArgumentError):
        READERS[name](message)


@given(st.sampled_from(sorted(READERS)), st.binary(max_size=200))
def test_reading_is_total(name: str, data: bytes) -> None:
    with suppress(InvalidArgumentError):
        READERS[name](api.decoder(name)(data))


_RECORDS = st.builds(
    pb.Record,
    payload=st.binary(max_size=8),
    key=st.none() | st.binary(max_size=4),
    priority=st.integers(0, 2**32 - 1),
    timestamp_ms=st.integers(0, 2**64 - 1),
    delay_ms=st.integers(0, 2**64 - 1),
    deliver_at_ms=st.integers(0, 2**64 - 1),
)


@given(st.lists(_RECORDS, max_size=3), st.none() | st.integers(0, 2**32 - 1))
def test_records_are_read_as_they_are_or_refused(records: list[pb.Record], partition: int | None) -> None:
    message = pb.ProduceRequest(topic="t", partition=partition, records=records)
    try:
        asked = read_produce(message, 1_000)
    except InvalidArgumentError:
        assert not records or any(record.delay_ms and record.deliver_at_ms for record in records)
        return
    assert asked.partition == partition
    assert [record.payload for record in asked.records] == [record.payload for record in records]
    assert [record.key is None for record in asked.records] == [not record.HasField("key") for record in records]


def test_results_go_to_the_partition_of_their_message() -> None:
    body = pb.AckRequest(topic="t", group="g", leases=["7.0.5.1", "7.3.5.2"])
    body.results.add(partition=3, offset=2, payload=b"two")
    asked = read_ack(body)
    assert asked.results == {LeasePlace(7, 3): [MessageResult(2, b"two")]}
    body.results.add(partition=1, offset=2)
    with pytest.raises(InvalidArgumentError, match="results for partition 1, and no leases"):
        read_ack(body)
