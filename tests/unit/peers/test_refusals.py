"""Refused peers, on either side: reported once for each reason, not at every attempt."""

import asyncio
from dataclasses import replace

from flotilla.peers import handshake
from flotilla.peers.handshake import DECISION_TEXT, PeerHello, PeerWelcome
from flotilla.types.ids import NO_NODE
from tests.unit.peers.harness import CLUSTER, NOWHERE, BarePeer, Recorder, listen_bare, network, run

HELLO = PeerHello(CLUSTER, sender=2, to=1, process=5)
OTHER_CLUSTER = DECISION_TEXT[handshake.REFUSED_CLUSTER]
OTHER_NODE = DECISION_TEXT[handshake.REFUSED_ADDRESSEE]
STRANGER = DECISION_TEXT[handshake.REFUSED_STRANGER]
#: No check ever comes by itself.
NEVER_MS = 1_000_000


async def knock(address: tuple[str, int], *hellos: PeerHello) -> None:
    for hello in hellos:
        peer = BarePeer(*await asyncio.open_connection(*address))
        decision = (await peer.introduce(hello)).decision
        peer.close()
        assert (decision == handshake.ACCEPTED) == (hello == HELLO)


def test_a_refused_peer_is_reported_once_for_each_reason() -> None:
    async def scenario() -> None:
        one, events = network(1, {2: NOWHERE}, check_ms=NEVER_MS), Recorder()
        await one.start(events)
        foreign, lost, stranger = (
            replace(HELLO, cluster=b"another cluster!"),
            replace(HELLO, to=3),
            replace(HELLO, sender=9),
        )
        await knock(one.address, *[foreign] * 5, stranger, *[foreign] * 5, *[lost] * 3)
        assert events.refusals == [("here", 2, OTHER_CLUSTER), ("here", 9, STRANGER), ("here", 2, OTHER_NODE)]
        # After it was accepted, a refusal is reported again.
        await knock(one.address, HELLO, *[lost] * 3)
        assert events.refusals[3:] == [("here", 2, OTHER_NODE)]
        assert one.counters.refused == 17

    run(scenario)


def test_a_crowd_of_strangers_does_not_fill_the_log() -> None:
    async def scenario() -> None:
        one, events = network(1, {2: NOWHERE}, check_ms=NEVER_MS), Recorder()
        await one.start(events)
        for _ in range(3):
            peer = BarePeer(*await asyncio.open_connection(*one.address))
            peer.write_frame(b"GET / HTTP/1.1")
            await peer.wait_cut()
            peer.close()
        assert events.refusals == [("here", NO_NODE, "not a hello")]
        await knock(one.address, *[replace(HELLO, sender=number) for number in range(10, 110)])
        assert len(events.refusals) == 64
        assert one.counters.refused == 103

    run(scenario)


def test_a_refusal_by_a_peer_is_reported_once_for_each_reason() -> None:
    async def scenario() -> None:
        decisions = [
            *[handshake.REFUSED_CLUSTER] * 3,
            *[handshake.REFUSED_STRANGER] * 3,
            handshake.ACCEPTED,
            *[handshake.REFUSED_STRANGER] * 2,
        ]

        async def serve(peer: BarePeer) -> None:
            decision = decisions.pop(0) if len(decisions) > 1 else decisions[0]
            await peer.welcome(PeerWelcome(decision, 2, 1))
            if decision == handshake.ACCEPTED:
                while not one._links[2].is_open:
                    await asyncio.sleep(0.001)
                return
            await peer.wait_cut()

        listener, address = await listen_bare(serve)
        one, events = network(1, {2: address}, check_ms=NEVER_MS), Recorder()
        await one.start(events)
        while one._links[2].counters.refused < 8:
            one._links[2].dial()
            await asyncio.sleep(0.001)
        listener.close()
        one.close()
        assert events.refusals == [("there", 2, reason) for reason in (OTHER_CLUSTER, STRANGER, STRANGER)]

    run(scenario)
