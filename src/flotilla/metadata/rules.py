"""The rules of commands: one function per command, which returns or raises a FlotillaError and has no effects.

The machine checks a command before it applies it, and the leader's broker before it proposes it: so most invalid
commands are refused early, with the same error.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from flotilla.metadata.commands import (
    FIRST_VERSION_BY_COMMAND,
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
)
from flotilla.metadata.move_commands import ConfirmLost, FinishMove, PlanMoves, ResizeTopic, SetIncarnation
from flotilla.metadata.move_rules import (
    check_room,
    confirm_lost,
    finish_move,
    plan_moves,
    resize_topic,
    set_incarnation,
)
from flotilla.metadata.scheduling.commands import PauseSchedule, PutSchedule, RemoveSchedule, RunSchedule
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
from flotilla.metadata.state import ClusterState
from flotilla.metadata.stream_commands import (
    FenceStreamGroup,
    ForgetStreamGroup,
    JoinStreamGroup,
    ReleasePartitions,
    RemoveStreamMembers,
)
from flotilla.metadata.stream_groups import GroupMember
from flotilla.metadata.values import ACTIVE, DRAINING, LEAVING, GroupChosen, Topic
from flotilla.types.access import check_user_name
from flotilla.types.errors import (
    AlreadyExistsError,
    ConfigurationChangeError,
    InvalidArgumentError,
    NotFoundError,
    OverloadedError,
    QuotaExceededError,
    TransactionEndedError,
    UnavailableError,
    later_version_needed,
)
from flotilla.types.group_settings import GROUP_SETTINGS, resolve_rules
from flotilla.types.ids import NO_NODE, GroupId, NodeId
from flotilla.types.setting_table import SettingTable
from flotilla.types.topics import (
    BROKER_COUNT_MAX,
    GROUP_COUNT_MAX,
    PARTITIONS,
    REPLICATION_FACTOR,
    SETTINGS,
    TOMBSTONE_COUNT_MAX,
    TOPIC_COUNT_MAX,
    check_group_name,
    check_settings,
    check_topic_name,
)
from flotilla.types.version import FIRST, TOPIC_OWNERS

CLUSTER_ID_LENGTH_MAX: Final = 64
CLUSTER_NAME_LENGTH_MAX: Final = 64
ADDRESS_LENGTH_MAX: Final = 255
VERSION_LENGTH_MAX: Final = 64
#: As long as the name of a machine in DNS.
LABEL_LENGTH_MAX: Final = 253
#: Handshakes between nodes have 16 bits for it.
_CLUSTER_VERSION_LIMIT: Final = 2**16 - 1
#: Ids travel as unsigned integers of 32 bits in names of files and in settings.
NODE_MAX: Final[NodeId] = 2**32 - 1
#: The head of a command stores 64 bits.
_TIME_MS_MAX = 2**63 - 1
_Value = TypeVar("_Value")


def check_command(state: ClusterState, command: Command) -> None:
    """Raises the error that applying the command now would be answered with."""
    _check_time(command.now_ms)
    needed = FIRST_VERSION_BY_COMMAND.get(type(command), FIRST)
    if not (isinstance(command, SetClusterVersion) and needed <= command.version):
        _check_version(state, type(command).__name__, needed)
    _RULES[type(command)](state, command)


def _check_version(state: ClusterState, noun: str, needed: int) -> None:
    """Earlier programs would not know it."""
    if needed > state.cluster_version:
        raise later_version_needed(noun, needed, state.cluster_version)


def placeable_brokers(state: ClusterState) -> list[NodeId]:
    """The brokers that may get new replicas, by id. Raises UnavailableError when there is none."""
    brokers = [node for node, broker in sorted(state.brokers.items()) if broker.state == ACTIVE]
    if not brokers:
        raise UnavailableError("no broker can take replicas")
    return brokers


def altered_settings(topic: Topic, command: AlterTopic) -> tuple[tuple[str, int], ...]:
    """The topic's settings after the command. Raises InvalidArgumentError."""
    changes = _distinct(command.settings)
    _check_reset(SETTINGS, command.reset, changes)
    kept = {name: value for name, value in topic.chosen if name not in command.reset}
    return check_settings({**kept, **changes})


