"""The cluster's metadata as bytes and back: the tables in a fixed order (`Snapshot`), without their indexes.

Tables are written in the order of their keys, so equal states give equal bytes whatever happened before. Transactions
and the stream groups of a topic keep their own order, the oldest first, which is the same at all replicas.

Which version is written depends on the version of the cluster: a node of an earlier program must be able to read what
another node sends it, and what it finds on its own disk after it went back.
"""

from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeVar, cast

from flotilla.metadata.applications import FrozenApplications, Used
from flotilla.metadata.assignment import NO_OWNER, STRATEGY_BY_NAME
from flotilla.metadata.binary import Reader, Writer
from flotilla.metadata.ended_transactions import Block, FrozenDecisions
from flotilla.metadata.layout import Layout, fields_of, layout_of
from flotilla.metadata.scheduling.schedules import Schedule
from flotilla.metadata.security.join_tokens import JoinToken
from flotilla.metadata.security.users import FrozenSecurity
from flotilla.metadata.state import ClusterState
from flotilla.metadata.stream_groups import Share, StreamGroup
from flotilla.metadata.transactions import Transaction
from flotilla.metadata.values import Broker, Cluster, Labels, Partition, Tombstone, Topic
from flotilla.types.errors import CorruptionError, InvalidArgumentError
from flotilla.types.ids import GroupId, Index, NodeId
from flotilla.types.snapshot_data import SnapshotData, whole
from flotilla.types.version import CLUSTER_VERSION_STORED, FIRST, NODES_LABELLED, TOPIC_OWNERS

VERSION: Final = 13
#: Before nodes had labels.
_WITHOUT_LABELS: Final = 12
#: Before topics had owners.
_WITHOUT_OWNERS: Final = 11
#: Before the cluster version was stored.
FIRST_LAYOUT: Final = 10

_Value = TypeVar("_Value")


class Snapshot(NamedTuple):
    """The snapshot after its version."""

    applied: Index
    cluster: Cluster
    next_topic_id: int
    next_group: GroupId
    next_move: int
    brokers: tuple[Broker, ...]
    #: When each was removed.
    removed_nodes: tuple[tuple[NodeId, int], ...]
    topics: tuple[Topic, ...]
    tombstones: tuple[Tombstone, ...]
    #: Those that wait for partitions.
    transactions: tuple[Transaction, ...]
    ended_transactions: FrozenDecisions
    applications: FrozenApplications
    forgotten_generation: int
    stream_groups: tuple[StreamGroup, ...]
    next_schedule_id: int
    schedules: tuple[Schedule, ...]
    security: FrozenSecurity
    join_tokens: tuple[JoinToken, ...]
    #: Since version 11.
    cluster_version: int = FIRST
    #: Since version 13. By node.
    labels: tuple[tuple[NodeId, Labels], ...] = ()


# A partition's number is its place in its topic.
_PLACE: Final = fields_of(Partition, without=["number"])


def _write_partitions(writer: Writer, partitions: tuple[Partition, ...]) -> None:
    writer.integer(len(partitions))
    for partition in partitions:
        _PLACE.write(writer, partition)


def _read_partitions(reader: Reader) -> tuple[Partition, ...]:
    return tuple([Partition(number, *_PLACE.read(reader)) for number in range(reader.count())])


# Owners and targets of shares are places among the members, counted from 1; 0: NO_OWNER.
_PLACED_SHARES: Final = layout_of(tuple[tuple[int, int, int], ...])
_STREAM_GROUP: Final = layout_of(StreamGroup, {tuple[Share, ...]: _PLACED_SHARES})


def _write_stream_group(writer: Writer, group: StreamGroup) -> None:
    places = {NO_OWNER: 0} | {member.name: place for place, member in enumerate(group.members, 1)}
    shares = tuple([(places[owner], epoch, places[target]) for owner, epoch, target in group.shares])
    _STREAM_GROUP.write(writer, replace(group, shares=cast("Any", shares)))


def _read_stream_group(reader: Reader) -> StreamGroup:
    group: StreamGroup = _STREAM_GROUP.read(reader)
    if group.strategy not in STRATEGY_BY_NAME:
        raise InvalidArgumentError(f"a stream group has an unknown strategy {group.strategy[:80]!r}")
    names = (NO_OWNER, *[member.name for member in group.members])
    placed = cast("tuple[tuple[int, int, int], ...]", group.shares)
    if any(owner >= len(names) or target >= len(names) for owner, _, target in placed):
        raise InvalidArgumentError("a partition of a stream group belongs to no member")
    shares = tuple([Share(names[owner], epoch, names[target]) for owner, epoch, target in placed])
    return replace(group, shares=shares)


# As texts of one line each: a million of them are written and read in a fraction of a second.
_ENDED: Final = layout_of(tuple[int, tuple[Block, ...], str, str])


def _write_ended(writer: Writer, ended: FrozenDecisions) -> None:
    kinds = "".join([str(kind) for kind in ended.kinds.values()])
    _ENDED.write(writer, (ended.forgotten_ms, ended.blocks, "\n".join(ended.kinds), kinds))


def _read_ended(reader: Reader) -> FrozenDecisions:
    forgotten_ms, blocks, names, kinds = _ENDED.read(reader)
    if not kinds.isascii() or not set(kinds) <= set("123"):
        raise InvalidArgumentError("a transaction that is over has an unknown outcome")
    split = names.split("\n") if names else []
    if len(split) != len(kinds):
        raise InvalidArgumentError(f"{len(split)} transactions that are over have {len(kinds)} outcomes")
    return FrozenDecisions(forgotten_ms, blocks, dict(zip(split, map(int, kinds), strict=True)))


