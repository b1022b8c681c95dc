"""Which hellos are accepted, and what the answer says of the node that gave it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flotilla.peers import handshake
from flotilla.peers.handshake import Introduction, KnownPeer, PeerHello, PeerWelcome, judge
from flotilla.security.join_secret import NONCE_BYTES
from flotilla.types.version import CLUSTER_VERSION_MAX

CLUSTER = b"0123456789abcdef"
OWN_ID = b"a cluster's id !"
OTHER_ID = b"another's id   !"
GOOD = PeerHello(cluster=CLUSTER, sender=2, to=1, process=77, data=5)
OWN = Introduction(CLUSTER, node=1, process=1, cluster_id=OWN_ID)
MEMBERS = {2: KnownPeer(5, starts=7, process=77), 3: KnownPeer()}


@pytest.mark.parametrize(
    ("hello", "decision"),
    [
        (GOOD, handshake.ACCEPTED),
        (replace(GOOD, version_min=1, version_max=9), handshake.ACCEPTED),
        (replace(GOOD, version_min=8, version_max=9), handshake.REFUSED_VERSION),
        (replace(GOOD, version_min=0, version_max=0), handshake.REFUSED_VERSION),
        (replace(GOOD, cluster=b"another cluster!"), handshake.REFUSED_CLUSTER),
        (replace(GOOD, to=3), handshake.REFUSED_ADDRESSEE),
        (replace(GOOD, cluster_id=OWN_ID), handshake.ACCEPTED),
        (replace(GOOD, cluster_id=OTHER_ID), handshake.REFUSED_CLUSTER_ID),
        (replace(GOOD, sender=4), handshake.REFUSED_STRANGER),
        (replace(GOOD, sender=9), handshake.REFUSED_REMOVED),
        (replace(GOOD, data=5, starts=8), handshake.ACCEPTED),
        (replace(GOOD, data=6, starts=1), handshake.REFUSED_DATA),
        (replace(GOOD, data=0), handshake.REFUSED_DATA),
        (replace(GOOD, sender=3, data=6), handshake.ACCEPTED),
        (replace(GOOD, sender=1), handshake.REFUSED_STRANGER),
        (replace(GOOD, cluster=b"another cluster!", version_min=9, version_max=9), handshake.REFUSED_VERSION),
        # The starts of one data directory: the newest that the cluster knows, a later one, an earlier one, and another
        # one of the same number, as a copy of the directory would have.
        (replace(GOOD, data=5, starts=7), handshake.ACCEPTED),
        (replace(GOOD, data=5, starts=8, process=78), handshake.ACCEPTED),
        (replace(GOOD, data=5, starts=6), handshake.REFUSED_OLDER),
        (replace(GOOD, data=5, starts=7, process=78), handshake.REFUSED_OLDER),
        # Not counted, because the disk was full.
        (replace(GOOD, data=5, starts=0), handshake.ACCEPTED),
    ],
)
def test_hellos_and_their_decisions(hello: PeerHello, decision: int) -> None:
    assert judge(hello, OWN, MEMBERS, removed=(9,)) == decision
    assert decision in handshake.DECISION_TEXT


def test_an_unknown_cluster_id_goes_with_any() -> None:
    nobody = Introduction(CLUSTER, node=1, process=1)
    assert judge(replace(GOOD, cluster_id=OTHER_ID), nobody, MEMBERS) == handshake.ACCEPTED


@pytest.mark.parametrize(
    ("supported", "cluster_version", "decision", "version"),
    [
        ((1, 1), 0, handshake.ACCEPTED, 1),
        ((1, 1), 1, handshake.ACCEPTED, 1),
        ((1, 9), 1, handshake.ACCEPTED, CLUSTER_VERSION_MAX),
        ((1, 1), 2, handshake.REFUSED_VERSION, 2),
        ((1, 2), 2, handshake.ACCEPTED, 2),
        # A node that has not heard of the newest version yet accepts those that have.
        ((2, CLUSTER_VERSION_MAX + 1), 1, handshake.ACCEPTED, CLUSTER_VERSION_MAX),
    ],
)
def test_a_node_that_does_not_support_the_cluster_version_is_refused_and_learns_it(
    supported: tuple[int, int], cluster_version: int, decision: int, version: int
) -> None:
    own = replace(OWN, cluster_version=cluster_version)
    hello = replace(GOOD, version_min=supported[0], version_max=supported[1])
    assert judge(hello, own, MEMBERS) == decision
    assert own.welcome(hello, decision).version == version


def test_the_answer_says_whether_the_node_is_part_of_a_cluster() -> None:
    own = Introduction(CLUSTER, node=1, process=1, data=11)
    hello = replace(GOOD, data=22)
    assert own.welcome(hello, handshake.ACCEPTED) == PeerWelcome(handshake.ACCEPTED, 1, CLUSTER_VERSION_MAX, 11)
    own.is_in_cluster, own.cluster_id = True, OWN_ID
    refused = own.welcome(hello, handshake.REFUSED_DATA)
    assert (refused.standing, refused.cluster_id, refused.version) == (handshake.IN_CLUSTER, OWN_ID, 0)
    own.founders = {2: 22, 3: 33}
    assert own.welcome(hello, handshake.ACCEPTED).standing == handshake.FOUNDED_WITH_YOU
    assert own.welcome(replace(hello, data=23), handshake.ACCEPTED).standing == handshake.IN_CLUSTER
    assert own.welcome(replace(hello, data=0), handshake.ACCEPTED).standing == handshake.IN_CLUSTER


def test_both_frames_come_back_as_they_were_and_leave_room_for_more() -> None:
    hello = replace(GOOD, data=2**63, cluster_id=OWN_ID, starts=2**40)
    assert handshake.decode_hello(handshake.encode_hello(hello) + b"more") == hello
    welcome = PeerWelcome(
        handshake.REFUSED_CLUSTER,
        sender=1,
        version=1,
        data=2**63,
        cluster_id=OWN_ID,
        standing=handshake.FOUNDED_WITH_YOU,
    )
    assert handshake.decode_welcome(handshake.encode_welcome(welcome) + b"more") == welcome
    assert len(handshake.encode_hello(GOOD)) <= handshake.HANDSHAKE_BYTES_MAX


@given(st.binary(max_size=80))
def test_garbage_is_no_handshake(data: bytes) -> None:
    for decode in (handshake.decode_hello, handshake.decode_welcome):
        with pytest.raises(handshake.HandshakeError):
            decode(b"G" + data)
        with pytest.raises(handshake.HandshakeError):
            decode(b"FLTP" + data[:8])


@pytest.mark.parametrize("nonce", [b"", bytes(range(NONCE_BYTES))])
def test_the_election_timeout_ends_the_hello_and_earlier_programs_say_none(nonce: bytes) -> None:
    hello = replace(GOOD, nonce=nonce, election_ms=60_000)
    frame = handshake.encode_hello(hello)
    for more in (b"", b"m", b"more", b"even more"):
        assert handshake.decode_hello(frame + more) == hello
    assert handshake.decode_hello(frame[:-4]) == replace(hello, election_ms=0)
    own = replace(OWN, election_ms=1_500)
    assert handshake.decode_hello(handshake.encode_hello(own.hello(2))).election_ms == 1_500
    # Where an earlier program looks for a nonce, it finds that one or none.
    known = len(frame) - 4 - len(nonce)
    assert frame[known : known + NONCE_BYTES][: len(nonce)] == nonce
    assert nonce or len(frame) - known < NONCE_BYTES
