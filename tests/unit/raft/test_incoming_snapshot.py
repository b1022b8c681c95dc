"""A snapshot that arrives in chunks."""

from flotilla.raft.incoming_snapshot import IncomingSnapshot
from flotilla.raft.messages import Configuration, SnapshotChunk, SnapshotMeta

META = SnapshotMeta(9, 1, 9, 1, Configuration(voters=(1, 2)), 10)


def test_chunks_are_kept_in_order_and_never_copied() -> None:
    first, second = b"abcd", b"efghij"
    incoming = IncomingSnapshot(SnapshotChunk(1, 2, 1, META, 0, first))
    for offset, data, received in ((0, first, 4), (0, first, 4), (7, b"later", 4), (4, b"", 4), (4, second, 10)):
        incoming.add(SnapshotChunk(1, 2, 1, META, offset, data))
        assert incoming.size_bytes == received
    assert [id(piece) for piece in incoming.pieces] == [id(first), id(second)]