def altered_groups(topic: Topic, command: AlterGroup) -> tuple[tuple[str, GroupChosen], ...]:
    """The topic's settings of groups after the command. Raises InvalidArgumentError or OverloadedError."""
    changes = _distinct(command.settings)
    _check_reset(GROUP_SETTINGS, command.reset, changes)
    kept = {name: value for name, value in topic.chosen_for(command.group) if name not in command.reset}
    chosen = GROUP_SETTINGS.check({**kept, **changes})
    rules = resolve_rules(topic.settings, chosen, command.group)
    if chosen and rules.nack_backoff_max_ms < rules.nack_backoff_ms:
        raise InvalidArgumentError("nack_backoff_max_ms is below nack_backoff_ms")
    if rules.dead_letter_topic:
        check_topic_name(rules.dead_letter_topic)
    if rules.dead_letter_topic == topic.name:
        raise InvalidArgumentError(f"the dead letters of group {command.group!r} cannot go to its own topic")
    groups = {**dict(topic.groups), command.group: chosen}
    if len(groups) > GROUP_COUNT_MAX:
        raise OverloadedError(f"a topic has settings for at most {GROUP_COUNT_MAX} groups")
    return tuple((name, settings) for name, settings in sorted(groups.items()) if settings)


def _check_reset(table: SettingTable, reset: tuple[str, ...], changes: Mapping[str, object]) -> None:
    table.check_names(reset)
    for name in reset:
        if name in changes:
            raise InvalidArgumentError(f"{name} is set and reset at once")


def _distinct(settings: tuple[tuple[str, _Value], ...]) -> dict[str, _Value]:
    values = dict(settings)
    if len(values) != len(settings):
        raise InvalidArgumentError("a setting is named twice")
    return values


def _init_cluster(state: ClusterState, command: InitCluster) -> None:
    _check_text("the cluster id", command.cluster_id, CLUSTER_ID_LENGTH_MAX)
    _check_text("the cluster name", command.name, CLUSTER_NAME_LENGTH_MAX)
    if not 0 < len(command.founders) <= BROKER_COUNT_MAX:
        raise InvalidArgumentError("a cluster is founded by at least one node")
    _check_nodes(command.founders)
    known = state.cluster
    if known.cluster_id and (known.cluster_id, known.founders) != (command.cluster_id, command.founders):
        raise AlreadyExistsError(
            f"this is cluster {known.name} ({known.cluster_id}), founded by {list(known.founders)}"
        )


def _set_cluster_version(state: ClusterState, command: SetClusterVersion) -> None:
    if command.version > _CLUSTER_VERSION_LIMIT:
        raise InvalidArgumentError(f"{command.version} is no cluster version")
    is_raised = command.version > state.cluster_version
    if is_raised and state.cluster.cluster_id and command.nodes != tuple(sorted(state.brokers)):
        # A node that came meanwhile may not support it.
        raise ConfigurationChangeError("the nodes of the cluster have changed meanwhile; try again")


def _register_broker(state: ClusterState, command: RegisterBroker) -> None:
    if not state.cluster.cluster_id:
        raise UnavailableError("the cluster has not been initialised")
    if command.cluster_name != state.cluster.name:
        raise InvalidArgumentError(f"this is cluster {state.cluster.name!r}, not {command.cluster_name!r}")
    _check_nodes((command.node,))
    if command.node in state.removed_nodes:
        raise ConfigurationChangeError(f"node {command.node} was removed; it can come back under another id only")
    _check_text("the client address", command.client_address, ADDRESS_LENGTH_MAX)
    _check_text("the peer address", command.peer_address, ADDRESS_LENGTH_MAX)
    for name, address in (("HTTP", command.http_address), ("gRPC", command.grpc_address)):
        if address:
            _check_text(f"the {name} address", address, ADDRESS_LENGTH_MAX)
    _check_text("the version", command.version, VERSION_LENGTH_MAX)
    known = state.brokers.get(command.node)
    if known is not None and 0 < command.starts <= known.starts and command.process != known.process:
        # A restored or copied data directory; one on a new disk is marked as replaced before it registers.
        raise AlreadyExistsError(f"node {command.node} has registered start {known.starts} of its data directory")
    if known is None and len(state.brokers) >= BROKER_COUNT_MAX:
        raise OverloadedError(f"a cluster has at most {BROKER_COUNT_MAX} brokers")


