"""The state machine of the metadata group: committed commands in, replies and answers out.

Deterministic and total: an invalid entry is answered with an error and changes nothing. A command is checked first
(`rules`), wholly, and only then changes the tables (`state`). The applied index is part of the state, so that no entry
can be applied twice, also after a restart.

In a cluster of a version that this program does not support, entries may have a meaning that it does not know: the
machine raises for the first of those, and its replica is cut off. Skipping it would make this state another one.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from hashlib import sha256
from typing import Any, Protocol

from flotilla.metadata.commands import (
    AlterGroup,
    AlterTopic,
    Command,
    CommitTogether,
    ConfirmRemoved,
    ConfirmTransaction,
    CreateOwnedTopic,
    CreateTopic,
    DecideTransaction,
    DeleteTopic,
    ForgetTransaction,
    InitCluster,
    LabelNode,
    RegisterBroker,
    RemoveBroker,
    SetBrokerState,
    SetClusterVersion,
    decode_command,
)
from flotilla.metadata.move_commands import ConfirmLost, FinishMove, PlanMoves, ResizeTopic, SetIncarnation
from flotilla.metadata.move_rules import resized
from flotilla.metadata.placement import place
from flotilla.metadata.queries import (
    AssignmentOf,
    AssignmentsTo,
    DescribeCluster,
    ListBrokers,
    ListSchedules,
    ListTopics,
    StateHash,
    TombstonesFor,
    TopicById,
    TopicByName,
    TransactionById,
)
from flotilla.metadata.rules import altered_groups, altered_settings, check_command, placeable_brokers
from flotilla.metadata.scheduling.commands import PauseSchedule, PutSchedule, RemoveSchedule, RunSchedule
from flotilla.metadata.scheduling.schedules import Schedule
from flotilla.metadata.security.commands import (
    PutAdministrator,
    PutGrant,
    PutQuota,
    PutRole,
    PutSecret,
    PutUser,
    RemoveGrant,
    RemoveQuota,
    RemoveRole,
    RemoveUser,
)
from flotilla.metadata.security.join_tokens import PutJoinToken, UseJoinToken
from flotilla.metadata.security.users import User
from flotilla.metadata.snapshot import decode_snapshot, encode, freeze
from flotilla.metadata.state import ClusterState
from flotilla.metadata.stream_commands import (
    FenceStreamGroup,
    ForgetStreamGroup,
    JoinStreamGroup,
    ReleasePartitions,
    RemoveStreamMembers,
)
from flotilla.metadata.stream_groups import GroupMember, StreamGroup
from flotilla.metadata.transactions import Transaction
from flotilla.metadata.values import ACTIVE, Broker, Cluster, Labels, Partition, Topic
from flotilla.types.errors import FlotillaError, InvalidArgumentError, UnknownEntryError
from flotilla.types.ids import Index, NodeId
from flotilla.types.snapshot_data import SnapshotData
from flotilla.types.topics import check_settings
from flotilla.types.version import CLUSTER_VERSION_MAX


class LoggedEntry(Protocol):
    """A committed entry, as far as the machine needs it."""

    @property
    def index(self) -> Index: ...

    @property
    def data(self) -> bytes | memoryview: ...


class MetadataMachine:
    """Brokers, topics and placement of one cluster."""

    def __init__(self) -> None:
        self.state = ClusterState()
        #: The index of the newest entry whose effect the state holds.
        self.applied: Index = 0
        self._handlers: dict[type[Any], Callable[[Any], object]] = {
            InitCluster: self._init_cluster,
            SetClusterVersion: self._set_cluster_version,
            RegisterBroker: self._register_broker,
            LabelNode: lambda command: self.state.put_labels(command.node, Labels(command.machine, command.zone)),
            SetBrokerState: self._set_broker_state,
            RemoveBroker: self._remove_broker,
            CreateTopic: self._create_topic,
            CreateOwnedTopic: self._create_topic,
            AlterTopic: self._alter_topic,
            DeleteTopic: self._delete_topic,
            ConfirmRemoved: self._confirm_removed,
            PlanMoves: self._plan_moves,
            FinishMove: self._finish_move,
            SetIncarnation: self._set_incarnation,
            ConfirmLost: self._confirm_lost,
            ResizeTopic: self._resize_topic,
            AlterGroup: self._alter_group,
            DecideTransaction: self._decide_transaction,
            ConfirmTransaction: self._confirm_transaction,
            CommitTogether: self._commit_together,
            ForgetTransaction: self._forget_transaction,
            JoinStreamGroup: self._join_stream_group,
            RemoveStreamMembers: self._remove_stream_members,
            ReleasePartitions: self._release_partitions,
            FenceStreamGroup: self._fence_stream_group,
            ForgetStreamGroup: self._forget_stream_group,
            PutSchedule: self._put_schedule,
            PauseSchedule: self._pause_schedule,
            RemoveSchedule: self._remove_schedule,
            RunSchedule: self._run_schedule,
            PutUser: self._put_user,
            RemoveUser: lambda command: self.state.security.remove_user(command.name),
            PutAdministrator: self._put_administrator,
            PutGrant: lambda command: self.state.security.put_grant(command.grant),
            RemoveGrant: lambda command: self.state.security.remove_grant(command.grant),
            PutRole: lambda command: self.state.security.put_role(command.user, command.role),
            RemoveRole: lambda command: self.state.security.remove_role(command.user, command.role),
            PutQuota: lambda command: self.state.security.put_quota(command.quota),
            RemoveQuota: lambda command: self.state.security.remove_quota(command.user, command.namespace),
            PutSecret: lambda command: self.state.security.put_secret(command.secret),
            PutJoinToken: lambda command: self.state.join_tokens.put(command),
            UseJoinToken: lambda command: self.state.join_tokens.use(command),
        }
        self._answers: dict[type[Any], Callable[[Any], object]] = {
            DescribeCluster: lambda _: self.state.cluster,
            ListBrokers: lambda _: [broker for _, broker in sorted(self.state.brokers.items())],
            ListTopics: lambda _: list(self.state.topics.values()),
            TopicByName: lambda query: self.state.topic(query.name),
            TopicById: lambda query: self.state.topics.get(query.topic_id),
            AssignmentOf: lambda query: self.state.assignments.get(query.group),
            AssignmentsTo: lambda query: self.state.assignments_to(query.node),
            TombstonesFor: lambda query: self.state.tombstones_for(query.node),
            TransactionById: lambda query: self.state.transactions.get(query.transaction_id),
            ListSchedules: lambda _: list(self.state.schedules.schedules.values()),
            StateHash: lambda _: self.state_hash(),
        }

    # The interface of a replica.

    def apply(self, entry: LoggedEntry) -> object:
        """The value that the command made or changed, or a FlotillaError; None: it made none.

        Raises UnknownEntryError in a cluster of a later version than this program supports.
        """
        assert entry.index > self.applied, f"entry {entry.index} was applied before ({self.applied})"
        self.applied = entry.index
        try:
            command = decode_command(entry.data)
            check_command(self.state, command)
        except FlotillaError as error:
            if isinstance(error, UnknownEntryError) and self.state.cluster_version > CLUSTER_VERSION_MAX:
                raise
            return error.with_traceback(None)
        return self._handlers[type(command)](command)

    def read(self, query: object) -> object:
        answer = self._answers.get(type(query))
        if answer is None:
            return InvalidArgumentError(f"metadata cannot be asked for {type(query).__name__}")
        return answer(query)

    def snapshot(self) -> bytes:
        return b"".join(self.freeze()())

    def freeze(self) -> Callable[[], Iterable[bytes]]:
        """The present state as a function that encodes it. Any thread may call that, later."""
        frozen = freeze(self.applied, self.state)
        return lambda: (encode(frozen),)

    def decode(self, data: SnapshotData) -> tuple[Index, ClusterState]:
        """The state of a snapshot, for `restore`. Depends on the bytes alone: any thread may call it.

        Raises CorruptionError when the bytes are no snapshot.
        """
        return decode_snapshot(data) if data else (0, ClusterState())

    def restore(self, data: SnapshotData, decoded: tuple[Index, ClusterState] | None = None) -> None:
        """Raises CorruptionError and keeps the state when the bytes are no snapshot."""
        self.applied, self.state = decoded or self.decode(data)

    def check(self, command: Command) -> FlotillaError | None:
        """The error that applying the command would return now; None: it would be applied."""
        try:
            check_command(self.state, command)
        except FlotillaError as error:
            return error.with_traceback(None)
        return None

    def state_hash(self) -> str:
        return sha256(self.snapshot()).hexdigest()

    # Effects of commands that passed their rule.

    def _init_cluster(self, command: InitCluster) -> Cluster:
        if not self.state.cluster.cluster_id:
            self.state.cluster = Cluster(command.cluster_id, command.name, command.founders, command.now_ms)
        return self.state.cluster

    def _set_cluster_version(self, command: SetClusterVersion) -> int:
        self.state.cluster_version = max(self.state.cluster_version, command.version)
        return self.state.cluster_version

    def _register_broker(self, command: RegisterBroker) -> Broker:
        known = self.state.brokers.get(command.node)
        broker = Broker(
            node=command.node,
            client_address=command.client_address,
            peer_address=command.peer_address,
            http_address=command.http_address,
            grpc_address=command.grpc_address,
            version=command.version,
            # A restart does not end a draining.
            state=known.state if known is not None else ACTIVE,
            registered_at_ms=command.now_ms,
            incarnation=known.incarnation if known is not None else 0,
            # A start that was not counted does not make an earlier one forgotten.
            starts=command.starts or (known.starts if known is not None else 0),
            process=command.process if command.starts or known is None else known.process,
        )
        self.state.put_broker(broker)
        return broker

    def _set_broker_state(self, command: SetBrokerState) -> Broker:
        broker = replace(self.state.brokers[command.node], state=command.state)
        self.state.put_broker(broker)
        return broker

    def _remove_broker(self, command: RemoveBroker) -> None:
        if command.node in self.state.brokers:
            self.state.remove_broker(command.node, command.now_ms)

    def _create_topic(self, command: CreateTopic | CreateOwnedTopic) -> Topic:
        topic = Topic(
            topic_id=self.state.next_topic_id,
            name=command.name,
            replication_factor=command.replication_factor,
            chosen=check_settings(dict(command.settings)),
            partitions=self._new_partitions(0, command.partitions, command.replication_factor),
            created_at_ms=command.now_ms,
            key_partitions=command.partitions,
            owner=command.owner,
        )
        self.state.put_topic(topic)
        return topic

    def _alter_topic(self, command: AlterTopic) -> Topic:
        topic = self.state.topics[self.state.names[command.name]]
        have = len(topic.partitions)
        partitions = topic.partitions
        if command.partitions > have:
            partitions += self._new_partitions(have, command.partitions - have, topic.replication_factor)
        altered = replace(topic, chosen=altered_settings(topic, command), partitions=partitions)
        self.state.put_topic(altered)
        self.state.streams.grow(topic.topic_id, len(partitions), command.now_ms)
        return altered

    def _new_partitions(self, first: int, count: int, replication_factor: int) -> tuple[Partition, ...]:
        brokers: list[NodeId] = placeable_brokers(self.state)
        load = {node: self.state.load(node) for node in brokers}
        sites = self.state.sites()
        placed = place(brokers, load, partitions=count, replication_factor=replication_factor, sites=sites)
        return self.state.new_partitions(first, placed)

    def _delete_topic(self, command: DeleteTopic) -> Topic:
        topic = self.state.topics[self.state.names[command.name]]
        self.state.remove_topic(topic, command.now_ms)
        return topic

    def _confirm_removed(self, command: ConfirmRemoved) -> None:
        for group in command.groups:
            self.state.confirm_removed(group, command.node)

    def _plan_moves(self, command: PlanMoves) -> list[Partition]:
        return [self.state.plan_move(group, target) for group, target in command.targets]

    def _finish_move(self, command: FinishMove) -> Partition:
        return self.state.finish_move(command.group, command.now_ms)

    def _set_incarnation(self, command: SetIncarnation) -> Broker:
        broker = self.state.brokers[command.node]
        if broker.incarnation != command.incarnation:
            if command.is_replaced:
                self.state.lose_disk(command.node)
            if broker.incarnation:
                # The starts of another directory.
                broker = replace(broker, starts=0, process=0)
            broker = replace(broker, incarnation=command.incarnation)
            self.state.put_broker(broker)
        return broker

    def _confirm_lost(self, command: ConfirmLost) -> None:
        self.state.confirm_lost(command.group, command.node)

    def _resize_topic(self, command: ResizeTopic) -> Topic:
        topic = self.state.topics[self.state.names[command.name]]
        plan = resized(self.state, topic, command.replication_factor)
        self.state.put_topic(replace(topic, replication_factor=command.replication_factor))
        for group, target in plan:
            self.state.plan_move(group, target)
        return self.state.topics[topic.topic_id]

    def _alter_group(self, command: AlterGroup) -> Topic:
        topic = self.state.topics[self.state.names[command.topic]]
        altered = replace(topic, groups=altered_groups(topic, command))
        self.state.put_topic(altered)
        return altered

    def _decide_transaction(self, command: DecideTransaction) -> Transaction:
        return self.state.transactions.decide(
            command.transaction_id,
            command.application_id,
            command.version,
            command.groups,
            is_commit=command.is_commit,
            now_ms=command.now_ms,
            owner=command.owner,
        )

    def _commit_together(self, command: CommitTogether) -> Transaction:
        return self.state.transactions.commit_together(
            command.transaction_id,
            command.application_id,
            command.version,
            command.members,
            now_ms=command.now_ms,
            owner=command.owner,
        )

    def _forget_transaction(self, command: ForgetTransaction) -> None:
        self.state.transactions.forget(command.transaction_id, command.application_id, command.now_ms)

    def _confirm_transaction(self, command: ConfirmTransaction) -> None:
        for transaction_id, group in command.confirmed:
            self.state.transactions.confirm(transaction_id, group, command.now_ms)

    def _join_stream_group(self, command: JoinStreamGroup) -> StreamGroup:
        return self.state.streams.join(
            command.topic_id,
            command.group,
            GroupMember(command.member, command.client),
            command.strategy,
            command.session_ms,
            partition_count=len(self.state.topics[command.topic_id].partitions),
            now_ms=command.now_ms,
        )

    def _remove_stream_members(self, command: RemoveStreamMembers) -> StreamGroup | None:
        why = "fell silent" if command.is_silent else "left"
        return self.state.streams.remove(command.topic_id, command.group, command.members, why, command.now_ms)

    def _release_partitions(self, command: ReleasePartitions) -> StreamGroup | None:
        return self.state.streams.release(
            command.topic_id, command.group, command.member, command.generation, command.partitions
        )

    def _fence_stream_group(self, command: FenceStreamGroup) -> StreamGroup:
        return self.state.streams.fence(command.topic_id, command.group)

    def _forget_stream_group(self, command: ForgetStreamGroup) -> None:
        self.state.streams.forget(command.topic_id, command.group)

    def _put_schedule(self, command: PutSchedule) -> Schedule:
        return self.state.schedules.put_plan(
            command.name, command.schedule_id, command.plan, command.next_ms, command.now_ms
        )

    def _pause_schedule(self, command: PauseSchedule) -> Schedule:
        return self.state.schedules.pause(command.schedule_id, command.next_ms, is_paused=command.is_paused)

    def _remove_schedule(self, command: RemoveSchedule) -> Schedule:
        return self.state.schedules.remove(command.schedule_id)

    def _run_schedule(self, command: RunSchedule) -> Schedule:
        if command.transaction_id:
            self.state.transactions.decide(
                command.transaction_id, "", 0, (command.group,), is_commit=True, now_ms=command.now_ms
            )
        return self.state.schedules.ran(
            command.schedule_id,
            command.occurrence_ms,
            command.next_ms,
            command.now_ms,
            has_skipped=command.has_skipped,
        )

    def _put_user(self, command: PutUser) -> User:
        return self.state.security.put_user(command.name, command.verifier, command.now_ms)

    def _put_administrator(self, command: PutAdministrator) -> User:
        return self.state.security.put_administrator(command.name, command.verifier, command.now_ms)
