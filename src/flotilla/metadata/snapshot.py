"""The cluster's metadata as bytes and back: the tables in a fixed order, without their indexes.

The first byte is the version of this layout, then come integers and texts (`binary`). Tables are
written in the order of their keys, so equal states give equal bytes whatever happened before.
"""

from typing import Final

from flotilla.metadata.binary import Reader, Writer
from flotilla.metadata.state import ClusterState
from flotilla.metadata.stream_snapshot import read_streams, write_streams
from flotilla.metadata.transactions import Transaction
from flotilla.metadata.values import Broker, Cluster, Move, Partition, Tombstone, Topic
from flotilla.types.errors import CorruptionError, InvalidArgumentError
from flotilla.types.ids import Index

VERSION: Final = 2


def encode_snapshot(applied: Index, state: ClusterState) -> bytes:
    writer = Writer()
    writer.integer(VERSION)
    writer.integer(applied)
    cluster = state.cluster
    writer.text(cluster.cluster_id)
    writer.integers(cluster.founders)
    writer.integer(cluster.initialised_at_ms)
    writer.integer(state.next_topic_id)
    writer.integer(state.next_group)
    writer.integer(state.next_move)
    writer.integer(len(state.brokers))
    for _, broker in sorted(state.brokers.items()):
        _write_broker(writer, broker)
    writer.integer(len(state.removed_nodes))
    for node, removed_at_ms in sorted(state.removed_nodes.items()):
        writer.integer(node)
        writer.integer(removed_at_ms)
    writer.integer(len(state.topics))
    for _, topic in sorted(state.topics.items()):
        _write_topic(writer, topic)
    writer.integer(len(state.tombstones))
    for _, tombstone in sorted(state.tombstones.items()):
        _write_tombstone(writer, tombstone)
    # Not by key: the oldest come first, and the order is the same at all replicas.
    writer.integer(len(state.transactions.transactions))
    for transaction in state.transactions.transactions.values():
        _write_transaction(writer, transaction)
    writer.pairs(sorted(state.transactions.applications.items()))
    write_streams(writer, state.streams)
    return writer.finish()


def decode_snapshot(data: bytes) -> tuple[Index, ClusterState]:
    """The applied index and the state. Raises CorruptionError."""
    reader = Reader(data)
    try:
        version = reader.integer()
        if version != VERSION:
            raise InvalidArgumentError(f"its version is {version}, not {VERSION}")
        decoded = _read_state(reader)
        reader.finish()
    except InvalidArgumentError as error:
        raise CorruptionError(f"the snapshot of the metadata cannot be read: {error}") from error
    return decoded


def _read_state(reader: Reader) -> tuple[Index, ClusterState]:
    state = ClusterState()
    applied = reader.integer()
    state.cluster = Cluster(reader.text(), reader.integers(), reader.integer())
    next_topic_id = reader.integer()
    next_group = reader.integer()
    state.next_move = reader.integer()
    for _ in range(reader.count()):
        state.put_broker(_read_broker(reader))
    for _ in range(reader.count()):
        node = reader.integer()
        state.removed_nodes[node] = reader.integer()
    for _ in range(reader.count()):
        state.put_topic(_read_topic(reader))
    for _ in range(reader.count()):
        state.put_tombstone(_read_tombstone(reader))
    for _ in range(reader.count()):
        transaction = _read_transaction(reader)
        state.transactions.transactions[transaction.transaction_id] = transaction
    state.transactions.applications = dict(reader.pairs())
    state.streams = read_streams(reader)
    # Last, because putting topics has moved it to the newest that still exists.
    state.next_topic_id = next_topic_id
    state.next_group = next_group
    return applied, state


def _write_broker(writer: Writer, broker: Broker) -> None:
    writer.integer(broker.node)
    writer.text(broker.client_address)
    writer.text(broker.peer_address)
    writer.text(broker.http_address)
    writer.text(broker.grpc_address)
    writer.text(broker.version)
    writer.integer(broker.state)
    writer.integer(broker.registered_at_ms)
    writer.integer(broker.incarnation)


def _read_broker(reader: Reader) -> Broker:
    return Broker(
        node=reader.integer(),
        client_address=reader.text(),
        peer_address=reader.text(),
        http_address=reader.text(),
        grpc_address=reader.text(),
        version=reader.text(),
        state=reader.integer(),
        registered_at_ms=reader.integer(),
        incarnation=reader.integer(),
    )


def _write_topic(writer: Writer, topic: Topic) -> None:
    writer.integer(topic.topic_id)
    writer.text(topic.name)
    writer.integer(topic.replication_factor)
    writer.pairs(topic.chosen)
    writer.integer(len(topic.partitions))
    for partition in topic.partitions:
        _write_partition(writer, partition)
    writer.integer(topic.created_at_ms)
    writer.integer(len(topic.groups))
    for name, chosen in topic.groups:
        writer.text(name)
        writer.pairs(chosen)


def _read_topic(reader: Reader) -> Topic:
    return Topic(
        topic_id=reader.integer(),
        name=reader.text(),
        replication_factor=reader.integer(),
        chosen=reader.pairs(),
        partitions=tuple([_read_partition(number, reader) for number in range(reader.count())]),
        created_at_ms=reader.integer(),
        groups=tuple([(reader.text(), reader.pairs()) for _ in range(reader.count())]),
    )


def _write_partition(writer: Writer, partition: Partition) -> None:
    writer.integer(partition.group)
    writer.integers(partition.replicas)
    writer.integers(partition.founders)
    writer.integers(partition.latecomers)
    writer.integers(partition.lost)
    # Moves count from 1.
    writer.integer(partition.move.number if partition.move is not None else 0)
    if partition.move is not None:
        writer.integers(partition.move.target)
        writer.integers(partition.move.guests)


def _read_partition(number: int, reader: Reader) -> Partition:
    return Partition(
        number=number,
        group=reader.integer(),
        replicas=reader.integers(),
        founders=reader.integers(),
        latecomers=reader.integers(),
        lost=reader.integers(),
        move=_read_move(reader),
    )


def _read_move(reader: Reader) -> Move | None:
    move = reader.integer()
    return Move(move, reader.integers(), reader.integers()) if move else None


def _write_tombstone(writer: Writer, tombstone: Tombstone) -> None:
    writer.integer(tombstone.group)
    writer.integer(tombstone.topic_id)
    writer.integer(tombstone.partition)
    writer.integers(tombstone.waiting)
    writer.integer(tombstone.since_ms)


def _read_tombstone(reader: Reader) -> Tombstone:
    return Tombstone(
        group=reader.integer(),
        topic_id=reader.integer(),
        partition=reader.integer(),
        waiting=reader.integers(),
        since_ms=reader.integer(),
    )


def _write_transaction(writer: Writer, transaction: Transaction) -> None:
    writer.text(transaction.transaction_id)
    writer.integer(transaction.state)
    writer.text(transaction.application_id)
    writer.integer(transaction.version)
    writer.integer(transaction.decided_at_ms)
    writer.integers(transaction.waiting)
    writer.integer(int(transaction.is_repeated))


def _read_transaction(reader: Reader) -> Transaction:
    return Transaction(
        transaction_id=reader.text(),
        state=reader.integer(),
        application_id=reader.text(),
        version=reader.integer(),
        decided_at_ms=reader.integer(),
        waiting=reader.integers(),
        is_repeated=bool(reader.integer()),
    )