def _label_node(state: ClusterState, command: LabelNode) -> None:
    _check_nodes((command.node,))
    if command.node in state.removed_nodes:
        raise ConfigurationChangeError(f"node {command.node} was removed")
    for noun, label in (("a machine", command.machine), ("a zone", command.zone)):
        if label:
            _check_text(noun, label, LABEL_LENGTH_MAX)
    if command.node not in state.labels and len(state.labels) >= BROKER_COUNT_MAX:
        raise OverloadedError(f"a cluster has at most {BROKER_COUNT_MAX} labelled nodes")


def _set_broker_state(state: ClusterState, command: SetBrokerState) -> None:
    if command.state not in (ACTIVE, DRAINING, LEAVING):
        raise InvalidArgumentError(f"{command.state} is no state of a broker")
    if command.node not in state.brokers:
        raise NotFoundError(f"there is no broker {command.node}")


def _remove_broker(state: ClusterState, command: RemoveBroker) -> None:
    if command.node in state.removed_nodes:
        return
    if command.node not in state.brokers:
        raise NotFoundError(f"there is no broker {command.node}")
    held = len(state.assignments_to(command.node))
    if held:
        raise ConfigurationChangeError(f"broker {command.node} still holds {held} replicas")


def _create_topic(state: ClusterState, command: CreateTopic | CreateOwnedTopic) -> None:
    check_topic_name(command.name)
    PARTITIONS.check(command.partitions)
    REPLICATION_FACTOR.check(command.replication_factor)
    check_settings(_distinct(command.settings))
    if command.owner:
        check_user_name(command.owner)
    if command.name in state.names:
        raise AlreadyExistsError(f"topic {command.name} exists")
    if len(state.topics) >= TOPIC_COUNT_MAX:
        raise OverloadedError(f"a cluster has at most {TOPIC_COUNT_MAX} topics")
    if len(state.tombstones) >= TOMBSTONE_COUNT_MAX:
        raise OverloadedError("too many partitions of deleted topics wait for nodes that are away to remove their data")
    _check_quotas(state, command.name, command.owner, command.partitions)
    check_room(state, placeable_brokers(state), command.partitions * command.replication_factor)


def _check_quotas(state: ClusterState, topic: str, owner: str, partitions: int) -> None:
    """Whether the namespace and the owner of the topic may have so many more partitions."""
    for quota in state.security.quotas.of_topic(topic, owner):
        if quota.partitions and (held := state.partitions_under(quota)) + partitions > quota.partitions:
            raise QuotaExceededError(
                f"{quota.subject} has {held} of {quota.partitions} partitions, and cannot get {partitions} more"
            )


def _alter_topic(state: ClusterState, command: AlterTopic) -> None:
    topic = _known_topic(state, command.name)
    altered_settings(topic, command)
    if command.partitions:
        PARTITIONS.check(command.partitions)
        have = len(topic.partitions)
        if command.partitions < have:
            raise InvalidArgumentError(f"topic {topic.name} has {have} partitions and can only get more")
        if command.partitions > have:
            _check_quotas(state, topic.name, topic.owner, command.partitions - have)
            check_room(state, placeable_brokers(state), (command.partitions - have) * topic.replication_factor)


def _alter_group(state: ClusterState, command: AlterGroup) -> None:
    topic = _known_topic(state, command.topic)
    check_group_name(command.group)
    altered_groups(topic, command)


def _delete_topic(state: ClusterState, command: DeleteTopic) -> None:
    topic = _known_topic(state, command.name)
    if command.topic_id not in (0, topic.topic_id):
        raise NotFoundError(f"topic {command.name} is another one now: {topic.topic_id}, not {command.topic_id}")


