"""Records and messages of the gRPC contract: into records, and out of stored batches.

Messages are made in bulk from the columns of a batch. A record with nothing but a payload takes a short path.
"""

from collections.abc import Iterable
from typing import Any

from flotilla.codec.batch.header import BatchHeader, check
from flotilla.codec.batch.view import BatchView
from flotilla.codec.generated import flotilla_pb2 as pb
from flotilla.types.errors import CorruptionError, InvalidArgumentError
from flotilla.types.lease_tokens import lease_token
from flotilla.types.limits import TIME_MS_MAX
from flotilla.types.operations.queue import Delivery
from flotilla.types.records import Record


def read_record(body: pb.Record, now_ms: int) -> Record:
    """Raises InvalidArgumentError. The gateway checks the limits of the topic."""
    deliver_at_ms = body.deliver_at_ms
    if body.delay_ms:
        if deliver_at_ms:
            raise InvalidArgumentError("give either delay_ms or deliver_at_ms")
        deliver_at_ms = min(now_ms + body.delay_ms, TIME_MS_MAX)
    return Record(
        body.payload,
        body.key if body.HasField("key") else None,
        tuple(read_headers(body.headers)),
        body.timestamp_ms,
        body.priority,
        body.content_type,
        deliver_at_ms,
        body.ttl_ms,
        body.idempotency_key,
        body.max_deliveries,
    )


def read_headers(body: Iterable[pb.Header]) -> list[tuple[str, bytes]]:
    return [(header.name, header.value) for header in body]


def open_batch(data: bytes | memoryview) -> BatchView:
    """Opens a batch from a broker. Raises CorruptionError: a malformed batch is not the caller's fault."""
    try:
        return BatchView(data)
    except InvalidArgumentError as error:
        raise CorruptionError(f"a batch was damaged on its way: {error}") from error


def header_of(data: bytes | memoryview) -> BatchHeader:
    """Of a batch from a broker, which is checked and not opened. Raises CorruptionError."""
    try:
        return check(data)
    except InvalidArgumentError as error:
        raise CorruptionError(f"a batch was damaged on its way: {error}") from error


def add_messages(target: Any, view: BatchView, partition: int, skip_below: int = 0) -> None:
    """Adds the records of a stored batch from an offset on to a field of messages. Raises CorruptionError."""
    _add(target, view, partition, view.header.base_offset, skip_below=skip_below)


def add_delivered(target: Any, deliveries: Iterable[Delivery]) -> None:
    """Adds leased messages with their lease tokens. Raises CorruptionError."""
    for delivery in deliveries:
        view = open_batch(delivery.batch)
        if view.count != delivery.count:
            raise CorruptionError(f"{delivery.count} messages were announced, {view.count} came")
        lease = (delivery.topic_id, delivery.partition, delivery.lease_id) if delivery.lease_id else None
        _add(target, view, delivery.partition, delivery.first, attempt=delivery.attempt, lease=lease)


def _add(
    target: Any,
    view: BatchView,
    partition: int,
    first: int,
    *,
    attempt: int = 0,
    lease: tuple[int, int, int] | None = None,
    skip_below: int = 0,
) -> None:
    add = target.add
    shared = {"partition": partition, "attempt": attempt}
    if view.priority:
        shared["priority"] = view.priority
    if view.deliver_at_ms:
        shared["deliver_at_ms"] = view.deliver_at_ms
    try:
        records = view.records()
    except InvalidArgumentError as error:
        raise CorruptionError(f"a batch was damaged on its way: {error}") from error
    for offset, record in enumerate(records, first):
        if offset < skip_below:
            continue
        message = add(payload=record.payload, offset=offset, timestamp_ms=record.timestamp_ms, **shared)
        if lease is not None:
            message.lease = lease_token(*lease, offset)
        if record[1:3] != _NOTHING_BEFORE_TIME or record[5:] != _NOTHING_ELSE:
            _add_rest(message, record)


#: Fields that most records leave empty: key and headers; content type and the fields after it.
_NOTHING_BEFORE_TIME = Record(b"")[1:3]
_NOTHING_ELSE = Record(b"")[5:]


def _add_rest(message: pb.Message, record: Record) -> None:
    if record.key is not None:
        message.key = record.key
    for name, value in record.headers:
        message.headers.add(name=name, value=value)
    message.content_type = record.content_type
    message.ttl_ms = record.ttl_ms
    message.idempotency_key = record.idempotency_key
    message.max_deliveries = record.max_deliveries


def add_deliveries(target: Any, deliveries: Iterable[Delivery]) -> None:
    """Adds deliveries with their batches as they are."""
    for each in deliveries:
        target.add(
            partition=each.partition,
            lease_id=each.lease_id,
            first=each.first,
            count=each.count,
            attempt=each.attempt,
            batch=bytes(each.batch),
            topic_id=each.topic_id,
        )
