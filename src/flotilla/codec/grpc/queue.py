"""Producing, reading and queue groups in the gRPC contract: its messages into values, and replies into its messages."""

from collections.abc import Iterable, Sequence
from typing import Final

from flotilla.codec.batch.columns import leading
from flotilla.codec.generated import flotilla_pb2 as pb
from flotilla.codec.grpc.records import (
    add_delivered,
    add_deliveries,
    add_messages,
    header_of,
    open_batch,
    read_headers,
    read_record,
)
from flotilla.codec.grpc.values import (
    AddSubscriptionCredit,
    Expired,
    ExtendLeases,
    FetchMessages,
    OpenSubscription,
    PollMessages,
    ProduceRecords,
    QueueLeave,
    SettleLeases,
)
from flotilla.types.errors import FlotillaError, InvalidArgumentError
from flotilla.types.lease_tokens import LeasePlace, leases_by_place, tokens_of
from flotilla.types.limits import MIB, SHOWN_BYTES_MAX
from flotilla.types.operations import EARLIEST, LATEST, Fetch, Fetched, Produce, Produced
from flotilla.types.operations.queue import (
    ACK,
    BY_BACKOFF,
    FAIL,
    FROM_OFFSET,
    FROM_TIME,
    REJECT,
    RELEASE,
    Delivery,
    LeaseRange,
    MessageResult,
    Poll,
    Polled,
    Start,
    Subscribe,
)

#: Default sizes of answers: gRPC clients accept 4 MiB by default.
_FETCH_BYTES: Final = 1 * MIB
_POLL_BYTES: Final = 2 * MIB
_POLL_MESSAGES: Final = 16

_PLACES: Final = {
    pb.Start.EARLIEST: EARLIEST,
    pb.Start.LATEST: LATEST,
    pb.Start.OFFSET: FROM_OFFSET,
    pb.Start.TIME: FROM_TIME,
}
_KINDS: Final = {pb.NackRequest.FAIL: FAIL, pb.NackRequest.RELEASE: RELEASE, pb.NackRequest.REJECT: REJECT}


# Producing.


def read_produce(body: pb.ProduceRequest, now_ms: int) -> ProduceRecords | Produce:
    partition = body.partition if body.HasField("partition") else None
    if body.batch:
        if body.records:
            raise InvalidArgumentError("give either records or a batch")
        if partition is None:
            raise InvalidArgumentError("a batch needs a partition")
        return Produce(body.topic, partition, body.batch, body.topic_id, body.partition_count)
    if not body.records:
        raise InvalidArgumentError("the request has neither records nor a batch")
    return ProduceRecords(body.topic, partition, [read_record(record, now_ms) for record in body.records])


def write_receipts(receipts: Sequence[tuple[int, int, bool, str, int]]) -> pb.ProduceReply:
    """Receipts of (partition, offset, duplicate, topic, topic_id); the caller knows the topic's name."""
    reply = pb.ProduceReply()
    for partition, offset, duplicate, _, topic_id in receipts:
        reply.receipts.add(partition=partition, offset=offset, duplicate=duplicate, topic_id=topic_id)
    return reply


def write_produced(request: Produce, produced: Produced) -> pb.ProduceReply:
    if produced.known:
        return pb.ProduceReply(
            known_positions=[position for position, _ in produced.known],
            known_offsets=[offset for _, offset in produced.known],
        )
    return write_receipts(
        [(request.partition, produced.base_offset, produced.duplicate, request.topic, request.topic_id)]
    )


def write_failure(error: FlotillaError) -> pb.ProduceReply:
    """The answer to one failed request of a stream."""
    row = error.row
    return pb.ProduceReply(
        error=pb.Error(
            code=row.code,
            name=row.name,
            message=str(error),
            retryable=row.retryable,
            retry_after_ms=error.retry_after_ms,
        )
    )


def write_replies(replies: Sequence[pb.ProduceReply]) -> pb.ProduceStreamReply:
    return pb.ProduceStreamReply(replies=replies)


