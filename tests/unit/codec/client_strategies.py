"""Hypothesis strategies for everything that clients and brokers say to each other."""

from typing import Any

from hypothesis import strategies as st

from flotilla.types import access as access
from flotilla.types import operations as op
from flotilla.types.operations import cluster as cluster
from flotilla.types.operations import pipelines as pipelines
from flotilla.types.operations import queue as queue
from flotilla.types.operations import quotas as quota
from flotilla.types.operations import schedules as schedules
from flotilla.types.operations import security as security
from flotilla.types.operations import stream as streams
from flotilla.types.operations import transactions as transactions
from flotilla.types.operations import waiting as waiting
from flotilla.types.operations.group_expiry import ExpireGroup, GroupUse

u32 = st.one_of(st.integers(0, 300), st.just(2**32 - 1))
u64 = st.one_of(st.integers(0, 300), st.integers(0, 2**64 - 1), st.just(2**64 - 1))
i64 = st.one_of(st.just(op.EARLIEST), st.just(op.LATEST), st.integers(-(2**63), 2**63 - 1))
# Whatever can be written as UTF-8, names that a file system would mind included.
text = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20), st.sampled_from(["../x", "a\0b", "/", "é" * 200])
)
settings = st.dictionaries(text, text, max_size=3)
nodes = st.dictionaries(u64, text, max_size=3)
batches = st.one_of(
    st.binary(max_size=40),
    st.integers(4090, 4100).map(lambda size: b"\xa5" * size),
    st.integers(4090, 4100).map(lambda size: memoryview(b"\x5a" * size)),
)
flags = st.booleans()

node_lists = st.lists(u64, max_size=3)
partitions = st.builds(op.PartitionInfo, number=u32, leader=u64, replicas=node_lists, term=u64, target=node_lists)
topics = st.builds(
    op.TopicInfo, name=text, topic_id=u64, partitions=st.lists(partitions, max_size=3), settings=settings, owner=text
)
brokers = st.builds(
    op.BrokerInfo,
    node=u64,
    client=text,
    http=text,
    is_alive=flags,
    state=text,
    version=text,
    cluster_version_max=u32,
    zone=text,
)
moves = st.builds(cluster.PlannedMove, topic=text, partition=u32, replicas=node_lists, target=node_lists)
replicas = st.builds(cluster.ReplicaInfo, node=u64, role=text, is_alive=flags, behind_entries=u64, behind_bytes=u64)

runs = st.builds(
    lambda lease_id, first, count: queue.LeaseRange(lease_id, first, first + count),
    u64,
    st.integers(0, 2**53),
    st.integers(1, 2**20),
)
leases = st.lists(runs, max_size=4)
starts = st.builds(
    queue.Start, st.sampled_from([op.EARLIEST, op.LATEST, queue.FROM_OFFSET, queue.FROM_TIME]), st.integers(0, 2**53)
)
deliveries = st.lists(
    st.builds(queue.Delivery, partition=u32, lease_id=u64, first=u64, count=u32, attempt=u32, batch=batches), max_size=3
)
members = st.builds(queue.MemberInfo, name=text, leased=u64, last_poll_ms_ago=u64, is_live=st.booleans())
verifiers = st.builds(
    access.Verifier,
    salt=st.binary(max_size=20),
    iterations=u32,
    stored_key=st.binary(max_size=40),
    server_key=st.binary(max_size=40),
)
grants = st.builds(access.Grant, user=text, action=text, topic=text, group=text)
roles = st.builds(security.RoleOfUser, user=text, role=text)
quotas = st.builds(quota.Quota, text, text, u64, u64, u64, u64, u64, u64)
reports = st.builds(
    pipelines.Pipeline, text, text, st.lists(text, max_size=2), text, *[u64] * 7, lake=text, lake_bytes=u64,
    lake_rows=u64, lake_files=u64, lake_verified_ms=u64,
)  # fmt: skip
users = st.builds(security.UserInfo, name=text, created_ms=u64, password_ms=u64)
polls = {
    "topic": text,
    "group": text,
    "member": text,
    "partitions": st.lists(u32, max_size=3),
    "visibility_ms": u32,
    "is_auto_ack": flags,
    "is_ordered_by_key": flags,
    "start": starts,
}
partition = {"topic": text, "partition": u32}
participants = st.lists(st.tuples(text, u32), max_size=3)
staged = st.lists(
    st.builds(transactions.StagedBatch, producer_id=u64, producer_sequence=u32, base_offset=u64), max_size=3
)

