"""A configuration survives being the body of an entry."""

from hypothesis import given
from hypothesis import strategies as st

from flotilla.raft.configuration import decode_configuration, encode_configuration
from flotilla.raft.messages import Configuration

IDS = st.lists(st.integers(1, 2**64 - 1), max_size=7).map(tuple)


@given(st.builds(Configuration, IDS, IDS, IDS, IDS, st.booleans()))
def test_round_trip(configuration: Configuration):
    assert decode_configuration(encode_configuration(configuration)) == configuration
    assert decode_configuration(memoryview(encode_configuration(configuration))) == configuration