# Reading a topic as a log.


def read_fetch(body: pb.FetchRequest) -> FetchMessages:
    request = Fetch(
        body.topic,
        body.partition,
        body.offset,
        body.max_bytes if body.HasField("max_bytes") else _FETCH_BYTES,
        body.wait_ms,
        body.any_replica,
        body.linearizable,
        body.topic_id,
        list(body.types),
        read_headers(body.headers),
    )
    return FetchMessages(request, body.batches)


def write_fetched(asked: FetchMessages, fetched: Fetched) -> pb.FetchReply:
    """Raises CorruptionError."""
    reply = pb.FetchReply(
        log_start=fetched.log_start, next_offset=fetched.next_offset, resume_offset=asked.request.offset
    )
    batches = fetched.batches if asked.has_batches else leading(fetched.batches, SHOWN_BYTES_MAX)
    for batch in batches:
        if asked.has_batches:
            header = header_of(batch)
            reply.batches.append(bytes(batch))
        else:
            view = open_batch(batch)
            add_messages(reply.messages, view, asked.request.partition, asked.request.offset)
            header = view.header
        reply.resume_offset = header.base_offset + header.count
    if len(batches) == len(fetched.batches):
        reply.resume_offset = fetched.reached or reply.resume_offset
    return reply


# Queue groups.


def read_start(body: pb.Start) -> Start:
    kind = _PLACES.get(body.place)
    if kind is None:
        raise InvalidArgumentError(f"{body.place} is no start of a group")
    return Start(kind, body.value if kind in (FROM_OFFSET, FROM_TIME) else 0)


def read_poll(body: pb.PollRequest) -> PollMessages:
    request = Poll(
        topic=body.topic,
        group=body.group,
        member=body.member,
        partitions=list(body.partitions),
        max_messages=body.max_messages if body.HasField("max_messages") else _POLL_MESSAGES,
        max_bytes=body.max_bytes if body.HasField("max_bytes") else _POLL_BYTES,
        visibility_ms=body.visibility_ms,
        wait_ms=body.wait_ms,
        is_auto_ack=body.auto_ack,
        is_ordered_by_key=body.ordered_by_key,
        start=read_start(body.start),
        types=list(body.types),
        headers=read_headers(body.headers),
    )
    return PollMessages(request, body.batches)


def write_polled(asked: PollMessages, polled: Polled) -> pb.PollReply:
    reply = pb.PollReply(visibility_ms=polled.visibility_ms, retry_after_ms=polled.retry_after_ms)
    _write_deliveries(reply, polled.deliveries, has_batches=asked.has_batches)
    return reply


def _write_deliveries(
    reply: pb.PollReply | pb.SubscribeReply, deliveries: Sequence[Delivery], *, has_batches: bool
) -> None:
    if has_batches:
        add_deliveries(reply.deliveries, deliveries)
    else:
        add_delivered(reply.messages, deliveries)


def read_subscribe(
    body: pb.SubscribeRequest,
) -> OpenSubscription | AddSubscriptionCredit | SettleLeases | ExtendLeases:
    """One command of a subscription. Raises InvalidArgumentError."""
    kind = body.WhichOneof("body")
    if kind == "open":
        return _read_open(body.open)
    if kind == "credit":
        return AddSubscriptionCredit(body.credit)
    if kind == "ack":
        return read_ack(body.ack)
    if kind == "nack":
        return read_nack(body.nack)
    if kind == "extend":
        return read_extend(body.extend)
    raise InvalidArgumentError("the request has no known command")


def _read_open(body: pb.SubscribeRequest.Open) -> OpenSubscription:
    request = Subscribe(
        topic=body.topic,
        group=body.group,
        member=body.member,
        credit=body.credit,
        partitions=list(body.partitions),
        visibility_ms=body.visibility_ms,
        is_auto_ack=body.auto_ack,
        is_ordered_by_key=body.ordered_by_key,
        start=read_start(body.start),
        types=list(body.types),
        headers=read_headers(body.headers),
    )
    return OpenSubscription(request, body.batches)