def _confirm_removed(state: ClusterState, command: ConfirmRemoved) -> None:
    # Groups without a tombstone are skipped: the node may repeat a confirmation.
    for group in command.groups:
        assignment = state.assignments.get(group)
        if assignment is not None and command.node in assignment.place.hosts:
            raise InvalidArgumentError(f"group {group} lives at node {command.node} and was not to be removed")


def _decide_transaction(state: ClusterState, command: DecideTransaction) -> None:
    state.transactions.check(
        command.transaction_id,
        command.application_id,
        command.version,
        command.groups,
        is_commit=command.is_commit,
        begun_ms=command.begun_ms,
        owner=command.owner,
    )
    if command.is_commit and state.transactions.get(command.transaction_id) is None:
        _check_groups(state, command.groups)


def _commit_together(state: ClusterState, command: CommitTogether) -> None:
    table = state.transactions
    table.check_together(
        command.transaction_id,
        command.application_id,
        command.version,
        command.members,
        begun_ms=command.begun_ms,
        owner=command.owner,
    )
    if table.get(command.transaction_id) is None:
        for _, groups in command.members:
            _check_groups(state, groups)


def _check_groups(state: ClusterState, groups: tuple[GroupId, ...]) -> None:
    for group in groups:
        if group not in state.assignments:
            raise NotFoundError(f"no partition has group {group}")


def _forget_transaction(state: ClusterState, command: ForgetTransaction) -> None:
    state.transactions.check_forget(command.transaction_id, command.application_id)


def _confirm_transaction(state: ClusterState, command: ConfirmTransaction) -> None:
    """Always valid: unknown confirmations are skipped."""


def _join_stream_group(state: ClusterState, command: JoinStreamGroup) -> None:
    if command.topic_id not in state.topics:
        raise NotFoundError(f"there is no topic of id {command.topic_id}")
    member = GroupMember(command.member, command.client)
    state.streams.check_join(command.topic_id, command.group, member, command.strategy, command.session_ms)


def _change_stream_group(state: ClusterState, command: RemoveStreamMembers | ReleasePartitions) -> None:
    """Always valid: unknown members and partitions of others are skipped."""


def _fence_stream_group(state: ClusterState, command: FenceStreamGroup) -> None:
    state.streams.check_empty(command.topic_id, command.group)


def _forget_stream_group(state: ClusterState, command: ForgetStreamGroup) -> None:
    if command.is_forced:
        state.streams.check_known(command.topic_id, command.group)
    else:
        state.streams.check_empty(command.topic_id, command.group)


def _put_schedule(state: ClusterState, command: PutSchedule) -> None:
    state.schedules.check_put(command.name, command.schedule_id, command.plan)
    _check_time(command.next_ms)
    _check_time(command.plan.start_ms)


def _pause_schedule(state: ClusterState, command: PauseSchedule) -> None:
    state.schedules.known(command.schedule_id)
    _check_time(command.next_ms)


def _remove_schedule(state: ClusterState, command: RemoveSchedule) -> None:
    state.schedules.known(command.schedule_id)


def _run_schedule(state: ClusterState, command: RunSchedule) -> None:
    state.schedules.check_run(command.schedule_id, command.version)
    _check_time(command.next_ms)
    _check_time(command.occurrence_ms)
    if command.transaction_id:
        groups = (command.group,)
        if state.transactions.get(command.transaction_id) is not None:
            # Committed, it is another run's; aborted, it came too late.
            raise TransactionEndedError(f"transaction {command.transaction_id} is over")
        state.transactions.check(command.transaction_id, "", 0, groups, is_commit=True, begun_ms=command.begun_ms)
        _check_groups(state, groups)


def _put_user(state: ClusterState, command: PutUser) -> None:
    state.security.check_put_user(command.name, command.verifier, is_new=command.is_new)


def _remove_user(state: ClusterState, command: RemoveUser) -> None:
    state.security.check_remove_user(command.name)


def _put_administrator(state: ClusterState, command: PutAdministrator) -> None:
    state.security.check_administrator(command.name, command.verifier)


def _put_grant(state: ClusterState, command: PutGrant) -> None:
    state.security.check_put_grant(command.grant)


