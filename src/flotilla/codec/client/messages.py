"""Each request and reply into and out of its protobuf message (proto/client.proto): one row per value.

A writer fills the body of an envelope and returns what travels behind it as raw bytes; a reader makes
the value out of a body and those bytes. Frames, errors and correlation ids are not known here: that is
`client.py`. The same noun stands in the value and in the contract, so plain rows are a list of
names; the rows of the data path are written out because they are taken for every batch.
"""

from collections.abc import Sequence

from flotilla.codec.client.rows import Buffer, Row, plain
from flotilla.codec.generated import client_pb2
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.operations import (
    AlterTopic,
    BrokerInfo,
    ClusterReply,
    CommitOffset,
    CreateTopic,
    DeleteTopic,
    Done,
    Fetch,
    Fetched,
    GetMetadata,
    Hello,
    InitCluster,
    JoinCluster,
    ListOffsets,
    Metadata,
    OffsetCommitted,
    OffsetFound,
    PartitionInfo,
    Produce,
    Produced,
    ReadOffset,
    RemoveNode,
    TopicInfo,
    TopicReply,
    TransferLeadership,
    Welcome,
)

# The data path.


def _write_produce(body: client_pb2.Produce, value: Produce) -> Sequence[Buffer]:
    body.topic = value.topic
    body.partition = value.partition
    return (value.batch,)


def _read_produce(body: client_pb2.Produce, attachment: memoryview) -> Produce:
    return Produce(body.topic, body.partition, attachment)


def _write_produced(body: client_pb2.Produced, value: Produced) -> Sequence[Buffer]:
    body.base_offset = value.base_offset
    body.duplicate = value.duplicate
    if value.known:
        body.known_positions.extend([position for position, _ in value.known])
        body.known_offsets.extend([offset for _, offset in value.known])
    return ()


def _read_produced(body: client_pb2.Produced, attachment: memoryview) -> Produced:
    known = list(zip(body.known_positions, body.known_offsets, strict=False)) if body.known_positions else []
    return Produced(body.base_offset, body.duplicate, known)


def _read_fetch(body: client_pb2.Fetch, attachment: memoryview) -> Fetch:
    return Fetch(
        body.topic,
        body.partition,
        body.offset,
        body.max_bytes,
        body.wait_ms,
        body.is_any_replica,
        body.is_linearizable,
    )


def _write_fetch(body: client_pb2.Fetch, value: Fetch) -> Sequence[Buffer]:
    body.topic = value.topic
    body.partition = value.partition
    body.offset = value.offset
    body.max_bytes = value.max_bytes
    body.wait_ms = value.wait_ms
    body.is_any_replica = value.is_any_replica
    body.is_linearizable = value.is_linearizable
    return ()


def _write_fetched(body: client_pb2.Fetched, value: Fetched) -> Sequence[Buffer]:
    body.log_start = value.log_start
    body.next_offset = value.next_offset
    body.batch_bytes.extend([len(batch) for batch in value.batches])
    return value.batches


def _read_fetched(body: client_pb2.Fetched, attachment: memoryview) -> Fetched:
    batches: list[bytes | memoryview] = []
    start = 0
    for size in body.batch_bytes[:]:
        batches.append(attachment[start : start + size])
        start += size
    if start != len(attachment):
        raise InvalidArgumentError(f"batches of {start} bytes are announced, {len(attachment)} bytes came")
    return Fetched(batches, body.log_start, body.next_offset)


# Topics and the cluster.


def _write_get_metadata(body: client_pb2.GetMetadata, value: GetMetadata) -> Sequence[Buffer]:
    body.create = value.create
    body.topics.extend(value.topics)
    return ()


def _read_get_metadata(body: client_pb2.GetMetadata, attachment: memoryview) -> GetMetadata:
    return GetMetadata(body.topics[:], body.create)


def _write_topic(body: client_pb2.Topic, topic: TopicInfo) -> None:
    body.name = topic.name
    body.topic_id = topic.topic_id
    for partition in topic.partitions:
        body.partitions.add(
            number=partition.number,
            leader=partition.leader,
            replicas=partition.replicas,
            term=partition.term,
            target=partition.target,
        )
    body.settings.update(topic.settings)


def _read_topic(body: client_pb2.Topic) -> TopicInfo:
    partitions = [
        PartitionInfo(part.number, part.leader, part.replicas[:], part.term, part.target[:]) for part in body.partitions
    ]
    return TopicInfo(body.name, body.topic_id, partitions, dict(body.settings))