def write_pushed(deliveries: Sequence[Delivery], visibility_ms: int, *, has_batches: bool) -> pb.SubscribeReply:
    reply = pb.SubscribeReply(visibility_ms=visibility_ms)
    _write_deliveries(reply, deliveries, has_batches=has_batches)
    return reply


def write_refused(expired: Expired, *, is_by_token: bool) -> pb.SubscribeReply:
    reply = pb.SubscribeReply()
    _write_expired(reply, expired, is_by_token=is_by_token)
    return reply


def read_leave(body: pb.LeaveQueueRequest) -> QueueLeave:
    return QueueLeave(body.topic, body.group, body.member)


def write_left(asked: QueueLeave, answer: None) -> pb.LeaveQueueReply:
    return pb.LeaveQueueReply()


# Settlements.


def _read_held(leases: Sequence[str], held: Sequence[pb.Held]) -> tuple[dict[LeasePlace, list[LeaseRange]], bool]:
    if bool(leases) == bool(held):
        raise InvalidArgumentError("give either leases or held")
    if leases:
        return leases_by_place(leases), True
    found: dict[LeasePlace, list[LeaseRange]] = {}
    for run in held:
        if not run.count:
            raise InvalidArgumentError("a run of offsets is empty")
        place = LeasePlace(run.topic_id, run.partition)
        found.setdefault(place, []).append(LeaseRange(run.lease_id, run.first, run.first + run.count))
    return found, False


def read_ack(body: pb.AckRequest) -> SettleLeases:
    held, is_by_token = _read_held(body.leases, body.held)
    results = _read_results(body.results, held)
    return SettleLeases(body.topic, body.group, ACK, held, is_by_token, "", BY_BACKOFF, results)


def _read_results(
    given: Iterable[pb.Result], held: dict[LeasePlace, list[LeaseRange]]
) -> dict[LeasePlace, list[MessageResult]]:
    """Raises InvalidArgumentError; the broker does for a message that is not among the leases of its partition."""
    by_partition: dict[int, list[MessageResult]] = {}
    for result in given:
        by_partition.setdefault(result.partition, []).append(MessageResult(result.offset, result.payload))
    unknown = by_partition.keys() - {place.partition for place in held}
    if unknown:
        raise InvalidArgumentError(f"there are results for partition {min(unknown)}, and no leases")
    return {place: by_partition[place.partition] for place in held if place.partition in by_partition}


def read_nack(body: pb.NackRequest) -> SettleLeases:
    held, is_by_token = _read_held(body.leases, body.held)
    kind = _KINDS.get(body.kind)
    if kind is None:
        raise InvalidArgumentError(f"{body.kind} is no kind of nack")
    delay_ms = 0 if kind == RELEASE else BY_BACKOFF
    if body.HasField("delay_ms"):
        delay_ms = body.delay_ms
    return SettleLeases(body.topic, body.group, kind, held, is_by_token, body.reason, delay_ms)


def read_extend(body: pb.ExtendRequest) -> ExtendLeases:
    held, is_by_token = _read_held(body.leases, body.held)
    return ExtendLeases(body.topic, body.group, body.member, held, is_by_token, body.visibility_ms)


def write_settled(asked: SettleLeases | ExtendLeases, expired: Expired) -> pb.SettleReply:
    reply = pb.SettleReply()
    _write_expired(reply, expired, is_by_token=asked.is_by_token)
    return reply


def _write_expired(reply: pb.SettleReply | pb.SubscribeReply, expired: Expired, *, is_by_token: bool) -> None:
    for place, held in expired.held.items():
        if is_by_token:
            reply.expired.extend(tokens_of(place, held))
            continue
        for run in held:
            reply.expired_held.add(
                topic_id=place.topic_id,
                partition=place.partition,
                lease_id=run.lease_id,
                first=run.first,
                count=run.end - run.first,
            )
