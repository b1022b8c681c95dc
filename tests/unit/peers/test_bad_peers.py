"""Peers that lie, send garbage, fall silent or stop reading: each costs a connection, none costs the node."""

import asyncio
import socket
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from flotilla.codec.frames import frame_header
from flotilla.codec.peer.frames import encode_frame
from flotilla.peers import handshake
from flotilla.peers.connection import PING, PeerConnection
from flotilla.peers.handshake import PeerHello, PeerWelcome, encode_hello
from flotilla.peers.network import PeerNetwork
from flotilla.raft.messages import Heartbeat
from flotilla.types.limits import PEER_FRAME_BYTES_MAX, PEER_HANDSHAKE_COUNT_MAX, PEER_QUEUE_BYTES_MAX
from flotilla.types.timing import SILENT_CHECKS_MAX
from tests.unit.peers.harness import (
    CLUSTER,
    NOWHERE,
    BarePeer,
    Recorder,
    append,
    heartbeat,
    listen_bare,
    network,
    pair,
    run,
    wait_pinged,
)

HELLO = PeerHello(CLUSTER, sender=2, to=1, process=5)
WELCOME = PeerWelcome(handshake.ACCEPTED, sender=2, version=1)


#: No check ever comes by itself, so no peer is cut for being slow.
NEVER_MS = 1_000_000


async def started(check_ms: int = NEVER_MS) -> tuple[PeerNetwork, Recorder]:
    """Node 1, which knows nodes 2 and 3 but cannot reach them."""
    one, events = network(1, {2: NOWHERE, 3: NOWHERE}, check_ms=check_ms), Recorder()
    await one.start(events)
    return one, events


@pytest.mark.parametrize(
    ("hello", "decision"),
    [
        (HELLO, handshake.ACCEPTED),
        (replace(HELLO, version_min=7, version_max=8), handshake.REFUSED_VERSION),
        (replace(HELLO, cluster=b"another cluster!"), handshake.REFUSED_CLUSTER),
        (replace(HELLO, to=3), handshake.REFUSED_ADDRESSEE),
        (replace(HELLO, sender=4), handshake.REFUSED_STRANGER),
        (replace(HELLO, sender=1), handshake.REFUSED_STRANGER),
    ],
)
def test_decisions_are_sent_and_enforced(hello: PeerHello, decision: int) -> None:
    async def scenario() -> None:
        one, _ = await started()
        peer = await BarePeer.dial(one.address)
        assert (await peer.introduce(hello)).decision == decision
        assert one.counters.refused == (decision != handshake.ACCEPTED)
        if decision != handshake.ACCEPTED:
            await peer.wait_cut()
        peer.close()

    run(scenario)


def test_the_same_process_replaces_its_connection_and_another_is_refused() -> None:
    async def scenario() -> None:
        one, events = await started()
        first = await BarePeer.dial(one.address)
        await first.introduce(HELLO)
        intruder = await BarePeer.dial(one.address)
        assert (await intruder.introduce(replace(HELLO, process=6))).decision == handshake.REFUSED_DUPLICATE
        await intruder.wait_cut()

        second = await BarePeer.dial(one.address)
        assert (await second.introduce(HELLO)).decision == handshake.ACCEPTED
        await first.wait_cut()
        second.write_frame(b"".join(encode_frame([heartbeat(2, 1, 3)])))
        await events.wait_until(lambda: len(events.messages) == 1)
        for peer in (first, intruder, second):
            peer.close()

    run(scenario)


def test_after_silence_a_new_process_replaces_the_old_one() -> None:
    async def scenario() -> None:
        one, _ = await started()
        dead = await BarePeer.dial(one.address)
        await dead.introduce(HELLO)
        for _ in range(SILENT_CHECKS_MAX + 1):
            one._check()
        await dead.wait_cut()
        heir = await BarePeer.dial(one.address)
        assert (await heir.introduce(replace(HELLO, process=6))).decision == handshake.ACCEPTED
        dead.close()
        heir.close()

    run(scenario)


GARBAGE = b"GET / HTTP/1.1\r\n\r\n"
DAMAGED = bytearray(b"".join(encode_frame([heartbeat(2, 1)])))
DAMAGED[-1] ^= 1
WRONG_SENDER = b"".join(encode_frame([heartbeat(3, 1)]))
WRONG_TARGET = b"".join(encode_frame([heartbeat(2, 3)]))


