"""Rows of the log, topics and the cluster: how each value gets into its message of proto/client.proto and back.

A writer fills the body of an envelope and returns the raw bytes that follow it; a reader makes the value of both.
`frames` adds lengths, correlation ids and errors. A value and its message use the same names, so most rows are derived
from them; the rows of the data path are written out because they run for every batch.
"""

from collections.abc import Sequence

from flotilla.codec.client.rows import Buffer, Row, by_hand, derived, read_headers, write_headers
from flotilla.codec.generated import client_pb2
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.operations import (
    AlterTopic,
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
    PartitionTrimmed,
    Ping,
    Produce,
    Produced,
    ReadOffset,
    RemoveNode,
    TopicReply,
    TransferLeadership,
    TrimPartition,
    Welcome,
)

# The data path.


def _write_produce(body: client_pb2.Produce, value: Produce) -> Sequence[Buffer]:
    body.topic = value.topic
    body.partition = value.partition
    body.topic_id = value.topic_id
    body.partition_count = value.partition_count
    if value.owner:
        body.owner = value.owner
    return (value.batch,)


def _read_produce(body: client_pb2.Produce, attachment: memoryview) -> Produce:
    return Produce(body.topic, body.partition, attachment, body.topic_id, body.partition_count, body.owner)


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
        body.topic_id,
        body.types[:],
        read_headers(body.headers) if body.headers else [],
        body.key if body.HasField("key") else None,
        body.contains,
    )


def _write_fetch(body: client_pb2.Fetch, value: Fetch) -> Sequence[Buffer]:
    body.topic = value.topic
    body.partition = value.partition
    body.offset = value.offset
    body.max_bytes = value.max_bytes
    body.wait_ms = value.wait_ms
    body.is_any_replica = value.is_any_replica
    body.is_linearizable = value.is_linearizable
    body.topic_id = value.topic_id
    if value.types:
        body.types.extend(value.types)
    if value.headers:
        write_headers(body.headers, value.headers)
    if value.key is not None:
        body.key = value.key
    if value.contains:
        body.contains = value.contains
    return ()


def _write_fetched(body: client_pb2.Fetched, value: Fetched) -> Sequence[Buffer]:
    body.log_start = value.log_start
    body.next_offset = value.next_offset
    body.reached = value.reached
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
    return Fetched(batches, body.log_start, body.next_offset, body.reached)


REQUEST_ROWS: tuple[Row, ...] = (
    derived(Hello),
    derived(Ping),
    by_hand(Produce, _write_produce, _read_produce, has_attachment=True),
    by_hand(Fetch, _write_fetch, _read_fetch),
    derived(ListOffsets),
    derived(CommitOffset),
    derived(ReadOffset),
    derived(TrimPartition),
    derived(GetMetadata),
    derived(CreateTopic),
    derived(AlterTopic),
    derived(DeleteTopic),
    derived(InitCluster),
    derived(JoinCluster),
    derived(RemoveNode),
    derived(TransferLeadership),
)

REPLY_ROWS: tuple[Row, ...] = (
    derived(Welcome),
    by_hand(Produced, _write_produced, _read_produced),
    by_hand(Fetched, _write_fetched, _read_fetched, has_attachment=True),
    derived(OffsetFound),
    derived(OffsetCommitted),
    derived(PartitionTrimmed),
    derived(Metadata),
    derived(TopicReply),
    derived(ClusterReply),
    derived(Done),
)
