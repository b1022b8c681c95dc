"""Rows of stream groups, as in `messages`."""

from flotilla.codec.client.rows import Row, derived
from flotilla.codec.fields import columns
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
)

REQUEST_ROWS: tuple[Row, ...] = (
    derived(JoinGroup),
    derived(Heartbeat),
    derived(LeaveGroup),
    derived(ClaimPartition),
    derived(DescribeStreamGroup),
    derived(ListStreamGroups),
    derived(FenceGroup),
    derived(ForgetGroup),
)

REPLY_ROWS: tuple[Row, ...] = (
    derived(GroupAssignment, partitions=columns(Owned, "partitions and epochs", "partitions", "epochs")),
    derived(StreamGroupDescription),
    derived(StreamGroupList),
)