@pytest.mark.parametrize(
    ("first", "then", "counter"),
    [
        (GARBAGE, b"", ""),
        (frame_header(18) + GARBAGE, b"", "refused"),
        (frame_header(handshake.HANDSHAKE_BYTES_MAX + 1), b"", ""),
        (None, frame_header(PEER_FRAME_BYTES_MAX + 1), ""),
        (None, frame_header(18) + GARBAGE, "damaged"),
        (None, frame_header(len(DAMAGED)) + bytes(DAMAGED), "damaged"),
        (None, frame_header(len(WRONG_SENDER)) + WRONG_SENDER, "damaged"),
        (None, frame_header(len(WRONG_TARGET)) + WRONG_TARGET, "damaged"),
    ],
    ids=["http", "no-hello", "long-hello", "long-frame", "no-frame", "damaged", "wrong-sender", "wrong-target"],
)
def test_frames_that_cannot_be_decoded_are_cut_and_counted(first: bytes | None, then: bytes, counter: str) -> None:
    async def scenario() -> None:
        one, events = await started()
        good = await BarePeer.dial(one.address)
        await good.introduce(replace(HELLO, sender=3))
        bad = await BarePeer.dial(one.address)
        if first is None:
            await bad.introduce(HELLO)
        bad.writer.write((first or b"") + then)
        await bad.wait_cut()
        if counter:
            assert getattr(one.counters, counter) == 1
        good.write_frame(b"".join(encode_frame([heartbeat(3, 1, 8)])))
        await events.wait_until(lambda: len(events.messages) == 1)
        assert events.messages == [heartbeat(3, 1, 8)]
        good.close()
        bad.close()

    run(scenario)


def test_strangers_are_few() -> None:
    async def scenario() -> None:
        one, _ = await started()
        crowd = [await BarePeer.dial(one.address) for _ in range(PEER_HANDSHAKE_COUNT_MAX + 5)]
        for peer in crowd[:5]:
            await peer.wait_cut()
        assert (await crowd[-1].introduce(HELLO)).decision == handshake.ACCEPTED, "a node that dials finds a place"
        for peer in crowd:
            peer.close()

    run(scenario)


def test_strangers_that_come_in_one_turn_of_the_loop_are_few_too() -> None:
    async def scenario() -> None:
        one, _ = await started()
        crowd = [PeerConnection(one._server) for _ in range(PEER_HANDSHAKE_COUNT_MAX + 5)]
        for connection in crowd:
            one._server.connection_made(connection)
        assert [connection.is_closed for connection in crowd] == [True] * 5 + [False] * PEER_HANDSHAKE_COUNT_MAX

    run(scenario)


def elsewhere(number: int) -> str:
    """A host where no node is."""
    return f"127.1.{number // 250}.{number % 250 + 1}"


def test_a_member_keeps_its_place_whatever_comes_from_elsewhere() -> None:
    async def scenario() -> None:
        one, _ = await started()
        member = await BarePeer.dial(one.address)
        crowd = [await BarePeer.dial(one.address, elsewhere(number)) for number in range(2 * PEER_HANDSHAKE_COUNT_MAX)]
        for peer in crowd[: PEER_HANDSHAKE_COUNT_MAX + 1]:
            await peer.wait_cut()
        assert (await member.introduce(HELLO)).decision == handshake.ACCEPTED
        for peer in (member, *crowd):
            peer.close()

    run(scenario)


def test_a_node_that_returns_is_up_during_a_flood_of_handshakes() -> None:
    async def scenario() -> None:
        one, events, two, _ = await pair()
        crowd: list[socket.socket] = []

        async def flood() -> None:
            while True:
                # Many in one turn of the loop, each from a host of its own, and none says anything.
                for _ in range(50):
                    stranger = socket.socket()
                    stranger.setblocking(False)
                    stranger.bind((elsewhere(len(crowd) % 5_000), 0))
                    stranger.connect_ex(one.address)
                    crowd.append(stranger)
                for gone in crowd[:-500]:
                    gone.close()
                await asyncio.sleep(0.001)

        flooding = asyncio.ensure_future(flood())
        try:
            while len(crowd) < 10 * PEER_HANDSHAKE_COUNT_MAX:
                await asyncio.sleep(0.001)
            two.close()
            await events.wait_change("down", 2)
            events.changes.clear()
            back = network(2, {1: one.address}, listen=two.address, seed=1)
            await back.start(Recorder())
            async with asyncio.timeout(10):
                await events.wait_change("up", 2)
            assert not flooding.done()
        finally:
            flooding.cancel()
            for stranger in crowd:
                stranger.close()

    run(scenario)


def test_a_slow_handshake_is_cut() -> None:
    async def scenario() -> None:
        one, _ = await started(check_ms=20)
        slow = await BarePeer.dial(one.address)

        async def spell() -> None:
            while True:
                slow.writer.write(PING)
                await asyncio.sleep(0.005)

        spelling = asyncio.ensure_future(spell())
        await slow.wait_cut()
        spelling.cancel()
        slow.close()

    run(scenario)


