"""Rows of queue groups, as in `messages`.

Ranges of offsets and deliveries travel as columns of numbers, which protobuf packs: a thousand of them cost a few list
operations, not a thousand messages. The columns must be equally long.
"""

from collections.abc import Sequence
from typing import Any

from flotilla.codec.client.rows import Buffer, Row, by_hand, derived, message_of, read_headers, write_headers
from flotilla.codec.fields import Part, fields_of
from flotilla.codec.generated import client_pb2
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.operations.group_expiry import ExpireGroup, GroupUse
from flotilla.types.operations.queue import (
    AddCredit,
    AlterGroup,
    CancelRecords,
    DeleteGroup,
    Delivery,
    DescribeGroup,
    ExplainMessage,
    Explanation,
    Extend,
    GroupDescription,
    GroupList,
    GroupReply,
    GroupReset,
    LeaseRange,
    LeaveQueue,
    ListGroups,
    MessageResult,
    Poll,
    Polled,
    Pushed,
    ReadResults,
    RecordsCancelled,
    ResetGroup,
    ResultsRead,
    Settle,
    Settled,
    Start,
    Subscribe,
    TakeTokens,
    TokensGranted,
    Unsubscribe,
    Withdraw,
)
from flotilla.types.operations.waiting import (
    BlockedKeys,
    DelayedMessages,
    DeliveredNow,
    DeliverNow,
    DueTimes,
    ListBlockedKeys,
    ListDelayed,
    ReadDueTimes,
)

# Parts that several messages share.


def write_leases(body: client_pb2.LeaseRanges, leases: list[LeaseRange]) -> None:
    for run in leases:
        if run.end <= run.first:
            raise InvalidArgumentError(f"a run of offsets from {run.first} to {run.end} is empty")
    body.lease_ids.extend([run.lease_id for run in leases])
    body.firsts.extend([run.first for run in leases])
    body.counts.extend([run.end - run.first for run in leases])


def read_leases(body: client_pb2.LeaseRanges) -> list[LeaseRange]:
    lease_ids, firsts, counts = body.lease_ids[:], body.firsts[:], body.counts[:]
    if not len(lease_ids) == len(firsts) == len(counts):
        raise InvalidArgumentError("leases, offsets and counts are not equally many")
    if 0 in counts:
        raise InvalidArgumentError("a run of offsets is empty")
    return [
        LeaseRange(lease_id, first, first + count)
        for lease_id, first, count in zip(lease_ids, firsts, counts, strict=True)
    ]


def _write_deliveries(body: client_pb2.Deliveries, deliveries: list[Delivery]) -> Sequence[Buffer]:
    batches = [delivery.batch for delivery in deliveries]
    body.partitions.extend([delivery.partition for delivery in deliveries])
    body.lease_ids.extend([delivery.lease_id for delivery in deliveries])
    body.firsts.extend([delivery.first for delivery in deliveries])
    body.counts.extend([delivery.count for delivery in deliveries])
    body.attempts.extend([delivery.attempt for delivery in deliveries])
    body.batch_bytes.extend([len(batch) for batch in batches])
    body.topic_ids.extend([delivery.topic_id for delivery in deliveries])
    return batches


def _read_deliveries(body: client_pb2.Deliveries, attachment: memoryview) -> list[Delivery]:
    columns = (
        body.partitions,
        body.lease_ids,
        body.firsts,
        body.counts,
        body.attempts,
        body.batch_bytes,
        body.topic_ids,
    )
    if len({len(column) for column in columns}) != 1:
        raise InvalidArgumentError("the numbers of deliveries are not equally many")
    deliveries: list[Delivery] = []
    start = 0
    rows = zip(*[column[:] for column in columns], strict=True)
    for partition, lease_id, first, count, attempt, size, topic_id in rows:
        batch = attachment[start : start + size]
        deliveries.append(Delivery(partition, lease_id, first, count, attempt, batch, topic_id))
        start += size
    if start != len(attachment):
        raise InvalidArgumentError(f"batches of {start} bytes are announced, {len(attachment)} bytes came")
    return deliveries


def _write_start(body: client_pb2.Start, start: Start) -> None:
    body.kind, body.value = start


def _read_start(body: Any) -> Start:
    """Without a start, the earliest."""
    return Start(body.start.kind, body.start.value) if body.HasField("start") else Start()


#: These parts in derived rows.
LEASES = Part(lambda body, leases: write_leases(body.leases, leases), lambda body: read_leases(body.leases))
_START = Part(lambda body, start: _write_start(body.start, start), _read_start)


# Leases.


def _write_poll(body: client_pb2.Poll, value: Poll) -> Sequence[Buffer]:
    body.topic = value.topic
    body.group = value.group
    body.member = value.member
    body.partitions.extend(value.partitions)
    body.max_messages = value.max_messages
    body.max_bytes = value.max_bytes
    body.visibility_ms = value.visibility_ms
    body.wait_ms = value.wait_ms
    body.is_auto_ack = value.is_auto_ack
    body.is_ordered_by_key = value.is_ordered_by_key
    _write_start(body.start, value.start)
    body.types.extend(value.types)
    body.topic_id = value.topic_id
    if value.headers:
        write_headers(body.headers, value.headers)
    body.presents = value.presents
    return ()


