"""Configurations round-trip, and what is no configuration is refused by name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flotilla.codec.log import decode_configuration, encode_configuration
from flotilla.raft.messages import Configuration
from flotilla.types.errors import InvalidArgumentError
from tests.unit.codec.strategies import configurations


@given(configurations)
def test_round_trip(configuration):
    assert decode_configuration(encode_configuration(configuration)) == configuration


def test_bytes_stay_readable():
    """On disk for ever: these bytes may not change their meaning."""
    joint = Configuration((1, 2, 300), (1, 2), (4,), (2,), True)
    recorded = bytes.fromhex("0a040102ac02120201021a01042201022801")
    assert encode_configuration(joint) == recorded
    assert decode_configuration(memoryview(recorded)) == joint


@pytest.mark.parametrize(
    "data", [b"\xff", b"\x0a\x05\x01", b"\x0a\x01\x00", b"\x0a\x02\x01\x01"], ids=["garbage", "cut", "node 0", "twice"]
)
def test_damage_is_refused(data):
    with pytest.raises(InvalidArgumentError):
        decode_configuration(data)


@given(st.binary(max_size=60))
def test_random_bytes_are_refused_or_decoded_never_worse(data):
    try:
        configuration = decode_configuration(data)
    except InvalidArgumentError:
        return
    assert decode_configuration(encode_configuration(configuration)) == configuration
