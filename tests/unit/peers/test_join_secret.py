"""Links without TLS, where nodes share a secret: both sides prove it, nobody tells it, and others are refused."""

import random
from dataclasses import replace

import pytest

from flotilla.peers.handshake import (
    CHALLENGED,
    DECISION_TEXT,
    REFUSED_SECRET,
    PeerHello,
    PeerWelcome,
    decode_welcome,
    encode_hello,
)
from flotilla.peers.network import PeerNetwork
from flotilla.security.join_secret import JoinSecret
from tests.unit.peers.harness import CHECK_MS, CLUSTER, LOOPBACK, NOWHERE, BarePeer, Recorder, append, listen_bare, run
from tests.unit.peers.harness import _networks as networks

SECRET = JoinSecret("the secret of this cluster, 1")
OTHER = JoinSecret("the secret of another one, 12")


async def started(node: int, secret: JoinSecret | None) -> tuple[PeerNetwork, Recorder]:
    made = PeerNetwork(
        node=node,
        cluster=CLUSTER,
        listen=LOOPBACK,
        peers={},
        chance=random.Random(node),
        check_interval_ms=CHECK_MS,
        secret=secret,
    )
    networks.append(made)
    events = Recorder()
    await made.start(events)
    return made, events


def test_two_nodes_that_know_the_secret_meet() -> None:
    async def scenario() -> None:
        one, events_one = await started(1, SECRET)
        two, events_two = await started(2, JoinSecret("the secret of this cluster, 1"))
        one.add_peer(2, two.address)
        two.add_peer(1, one.address)
        await events_one.wait_change("up", 2)
        await events_two.wait_change("up", 1)
        # Larger than a handshake may be.
        message = append(1, 2, bytes(range(256)) * 20_000)
        one.send(2, [message])
        await events_two.wait_until(lambda: len(events_two.messages) == 1)
        assert events_two.messages == [message]
        assert events_one.refusals == events_two.refusals == []

    run(scenario)


@pytest.mark.parametrize("other", [OTHER, None], ids=["another", "none"])
def test_a_node_without_the_secret_is_refused_by_both_sides(other: JoinSecret | None) -> None:
    async def scenario() -> None:
        one, events_one = await started(1, SECRET)
        two, events_two = await started(2, other)
        one.add_peer(2, two.address)
        two.add_peer(1, one.address)
        await events_one.wait_until(lambda: any("secret" in reason for _, _, reason in events_one.refusals))
        await events_two.wait_until(lambda: any("secret" in reason for _, _, reason in events_two.refusals))
        assert not one.is_up(2)
        assert not two.is_up(1)

    run(scenario)


def test_what_was_overheard_opens_nothing() -> None:
    """A proof is about the nonces of its own connection, and that of the other side is none."""

    async def scenario() -> None:
        one, events = await started(1, SECRET)
        one.add_peer(2, NOWHERE)
        hello = PeerHello(CLUSTER, sender=2, to=1, process=5, nonce=b"n" * 16)
        first = await BarePeer.dial(one.address)
        challenge = await first.introduce(hello)
        assert challenge.decision == CHALLENGED
        assert (challenge.data, challenge.cluster_id) == (0, bytes(16))
        proof = replace(one.own, node=2).answer(encode_hello(hello), challenge)
        assert proof is not None
        for answer in (proof, challenge.proof, b"", bytes(32)):
            second = await BarePeer.dial(one.address)
            asked = await second.introduce(hello)
            assert asked.nonce != challenge.nonce
            second.write_frame(answer or b"?")
            assert decode_welcome(await second.read_frame()).decision == REFUSED_SECRET
            await second.wait_cut()
            second.close()
        assert events.refusals == [("here", 2, DECISION_TEXT[REFUSED_SECRET])]
        # The right one is still good where it was asked for.
        first.write_frame(proof)
        assert decode_welcome(await first.read_frame()).decision == 0
        first.close()

    run(scenario)


def test_a_node_says_nothing_to_one_that_only_pretends_to_know() -> None:
    heard: list[bytes] = []

    async def pretend(peer: BarePeer) -> None:
        await peer.welcome(PeerWelcome(CHALLENGED, 2, nonce=b"n" * 16, proof=b"p" * 32))
        heard.append(await peer.reader.read(100))

    async def scenario() -> None:
        one, events = await started(1, SECRET)
        server, address = await listen_bare(pretend)
        one.add_peer(2, address)
        await events.wait_until(lambda: bool(events.refusals))
        server.close()
        assert events.refusals == [("there", 2, "the other side does not know the join secret")]
        assert set(heard) <= {b""}

    run(scenario)


@pytest.mark.parametrize("other", [SECRET, None], ids=["required", "none"])
def test_while_the_secret_is_optional_nodes_with_and_without_it_meet(other: JoinSecret | None) -> None:
    async def scenario() -> None:
        one, events_one = await started(1, JoinSecret("the secret of this cluster, 1", is_optional=True))
        two, events_two = await started(2, other)
        one.add_peer(2, two.address)
        two.add_peer(1, one.address)
        await events_one.wait_change("up", 2)
        await events_two.wait_change("up", 1)
        assert events_one.refusals == events_two.refusals == []

    run(scenario)


def test_another_secret_is_refused_while_the_secret_is_optional() -> None:
    async def scenario() -> None:
        one, events_one = await started(1, JoinSecret("the secret of this cluster, 1", is_optional=True))
        two, _ = await started(2, OTHER)
        one.add_peer(2, two.address)
        two.add_peer(1, one.address)
        await events_one.wait_until(lambda: any("secret" in reason for _, _, reason in events_one.refusals))
        assert not one.is_up(2)

    run(scenario)


def test_a_secret_is_long_and_does_not_show() -> None:
    with pytest.raises(Exception, match="at least 24"):
        JoinSecret("too short")
    assert "cluster" not in repr(SECRET)
