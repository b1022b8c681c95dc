"""The bounds fit into each other."""

from flotilla.types import limits


def test_all_are_positive_integers():
    values = {name: value for name, value in vars(limits).items() if name.isupper()}
    assert values
    assert all(type(value) is int and value > 0 for value in values.values())


def test_the_largest_entry_fits_everywhere_it_must_pass():
    assert limits.ENTRY_BYTES_MAX < limits.PEER_FRAME_BYTES_MAX
    assert limits.ENTRY_BYTES_MAX < limits.PROPOSAL_BYTES_MAX
    assert limits.ENTRY_BYTES_MAX < limits.JOURNAL_FILE_BYTES
    assert limits.ENTRY_BYTES_MAX < limits.SEGMENT_FILE_BYTES


def test_pieces_fit_into_frames():
    assert limits.APPEND_BYTES_MAX < limits.PEER_FRAME_BYTES_MAX
    assert limits.SNAPSHOT_CHUNK_BYTES_MAX < limits.PEER_FRAME_BYTES_MAX
    assert limits.SNAPSHOT_CHUNK_BYTES_MAX <= limits.SNAPSHOT_BYTES_MAX
    assert limits.SEGMENT_INDEX_INTERVAL_BYTES < limits.SEGMENT_FILE_BYTES


def test_messages_of_grpc_calls_are_bounded_together():
    """Of a stream that is read the library may hold one message that no budget has counted, and of others a window."""
    of_read_streams = limits.GRPC_READ_STREAM_COUNT_MAX * limits.GRPC_MESSAGE_BYTES_MAX
    windows = limits.GRPC_STREAM_COUNT_MAX * 64 * limits.KIB
    # Fragments of the allocator come on top.
    assert of_read_streams + windows + limits.GRPC_BYTES_MAX <= 500 * limits.MIB


def test_a_snapshot_may_be_as_large_as_a_file_may_count():
    assert limits.SNAPSHOT_BYTES_MAX < 2**32
