"""Topics, groups, transactions and the cluster in the gRPC contract: its messages into requests, and replies back.

Each function that reads takes a message of the contract, each that writes what was asked and what was answered.
"""

from collections.abc import Mapping

from flotilla.codec.generated import flotilla_pb2 as pb
from flotilla.codec.grpc.queue import read_start
from flotilla.codec.grpc.values import EachPartition, GroupEnd, GroupMove
from flotilla.types import operations as ops
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.lease_tokens import held_by_partition
from flotilla.types.operations import queue as queue
from flotilla.types.operations import stream as stream
from flotilla.types.operations import transactions as transactions
from flotilla.types.operations.queue import LeaseRange

# Offsets.


def read_list_offsets(body: pb.ListOffsetsRequest) -> ops.ListOffsets:
    return ops.ListOffsets(body.topic, body.partition, body.timestamp_ms)


def write_offset_found(asked: ops.ListOffsets, reply: ops.OffsetFound) -> pb.ListOffsetsReply:
    return pb.ListOffsetsReply(offset=reply.offset)


def read_commit_offset(body: pb.CommitOffsetRequest) -> ops.CommitOffset:
    return ops.CommitOffset(body.group, body.topic, body.partition, body.offset, body.reset, body.epoch)


def read_read_offset(body: pb.ReadOffsetRequest) -> ops.ReadOffset:
    return ops.ReadOffset(body.group, body.topic, body.partition)


def write_offset(asked: ops.Request, reply: ops.OffsetCommitted) -> pb.OffsetReply:
    return pb.OffsetReply(offset=reply.offset)


# Messages, and groups.


def read_cancel(body: pb.CancelMessagesRequest) -> EachPartition:
    offsets, keys = list(body.offsets), list(body.idempotency_keys)
    if body.HasField("partition"):
        partitions = [body.partition]
    elif offsets:
        raise InvalidArgumentError("an offset is one of a partition: say which")
    else:
        partitions = []
    return EachPartition(body.topic, partitions, lambda number: queue.CancelRecords(body.topic, number, offsets, keys))


def write_cancelled(asked: EachPartition, replies: Mapping[int, queue.RecordsCancelled]) -> pb.CancelMessagesReply:
    found = pb.CancelMessagesReply()
    for number, reply in replies.items():
        for offset in reply.offsets:
            found.cancelled.add(partition=number, offset=offset)
    return found


def read_explain(body: pb.ExplainMessageRequest) -> queue.ExplainMessage:
    return queue.ExplainMessage(body.topic, body.partition, body.offset, body.group, has_history=True)


def write_explanation(asked: queue.ExplainMessage, reply: queue.Explanation) -> pb.ExplainMessageReply:
    return pb.ExplainMessageReply(
        state=reply.state,
        attempts=reply.attempts,
        reason=reply.reason,
        holder=reply.holder,
        remaining_ms=reply.remaining_ms,
        history=reply.history,
        next=reply.next,
    )


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
        part = found.partitions[number]
        for name in _DESCRIBED:
            setattr(part, name, getattr(reply, name))
        part.paused = reply.is_paused
        for member in reply.members:
            part.members.add(name=member.name, leased=member.leased, last_poll_ms_ago=member.last_poll_ms_ago)
    return found


#: Fields that have the same name on both sides.
_DESCRIBED = tuple(
    field.name for field in pb.DescribeGroupReply.Partition.DESCRIPTOR.fields if field.name not in ("paused", "members")
)


def read_alter_group(body: pb.AlterGroupRequest) -> queue.AlterGroup:
    return queue.AlterGroup(body.topic, body.group, dict(body.settings))


def write_group_settings(asked: queue.AlterGroup, reply: queue.GroupReply) -> pb.AlterGroupReply:
    return pb.AlterGroupReply(settings=reply.settings)


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
    return GroupEnd(body.topic, body.group, list(body.partitions))


def write_group_deleted(asked: GroupEnd, answer: None) -> pb.DeleteGroupReply:
    return pb.DeleteGroupReply()


# Stream groups.


def read_join_group(body: pb.JoinGroupRequest) -> stream.JoinGroup:
    return stream.JoinGroup(body.topic, body.group, body.member, body.client, body.strategy, body.session_ms)


def read_heartbeat(body: pb.HeartbeatRequest) -> stream.Heartbeat:
    return stream.Heartbeat(body.topic, body.group, body.member, body.generation, list(body.owned), body.wait_ms)


def read_leave_group(body: pb.LeaveGroupRequest) -> stream.LeaveGroup:
    return stream.LeaveGroup(body.topic, body.group, body.member)


def write_assignment(asked: ops.Request, reply: stream.GroupAssignment) -> pb.GroupAssignment:
    found = pb.GroupAssignment(generation=reply.generation, session_ms=reply.session_ms)
    for owned in reply.partitions:
        found.partitions.add(partition=owned.partition, epoch=owned.epoch)
    return found


def write_left(asked: ops.Request, reply: ops.Reply) -> pb.LeaveGroupReply:
    return pb.LeaveGroupReply()


def read_claim(body: pb.ClaimPartitionRequest) -> stream.ClaimPartition:
    return stream.ClaimPartition(body.group, body.topic, body.partition, body.epoch)