_USED: Final = layout_of(tuple[tuple[str, Used], ...])
_IDLE: Final = layout_of(tuple[int, ...])


def _write_applications(writer: Writer, applications: FrozenApplications) -> None:
    _USED.write(writer, tuple(applications.used.items()))
    _IDLE.write(writer, tuple(applications.idle))


def _read_applications(reader: Reader) -> FrozenApplications:
    return FrozenApplications(dict(_USED.read(reader)), dict.fromkeys(_IDLE.read(reader)))


_SPECIAL: Final = {
    tuple[Partition, ...]: Layout(_write_partitions, _read_partitions),
    StreamGroup: Layout(_write_stream_group, _read_stream_group),
    FrozenDecisions: Layout(_write_ended, _read_ended),
    FrozenApplications: Layout(_write_applications, _read_applications),
}
_UNOWNED_TOPIC: Final = fields_of(Topic, without=["owner"], special=_SPECIAL)
_EARLIER: Final = _SPECIAL | {Topic: Layout(_UNOWNED_TOPIC.write, lambda reader: Topic(*_UNOWNED_TOPIC.read(reader)))}
_LAYOUTS: Final = {
    FIRST_LAYOUT: fields_of(Snapshot, without=["cluster_version", "labels"], special=_EARLIER),
    _WITHOUT_OWNERS: fields_of(Snapshot, without=["labels"], special=_EARLIER),
    _WITHOUT_LABELS: fields_of(Snapshot, without=["labels"], special=_SPECIAL),
    VERSION: fields_of(Snapshot, special=_SPECIAL),
}


def freeze(applied: Index, state: ClusterState) -> Snapshot:
    """A view of the state: its values never change, only the tables that hold them."""
    return Snapshot(
        applied=applied,
        cluster=state.cluster,
        next_topic_id=state.next_topic_id,
        next_group=state.next_group,
        next_move=state.next_move,
        brokers=_by_key(state.brokers),
        removed_nodes=tuple(sorted(state.removed_nodes.items())),
        topics=_by_key(state.topics),
        tombstones=_by_key(state.tombstones),
        transactions=tuple(state.transactions.awaited.values()),
        ended_transactions=state.transactions.ended.freeze(),
        applications=state.transactions.applications.freeze(),
        forgotten_generation=state.streams.forgotten_generation,
        stream_groups=tuple(state.streams.all_groups()),
        next_schedule_id=state.schedules.next_id,
        schedules=_by_key(state.schedules.schedules),
        security=state.security.freeze(),
        join_tokens=state.join_tokens.freeze(),
        cluster_version=state.cluster_version,
        labels=tuple(sorted(state.labels.items())),
    )


def encode(snapshot: Snapshot) -> bytes:
    """Depends on the view alone: any thread may call it."""
    version = _version_in(snapshot.cluster_version)
    writer = Writer()
    writer.integer(version)
    _LAYOUTS[version].write(writer, snapshot)
    return writer.finish()


def _version_in(cluster_version: int) -> int:
    if cluster_version >= NODES_LABELLED:
        return VERSION
    if cluster_version >= TOPIC_OWNERS:
        return _WITHOUT_LABELS
    return _WITHOUT_OWNERS if cluster_version >= CLUSTER_VERSION_STORED else FIRST_LAYOUT


def _by_key(table: dict[int, _Value]) -> tuple[_Value, ...]:
    return tuple([value for _, value in sorted(table.items())])


def decode_snapshot(data: SnapshotData) -> tuple[Index, ClusterState]:
    """The applied index and the state. Raises CorruptionError."""
    reader = Reader(whole(data))
    try:
        version = reader.integer()
        if version not in _LAYOUTS:
            raise InvalidArgumentError(f"its version is {version}, and this program reads {FIRST_LAYOUT} to {VERSION}")
        snapshot = Snapshot(*_LAYOUTS[version].read(reader))
        reader.finish()
        state = _restore(snapshot)
    except (InvalidArgumentError, AssertionError) as error:
        raise CorruptionError(f"the snapshot of the metadata cannot be read: {error}") from error
    return snapshot.applied, state


def _restore(snapshot: Snapshot) -> ClusterState:
    """Raises AssertionError for a state that breaks an invariant."""
    state = ClusterState()
    state.cluster = snapshot.cluster
    state.cluster_version = snapshot.cluster_version
    state.next_move = snapshot.next_move
    for broker in snapshot.brokers:
        state.put_broker(broker)
    state.removed_nodes.update(snapshot.removed_nodes)
    state.labels.update(snapshot.labels)
    for topic in snapshot.topics:
        state.put_topic(topic)
    for tombstone in snapshot.tombstones:
        state.put_tombstone(tombstone)
    for transaction in snapshot.transactions:
        assert transaction.waiting, "a transaction waits for no partition"
        state.transactions.put(transaction, 0)
    state.transactions.ended.put(snapshot.ended_transactions)
    state.transactions.applications.put(snapshot.applications)
    state.streams.forgotten_generation = snapshot.forgotten_generation
    for group in snapshot.stream_groups:
        state.streams.put(group)
    for schedule in snapshot.schedules:
        state.schedules.put(schedule)
    state.security.put(snapshot.security)
    state.join_tokens.restore(snapshot.join_tokens)
    # Last, because putting topics and schedules has moved them to the newest that still exists.
    state.next_topic_id = snapshot.next_topic_id
    state.next_group = snapshot.next_group
    state.schedules.next_id = snapshot.next_schedule_id
    return state
