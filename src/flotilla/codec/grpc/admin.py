"""Administration in the gRPC contract where the names of fields do not say it all; the rest is derived in `calls`.

Each function that reads takes a message of the contract, each that writes what was asked and what was answered.
"""

from collections.abc import Mapping

from flotilla.codec.fields import fields_of, many
from flotilla.codec.generated import flotilla_pb2 as pb
from flotilla.codec.grpc.queue import read_start
from flotilla.codec.grpc.values import EachPartition, GroupEnd, GroupMove, TopicTrim
from flotilla.types import operations as ops
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.ids import Offset
from flotilla.types.lease_tokens import LeasePlace, leases_by_place
from flotilla.types.operations import queue as queue
from flotilla.types.operations import stream as stream
from flotilla.types.operations import transactions as transactions
from flotilla.types.operations.queue import LeaseRange

# Messages and groups.


def read_cancel(body: pb.CancelMessagesRequest) -> EachPartition:
    offsets, keys = list(body.offsets), list(body.idempotency_keys)
    if body.HasField("partition"):
        partitions = [body.partition]
    elif offsets:
        raise InvalidArgumentError("offsets need a partition")
    else:
        partitions = []
    return EachPartition(body.topic, partitions, lambda number: queue.CancelRecords(body.topic, number, offsets, keys))


def write_cancelled(asked: EachPartition, replies: Mapping[int, queue.RecordsCancelled]) -> pb.CancelMessagesReply:
    found = pb.CancelMessagesReply()
    for number, reply in replies.items():
        for offset in reply.offsets:
            found.cancelled.add(partition=number, offset=offset)
    return found


def read_describe(body: pb.DescribeRequest) -> ops.GetMetadata:
    return ops.GetMetadata(list(body.topics), body.create, is_linearizable=True)


def read_explain(body: pb.ExplainMessageRequest) -> queue.ExplainMessage:
    return queue.ExplainMessage(body.topic, body.partition, body.offset, body.group, has_history=True)


def read_list_groups(body: pb.ListGroupsRequest) -> EachPartition:
    return EachPartition(body.topic, list(body.partitions), lambda number: queue.ListGroups(body.topic, number))


def write_groups(asked: EachPartition, replies: Mapping[int, queue.GroupList]) -> pb.ListGroupsReply:
    return pb.ListGroupsReply(groups=queue.kinds_of(replies.values()))


def read_describe_group(body: pb.DescribeGroupRequest) -> EachPartition:
    return EachPartition(
        body.topic,
        list(body.partitions),
        lambda number: queue.DescribeGroup(body.topic, number, body.group),
        is_partial=True,
    )


def write_group_descriptions(
    asked: EachPartition, replies: Mapping[int, queue.GroupDescription]
) -> pb.DescribeGroupReply:
    found = pb.DescribeGroupReply()
    for number, reply in replies.items():
        _DESCRIPTION.write(found.partitions[number], reply)
    return found


_MEMBER = fields_of(queue.MemberInfo, pb.DescribeGroupReply.Member.DESCRIPTOR, is_live="live")
_DESCRIPTION = fields_of(
    queue.GroupDescription,
    pb.DescribeGroupReply.Partition.DESCRIPTOR,
    is_paused="paused",
    members=many("members", _MEMBER),
    partition_count=None,
)


def read_reset_group(body: pb.ResetGroupRequest) -> GroupMove:
    return GroupMove(body.topic, body.group, list(body.partitions), read_start(body.start), body.dry_run)


def write_resets(asked: GroupMove, replies: Mapping[int, queue.GroupReset]) -> pb.ResetGroupReply:
    found = pb.ResetGroupReply()
    for number, reply in replies.items():
        move = found.partitions[number]
        move.from_offset = reply.from_offset
        move.to_offset = reply.to_offset
    return found


def read_delete_group(body: pb.DeleteGroupRequest) -> GroupEnd:
    return GroupEnd(body.topic, body.group, list(body.partitions), body.force)


def write_group_deleted(asked: GroupEnd, answer: None) -> pb.DeleteGroupReply:
    return pb.DeleteGroupReply()


# Transactions.


def read_stage_ack(body: pb.StageAckRequest) -> transactions.StageSettlement:
    if bool(body.leases) == bool(body.held):
        raise InvalidArgumentError("give either leases or held")
    found = leases_by_place(body.leases)
    for run in body.held:
        place = LeasePlace(run.topic_id, run.partition)
        found.setdefault(place, []).append(LeaseRange(run.lease_id, run.first, run.first + run.count))
    (place, leases), *others = found.items()
    if others or place.partition != body.partition:
        raise InvalidArgumentError(f"not all of the leases are of partition {body.partition} of one topic")
    return transactions.StageSettlement(
        body.topic,
        body.partition,
        body.group,
        body.transaction_id,
        leases,
        place.topic_id,
        body.timeout_ms,
        results=_results_of(body),
    )


def _results_of(body: pb.StageAckRequest) -> list[queue.MessageResult]:
    if any(each.partition != body.partition for each in body.results):
        raise InvalidArgumentError(f"not all of the results are of partition {body.partition}")
    return [queue.MessageResult(each.offset, each.payload) for each in body.results]


# Trimming.


def read_trim(body: pb.TrimTopicRequest) -> TopicTrim:
    if not body.offsets:
        raise InvalidArgumentError("name at least one partition to trim")
    return TopicTrim(body.topic, dict(body.offsets))


def read_purge(body: pb.PurgeTopicRequest) -> TopicTrim:
    return TopicTrim(body.topic, None)


def write_trimmed(asked: TopicTrim, log_starts: Mapping[int, Offset]) -> pb.TrimTopicReply:
    return pb.TrimTopicReply(log_starts=log_starts)


# Topics and brokers, some of whose fields have other names in this contract.

TOPIC = fields_of(
    ops.TopicInfo,
    pb.Topic.DESCRIPTOR,
    partitions=many("partitions", fields_of(ops.PartitionInfo, pb.Topic.Partition.DESCRIPTOR, target=None)),
)
BROKER = fields_of(ops.BrokerInfo, pb.Broker.DESCRIPTOR, is_alive="alive")


def write_topic(asked: ops.Request, reply: ops.TopicReply) -> pb.Topic:
    found = pb.Topic()
    TOPIC.write(found, reply.topic)
    return found
