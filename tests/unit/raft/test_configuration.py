"""A configuration survives being the body of an entry, and nothing else is taken for one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flotilla.raft.configuration import decode_configuration, encode_configuration
from flotilla.raft.messages import Configuration
from flotilla.types.errors import CorruptionError
from flotilla.types.ids import NUMBER_MAX

IDS = st.lists(st.integers(1, NUMBER_MAX), max_size=7, unique=True).map(tuple)
GOOD = encode_configuration(Configuration((1, 2), (3,), (4,), (), True))


@given(st.builds(Configuration, IDS, IDS, IDS, IDS, st.booleans()))
def test_round_trip(configuration: Configuration):
    assert decode_configuration(encode_configuration(configuration)) == configuration
    assert decode_configuration(memoryview(encode_configuration(configuration))) == configuration


@pytest.mark.parametrize(
    "data",
    [
        b"",
        GOOD[:9],
        GOOD[:-1],
        GOOD + b"\0",
        b"\2" + GOOD[1:],
        GOOD[:1] + b"\2" + GOOD[2:],
        GOOD[:10] + bytes(8) + GOOD[18:],
        GOOD[:10] + GOOD[18:26] + GOOD[18:],
        GOOD[:10] + b"\xff" * 8 + GOOD[18:],
    ],
    ids=["empty", "no head", "cut off", "too long", "version", "flag", "node 0", "twice", "no node id"],
)
def test_other_bytes_are_refused(data: bytes):
    with pytest.raises(CorruptionError):
        decode_configuration(data)


@given(st.binary(max_size=64))
def test_any_bytes_are_a_configuration_or_refused(data: bytes):
    try:
        configuration = decode_configuration(data)
    except CorruptionError:
        return
    assert encode_configuration(configuration) == data
