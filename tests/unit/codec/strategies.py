"""Hypothesis strategies for everything that travels between replicas."""

from collections.abc import Callable

from hypothesis import strategies as st

from flotilla.raft.configuration import encode_configuration
from flotilla.raft.messages import (
    CONFIG,
    DATA,
    NOOP,
    Append,
    AppendReply,
    CommitNews,
    Configuration,
    Entry,
    Heartbeat,
    HeartbeatReply,
    Message,
    Proposal,
    Quiesce,
    ReadReply,
    ReadRequest,
    RepairReply,
    RepairRequest,
    SnapshotChunk,
    SnapshotMeta,
    SnapshotReply,
    TimeoutNow,
    VerifyReply,
    VerifyRequest,
    VoteReply,
    VoteRequest,
)
from flotilla.types.ids import NUMBER_MAX, GroupId

SENDER = 3
TARGET = NUMBER_MAX

# Small values often, and the largest that fit: varints of one and of nine bytes.
numbers = st.one_of(st.integers(0, 300), st.integers(0, NUMBER_MAX), st.just(NUMBER_MAX))
bodies = st.one_of(
    st.binary(max_size=40),
    st.integers(4090, 4100).map(lambda size: b"\xa5" * size),
    st.integers(4090, 4100).map(lambda size: memoryview(b"\x5a" * size)),
)
nodes = st.lists(st.integers(1, NUMBER_MAX), max_size=5, unique=True).map(tuple)
configurations = st.builds(
    Configuration, voters=nodes, outgoing=nodes, learners=nodes, learners_next=nodes, auto_leave=st.booleans()
)

entries = st.lists(
    st.one_of(
        st.builds(Entry, index=numbers, term=numbers, kind=st.sampled_from([DATA, NOOP]), data=bodies),
        st.builds(
            Entry, index=numbers, term=numbers, kind=st.just(CONFIG), data=configurations.map(encode_configuration)
        ),
    ),
    max_size=4,
)


@st.composite
def snapshot_chunks(draw: Callable[..., object]) -> SnapshotChunk:
    data = draw(bodies)
    offset = draw(st.integers(0, 1 << 20))
    rest = draw(st.integers(0, 1 << 20))
    meta = SnapshotMeta(
        draw(numbers), draw(numbers), draw(numbers), draw(numbers), draw(configurations), offset + len(data) + rest
    )
    return SnapshotChunk(SENDER, TARGET, draw(numbers), meta, offset, data)


def _message(kind: type[Message], **fields: st.SearchStrategy[object]) -> st.SearchStrategy[Message]:
    return st.builds(kind, sender=st.just(SENDER), to=st.just(TARGET), term=numbers, **fields)


flags = st.booleans()
MESSAGES: dict[type[Message], st.SearchStrategy[Message]] = {
    VoteRequest: _message(VoteRequest, last_index=numbers, last_term=numbers, pre=flags, transfer=flags),
    VoteReply: _message(VoteReply, granted=flags, pre=flags),
    Append: _message(Append, prev_index=numbers, prev_term=numbers, commit=numbers, entries=entries),
    AppendReply: _message(AppendReply, index=numbers, accepted=flags, hint_index=numbers, hint_term=numbers),
    Heartbeat: _message(Heartbeat, commit=numbers, read_id=numbers),
    HeartbeatReply: _message(HeartbeatReply, read_id=numbers),
    CommitNews: _message(CommitNews, commit=numbers),
    Quiesce: _message(Quiesce, commit=numbers),
    SnapshotChunk: snapshot_chunks(),
    SnapshotReply: _message(SnapshotReply, index=numbers, offset=numbers),
    TimeoutNow: _message(TimeoutNow, reason=st.integers(0, 2**32 - 1)),
    VerifyRequest: _message(VerifyRequest, index=numbers, index_term=numbers, verify_id=numbers),
    VerifyReply: _message(VerifyReply, verify_id=numbers, holds=flags, last_index=numbers),
    Proposal: _message(Proposal, data=st.binary(max_size=60)),
    ReadRequest: _message(ReadRequest, read_id=numbers),
    ReadReply: _message(ReadReply, read_id=numbers, index=st.integers(-1, 2**63 - 1)),
    RepairRequest: _message(RepairRequest, low=numbers, high=numbers),
    RepairReply: _message(RepairReply, low=numbers, entries=entries, absent=flags, compacted=flags),
}

messages = st.one_of(*MESSAGES.values())
frames: st.SearchStrategy[list[tuple[GroupId, Message]]] = st.lists(
    st.tuples(numbers, messages), min_size=1, max_size=12
)