def read_stream_group(body: pb.GroupRequest) -> stream.DescribeStreamGroup:
    return stream.DescribeStreamGroup(body.topic, body.group)


def write_stream_group(
    asked: stream.DescribeStreamGroup, reply: stream.StreamGroupDescription
) -> pb.StreamGroupDescription:
    found = pb.StreamGroupDescription(
        generation=reply.generation,
        strategy=reply.strategy,
        session_ms=reply.session_ms,
        rebalanced_ms_ago=reply.rebalanced_ms_ago,
        cause=reply.cause,
        moved=reply.moved,
    )
    for member in reply.members:
        found.members.add(
            name=member.name, client=member.client, partitions=member.partitions, heard_ms_ago=member.heard_ms_ago
        )
    return found


def read_list_stream_groups(body: pb.ListStreamGroupsRequest) -> stream.ListStreamGroups:
    return stream.ListStreamGroups(body.topic)


def write_stream_groups(asked: stream.ListStreamGroups, reply: stream.StreamGroupList) -> pb.ListStreamGroupsReply:
    return pb.ListStreamGroupsReply(groups=reply.groups)


# Topics.


def read_create_topic(body: pb.CreateTopicRequest) -> ops.CreateTopic:
    return ops.CreateTopic(body.topic, body.partitions, body.replication_factor, dict(body.settings))


def read_alter_topic(body: pb.AlterTopicRequest) -> ops.AlterTopic:
    return ops.AlterTopic(body.topic, body.partitions, dict(body.settings))


def read_delete_topic(body: pb.DeleteTopicRequest) -> ops.DeleteTopic:
    return ops.DeleteTopic(body.topic)


def write_topic(asked: ops.Request, reply: ops.TopicReply) -> pb.Topic:
    found = pb.Topic()
    _fill_topic(found, reply.topic)
    return found


def _fill_topic(found: pb.Topic, topic: ops.TopicInfo) -> None:
    found.name = topic.name
    found.topic_id = topic.topic_id
    found.settings.update(topic.settings)
    for part in topic.partitions:
        found.partitions.add(number=part.number, leader=part.leader, replicas=part.replicas, term=part.term)


# Transactions.


def read_stage(body: pb.StageRequest) -> transactions.Stage:
    return transactions.Stage(body.topic, body.partition, body.transaction_id, body.batch)


def read_stage_ack(body: pb.StageAckRequest) -> transactions.StageSettlement:
    if bool(body.leases) == bool(body.held):
        raise InvalidArgumentError("say which leases: either as they came with messages, or as runs")
    found = held_by_partition(body.leases)
    for run in body.held:
        found.setdefault(run.partition, []).append(LeaseRange(run.lease_id, run.first, run.first + run.count))
    if list(found) != [body.partition]:
        raise InvalidArgumentError(f"not all of the leases are of partition {body.partition}")
    return transactions.StageSettlement(
        body.topic, body.partition, body.group, body.transaction_id, found[body.partition]
    )


def write_staged(asked: ops.Request, reply: transactions.Staged) -> pb.StageReply:
    return pb.StageReply(count=reply.count)


def read_commit(body: pb.CommitTransactionRequest) -> transactions.CommitTransaction:
    partitions = [(each.topic, each.partition) for each in body.partitions]
    return transactions.CommitTransaction(body.transaction_id, partitions, body.application_id, body.version)


def read_abort(body: pb.AbortTransactionRequest) -> transactions.AbortTransaction:
    return transactions.AbortTransaction(
        body.transaction_id, [(each.topic, each.partition) for each in body.partitions]
    )


def write_decided(asked: ops.Request, reply: transactions.TransactionDecided) -> pb.TransactionReply:
    return pb.TransactionReply(repeated_version=reply.is_repeated)


def read_outcome(body: pb.TransactionOutcomeRequest) -> transactions.TransactionOutcome:
    return transactions.TransactionOutcome(body.topic, body.partition, body.transaction_id, body.wait_ms)


def write_outcome(
    asked: transactions.TransactionOutcome, reply: transactions.TransactionShown
) -> pb.TransactionOutcomeReply:
    found = pb.TransactionOutcomeReply(shown=reply.is_shown)
    for batch in reply.batches:
        found.batches.add(
            producer_id=batch.producer_id, producer_sequence=batch.producer_sequence, base_offset=batch.base_offset
        )
    return found


# The cluster.


def read_describe(body: pb.DescribeRequest) -> ops.GetMetadata:
    return ops.GetMetadata(list(body.topics), body.create)


def write_cluster(asked: ops.GetMetadata, reply: ops.Metadata) -> pb.Cluster:
    found = pb.Cluster(cluster_id=reply.cluster_id, controller=reply.controller)
    for broker in reply.brokers:
        found.brokers.add(
            node=broker.node,
            client=broker.client,
            http=broker.http,
            grpc=broker.grpc,
            alive=broker.is_alive,
            state=broker.state,
        )
    for topic in reply.topics:
        _fill_topic(found.topics.add(), topic)
    return found


def read_transfer(body: pb.TransferLeadershipRequest) -> ops.TransferLeadership:
    return ops.TransferLeadership(body.topic, body.partition, body.to)


def write_transferred(asked: ops.TransferLeadership, reply: ops.Done) -> pb.TransferLeadershipReply:
    return pb.TransferLeadershipReply()