def _remove_grant(state: ClusterState, command: RemoveGrant) -> None:
    state.security.check_remove_grant(command.grant)


def _put_role(state: ClusterState, command: PutRole) -> None:
    state.security.check_put_role(command.user, command.role)


def _remove_role(state: ClusterState, command: RemoveRole) -> None:
    state.security.check_remove_role(command.user, command.role)


def _put_quota(state: ClusterState, command: PutQuota) -> None:
    state.security.quotas.check_put(command.quota)
    if command.quota.user and (command.quota.partitions or command.quota.stored_bytes):
        _check_version(state, "a quota of what a user's topics have", TOPIC_OWNERS)


def _remove_quota(state: ClusterState, command: RemoveQuota) -> None:
    state.security.quotas.check_remove(command.user, command.namespace)


def _put_secret(state: ClusterState, command: PutSecret) -> None:
    state.security.check_secret(command.secret)


def _put_join_token(state: ClusterState, command: PutJoinToken) -> None:
    state.join_tokens.check_put(command)


def _use_join_token(state: ClusterState, command: UseJoinToken) -> None:
    state.join_tokens.check_use(command)


def _check_time(time_ms: int) -> None:
    if not 0 <= time_ms <= _TIME_MS_MAX:
        raise InvalidArgumentError(f"{time_ms} ms is no time")


def _known_topic(state: ClusterState, name: str) -> Topic:
    topic = state.topic(name)
    if topic is None:
        raise NotFoundError(f"there is no topic {name!r}")
    return topic


def _check_nodes(nodes: tuple[NodeId, ...]) -> None:
    if len(set(nodes)) != len(nodes):
        raise InvalidArgumentError("a node is named twice")
    for node in nodes:
        if not NO_NODE < node <= NODE_MAX:
            raise InvalidArgumentError(f"{node} is not a node id")


def _check_text(noun: str, text: str, length_max: int) -> None:
    if not 0 < len(text) <= length_max:
        raise InvalidArgumentError(f"{noun} has 1 to {length_max} characters")
    if not (text.isascii() and text.isprintable()) or " " in text:
        raise InvalidArgumentError(f"{noun} has printable ASCII characters and no spaces")


# Looked up by type; each rule takes the command of its row.
_RULES: Final[dict[type[Any], Callable[[ClusterState, Any], None]]] = {
    InitCluster: _init_cluster,
    SetClusterVersion: _set_cluster_version,
    RegisterBroker: _register_broker,
    LabelNode: _label_node,
    SetBrokerState: _set_broker_state,
    RemoveBroker: _remove_broker,
    CreateTopic: _create_topic,
    CreateOwnedTopic: _create_topic,
    AlterTopic: _alter_topic,
    DeleteTopic: _delete_topic,
    ConfirmRemoved: _confirm_removed,
    PlanMoves: plan_moves,
    FinishMove: finish_move,
    SetIncarnation: set_incarnation,
    ConfirmLost: confirm_lost,
    ResizeTopic: resize_topic,
    AlterGroup: _alter_group,
    DecideTransaction: _decide_transaction,
    ConfirmTransaction: _confirm_transaction,
    ForgetTransaction: _forget_transaction,
    CommitTogether: _commit_together,
    JoinStreamGroup: _join_stream_group,
    RemoveStreamMembers: _change_stream_group,
    ReleasePartitions: _change_stream_group,
    FenceStreamGroup: _fence_stream_group,
    ForgetStreamGroup: _forget_stream_group,
    PutSchedule: _put_schedule,
    PauseSchedule: _pause_schedule,
    RemoveSchedule: _remove_schedule,
    RunSchedule: _run_schedule,
    PutUser: _put_user,
    RemoveUser: _remove_user,
    PutAdministrator: _put_administrator,
    PutGrant: _put_grant,
    RemoveGrant: _remove_grant,
    PutRole: _put_role,
    RemoveRole: _remove_role,
    PutQuota: _put_quota,
    RemoveQuota: _remove_quota,
    PutSecret: _put_secret,
    PutJoinToken: _put_join_token,
    UseJoinToken: _use_join_token,
}
