"""Snapshots that a member sends without leading, to a damaged replica that no leader can mend.

A damaged replica may have the longest log: then nobody else can win an election, and it must not stand itself. If the
others have compacted the damaged entries away, only a snapshot mends it, and no leader will ever send one.

Any member's snapshot will do. What it covers was applied, so it is committed, and the state there is the same
everywhere. The receiver keeps its own entries after it, so that it still has all that it acknowledged. The chunks have
term 0: they name no leader, promise nothing, and only a damaged replica takes them. They are offered only while no
leader is known; a leader sends a snapshot of its own, and flow control with it.

The sender remembers nothing: a reply names the next chunk. The receiver takes one snapshot at a time, and another
member's only if the first no longer comes.
"""

from dataclasses import replace

from flotilla.raft.messages import SnapshotChunk, SnapshotReply
from flotilla.raft.state import RaftState
from flotilla.types.errors import CorruptionError, StorageFailedError
from flotilla.types.ids import NO_NODE, Index, NodeId

#: After this many requests without a further chunk, a snapshot of any member is taken instead.
_STALLS_MAX = 3


def offer(node: RaftState, to: NodeId, *, reaching: Index) -> None:
    """Sends the first chunk of this node's snapshot, if nobody leads and it covers all entries up to `reaching`."""
    meta = node.log.stored.snapshot()
    if node.leader != NO_NODE or meta is None or meta.index > node.log.committed:
        # A state that is ahead of the log is a leader's: our own log may differ from it.
        return
    if meta.index < reaching:
        node.snapshot_wanted = True
        return
    _send(node, to, meta.index, 0)


def serve(node: RaftState, reply: SnapshotReply) -> None:
    """The receiver has `reply.offset` bytes: sends the next chunk."""
    meta = node.log.stored.snapshot()
    if meta is not None and meta.index == reply.index <= node.log.committed and reply.offset < meta.size_bytes:
        _send(node, reply.sender, reply.index, reply.offset)


def _send(node: RaftState, to: NodeId, index: Index, offset: int) -> None:
    log = node.log
    meta = log.stored.snapshot()
    assert meta is not None
    try:
        data = log.stored.snapshot_chunk(index, offset, node.options.snapshot_chunk_bytes_max)
    except CorruptionError:
        node.snapshot_wanted = True
    except StorageFailedError:
        # It cannot be read now, or is being loaded. The receiver asks again.
        pass
    else:
        if data is not None:
            meta = replace(meta, log_index=log.base, log_term=log.term(log.base))
            node.messages.append(SnapshotChunk(node.id, to, 0, meta, offset, data))


def is_next(node: RaftState, chunk: SnapshotChunk) -> bool:
    """Whether the receiver can use this chunk now. Others are dropped without a reply, which would double them."""
    incoming = node.incoming
    if incoming is None or incoming.term != 0 or node.repair_stalls >= _STALLS_MAX:
        is_expected = chunk.offset == 0
        if is_expected:
            node.incoming = None
    else:
        is_expected = chunk.meta == incoming.meta and chunk.offset == incoming.size_bytes
    if is_expected:
        node.repair_ticks = node.repair_stalls = 0
    return is_expected


def ask_again(node: RaftState) -> None:
    """No chunk has come for a while."""
    incoming = node.incoming
    if incoming is not None and incoming.term == 0:
        node.repair_stalls += 1
        offset = incoming.size_bytes
        node.messages.append(SnapshotReply(node.id, incoming.sender, 0, index=incoming.meta.index, offset=offset))
