"""The gRPC endpoint for scenarios: requests as messages of the public contract, and its replies as values again.

Whatever the contract says in another way is said so here: a poll brings deliveries in the batch format, a group is
described by partition, and leases that were all refused come as an error. Requests that only nodes make among
themselves are not part of the contract.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import grpc

from flotilla.codec.generated import flotilla_pb2 as pb
from flotilla.codec.generated.flotilla_pb2_grpc import FlotillaStub
from flotilla.server import Server
from flotilla.types import operations as ops
from flotilla.types.errors import ALL_ERRORS, FlotillaError, LeaseExpiredError, NotLeaderError
from flotilla.types.operations import Reply, Request, schedules
from flotilla.types.operations import queue as queue
from flotilla.types.operations import stream as stream
from flotilla.types.operations import transactions as transactions
from flotilla.types.operations.cluster import (
    CountPartitions,
    CreateJoinToken,
    DescribeNode,
    DescribeReplicas,
    ListClients,
    ReadHistory,
    UpgradeCluster,
)
from flotilla.types.operations.group_expiry import ExpireGroup
from flotilla.types.operations.queue import LeaseRange
from flotilla.types.operations.waiting import DeliverNow, ListBlockedKeys, ListDelayed, ReadDueTimes

_ERRORS = {error.row.name: error for error in ALL_ERRORS}
_PLACES = {
    ops.EARLIEST: pb.Start.EARLIEST,
    ops.LATEST: pb.Start.LATEST,
    queue.FROM_OFFSET: pb.Start.OFFSET,
    queue.FROM_TIME: pb.Start.TIME,
}
_NACKS = {queue.FAIL: pb.NackRequest.FAIL, queue.RELEASE: pb.NackRequest.RELEASE, queue.REJECT: pb.NackRequest.REJECT}


class Grpc:
    """Over a socket, with generated stubs and nothing of the client."""

    #: What only nodes ask each other, and what operators do with the command line.
    LACKS: tuple[type[Request], ...] = (
        # The stream of gRPC is another contract: tests/unit/frontends/grpc/test_streams.py has it.
        ops.Subscribe,
        ops.AddCredit,
        ops.Unsubscribe,
        ops.CreateAdministrator,
        ops.CreateUser,
        ops.SetPassword,
        ops.DeleteUser,
        ops.ListUsers,
        ops.GrantAccess,
        ops.RevokeAccess,
        ops.ListGrants,
        ops.AssignRole,
        ops.UnassignRole,
        ops.ListRoles,
        ops.SetQuota,
        ops.RemoveQuota,
        ops.ListQuotas,
        ops.InitCluster,
        ops.JoinCluster,
        ops.RemoveNode,
        ExpireGroup,
        queue.TakeTokens,
        CreateJoinToken,
        UpgradeCluster,
        DescribeNode,
        DescribeReplicas,
        ListClients,
        ReadHistory,
        CountPartitions,
        ReadDueTimes,
        ListBlockedKeys,
        ListDelayed,
        DeliverNow,
        ops.ReadLog,
        ops.ReadSnapshot,
        ops.HoldSettlements,
        stream.FenceGroup,
        stream.ForgetGroup,
        transactions.ListTransactions,
        transactions.ListOpenTransactions,
        transactions.ForgetTransaction,
    )

    def __init__(self, server: Server) -> None:
        self._server = server

    async def open(self) -> None:
        options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
        self._channel = grpc.aio.insecure_channel(self._server.grpc_address, options=options)
        self._stub: Any = FlotillaStub(self._channel)

    async def close(self) -> None:
        await self._channel.close()

    async def call(self, request: Request) -> Reply | FlotillaError:
        try:
            return await _CALLS[type(request)](self._stub, request)
        except grpc.aio.AioRpcError as failure:
            error = error_of(failure)
            if isinstance(error, LeaseExpiredError) and isinstance(request, queue.Settle | queue.Extend):
                return queue.Settled(list(request.leases))
            return error


def error_of(failure: grpc.aio.AioRpcError) -> FlotillaError:
    """From its trailing metadata alone."""
    trailing = dict(failure.trailing_metadata() or ())
    kind = _ERRORS[str(trailing["flotilla-error"])]
    assert failure.code().name == kind.row.grpc_status
    assert trailing["flotilla-code"] == str(kind.row.code)
    assert trailing["flotilla-retryable"] == str(kind.row.retryable).lower()
    return NotLeaderError() if kind is NotLeaderError else kind(failure.details())


def _start(start: queue.Start) -> pb.Start:
    return pb.Start(place=_PLACES[start.kind], value=max(start.value, 0))


def _held(partition: int, held: list[LeaseRange]) -> list[pb.Held]:
    return [
        pb.Held(partition=partition, lease_id=run.lease_id, first=run.first, count=run.end - run.first) for run in held
    ]


async def _produce(stub: Any, request: ops.Produce) -> Reply:
    message = pb.ProduceRequest(topic=request.topic, partition=request.partition, batch=bytes(request.batch))
    reply = await stub.Produce(message)
    if reply.known_positions:
        return ops.Produced(0, known=list(zip(reply.known_positions, reply.known_offsets, strict=True)))
    (receipt,) = reply.receipts
    return ops.Produced(receipt.offset, receipt.duplicate)


async def _fetch(stub: Any, request: ops.Fetch) -> Reply:
    reply = await stub.Fetch(
        pb.FetchRequest(
            topic=request.topic,
            partition=request.partition,
            offset=request.offset,
            max_bytes=request.max_bytes,
            wait_ms=request.wait_ms,
            batches=True,
            any_replica=request.is_any_replica,
            linearizable=request.is_linearizable,
            types=request.types,
            headers=[pb.Header(name=name, value=value) for name, value in request.headers],
        )
    )
    return ops.Fetched(list(reply.batches), reply.log_start, reply.next_offset, reply.resume_offset)


async def _list_offsets(stub: Any, request: ops.ListOffsets) -> Reply:
    message = pb.ListOffsetsRequest(topic=request.topic, partition=request.partition, timestamp_ms=request.timestamp_ms)
    return ops.OffsetFound((await stub.ListOffsets(message)).offset)


async def _commit_offset(stub: Any, request: ops.CommitOffset) -> Reply:
    message = pb.CommitOffsetRequest(
        group=request.group,
        topic=request.topic,
        partition=request.partition,
        offset=request.offset,
        reset=request.reset,
        epoch=request.epoch,
        as_of=request.as_of,
    )
    return _position(await stub.CommitOffset(message))


def _position(reply: pb.OffsetReply) -> Reply:
    return ops.OffsetCommitted(reply.offset, reply.as_of)


async def _read_offset(stub: Any, request: ops.ReadOffset) -> Reply:
    place = {"group": request.group, "topic": request.topic, "partition": request.partition}
    return _position(await stub.ReadOffset(pb.ReadOffsetRequest(**place, is_optional=request.is_optional)))


# Topics and the cluster.


def _topic(topic: pb.Topic) -> ops.TopicInfo:
    parts = [ops.PartitionInfo(each.number, each.leader, list(each.replicas), each.term) for each in topic.partitions]
    return ops.TopicInfo(topic.name, topic.topic_id, parts, dict(topic.settings))


async def _metadata(stub: Any, request: ops.GetMetadata) -> Reply:
    found = await stub.Describe(pb.DescribeRequest(topics=request.topics, create=request.create))
    brokers = [
        ops.BrokerInfo(each.node, each.client, each.http, each.alive, each.state, each.grpc) for each in found.brokers
    ]
    topics = [_topic(topic) for topic in found.topics]
    return ops.Metadata(found.cluster_id, found.controller, brokers, topics, found.cluster_name)


async def _create_topic(stub: Any, request: ops.CreateTopic) -> Reply:
    message = pb.CreateTopicRequest(
        topic=request.topic,
        partitions=request.partitions,
        replication_factor=request.replication_factor,
        settings=request.settings,
    )
    return ops.TopicReply(_topic(await stub.CreateTopic(message)))


async def _alter_topic(stub: Any, request: ops.AlterTopic) -> Reply:
    message = pb.AlterTopicRequest(topic=request.topic, partitions=request.partitions, settings=request.settings)
    return ops.TopicReply(_topic(await stub.AlterTopic(message)))


async def _trim(stub: Any, request: ops.TrimPartition) -> Reply:
    message = pb.TrimTopicRequest(topic=request.topic, offsets={request.partition: request.offset})
    return ops.PartitionTrimmed((await stub.TrimTopic(message)).log_starts[request.partition])


async def _delete_topic(stub: Any, request: ops.DeleteTopic) -> Reply:
    return ops.TopicReply(_topic(await stub.DeleteTopic(pb.DeleteTopicRequest(topic=request.topic))))


async def _transfer(stub: Any, request: ops.TransferLeadership) -> Reply:
    message = pb.TransferLeadershipRequest(topic=request.topic, partition=request.partition, to=request.to)
    await stub.TransferLeadership(message)
    return ops.Done()


# Queue groups.


async def _poll(stub: Any, request: queue.Poll) -> Reply:
    reply = await stub.Poll(
        pb.PollRequest(
            topic=request.topic,
            group=request.group,
            member=request.member,
            partitions=request.partitions,
            max_messages=request.max_messages,
            max_bytes=request.max_bytes,
            visibility_ms=request.visibility_ms,
            wait_ms=request.wait_ms,
            auto_ack=request.is_auto_ack,
            ordered_by_key=request.is_ordered_by_key,
            start=_start(request.start),
            batches=True,
            types=request.types,
            headers=[pb.Header(name=name, value=value) for name, value in request.headers],
        )
    )
    deliveries = [
        queue.Delivery(each.partition, each.lease_id, each.first, each.count, each.attempt, each.batch)
        for each in reply.deliveries
    ]
    return queue.Polled(deliveries, reply.visibility_ms, reply.retry_after_ms)


async def _settle(stub: Any, request: queue.Settle) -> Reply:
    held = _held(request.partition, request.leases)
    if request.kind == queue.ACK:
        results = [
            pb.Result(partition=request.partition, offset=each.offset, payload=each.payload) for each in request.results
        ]
        reply = await stub.Ack(pb.AckRequest(topic=request.topic, group=request.group, held=held, results=results))
    else:
        delay_ms = None if request.delay_ms == queue.BY_BACKOFF else request.delay_ms
        reply = await stub.Nack(
            pb.NackRequest(
                topic=request.topic,
                group=request.group,
                held=held,
                kind=_NACKS.get(request.kind, request.kind),
                reason=request.reason,
                delay_ms=delay_ms,
            )
        )
    return _settled(reply)


async def _extend(stub: Any, request: queue.Extend) -> Reply:
    message = pb.ExtendRequest(
        topic=request.topic,
        group=request.group,
        member=request.member,
        held=_held(request.partition, request.leases),
        visibility_ms=request.visibility_ms,
    )
    return _settled(await stub.Extend(message))


async def _leave_queue(stub: Any, request: queue.LeaveQueue) -> Reply:
    await stub.LeaveQueue(pb.LeaveQueueRequest(topic=request.topic, group=request.group, member=request.member))
    return ops.Done()


def _settled(reply: pb.SettleReply) -> Reply:
    return queue.Settled([LeaseRange(run.lease_id, run.first, run.first + run.count) for run in reply.expired_held])


async def _read_results(stub: Any, request: queue.ReadResults) -> Reply:
    message = pb.ReadResultsRequest(
        topic=request.topic,
        partition=request.partition,
        group=request.group,
        offsets=request.offsets,
        wait_ms=request.wait_ms,
    )
    found = (await stub.ReadResults(message)).ended
    return queue.ResultsRead(
        [queue.EndedMessage(each.offset, each.state, each.result, each.reason, each.attempts) for each in found]
    )


async def _cancel(stub: Any, request: queue.CancelRecords) -> Reply:
    message = pb.CancelMessagesRequest(
        topic=request.topic, partition=request.partition, offsets=request.offsets, idempotency_keys=request.keys
    )
    return queue.RecordsCancelled([each.offset for each in (await stub.CancelMessages(message)).cancelled])


async def _list_groups(stub: Any, request: queue.ListGroups) -> Reply:
    message = pb.ListGroupsRequest(topic=request.topic, partitions=[request.partition])
    return queue.GroupList(dict((await stub.ListGroups(message)).groups))


async def _describe_group(stub: Any, request: queue.DescribeGroup) -> Reply:
    message = pb.DescribeGroupRequest(topic=request.topic, group=request.group, partitions=[request.partition])
    found = (await stub.DescribeGroup(message)).partitions[request.partition]
    values = {field.name: getattr(found, field.name) for field in found.DESCRIPTOR.fields}
    values["is_paused"] = values.pop("paused")
    values["members"] = [
        queue.MemberInfo(each.name, each.leased, each.last_poll_ms_ago, each.live) for each in values["members"]
    ]
    return queue.GroupDescription(**values)


async def _reset_group(stub: Any, request: queue.ResetGroup) -> Reply:
    message = pb.ResetGroupRequest(
        topic=request.topic,
        group=request.group,
        start=_start(request.start),
        partitions=[request.partition],
        dry_run=request.is_dry_run,
    )
    move = (await stub.ResetGroup(message)).partitions[request.partition]
    return queue.GroupReset(move.from_offset, move.to_offset)


async def _delete_group(stub: Any, request: queue.DeleteGroup) -> Reply:
    place = {"topic": request.topic, "group": request.group, "partitions": [request.partition]}
    await stub.DeleteGroup(pb.DeleteGroupRequest(**place, force=request.is_forced))
    return ops.Done()


async def _alter_group(stub: Any, request: queue.AlterGroup) -> Reply:
    message = pb.AlterGroupRequest(topic=request.topic, group=request.group, settings=request.settings)
    return queue.GroupReply(dict((await stub.AlterGroup(message)).settings))


async def _explain(stub: Any, request: queue.ExplainMessage) -> Reply:
    message = pb.ExplainMessageRequest(
        topic=request.topic, partition=request.partition, offset=request.offset, group=request.group
    )
    found = await stub.ExplainMessage(message)
    return queue.Explanation(
        found.state,
        found.attempts,
        found.reason,
        found.holder,
        found.remaining_ms,
        list(found.history),
        found.next,
    )


# Stream groups.


def _assignment(found: pb.GroupAssignment) -> Reply:
    owned = [stream.Owned(each.partition, each.epoch) for each in found.partitions]
    return stream.GroupAssignment(found.generation, owned, found.session_ms)


async def _join_group(stub: Any, request: stream.JoinGroup) -> Reply:
    message = pb.JoinGroupRequest(
        topic=request.topic,
        group=request.group,
        member=request.member,
        client=request.client,
        strategy=request.strategy,
        session_ms=request.session_ms,
    )
    return _assignment(await stub.JoinGroup(message))


async def _heartbeat(stub: Any, request: stream.Heartbeat) -> Reply:
    message = pb.HeartbeatRequest(
        topic=request.topic,
        group=request.group,
        member=request.member,
        generation=request.generation,
        owned=request.owned,
        wait_ms=request.wait_ms,
    )
    return _assignment(await stub.Heartbeat(message))


async def _leave_group(stub: Any, request: stream.LeaveGroup) -> Reply:
    await stub.LeaveGroup(pb.LeaveGroupRequest(topic=request.topic, group=request.group, member=request.member))
    return ops.Done()


async def _claim(stub: Any, request: stream.ClaimPartition) -> Reply:
    message = pb.ClaimPartitionRequest(
        group=request.group, topic=request.topic, partition=request.partition, epoch=request.epoch
    )
    return ops.OffsetCommitted((await stub.ClaimPartition(message)).offset)


async def _describe_stream_group(stub: Any, request: stream.DescribeStreamGroup) -> Reply:
    found = await stub.DescribeStreamGroup(pb.GroupRequest(topic=request.topic, group=request.group))
    members = [
        stream.StreamMember(each.name, each.client, list(each.partitions), each.heard_ms_ago) for each in found.members
    ]
    return stream.StreamGroupDescription(
        found.generation,
        found.strategy,
        found.session_ms,
        members,
        found.rebalanced_ms_ago,
        found.cause,
        found.moved,
    )


async def _list_stream_groups(stub: Any, request: stream.ListStreamGroups) -> Reply:
    return stream.StreamGroupList(
        list((await stub.ListStreamGroups(pb.ListStreamGroupsRequest(topic=request.topic))).groups)
    )


# Transactions.


async def _stage(stub: Any, request: transactions.Stage) -> Reply:
    message = pb.StageRequest(
        topic=request.topic,
        partition=request.partition,
        transaction_id=request.transaction_id,
        batch=bytes(request.batch),
    )
    staged = await stub.Stage(message)
    return transactions.Staged(staged.count, staged.begun_ms, staged.topic_id)


async def _stage_ack(stub: Any, request: transactions.StageSettlement) -> Reply:
    message = pb.StageAckRequest(
        topic=request.topic,
        partition=request.partition,
        group=request.group,
        transaction_id=request.transaction_id,
        held=_held(request.partition, request.leases),
    )
    staged = await stub.StageAck(message)
    return transactions.Staged(staged.count, staged.begun_ms, staged.topic_id)


def _places(partitions: list[tuple[str, int]]) -> list[pb.TopicPartition]:
    return [pb.TopicPartition(topic=topic, partition=partition) for topic, partition in partitions]


async def _commit(stub: Any, request: transactions.CommitTransaction) -> Reply:
    message = pb.CommitTransactionRequest(
        transaction_id=request.transaction_id,
        partitions=_places(request.partitions),
        application_id=request.application_id,
        version=request.version,
        begun_ms=request.begun_ms,
        topic_ids=request.topic_ids,
    )
    return transactions.TransactionDecided((await stub.CommitTransaction(message)).repeated_version)


async def _abort(stub: Any, request: transactions.AbortTransaction) -> Reply:
    message = pb.AbortTransactionRequest(
        transaction_id=request.transaction_id,
        partitions=_places(request.partitions),
        begun_ms=request.begun_ms,
    )
    return transactions.TransactionDecided((await stub.AbortTransaction(message)).repeated_version)


async def _outcome(stub: Any, request: transactions.TransactionOutcome) -> Reply:
    message = pb.TransactionOutcomeRequest(
        topic=request.topic,
        partition=request.partition,
        transaction_id=request.transaction_id,
        wait_ms=request.wait_ms,
    )
    found = await stub.TransactionOutcome(message)
    batches = [
        transactions.StagedBatch(each.producer_id, each.producer_sequence, each.base_offset) for each in found.batches
    ]
    return transactions.TransactionShown(found.shown, batches, found.begun_ms, found.topic_id)


# Schedules.

_SAME = ("topic", "cron", "every_ms", "time_zone", "start_ms", "missed", "missed_max", "payload", "key")


def _schedule(found: pb.Schedule) -> schedules.ScheduleInfo:
    told = found.definition
    definition = schedules.ScheduleDefinition(
        **{name: getattr(told, name) for name in _SAME},
        headers=[(each.name, each.value) for each in told.headers],
        priority=told.priority,
        content_type=told.content_type,
    )
    return schedules.ScheduleInfo(
        found.name,
        found.schedule_id,
        definition,
        found.paused,
        found.created_ms,
        found.runs,
        found.last_ms,
        found.produced_ms,
        found.skipped_ms,
        list(found.upcoming_ms),
        found.error,
    )


async def _create_schedule(stub: Any, request: schedules.CreateSchedule) -> Reply:
    given = request.definition
    definition = pb.ScheduleDefinition(
        **{name: getattr(given, name) for name in _SAME},
        headers=[pb.Header(name=name, value=value) for name, value in given.headers],
        priority=given.priority,
        content_type=given.content_type,
    )
    message = pb.CreateScheduleRequest(name=request.name, definition=definition, update=request.is_update)
    return schedules.ScheduleReply(_schedule((await stub.CreateSchedule(message)).schedule))


async def _pause_schedule(stub: Any, request: schedules.PauseSchedule) -> Reply:
    change = stub.PauseSchedule if request.is_paused else stub.ResumeSchedule
    return schedules.ScheduleReply(_schedule((await change(pb.ScheduleRequest(name=request.name))).schedule))


async def _run_schedule(stub: Any, request: schedules.RunSchedule) -> Reply:
    found = await stub.RunSchedule(pb.ScheduleRequest(name=request.name))
    return schedules.ScheduleReply(_schedule(found.schedule))


async def _delete_schedule(stub: Any, request: schedules.DeleteSchedule) -> Reply:
    found = await stub.DeleteSchedule(pb.ScheduleRequest(name=request.name))
    return schedules.ScheduleReply(_schedule(found.schedule))


async def _list_schedules(stub: Any, request: schedules.ListSchedules) -> Reply:
    message = pb.ListSchedulesRequest(name=request.name, after=request.after, upcoming=request.upcoming)
    return schedules.ScheduleList([_schedule(each) for each in (await stub.ListSchedules(message)).schedules])


_CALLS: dict[type[Request], Callable[[Any, Any], Awaitable[Reply]]] = {
    ops.Produce: _produce,
    ops.Fetch: _fetch,
    ops.ListOffsets: _list_offsets,
    ops.CommitOffset: _commit_offset,
    ops.ReadOffset: _read_offset,
    ops.GetMetadata: _metadata,
    ops.CreateTopic: _create_topic,
    ops.AlterTopic: _alter_topic,
    ops.DeleteTopic: _delete_topic,
    ops.TrimPartition: _trim,
    ops.TransferLeadership: _transfer,
    queue.Poll: _poll,
    queue.Settle: _settle,
    queue.ReadResults: _read_results,
    queue.Extend: _extend,
    queue.LeaveQueue: _leave_queue,
    queue.CancelRecords: _cancel,
    queue.ListGroups: _list_groups,
    queue.DescribeGroup: _describe_group,
    queue.ResetGroup: _reset_group,
    queue.DeleteGroup: _delete_group,
    queue.AlterGroup: _alter_group,
    queue.ExplainMessage: _explain,
    stream.JoinGroup: _join_group,
    stream.Heartbeat: _heartbeat,
    stream.LeaveGroup: _leave_group,
    stream.ClaimPartition: _claim,
    stream.DescribeStreamGroup: _describe_stream_group,
    stream.ListStreamGroups: _list_stream_groups,
    transactions.Stage: _stage,
    transactions.StageSettlement: _stage_ack,
    transactions.CommitTransaction: _commit,
    transactions.AbortTransaction: _abort,
    transactions.TransactionOutcome: _outcome,
    schedules.CreateSchedule: _create_schedule,
    schedules.PauseSchedule: _pause_schedule,
    schedules.RunSchedule: _run_schedule,
    schedules.DeleteSchedule: _delete_schedule,
    schedules.ListSchedules: _list_schedules,
}
