"""Requests and replies of queue groups into and out of their protobuf messages: rows like those of client_messages.

Runs of offsets and deliveries travel as numbers side by side, which protobuf packs: a thousand of them cost a
few list operations, not a thousand messages. Numbers that belong together must be equally many.
"""

from collections.abc import Sequence
from typing import Any

from flotilla.codec.client.rows import Buffer, Row, plain
from flotilla.codec.generated import client_pb2
from flotilla.types.errors import InvalidArgumentError
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
    ListGroups,
    MemberInfo,
    Poll,
    Polled,
    Pushed,
    RecordsCancelled,
    ResetGroup,
    Settle,
    Settled,
    Start,
    Subscribe,
    TakeTokens,
    TokensGranted,
    Unsubscribe,
    Withdraw,
)

# What several messages have in common.


def write_held(body: client_pb2.Held, held: list[LeaseRange]) -> None:
    for run in held:
        if run.end <= run.first:
            raise InvalidArgumentError(f"a run of offsets from {run.first} to {run.end} is empty")
    body.lease_ids.extend([run.lease_id for run in held])
    body.firsts.extend([run.first for run in held])
    body.counts.extend([run.end - run.first for run in held])


def read_held(body: client_pb2.Held) -> list[LeaseRange]:
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
    return batches


def _read_deliveries(body: client_pb2.Deliveries, attachment: memoryview) -> list[Delivery]:
    columns = (body.partitions, body.lease_ids, body.firsts, body.counts, body.attempts, body.batch_bytes)
    if len({len(column) for column in columns}) != 1:
        raise InvalidArgumentError("the numbers of deliveries are not equally many")
    deliveries: list[Delivery] = []
    start = 0
    for partition, lease_id, first, count, attempt, size in zip(*[column[:] for column in columns], strict=True):
        deliveries.append(Delivery(partition, lease_id, first, count, attempt, attachment[start : start + size]))
        start += size
    if start != len(attachment):
        raise InvalidArgumentError(f"batches of {start} bytes are announced, {len(attachment)} bytes came")
    return deliveries


def _write_start(body: client_pb2.Start, start: Start) -> None:
    body.kind, body.value = start


def _read_start(body: Any) -> Start:
    """Who says nothing starts at the earliest."""
    return Start(body.start.kind, body.start.value) if body.HasField("start") else Start()


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
    )


def _write_polled(body: client_pb2.Polled, value: Polled) -> Sequence[Buffer]:
    body.visibility_ms = value.visibility_ms
    body.retry_after_ms = value.retry_after_ms
    return _write_deliveries(body.deliveries, value.deliveries)


def _read_polled(body: client_pb2.Polled, attachment: memoryview) -> Polled:
    return Polled(_read_deliveries(body.deliveries, attachment), body.visibility_ms, body.retry_after_ms)


def _write_settle(body: client_pb2.Settle, value: Settle) -> Sequence[Buffer]:
    body.topic = value.topic
    body.partition = value.partition
    body.group = value.group
    body.kind = value.kind
    body.reason = value.reason
    body.delay_ms = value.delay_ms
    write_held(body.held, value.held)
    body.members.extend(value.members)
    body.topic_id = value.topic_id
    return ()


def _read_settle(body: client_pb2.Settle, attachment: memoryview) -> Settle:
    return Settle(
        body.topic,
        body.partition,
        body.group,
        body.kind,
        read_held(body.held),
        body.reason,
        body.delay_ms,
        body.members[:],
        body.topic_id,
    )


def _write_settled(body: client_pb2.Settled, value: Settled) -> Sequence[Buffer]:
    write_held(body.expired, value.expired)
    return ()


def _read_settled(body: client_pb2.Settled, attachment: memoryview) -> Settled:
    return Settled(read_held(body.expired))


def _write_extend(body: client_pb2.Extend, value: Extend) -> Sequence[Buffer]:
    body.topic = value.topic
    body.partition = value.partition
    body.group = value.group
    body.member = value.member
    body.visibility_ms = value.visibility_ms
    write_held(body.held, value.held)
    body.topic_id = value.topic_id
    return ()