def _read_poll(body: client_pb2.Poll, attachment: memoryview) -> Poll:
    return Poll(
        body.topic,
        body.group,
        body.member,
        body.partitions[:],
        body.max_messages,
        body.max_bytes,
        body.visibility_ms,
        body.wait_ms,
        body.is_auto_ack,
        body.is_ordered_by_key,
        _read_start(body),
        body.types[:],
        body.topic_id,
        read_headers(body.headers) if body.headers else [],
        body.presents,
    )


def _write_polled(body: client_pb2.Polled, value: Polled) -> Sequence[Buffer]:
    body.visibility_ms = value.visibility_ms
    body.retry_after_ms = value.retry_after_ms
    body.lag = value.lag
    return _write_deliveries(body.deliveries, value.deliveries)


def _read_polled(body: client_pb2.Polled, attachment: memoryview) -> Polled:
    return Polled(_read_deliveries(body.deliveries, attachment), body.visibility_ms, body.retry_after_ms, body.lag)


def _write_settle(body: client_pb2.Settle, value: Settle) -> Sequence[Buffer]:
    body.topic = value.topic
    body.partition = value.partition
    body.group = value.group
    body.kind = value.kind
    body.reason = value.reason
    body.delay_ms = value.delay_ms
    write_leases(body.leases, value.leases)
    body.members.extend(value.members)
    body.topic_id = value.topic_id
    for offset, payload, is_kept in value.results:
        body.results.add(offset=offset, payload=payload, is_kept=is_kept)
    return ()


def _read_settle(body: client_pb2.Settle, attachment: memoryview) -> Settle:
    return Settle(
        body.topic,
        body.partition,
        body.group,
        body.kind,
        read_leases(body.leases),
        body.reason,
        body.delay_ms,
        body.members[:],
        body.topic_id,
        [MessageResult(each.offset, each.payload, each.is_kept) for each in body.results],
    )


def _write_settled(body: client_pb2.Settled, value: Settled) -> Sequence[Buffer]:
    write_leases(body.expired, value.expired)
    if value.settled:
        write_leases(body.settled, value.settled)
    body.term = value.term
    return ()


def _read_settled(body: client_pb2.Settled, attachment: memoryview) -> Settled:
    return Settled(read_leases(body.expired), read_leases(body.settled), body.term)


def _write_extend(body: client_pb2.Extend, value: Extend) -> Sequence[Buffer]:
    body.topic = value.topic
    body.partition = value.partition
    body.group = value.group
    body.member = value.member
    body.visibility_ms = value.visibility_ms
    write_leases(body.leases, value.leases)
    body.topic_id = value.topic_id
    body.presented_term = value.presented_term
    return ()


def _read_extend(body: client_pb2.Extend, attachment: memoryview) -> Extend:
    leases = read_leases(body.leases)
    return Extend(
        body.topic,
        body.partition,
        body.group,
        body.member,
        leases,
        body.visibility_ms,
        body.topic_id,
        body.presented_term,
    )


def _write_pushed(body: client_pb2.Pushed, value: Pushed) -> Sequence[Buffer]:
    body.visibility_ms = value.visibility_ms
    if value.lag >= 0:
        body.lag = value.lag
    body.left_partitions.extend(value.left_partitions)
    return _write_deliveries(body.deliveries, value.deliveries)


def _read_pushed(body: client_pb2.Pushed, attachment: memoryview) -> Pushed:
    # Earlier brokers do not say the lag.
    lag = body.lag if body.HasField("lag") else -1
    return Pushed(_read_deliveries(body.deliveries, attachment), body.visibility_ms, lag, body.left_partitions[:])


# Administration.

#: Without the message itself, which follows the envelope.
_EXPLANATION = fields_of(Explanation, message_of(Explanation), batch=None)


def _write_explanation(body: client_pb2.Explanation, value: Explanation) -> Sequence[Buffer]:
    _EXPLANATION.write(body, value)
    return (value.batch,)


def _read_explanation(body: client_pb2.Explanation, attachment: memoryview) -> Explanation:
    found: Explanation = _EXPLANATION.read(body)
    found.batch = bytes(attachment)
    return found


REQUEST_ROWS: tuple[Row, ...] = (
    by_hand(Poll, _write_poll, _read_poll),
    by_hand(Settle, _write_settle, _read_settle),
    by_hand(Extend, _write_extend, _read_extend),
    derived(Subscribe, start=_START),
    derived(AddCredit),
    derived(Unsubscribe),
    derived(Withdraw),
    derived(LeaveQueue),
    derived(CancelRecords),
    derived(ReadResults),
    derived(ListGroups),
    derived(DescribeGroup),
    derived(ResetGroup, start=_START),
    derived(DeleteGroup),
    derived(AlterGroup),
    derived(ExplainMessage),
    derived(TakeTokens, start=_START),
    derived(ExpireGroup),
    derived(ReadDueTimes),
    derived(ListBlockedKeys),
    derived(ListDelayed),
    derived(DeliverNow),
)

REPLY_ROWS: tuple[Row, ...] = (
    by_hand(Polled, _write_polled, _read_polled, has_attachment=True),
    by_hand(Settled, _write_settled, _read_settled),
    by_hand(Pushed, _write_pushed, _read_pushed, has_attachment=True),
    derived(RecordsCancelled),
    derived(ResultsRead),
    derived(GroupList),
    derived(GroupDescription),
    derived(GroupReset),
    derived(GroupReply),
    by_hand(Explanation, _write_explanation, _read_explanation, has_attachment=True),
    derived(TokensGranted),
    derived(GroupUse),
    derived(DueTimes),
    derived(BlockedKeys),
    derived(DelayedMessages),
    derived(DeliveredNow),
)
