"""Requests and replies of stream groups into and out of their protobuf messages: rows like those of client_messages."""

from collections.abc import Sequence

from flotilla.codec.client.rows import Buffer, Row, plain
from flotilla.codec.generated import client_pb2
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.operations.stream import (
    ClaimPartition,
    DescribeStreamGroup,
    FenceGroup,
    ForgetGroup,
    GroupAssignment,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    ListStreamGroups,
    Owned,
    StreamGroupDescription,
    StreamGroupList,
    StreamMember,
)


def _write_heartbeat(body: client_pb2.Heartbeat, value: Heartbeat) -> Sequence[Buffer]:
    body.topic = value.topic
    body.group = value.group
    body.member = value.member
    body.generation = value.generation
    body.owned.extend(value.owned)
    body.wait_ms = value.wait_ms
    return ()


def _read_heartbeat(body: client_pb2.Heartbeat, attachment: memoryview) -> Heartbeat:
    return Heartbeat(body.topic, body.group, body.member, body.generation, body.owned[:], body.wait_ms)


def _write_assignment(body: client_pb2.GroupAssignment, value: GroupAssignment) -> Sequence[Buffer]:
    body.generation = value.generation
    body.partitions.extend([owned.partition for owned in value.partitions])
    body.epochs.extend([owned.epoch for owned in value.partitions])
    body.session_ms = value.session_ms
    return ()


def _read_assignment(body: client_pb2.GroupAssignment, attachment: memoryview) -> GroupAssignment:
    partitions, epochs = body.partitions[:], body.epochs[:]
    if len(partitions) != len(epochs):
        raise InvalidArgumentError("partitions and epochs are not equally many")
    owned = [Owned(partition, epoch) for partition, epoch in zip(partitions, epochs, strict=True)]
    return GroupAssignment(body.generation, owned, body.session_ms)


def _write_description(body: client_pb2.StreamGroupDescription, value: StreamGroupDescription) -> Sequence[Buffer]:
    body.generation = value.generation
    body.strategy = value.strategy
    body.session_ms = value.session_ms
    for member in value.members:
        body.members.add(
            name=member.name, client=member.client, partitions=member.partitions, heard_ms_ago=member.heard_ms_ago
        )
    body.rebalanced_ms_ago = value.rebalanced_ms_ago
    body.cause = value.cause
    body.moved = value.moved
    return ()


def _read_description(body: client_pb2.StreamGroupDescription, attachment: memoryview) -> StreamGroupDescription:
    members = [
        StreamMember(member.name, member.client, member.partitions[:], member.heard_ms_ago) for member in body.members
    ]
    return StreamGroupDescription(
        body.generation, body.strategy, body.session_ms, members, body.rebalanced_ms_ago, body.cause, body.moved
    )


def _write_list(body: client_pb2.StreamGroupList, value: StreamGroupList) -> Sequence[Buffer]:
    body.groups.extend(value.groups)
    return ()


def _read_list(body: client_pb2.StreamGroupList, attachment: memoryview) -> StreamGroupList:
    return StreamGroupList(body.groups[:])


REQUEST_ROWS: tuple[Row, ...] = (
    plain(JoinGroup, "join_group", "topic", "group", "member", "client", "strategy", "session_ms"),
    Row(Heartbeat, "heartbeat", _write_heartbeat, _read_heartbeat),
    plain(LeaveGroup, "leave_group", "topic", "group", "member"),
    plain(ClaimPartition, "claim_partition", "group", "topic", "partition", "epoch"),
    plain(DescribeStreamGroup, "describe_stream_group", "topic", "group"),
    plain(ListStreamGroups, "list_stream_groups", "topic"),
    plain(FenceGroup, "fence_group", "topic", "group"),
    plain(ForgetGroup, "forget_group", "topic", "group"),
)

REPLY_ROWS: tuple[Row, ...] = (
    Row(GroupAssignment, "group_assignment", _write_assignment, _read_assignment),
    Row(StreamGroupDescription, "stream_group_description", _write_description, _read_description),
    Row(StreamGroupList, "stream_group_list", _write_list, _read_list),
)