member = {"topic": text, "group": text, "member": text}
stream_members = st.builds(
    streams.StreamMember, name=text, client=text, partitions=st.lists(u32, max_size=3), heard_ms_ago=u64
)

definitions = st.builds(
    schedules.ScheduleDefinition,
    topic=text,
    cron=text,
    every_ms=u64,
    time_zone=text,
    start_ms=u64,
    missed=text,
    missed_max=u32,
    payload=st.binary(max_size=9),
    key=st.binary(max_size=9),
    headers=st.lists(st.tuples(text, st.binary(max_size=9)), max_size=2),
    priority=u32,
    content_type=u32,
)
schedule_infos = st.builds(
    schedules.ScheduleInfo,
    name=text,
    schedule_id=u64,
    definition=definitions,
    is_paused=flags,
    created_ms=u64,
    runs=u64,
    last_ms=u64,
    produced_ms=u64,
    skipped_ms=u64,
    upcoming_ms=st.lists(u64, max_size=3),
    error=text,
)

REQUESTS: dict[type, st.SearchStrategy[Any]] = {
    op.Hello: st.builds(op.Hello, version_min=u32, version_max=u32, client=text, is_gateway=st.booleans()),
    op.Produce: st.builds(op.Produce, topic=text, partition=u32, batch=batches, owner=text),
    op.Fetch: st.builds(
        op.Fetch,
        topic=text,
        partition=u32,
        offset=u64,
        max_bytes=u32,
        wait_ms=u32,
        key=st.none() | st.binary(max_size=9),
        contains=text,
    ),
    op.ListOffsets: st.builds(op.ListOffsets, topic=text, partition=u32, timestamp_ms=i64),
    op.TrimPartition: st.builds(op.TrimPartition, topic=text, partition=u32, offset=u64, topic_id=u64),
    op.CommitOffset: st.builds(
        op.CommitOffset, group=text, topic=text, partition=u32, offset=u64, reset=flags, epoch=u64, as_of=u64
    ),
    op.ReadOffset: st.builds(op.ReadOffset, group=text, topic=text, partition=u32, is_optional=flags),
    op.GetMetadata: st.builds(
        op.GetMetadata, topics=st.lists(text, max_size=3), is_linearizable=st.booleans(), owner=text
    ),
    op.CreateTopic: st.builds(
        op.CreateTopic, topic=text, partitions=u32, replication_factor=u32, settings=settings, owner=text
    ),
    op.AlterTopic: st.builds(op.AlterTopic, topic=text, partitions=u32, settings=settings, replication_factor=u32),
    op.DeleteTopic: st.builds(op.DeleteTopic, topic=text),
    op.InitCluster: st.builds(op.InitCluster, nodes=nodes),
    op.JoinCluster: st.builds(
        op.JoinCluster, node=u64, peer=text, client=text, incarnation=u64, token=st.binary(max_size=70), version_max=u32
    ),
    cluster.UpgradeCluster: st.builds(cluster.UpgradeCluster, version=u32, is_dry_run=flags),
    cluster.EnterCluster: st.builds(
        cluster.EnterCluster, servers=st.lists(text, max_size=3), token=st.binary(max_size=70)
    ),
    cluster.CreateJoinToken: st.builds(cluster.CreateJoinToken, digest=st.binary(max_size=40), ttl_ms=u64),
    cluster.DrainNode: st.builds(cluster.DrainNode, node=u64, is_draining=flags),
    cluster.Rebalance: st.builds(cluster.Rebalance, topics=st.lists(text, max_size=3), is_dry_run=flags),
    cluster.CancelMoves: st.builds(cluster.CancelMoves, topics=st.lists(text, max_size=3)),
    cluster.DescribeNode: st.builds(cluster.DescribeNode),
    cluster.ListClients: st.builds(cluster.ListClients, limit=u32),
    cluster.ReadHistory: st.builds(cluster.ReadHistory),
    cluster.CountPartitions: st.builds(cluster.CountPartitions),
    waiting.ReadDueTimes: st.builds(waiting.ReadDueTimes, group=text, **partition),
    waiting.ListDelayed: st.builds(
        waiting.ListDelayed, group=text, limit=u32, from_ms=u64, from_offset=u64, **partition
    ),
    waiting.DeliverNow: st.builds(waiting.DeliverNow, offsets=st.lists(u64, max_size=3), group=text, **partition),
    waiting.ListBlockedKeys: st.builds(waiting.ListBlockedKeys, group=text, limit=u32, **partition),
    op.ReadLog: st.builds(op.ReadLog, topic=text, partition=u32, first_index=u64, last_index=u64),
    op.ReadSnapshot: st.builds(op.ReadSnapshot, topic=text, partition=u32, index=u64, offset=u64),
    op.HoldSettlements: st.builds(op.HoldSettlements, hold_id=text, hold_ms=u32),
    cluster.DescribeReplicas: st.builds(cluster.DescribeReplicas, topic=text, partition=u32),
    op.RemoveNode: st.builds(op.RemoveNode, node=u64),
    op.TransferLeadership: st.builds(op.TransferLeadership, topic=text, partition=u32, to=u64),
    queue.Poll: st.builds(
        queue.Poll, max_messages=u32, max_bytes=u32, wait_ms=u32, types=st.lists(text, max_size=3), **polls
    ),
    queue.Settle: st.builds(
        queue.Settle,
        group=text,
        kind=u32,
        leases=leases,
        reason=text,
        delay_ms=i64,
        members=st.lists(text, max_size=3),
        topic_id=u64,
        results=st.lists(st.builds(queue.MessageResult, u64, st.binary(max_size=9), flags), max_size=3),
        **partition,
    ),
    queue.Extend: st.builds(
        queue.Extend, group=text, member=text, leases=leases, visibility_ms=u32, topic_id=u64, **partition
    ),
    queue.Subscribe: st.builds(queue.Subscribe, credit=u32, presents=flags, max_bytes=u32, **polls),
    queue.AddCredit: st.builds(queue.AddCredit, subscription=u64, messages=u32),
    queue.Unsubscribe: st.builds(queue.Unsubscribe, subscription=u64),
    op.Ping: st.builds(op.Ping),
    queue.Withdraw: st.builds(queue.Withdraw, request=u64),
    queue.CancelRecords: st.builds(
        queue.CancelRecords,
        offsets=st.lists(u64, max_size=3),
        keys=st.lists(st.binary(max_size=9), max_size=3),
        topic_id=u64,
        **partition,
    ),
    queue.ReadResults: st.builds(
        queue.ReadResults, group=text, offsets=st.lists(u64, max_size=3), wait_ms=u32, topic_id=u64, **partition
    ),
    queue.ListGroups: st.builds(queue.ListGroups, **partition),
    queue.DescribeGroup: st.builds(queue.DescribeGroup, group=text, **partition),
    queue.ResetGroup: st.builds(queue.ResetGroup, group=text, start=starts, is_dry_run=flags, epoch=u64, **partition),
    queue.DeleteGroup: st.builds(queue.DeleteGroup, group=text, is_forced=st.booleans(), **partition),
    queue.LeaveQueue: st.builds(queue.LeaveQueue, group=text, member=text, **partition),
    queue.AlterGroup: st.builds(queue.AlterGroup, topic=text, group=text, settings=settings),
    queue.ExplainMessage: st.builds(
        queue.ExplainMessage, offset=u64, group=text, topic_id=u64, has_record=flags, **partition
    ),
    ExpireGroup: st.builds(ExpireGroup, group=text, step=u32, topic_id=u64, **partition),
    queue.TakeTokens: st.builds(queue.TakeTokens, topic=text, group=text, tokens=u64),
    transactions.Stage: st.builds(
        transactions.Stage, transaction_id=text, batch=batches, timeout_ms=u32, member=text, **partition
    ),
    transactions.StageSettlement: st.builds(
        transactions.StageSettlement,
        group=text,
        transaction_id=text,
        leases=leases,
        timeout_ms=u32,
        member=text,
        results=st.lists(st.builds(queue.MessageResult, u64, st.binary(max_size=9), flags), max_size=3),
        **partition,
    ),
    transactions.CommitTransaction: st.builds(
        transactions.CommitTransaction,
        transaction_id=text,
        partitions=participants,
        application_id=text,
        version=u64,
        members=st.lists(st.tuples(text, st.lists(u32, max_size=3)), max_size=3),
        begun_ms=u64,
        owner=text,
        topic_ids=st.lists(u64, max_size=3),
    ),
    transactions.AbortTransaction: st.builds(
        transactions.AbortTransaction, transaction_id=text, partitions=participants, begun_ms=u64
    ),
    transactions.ListTransactions: st.builds(transactions.ListTransactions, limit=u32),
    transactions.ListOpenTransactions: st.builds(transactions.ListOpenTransactions, **partition),
    transactions.ForgetTransaction: st.builds(transactions.ForgetTransaction, transaction_id=text, application_id=text),
    transactions.TransactionOutcome: st.builds(
        transactions.TransactionOutcome, transaction_id=text, wait_ms=u32, **partition
    ),
    streams.JoinGroup: st.builds(streams.JoinGroup, client=text, strategy=text, session_ms=u32, **member),
    streams.Heartbeat: st.builds(
        streams.Heartbeat, generation=u64, owned=st.lists(u32, max_size=4), wait_ms=u32, **member
    ),
    streams.LeaveGroup: st.builds(streams.LeaveGroup, **member),
    streams.ClaimPartition: st.builds(streams.ClaimPartition, group=text, epoch=u64, **partition),
    streams.DescribeStreamGroup: st.builds(streams.DescribeStreamGroup, topic=text, group=text),
    streams.ListStreamGroups: st.builds(streams.ListStreamGroups, topic=text),
    streams.FenceGroup: st.builds(streams.FenceGroup, topic=text, group=text),
    streams.ForgetGroup: st.builds(streams.ForgetGroup, topic=text, group=text, is_forced=st.booleans()),
    schedules.CreateSchedule: st.builds(schedules.CreateSchedule, name=text, definition=definitions, is_update=flags),
    schedules.PauseSchedule: st.builds(schedules.PauseSchedule, name=text, is_paused=flags),
    schedules.DeleteSchedule: st.builds(schedules.DeleteSchedule, name=text),
    schedules.RunSchedule: st.builds(schedules.RunSchedule, name=text),
    schedules.ListSchedules: st.builds(schedules.ListSchedules, name=text, after=text, upcoming=u32),
    op.Authenticate: st.builds(op.Authenticate, mechanism=text, data=st.binary(max_size=40)),
    security.CreateUser: st.builds(security.CreateUser, name=text, verifier=verifiers),
    security.SetPassword: st.builds(security.SetPassword, name=text, verifier=verifiers),
    security.DeleteUser: st.builds(security.DeleteUser, name=text),
    security.CreateAdministrator: st.builds(security.CreateAdministrator, name=text, verifier=verifiers),
    security.ListUsers: st.just(security.ListUsers()),
    security.GrantAccess: st.builds(security.GrantAccess, grant=grants),
    security.RevokeAccess: st.builds(security.RevokeAccess, grant=grants),
    security.ListGrants: st.builds(security.ListGrants, user=text),
    security.AssignRole: st.builds(security.AssignRole, user=text, role=text),
    security.UnassignRole: st.builds(security.UnassignRole, user=text, role=text),
    security.ListRoles: st.just(security.ListRoles()),
    quota.SetQuota: st.builds(quota.SetQuota, quota=quotas),
    quota.RemoveQuota: st.builds(quota.RemoveQuota, user=text, namespace=text),
    quota.ListQuotas: st.just(quota.ListQuotas()),
    pipelines.ReportPipeline: st.builds(pipelines.ReportPipeline, pipeline=reports, is_over=st.booleans()),
    pipelines.ListPipelines: st.just(pipelines.ListPipelines()),
}

