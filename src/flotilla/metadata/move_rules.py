"""The rules of commands that move partitions; `rules` lists them."""

from collections.abc import Sequence

from flotilla.metadata.move_commands import ConfirmLost, FinishMove, PlanMoves, ResizeTopic, SetIncarnation
from flotilla.metadata.spreading import Placed, resize
from flotilla.metadata.state import ClusterState
from flotilla.metadata.values import ACTIVE, Partition, Topic
from flotilla.types.errors import (
    ConfigurationChangeError,
    InvalidArgumentError,
    NotFoundError,
    OverloadedError,
    UnavailableError,
)
from flotilla.types.ids import NO_NODE, GroupId, NodeId
from flotilla.types.topics import NODE_REPLICA_COUNT_MAX, REPLICATION_FACTOR, REPLICATION_FACTOR_MAX
from flotilla.types.version import RESIZE_BOUNDED


def plan_moves(state: ClusterState, command: PlanMoves) -> None:
    if len({group for group, _ in command.targets}) != len(command.targets):
        raise InvalidArgumentError("a partition is planned twice")
    for group, target in command.targets:
        known_place(state, group)
        if not 0 < len(target) <= REPLICATION_FACTOR_MAX:
            raise InvalidArgumentError(f"a partition has 1 to {REPLICATION_FACTOR_MAX} replicas")
        if len(set(target)) != len(target):
            raise InvalidArgumentError("a node is named twice")
        for node in target:
            if node not in state.brokers:
                raise ConfigurationChangeError(f"there is no broker {node}")
            if not may_receive(state, group, node):
                raise ConfigurationChangeError(f"node {node} has not yet removed its data of group {group}")


def finish_move(state: ClusterState, command: FinishMove) -> None:
    move = known_place(state, command.group).move
    if move is None or move.number != command.move:
        raise ConfigurationChangeError(f"move {command.move} of group {command.group} is not in progress")


def set_incarnation(state: ClusterState, command: SetIncarnation) -> None:
    if not command.incarnation:
        raise InvalidArgumentError("a data directory has a number other than 0")
    broker = state.brokers.get(command.node)
    if broker is None:
        raise NotFoundError(f"there is no broker {command.node}")
    if not command.is_replaced and broker.incarnation not in (0, command.incarnation):
        raise ConfigurationChangeError(f"node {command.node} is known with other data; it has to join again")


def confirm_lost(state: ClusterState, command: ConfirmLost) -> None:
    place = known_place(state, command.group)
    broker = state.brokers.get(command.node)
    if command.node not in place.lost or broker is None or broker.incarnation != command.incarnation:
        raise ConfigurationChangeError(
            f"no lost disk of node {command.node} is to be confirmed by group {command.group}"
        )


def resize_topic(state: ClusterState, command: ResizeTopic) -> None:
    topic = state.topic(command.name)
    if topic is None:
        raise NotFoundError(f"there is no topic {command.name!r}")
    factor = command.replication_factor
    REPLICATION_FACTOR.check(factor)
    active = [node for node, broker in sorted(state.brokers.items()) if broker.state == ACTIVE]
    for group, target in resized(state, topic, factor):
        if len(target) >= factor:
            continue
        if len(active) < factor:
            raise ConfigurationChangeError(
                f"topic {topic.name} cannot have {factor} replicas: {len(active)} brokers can take them"
            )
        raise UnavailableError(f"brokers have not yet removed their data of group {group}")
    added = sum([max(factor - len(place.wanted), 0) for place in topic.partitions])
    if added and state.cluster_version >= RESIZE_BOUNDED:
        check_room(state, active, added)


def check_room(state: ClusterState, brokers: Sequence[NodeId], replicas: int) -> None:
    """Whether the brokers together can take so many new replicas. Raises OverloadedError.

    The bound is one of the average: placement evens out what each of them has.
    """
    held = sum(map(state.assigned_count, brokers))
    if held + replicas > NODE_REPLICA_COUNT_MAX * len(brokers):
        raise OverloadedError(
            f"{len(brokers)} brokers hold {held} replicas; with {replicas} more it would be over "
            f"{NODE_REPLICA_COUNT_MAX} each"
        )


def resized(state: ClusterState, topic: Topic, factor: int) -> list[tuple[GroupId, tuple[NodeId, ...]]]:
    """The replicas of the topic's partitions with another replication factor."""
    brokers = [node for node, broker in sorted(state.brokers.items()) if broker.state == ACTIVE]
    load = {node: state.load(node) for node in state.brokers}
    sites = state.sites()
    plan = []
    for place in topic.partitions:
        free = [node for node in brokers if node in place.wanted or may_receive(state, place.group, node)]
        target = resize(Placed(place.group, place.wanted, factor), free, load, sites)
        for node in target:
            if node not in place.wanted:
                load[node] = load[node].plus_replica()
        plan.append((place.group, target))
    return plan


def may_receive(state: ClusterState, group: GroupId, node: NodeId) -> bool:
    """False: a tombstone orders the node to remove its data of the group. It gets a replica after it has."""
    tombstone = state.tombstones.get(group)
    return node != NO_NODE and (tombstone is None or node not in tombstone.waiting)


def known_place(state: ClusterState, group: GroupId) -> Partition:
    assignment = state.assignments.get(group)
    if assignment is None:
        raise NotFoundError(f"no partition has group {group}")
    return assignment.place