def _read_extend(body: client_pb2.Extend, attachment: memoryview) -> Extend:
    held = read_held(body.held)
    return Extend(body.topic, body.partition, body.group, body.member, held, body.visibility_ms, body.topic_id)


def _write_subscribe(body: client_pb2.Subscribe, value: Subscribe) -> Sequence[Buffer]:
    body.topic = value.topic
    body.group = value.group
    body.member = value.member
    body.credit = value.credit
    body.partitions.extend(value.partitions)
    body.visibility_ms = value.visibility_ms
    body.is_auto_ack = value.is_auto_ack
    body.is_ordered_by_key = value.is_ordered_by_key
    _write_start(body.start, value.start)
    return ()


def _read_subscribe(body: client_pb2.Subscribe, attachment: memoryview) -> Subscribe:
    return Subscribe(
        body.topic,
        body.group,
        body.member,
        body.credit,
        body.partitions[:],
        body.visibility_ms,
        body.is_auto_ack,
        body.is_ordered_by_key,
        _read_start(body),
    )


def _write_pushed(body: client_pb2.Pushed, value: Pushed) -> Sequence[Buffer]:
    body.visibility_ms = value.visibility_ms
    return _write_deliveries(body.deliveries, value.deliveries)


def _read_pushed(body: client_pb2.Pushed, attachment: memoryview) -> Pushed:
    return Pushed(_read_deliveries(body.deliveries, attachment), body.visibility_ms)


# Administration.


def _write_cancel(body: client_pb2.CancelRecords, value: CancelRecords) -> Sequence[Buffer]:
    body.topic = value.topic
    body.partition = value.partition
    body.offsets.extend(value.offsets)
    body.keys.extend(value.keys)
    body.topic_id = value.topic_id
    return ()


def _read_cancel(body: client_pb2.CancelRecords, attachment: memoryview) -> CancelRecords:
    return CancelRecords(body.topic, body.partition, body.offsets[:], body.keys[:], body.topic_id)


def _write_cancelled(body: client_pb2.RecordsCancelled, value: RecordsCancelled) -> Sequence[Buffer]:
    body.offsets.extend(value.offsets)
    return ()


def _read_cancelled(body: client_pb2.RecordsCancelled, attachment: memoryview) -> RecordsCancelled:
    return RecordsCancelled(body.offsets[:])


def _write_group_list(body: client_pb2.GroupList, value: GroupList) -> Sequence[Buffer]:
    body.groups.update(value.groups)
    return ()


def _read_group_list(body: client_pb2.GroupList, attachment: memoryview) -> GroupList:
    return GroupList(dict(body.groups))


_FACTS = tuple(name for name in GroupDescription.__slots__ if name != "members")


def _write_description(body: client_pb2.GroupDescription, value: GroupDescription) -> Sequence[Buffer]:
    for name in _FACTS:
        setattr(body, name, getattr(value, name))
    for member in value.members:
        body.members.add(name=member.name, leased=member.leased, last_poll_ms_ago=member.last_poll_ms_ago)
    return ()


def _read_description(body: client_pb2.GroupDescription, attachment: memoryview) -> GroupDescription:
    facts: dict[str, Any] = {name: getattr(body, name) for name in _FACTS}
    members = [MemberInfo(member.name, member.leased, member.last_poll_ms_ago) for member in body.members]
    return GroupDescription(members=members, **facts)


def _write_reset(body: client_pb2.ResetGroup, value: ResetGroup) -> Sequence[Buffer]:
    body.topic = value.topic
    body.partition = value.partition
    body.group = value.group
    body.is_dry_run = value.is_dry_run
    body.epoch = value.epoch
    _write_start(body.start, value.start)
    return ()


def _read_reset(body: client_pb2.ResetGroup, attachment: memoryview) -> ResetGroup:
    return ResetGroup(body.topic, body.partition, body.group, _read_start(body), body.is_dry_run, body.epoch)