REPLIES: dict[type, st.SearchStrategy[Any]] = {
    op.Welcome: st.builds(
        op.Welcome,
        version=u32,
        node=u64,
        cluster_id=text,
        frame_bytes_max=u32,
        requests_max=u32,
        time_ms=u64,
        mechanisms=st.lists(text, max_size=2),
    ),
    op.Produced: st.builds(
        op.Produced, base_offset=u64, duplicate=flags, known=st.lists(st.tuples(u32, u64), max_size=3)
    ),
    op.Fetched: st.builds(op.Fetched, batches=st.lists(batches, max_size=3), log_start=u64, next_offset=u64),
    op.OffsetFound: st.builds(op.OffsetFound, offset=i64),
    op.PartitionTrimmed: st.builds(op.PartitionTrimmed, log_start=u64),
    op.OffsetCommitted: st.builds(op.OffsetCommitted, offset=i64, as_of=u64),
    op.Metadata: st.builds(
        op.Metadata,
        cluster_id=text,
        controller=u64,
        brokers=st.lists(brokers, max_size=3),
        topics=st.lists(topics, max_size=3),
        cluster_name=text,
    ),
    op.TopicReply: st.builds(op.TopicReply, topic=topics),
    cluster.ClusterUpgraded: st.builds(cluster.ClusterUpgraded, version=u32, before=u32),
    op.ClusterReply: st.builds(op.ClusterReply, cluster_id=text, peers=nodes, cluster_name=text),
    op.Done: st.builds(op.Done),
    cluster.MovesPlanned: st.builds(cluster.MovesPlanned, moves=st.lists(moves, max_size=3)),
    cluster.ReplicasDescribed: st.builds(
        cluster.ReplicasDescribed, replicas=st.lists(replicas, max_size=3), size_bytes=u64
    ),
    cluster.NodeDescribed: st.builds(
        cluster.NodeDescribed,
        node=u64,
        warnings=st.lists(
            st.builds(cluster.NodeWarning, code=text, message=text, node=u64, partitions=st.lists(text, max_size=2)),
            max_size=2,
        ),
        version=text,
        uptime_ms=u64,
        disk_free_bytes=u64,
        disk_total_bytes=u64,
    ),
    cluster.ClientList: st.builds(
        cluster.ClientList,
        node=u64,
        clients=st.lists(
            st.builds(
                cluster.ConnectedClient,
                endpoint=text,
                name=text,
                address=text,
                principal=text,
                connected_ms=u64,
                in_flight=u32,
            ),
            max_size=2,
        ),
        total=u32,
    ),
    cluster.HistoryRead: st.builds(
        cluster.HistoryRead,
        node=u64,
        step_ms=u32,
        end_ms=u64,
        series=st.lists(st.builds(cluster.RateSeries, name=text, values=st.lists(u64, max_size=3)), max_size=2),
    ),
    cluster.PartitionCounts: st.builds(
        cluster.PartitionCounts,
        topics=u32,
        partitions=u32,
        without_leader=u32,
        leads=st.dictionaries(u64, u32, max_size=2),
        replicas=st.dictionaries(u64, u32, max_size=2),
        moving=u32,
        moves=st.lists(moves, max_size=2),
    ),
    waiting.DueTimes: st.builds(waiting.DueTimes, counts=st.lists(u64, max_size=3), is_estimated=flags),
    waiting.DelayedMessages: st.builds(
        waiting.DelayedMessages,
        messages=st.lists(
            st.builds(waiting.DelayedMessage, offset=u64, due_ms=u64, attempts=u32, reason=text), max_size=2
        ),
        has_more=flags,
        is_cut=flags,
    ),
    waiting.DeliveredNow: st.builds(waiting.DeliveredNow, offsets=st.lists(u64, max_size=3)),
    waiting.BlockedKeys: st.builds(
        waiting.BlockedKeys,
        keys=st.lists(
            st.builds(
                waiting.BlockedKey,
                key=st.binary(max_size=5),
                offset=u64,
                state=text,
                holder=text,
                remaining_ms=u64,
                attempts=u32,
                reason=text,
                blocked=u64,
            ),
            max_size=2,
        ),
        key_count=u64,
        message_count=u64,
    ),
    queue.Polled: st.builds(queue.Polled, deliveries=deliveries, visibility_ms=u32, retry_after_ms=u32),
    queue.Settled: st.builds(queue.Settled, expired=leases, settled=leases),
    queue.Pushed: st.builds(
        queue.Pushed,
        deliveries=deliveries,
        visibility_ms=u32,
        lag=st.integers(-1, 2**62),
        left_partitions=st.lists(u32, max_size=3),
    ),
    queue.RecordsCancelled: st.builds(queue.RecordsCancelled, offsets=st.lists(u64, max_size=3)),
    queue.GroupList: st.builds(queue.GroupList, groups=settings),
    queue.GroupDescription: st.builds(
        queue.GroupDescription,
        kind=text,
        is_paused=flags,
        members=st.lists(members, max_size=2),
        **{
            name: u64
            for name in queue.GroupDescription.__slots__
            if name not in ("kind", "is_paused", "members", "partition_count")
        },
        partition_count=u32,
    ),
    queue.GroupReset: st.builds(queue.GroupReset, from_offset=u64, to_offset=u64),
    queue.GroupReply: st.builds(queue.GroupReply, settings=settings),
    queue.Explanation: st.builds(
        queue.Explanation,
        state=text,
        attempts=u32,
        reason=text,
        holder=text,
        remaining_ms=u64,
        history=st.lists(text, max_size=3),
        next=text,
        ended_ms=st.integers(0, 2**53),
        batch=st.binary(max_size=40),
    ),
    queue.ResultsRead: st.builds(
        queue.ResultsRead,
        st.lists(st.builds(queue.EndedMessage, u64, text, st.binary(max_size=9), text, u32), max_size=3),
    ),
    GroupUse: st.builds(GroupUse, is_known=flags, unused_ms=u64, is_held=flags),
    queue.TokensGranted: st.builds(queue.TokensGranted, tokens=u64, retry_after_ms=u64),
    transactions.Staged: st.builds(transactions.Staged, count=u64, begun_ms=u64, topic_id=u64),
    transactions.TransactionList: st.builds(
        transactions.TransactionList,
        awaited=st.lists(
            st.builds(
                transactions.AwaitedTransaction,
                transaction_id=text,
                application_id=text,
                version=u64,
                decided_at_ms=u64,
                partitions=participants,
            ),
            max_size=3,
        ),
        awaited_count=u64,
        remembered_count=u64,
        forgotten_ms=u64,
        application_count=u64,
        idle_application_count=u64,
    ),
    transactions.OpenTransactionList: st.builds(
        transactions.OpenTransactionList,
        transactions=st.lists(
            st.builds(
                transactions.OpenTransaction,
                transaction_id=text,
                begun_ms=u64,
                timeout_ms=u64,
                record_count=u64,
                ack_count=u64,
            ),
            max_size=3,
        ),
    ),
    transactions.TransactionDecided: st.builds(transactions.TransactionDecided, is_repeated=flags),
    transactions.TransactionShown: st.builds(
        transactions.TransactionShown, is_shown=flags, batches=staged, begun_ms=u64, topic_id=u64
    ),
    streams.GroupAssignment: st.builds(
        streams.GroupAssignment,
        generation=u64,
        partitions=st.lists(st.builds(streams.Owned, partition=u32, epoch=u64), max_size=4),
        session_ms=u32,
    ),
    streams.StreamGroupDescription: st.builds(
        streams.StreamGroupDescription,
        generation=u64,
        strategy=text,
        session_ms=u32,
        members=st.lists(stream_members, max_size=2),
        rebalanced_ms_ago=u64,
        cause=text,
        moved=u32,
    ),
    streams.StreamGroupList: st.builds(streams.StreamGroupList, groups=st.lists(text, max_size=3)),
    schedules.ScheduleReply: st.builds(schedules.ScheduleReply, schedule=schedule_infos),
    schedules.ScheduleList: st.builds(schedules.ScheduleList, schedules=st.lists(schedule_infos, max_size=2)),
    op.Challenge: st.builds(op.Challenge, data=st.binary(max_size=40), is_done=flags),
    security.UserList: st.builds(security.UserList, users=st.lists(users, max_size=2)),
    security.GrantList: st.builds(security.GrantList, grants=st.lists(grants, max_size=2)),
    security.RoleList: st.builds(security.RoleList, roles=st.lists(roles, max_size=2)),
    op.LogRead: st.builds(
        op.LogRead,
        group=u64,
        base_index=u64,
        base_term=u64,
        last_index=u64,
        last_term=u64,
        snapshot_index=u64,
        snapshot_term=u64,
        snapshot_bytes=u64,
        entries=st.binary(max_size=40),
    ),
    op.SnapshotRead: st.builds(op.SnapshotRead, data=st.binary(max_size=40)),
    op.SettlementsHeld: st.builds(op.SettlementsHeld, node=u64, is_held=flags),
    pipelines.PipelineList: st.builds(pipelines.PipelineList, pipelines=st.lists(reports, max_size=2)),
    quota.QuotaList: st.builds(
        quota.QuotaList,
        quotas=st.lists(quotas, max_size=2),
        usage=st.lists(st.builds(quota.QuotaUsage, u64, u64), max_size=2),
    ),
}

requests = st.one_of(*REQUESTS.values())
replies = st.one_of(*REPLIES.values())
