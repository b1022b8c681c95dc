"""A snapshot while its chunks arrive. They are kept as they are: joining a large one takes long."""

from flotilla.raft.messages import SnapshotChunk


class IncomingSnapshot:
    __slots__ = ("meta", "pieces", "sender", "size_bytes", "term")

    def __init__(self, first: SnapshotChunk) -> None:
        self.meta = first.meta
        #: Who sends it, and in which term; 0: a member that does not lead.
        self.sender = first.sender
        self.term = first.term
        self.pieces: list[bytes] = []
        #: Received so far.
        self.size_bytes = 0

    def add(self, chunk: SnapshotChunk) -> None:
        """No effect unless the chunk is the next one."""
        if chunk.offset == self.size_bytes and chunk.data:
            self.pieces.append(bytes(chunk.data))
            self.size_bytes += len(chunk.data)