def _write_alter_group(body: client_pb2.AlterGroup, value: AlterGroup) -> Sequence[Buffer]:
    body.topic = value.topic
    body.group = value.group
    body.settings.update(value.settings)
    return ()


def _read_alter_group(body: client_pb2.AlterGroup, attachment: memoryview) -> AlterGroup:
    return AlterGroup(body.topic, body.group, dict(body.settings))


def _write_group_reply(body: client_pb2.GroupReply, value: GroupReply) -> Sequence[Buffer]:
    body.settings.update(value.settings)
    return ()


def _read_group_reply(body: client_pb2.GroupReply, attachment: memoryview) -> GroupReply:
    return GroupReply(dict(body.settings))


def _write_explanation(body: client_pb2.Explanation, value: Explanation) -> Sequence[Buffer]:
    body.state = value.state
    body.attempts = value.attempts
    body.reason = value.reason
    body.holder = value.holder
    body.remaining_ms = value.remaining_ms
    body.history.extend(value.history)
    body.next = value.next
    body.ended_ms = value.ended_ms
    return (value.batch,) if value.batch else ()


def _read_explanation(body: client_pb2.Explanation, attachment: memoryview) -> Explanation:
    return Explanation(
        body.state,
        body.attempts,
        body.reason,
        body.holder,
        body.remaining_ms,
        body.history[:],
        body.next,
        body.ended_ms,
        bytes(attachment),
    )


def _write_take_tokens(body: client_pb2.TakeTokens, value: TakeTokens) -> Sequence[Buffer]:
    body.topic = value.topic
    body.group = value.group
    body.tokens = value.tokens
    _write_start(body.start, value.start)
    return ()


def _read_take_tokens(body: client_pb2.TakeTokens, attachment: memoryview) -> TakeTokens:
    return TakeTokens(body.topic, body.group, body.tokens, _read_start(body))


REQUEST_ROWS: tuple[Row, ...] = (
    Row(Poll, "poll", _write_poll, _read_poll),
    Row(Settle, "settle", _write_settle, _read_settle),
    Row(Extend, "extend", _write_extend, _read_extend),
    Row(Subscribe, "subscribe", _write_subscribe, _read_subscribe),
    plain(AddCredit, "add_credit", "subscription", "messages"),
    plain(Unsubscribe, "unsubscribe", "subscription"),
    plain(Withdraw, "withdraw", "request"),
    Row(CancelRecords, "cancel_records", _write_cancel, _read_cancel),
    plain(ListGroups, "list_groups", "topic", "partition"),
    plain(DescribeGroup, "describe_group", "topic", "partition", "group"),
    Row(ResetGroup, "reset_group", _write_reset, _read_reset),
    plain(DeleteGroup, "delete_group", "topic", "partition", "group"),
    Row(AlterGroup, "alter_group", _write_alter_group, _read_alter_group),
    plain(
        ExplainMessage,
        "explain_message",
        "topic",
        "partition",
        "offset",
        "group",
        "topic_id",
        "has_record",
        "has_history",
    ),
    Row(TakeTokens, "take_tokens", _write_take_tokens, _read_take_tokens),
)

REPLY_ROWS: tuple[Row, ...] = (
    Row(Polled, "polled", _write_polled, _read_polled, has_attachment=True),
    Row(Settled, "settled", _write_settled, _read_settled),
    Row(Pushed, "pushed", _write_pushed, _read_pushed, has_attachment=True),
    Row(RecordsCancelled, "records_cancelled", _write_cancelled, _read_cancelled),
    Row(GroupList, "group_list", _write_group_list, _read_group_list),
    Row(GroupDescription, "group_description", _write_description, _read_description),
    plain(GroupReset, "group_reset", "from_offset", "to_offset"),
    Row(GroupReply, "group_reply", _write_group_reply, _read_group_reply),
    Row(Explanation, "explanation", _write_explanation, _read_explanation, has_attachment=True),
    plain(TokensGranted, "tokens_granted", "tokens", "retry_after_ms"),
)
