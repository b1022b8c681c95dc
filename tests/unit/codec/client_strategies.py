"""Hypothesis strategies for everything that clients and brokers say to each other."""

from typing import Any

from hypothesis import strategies as st

from flotilla.types import operations as op

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

partitions = st.builds(op.PartitionInfo, number=u32, leader=u64, replicas=st.lists(u64, max_size=3))
topics = st.builds(
    op.TopicInfo, name=text, topic_id=u64, partitions=st.lists(partitions, max_size=3), settings=settings
)
brokers = st.builds(op.BrokerInfo, node=u64, client=text, http=text, is_alive=flags)

REQUESTS: dict[type, st.SearchStrategy[Any]] = {
    op.Hello: st.builds(op.Hello, version_min=u32, version_max=u32, client=text),
    op.Produce: st.builds(op.Produce, topic=text, partition=u32, batch=batches),
    op.Fetch: st.builds(op.Fetch, topic=text, partition=u32, offset=u64, max_bytes=u32, wait_ms=u32),
    op.ListOffsets: st.builds(op.ListOffsets, topic=text, partition=u32, timestamp_ms=i64),
    op.CommitOffset: st.builds(op.CommitOffset, group=text, topic=text, partition=u32, offset=u64, reset=flags),
    op.ReadOffset: st.builds(op.ReadOffset, group=text, topic=text, partition=u32),
    op.GetMetadata: st.builds(op.GetMetadata, topics=st.lists(text, max_size=3)),
    op.CreateTopic: st.builds(op.CreateTopic, topic=text, partitions=u32, replication_factor=u32, settings=settings),
    op.AlterTopic: st.builds(op.AlterTopic, topic=text, partitions=u32, settings=settings),
    op.DeleteTopic: st.builds(op.DeleteTopic, topic=text),
    op.InitCluster: st.builds(op.InitCluster, nodes=nodes),
    op.JoinCluster: st.builds(op.JoinCluster, node=u64, peer=text, client=text, http=text),
    op.RemoveNode: st.builds(op.RemoveNode, node=u64),
    op.TransferLeadership: st.builds(op.TransferLeadership, topic=text, partition=u32, to=u64),
}

REPLIES: dict[type, st.SearchStrategy[Any]] = {
    op.Welcome: st.builds(op.Welcome, version=u32, node=u64, cluster_id=text, frame_bytes_max=u32, requests_max=u32),
    op.Produced: st.builds(op.Produced, base_offset=u64, duplicate=flags),
    op.Fetched: st.builds(op.Fetched, batches=st.lists(batches, max_size=3), log_start=u64, next_offset=u64),
    op.OffsetFound: st.builds(op.OffsetFound, offset=i64),
    op.OffsetCommitted: st.builds(op.OffsetCommitted, offset=u64),
    op.Metadata: st.builds(
        op.Metadata,
        cluster_id=text,
        controller=u64,
        brokers=st.lists(brokers, max_size=3),
        topics=st.lists(topics, max_size=3),
    ),
    op.TopicReply: st.builds(op.TopicReply, topic=topics),
    op.ClusterReply: st.builds(op.ClusterReply, cluster_id=text, peers=nodes),
    op.Done: st.builds(op.Done),
}

requests = st.one_of(*REQUESTS.values())
replies = st.one_of(*REPLIES.values())