def _write_metadata(body: client_pb2.Metadata, value: Metadata) -> Sequence[Buffer]:
    body.cluster_id = value.cluster_id
    body.controller = value.controller
    for broker in value.brokers:
        body.brokers.add(
            node=broker.node,
            client=broker.client,
            http=broker.http,
            is_alive=broker.is_alive,
            state=broker.state,
            grpc=broker.grpc,
        )
    for topic in value.topics:
        _write_topic(body.topics.add(), topic)
    return ()


def _read_metadata(body: client_pb2.Metadata, attachment: memoryview) -> Metadata:
    brokers = [
        BrokerInfo(broker.node, broker.client, broker.http, broker.is_alive, broker.state, broker.grpc)
        for broker in body.brokers
    ]
    return Metadata(body.cluster_id, body.controller, brokers, [_read_topic(topic) for topic in body.topics])


def _write_create_topic(body: client_pb2.CreateTopic, value: CreateTopic) -> Sequence[Buffer]:
    body.topic = value.topic
    body.partitions = value.partitions
    body.replication_factor = value.replication_factor
    body.settings.update(value.settings)
    return ()


def _read_create_topic(body: client_pb2.CreateTopic, attachment: memoryview) -> CreateTopic:
    return CreateTopic(body.topic, body.partitions, body.replication_factor, dict(body.settings))


def _write_alter_topic(body: client_pb2.AlterTopic, value: AlterTopic) -> Sequence[Buffer]:
    body.topic = value.topic
    body.partitions = value.partitions
    body.settings.update(value.settings)
    body.replication_factor = value.replication_factor
    return ()


def _read_alter_topic(body: client_pb2.AlterTopic, attachment: memoryview) -> AlterTopic:
    return AlterTopic(body.topic, body.partitions, dict(body.settings), body.replication_factor)


def _write_topic_reply(body: client_pb2.TopicReply, value: TopicReply) -> Sequence[Buffer]:
    _write_topic(body.topic, value.topic)
    return ()


def _read_topic_reply(body: client_pb2.TopicReply, attachment: memoryview) -> TopicReply:
    return TopicReply(_read_topic(body.topic))


def _write_init_cluster(body: client_pb2.InitCluster, value: InitCluster) -> Sequence[Buffer]:
    body.nodes.update(value.nodes)
    return ()


def _read_init_cluster(body: client_pb2.InitCluster, attachment: memoryview) -> InitCluster:
    return InitCluster(dict(body.nodes))


def _write_cluster_reply(body: client_pb2.ClusterReply, value: ClusterReply) -> Sequence[Buffer]:
    body.cluster_id = value.cluster_id
    body.peers.update(value.peers)
    return ()


def _read_cluster_reply(body: client_pb2.ClusterReply, attachment: memoryview) -> ClusterReply:
    return ClusterReply(body.cluster_id, dict(body.peers))


REQUEST_ROWS: tuple[Row, ...] = (
    plain(Hello, "hello", "version_min", "version_max", "client", "is_gateway"),
    Row(Produce, "produce", _write_produce, _read_produce, has_attachment=True),
    Row(Fetch, "fetch", _write_fetch, _read_fetch),
    plain(ListOffsets, "list_offsets", "topic", "partition", "timestamp_ms"),
    plain(CommitOffset, "commit_offset", "group", "topic", "partition", "offset", "reset", "epoch"),
    plain(ReadOffset, "read_offset", "group", "topic", "partition"),
    Row(GetMetadata, "get_metadata", _write_get_metadata, _read_get_metadata),
    Row(CreateTopic, "create_topic", _write_create_topic, _read_create_topic),
    Row(AlterTopic, "alter_topic", _write_alter_topic, _read_alter_topic),
    plain(DeleteTopic, "delete_topic", "topic"),
    Row(InitCluster, "init_cluster", _write_init_cluster, _read_init_cluster),
    plain(JoinCluster, "join_cluster", "node", "peer", "client", "http", "incarnation"),
    plain(RemoveNode, "remove_node", "node"),
    plain(TransferLeadership, "transfer_leadership", "topic", "partition", "to"),
)

REPLY_ROWS: tuple[Row, ...] = (
    plain(Welcome, "welcome", "version", "node", "cluster_id", "frame_bytes_max", "requests_max", "time_ms"),
    Row(Produced, "produced", _write_produced, _read_produced),
    Row(Fetched, "fetched", _write_fetched, _read_fetched, has_attachment=True),
    plain(OffsetFound, "offset_found", "offset"),
    plain(OffsetCommitted, "offset_committed", "offset"),
    Row(Metadata, "metadata", _write_metadata, _read_metadata),
    Row(TopicReply, "topic_reply", _write_topic_reply, _read_topic_reply),
    Row(ClusterReply, "cluster_reply", _write_cluster_reply, _read_cluster_reply),
    plain(Done, "done"),
)