Serve = Callable[[BarePeer], Coroutine[Any, Any, None]]


async def against(serve: Serve, check_ms: int = 20) -> tuple[PeerNetwork, Recorder, asyncio.Server]:
    """Node 1 dials a node 2 that is worked by `serve`."""
    listener, address = await listen_bare(serve)
    one, events = network(1, {2: address}, check_ms=check_ms), Recorder()
    await one.start(events)
    return one, events, listener


async def wait_failure(one: PeerNetwork, text: str) -> None:
    while text not in one.health()[0].last_failure:
        await asyncio.sleep(0.005)


@pytest.mark.parametrize(
    ("answer", "failure"),
    [
        (PeerWelcome(handshake.REFUSED_CLUSTER, 2), "cluster of another name"),
        (PeerWelcome(99, 2), "decision 99"),
        (PeerWelcome(handshake.ACCEPTED, 3, 1), "node 3 answered"),
        (PeerWelcome(handshake.ACCEPTED, 2, 9), "version 9"),
    ],
)
def test_a_dialler_judges_the_answer(answer: PeerWelcome, failure: str) -> None:
    async def scenario() -> None:
        async def serve(peer: BarePeer) -> None:
            await peer.welcome(answer)
            await peer.wait_cut()

        one, events, listener = await against(serve)
        await wait_failure(one, failure)
        assert events.changes == []
        listener.close()

    run(scenario)


def test_a_peer_that_falls_silent_is_cut_and_dialled_again() -> None:
    async def scenario() -> None:
        connections = 0

        async def serve(peer: BarePeer) -> None:
            nonlocal connections
            connections += 1
            await peer.welcome(WELCOME)
            await peer.wait_cut()

        one, _, listener = await against(serve)
        await wait_failure(one, "silent")
        while connections < 2:
            await asyncio.sleep(0.005)
        listener.close()

    run(scenario)


def test_a_peer_that_stops_reading_is_cut_and_memory_stays_bounded() -> None:
    async def scenario() -> None:
        async def serve(peer: BarePeer) -> None:
            await peer.welcome(WELCOME)
            peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
            while not peer.writer.transport.is_closing():
                peer.writer.write(PING)
                await asyncio.sleep(0.01)

        one, _, listener = await against(serve, check_ms=40)
        way = one._links[2]
        while not way.is_open:
            await asyncio.sleep(0.001)
        body = bytes(1 << 20)
        for _ in range(100):
            one.send(2, [append(1, 2, body)])
            assert one.health()[0].queued_bytes <= PEER_QUEUE_BYTES_MAX
        assert one.health()[0].dropped_frames > 30
        await wait_failure(one, "does not read")
        listener.close()

    run(scenario)


def test_messages_on_the_dialled_connection_are_refused() -> None:
    async def scenario() -> None:
        async def serve(peer: BarePeer) -> None:
            await peer.welcome(WELCOME)
            peer.write_frame(b"".join(encode_frame([(1, Heartbeat(2, 1, 1, 1))])))
            await peer.wait_cut()

        one, events, listener = await against(serve)
        await wait_failure(one, "wrong connection")
        assert events.messages == []
        listener.close()

    run(scenario)


def test_a_process_that_was_paused_does_not_cut_healthy_links() -> None:
    async def scenario() -> None:
        one, events_one, two, events_two = await pair(check_ms=20)
        # Both loops stand still far longer than the silence that kills a link.
        stop_until = asyncio.get_running_loop().time() + 0.2
        while asyncio.get_running_loop().time() < stop_until:
            pass
        await wait_pinged(one, two, pings=5)
        assert events_one.changes == [("up", 2)]
        assert events_two.changes == [("up", 1)]

    run(scenario)


def test_the_hello_names_both_nodes() -> None:
    async def scenario() -> None:
        hellos: list[PeerHello] = []

        async def serve(peer: BarePeer) -> None:
            hellos.append(await peer.welcome(WELCOME))
            await peer.wait_cut()

        one, events, listener = await against(serve)
        while not one._links[2].is_open:
            await asyncio.sleep(0.001)
        # One way is not enough: nothing comes from this peer.
        assert events.changes == []
        assert (hellos[0].cluster, hellos[0].sender, hellos[0].to) == (CLUSTER, 1, 2)
        assert len(encode_hello(hellos[0])) < handshake.HANDSHAKE_BYTES_MAX
        listener.close()

    run(scenario)
