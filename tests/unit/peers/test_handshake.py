"""Which hellos are accepted."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flotilla.peers import handshake
from flotilla.peers.handshake import PeerHello, PeerWelcome, judge

CLUSTER = b"0123456789abcdef"
GOOD = PeerHello(cluster=CLUSTER, sender=2, to=1, incarnation=77)


@pytest.mark.parametrize(
    ("hello", "decision"),
    [
        (GOOD, handshake.ACCEPTED),
        (replace(GOOD, version_min=1, version_max=9), handshake.ACCEPTED),
        (replace(GOOD, version_min=2, version_max=9), handshake.REFUSED_VERSION),
        (replace(GOOD, version_min=0, version_max=0), handshake.REFUSED_VERSION),
        (replace(GOOD, cluster=b"another cluster!"), handshake.REFUSED_CLUSTER),
        (replace(GOOD, to=3), handshake.REFUSED_ADDRESSEE),
        (replace(GOOD, sender=4), handshake.REFUSED_STRANGER),
        (replace(GOOD, data=5), handshake.ACCEPTED),
        (replace(GOOD, data=6), handshake.REFUSED_DATA),
        (replace(GOOD, sender=3, data=6), handshake.ACCEPTED),
        (replace(GOOD, sender=1), handshake.REFUSED_STRANGER),
        (replace(GOOD, cluster=b"another cluster!", version_min=2, version_max=2), handshake.REFUSED_VERSION),
    ],
)
def test_hellos_and_their_decisions(hello: PeerHello, decision: int) -> None:
    assert judge(hello, cluster=CLUSTER, node=1, members={2: 5, 3: 0}) == decision
    assert decision in handshake.DECISION_TEXT


def test_both_frames_come_back_as_they_were_and_leave_room_for_more() -> None:
    hello = replace(GOOD, data=2**63)
    assert handshake.decode_hello(handshake.encode_hello(hello) + b"more") == hello
    assert handshake.decode_hello(handshake.encode_hello(hello)[:-8]) == GOOD, "an older version sends less"
    welcome = PeerWelcome(handshake.REFUSED_CLUSTER, sender=1, version=1)
    assert handshake.decode_welcome(handshake.encode_welcome(welcome) + b"more") == welcome
    assert len(handshake.encode_hello(GOOD)) <= handshake.HANDSHAKE_BYTES_MAX


@given(st.binary(max_size=80))
def test_garbage_is_no_handshake(data: bytes) -> None:
    for decode in (handshake.decode_hello, handshake.decode_welcome):
        with pytest.raises(handshake.HandshakeError):
            decode(b"G" + data)
        with pytest.raises(handshake.HandshakeError):
            decode(b"FLTP" + data[:8])
