"""Links with TLS: nodes of the cluster meet, and everybody else is refused on both sides, with a reason."""

import asyncio
import random

import pytest

from flotilla.peers.handshake import DECISION_TEXT, REFUSED_CERTIFICATE, PeerHello
from flotilla.peers.network import PeerNetwork
from flotilla.security.client_tls import fresh_context
from flotilla.security.node_tls import NodeTls, PeerTls
from flotilla.security.tls_endpoints import TlsDialler
from flotilla.types.address import Address
from flotilla.types.ids import NO_NODE
from tests.unit.peers.harness import (
    CHECK_MS,
    CLUSTER,
    LOOPBACK,
    BarePeer,
    Recorder,
    append,
    heartbeat,
    run,
    wait_pinged,
)
from tests.unit.peers.harness import _networks as networks
from tests.unit.security.issuing import CLUSTER as NAME
from tests.unit.security.issuing import expired_files, node_files, node_tls, user_tls


def network(node: int, tls: PeerTls | None, peers: dict[int, Address] | None = None) -> PeerNetwork:
    created = PeerNetwork(
        node=node,
        cluster=CLUSTER,
        listen=LOOPBACK,
        peers=peers or {},
        chance=random.Random(node),
        check_interval_ms=CHECK_MS,
        tls=tls,
    )
    networks.append(created)
    return created


async def started(node: int, tls: PeerTls | None) -> tuple[PeerNetwork, Recorder]:
    made, events = network(node, tls), Recorder()
    await made.start(events)
    return made, events


def test_two_nodes_meet_and_stay() -> None:
    async def scenario() -> None:
        one, events_one = await started(1, node_tls(1).peers())
        two, events_two = await started(2, node_tls(2).peers())
        one.add_peer(2, two.address)
        two.add_peer(1, one.address)
        await events_one.wait_change("up", 2)
        await events_two.wait_change("up", 1)
        big = append(1, 2, bytes(range(256)) * 20_000)
        one.send(2, [heartbeat(1, 2, 5)])
        one.send(2, [big])
        await events_two.wait_until(lambda: len(events_two.messages) == 2)
        assert events_two.messages == [heartbeat(1, 2, 5), big]
        await wait_pinged(one, two)
        assert events_one.refusals == events_two.refusals == []

    run(scenario)


def other_tls(kind: str) -> PeerTls | None:
    """What node 2 has in place of its own certificate."""
    if kind == "other authority":
        return node_tls(2, authority="other").peers()
    if kind == "other cluster":
        # Of the same authority: what it names counts.
        return node_tls(2, cluster="elsewhere").peers()
    if kind == "other node":
        return node_tls(3).peers()
    if kind == "expired":
        return NodeTls(expired_files(2), NAME, 2).peers()
    assert kind == "no TLS"
    return None


@pytest.mark.parametrize(
    ("kind", "here", "there"),
    [
        ("other authority", "ended TLS: unknown ca|not accepted: (self-signed|unable to get)", "not accepted"),
        ("other node", DECISION_TEXT[REFUSED_CERTIFICATE], "its certificate is that of node 3"),
        ("expired", "not accepted: certificate has expired", "not accepted: certificate has expired"),
        ("no TLS", "does not speak TLS", ""),
    ],
)
def test_a_node_with_another_certificate_is_refused_on_both_sides(kind: str, here: str, there: str) -> None:
    async def scenario() -> None:
        import re

        one, events = await started(1, node_tls(1).peers())
        two, _ = await started(2, other_tls(kind))
        one.add_peer(2, two.address)
        two.add_peer(1, one.address)
        # It dials, and is refused here.
        await events.wait_until(
            lambda: any(side == "here" and re.search(here, reason) for side, _, reason in events.refusals)
        )
        if there:
            # It is dialled, and refused before anything is said to it.
            await events.wait_until(
                lambda: any(side == "there" and re.search(there, reason) for side, _, reason in events.refusals)
            )
        assert events.changes == []
        assert two.counters.accepted == 0
        assert one.counters.accepted == 0

    run(scenario)


def test_the_certificate_of_another_cluster_of_the_same_authority_is_refused(tmp_path: object) -> None:
    """Whom it names counts, not only who issued it."""

    async def scenario() -> None:
        one, events = await started(1, node_tls(1).peers())
        files = node_files(2)
        # Node 2 of this authority thinks that the cluster has another name.
        stranger = NodeTls(files, NAME, 2)
        stranger.cluster = "elsewhere"
        two, events_two = await started(2, stranger.peers())
        one.add_peer(2, two.address)
        two.add_peer(1, one.address)
        await events_two.wait_until(
            lambda: any("no node of cluster elsewhere" in reason for _, _, reason in events_two.refusals)
        )
        assert events.changes == []

    run(scenario)


class Bare(asyncio.StreamReaderProtocol):
    """A hand-worked peer above TLS."""


async def dial_bare(address: Address, dialler: TlsDialler) -> BarePeer:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(loop=loop)
    protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
    transports: list[asyncio.BaseTransport] = []

    class Above(asyncio.StreamReaderProtocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            transports.append(transport)
            super().connection_made(transport)

    protocol = Above(reader, loop=loop)
    await dialler.connect(lambda: protocol, address.host, address.port)
    return BarePeer(reader, asyncio.StreamWriter(transports[0], protocol, reader, loop))  # type: ignore[arg-type]


def test_a_node_cannot_play_another_one_and_a_user_cannot_play_a_node() -> None:
    async def scenario() -> None:
        one, events = await started(1, node_tls(1).peers())
        one.add_peer(2, Address("127.0.0.1", 1))
        hello = PeerHello(CLUSTER, sender=2, to=1, process=5)
        as_node_3 = await dial_bare(one.address, node_tls(3).node_dialler())
        assert (await as_node_3.introduce(hello)).decision == REFUSED_CERTIFICATE
        await as_node_3.wait_cut()
        as_user = await dial_bare(one.address, _any_host("alice"))
        assert (await as_user.introduce(hello)).decision == REFUSED_CERTIFICATE
        await as_user.wait_cut()
        as_itself = await dial_bare(one.address, node_tls(2).node_dialler())
        assert (await as_itself.introduce(hello)).decision == 0
        assert [(side, peer) for side, peer, _ in events.refusals] == [("here", 2)]
        assert one.counters.refused == 2
        for each in (as_node_3, as_user, as_itself):
            each.close()

    run(scenario)


def _any_host(user: str) -> TlsDialler:
    return TlsDialler(fresh_context(user_tls(user)).get)


def test_strangers_without_certificates_are_reported_once() -> None:
    async def scenario() -> None:
        one, events = await started(1, node_tls(1).peers())
        for _ in range(3):
            peer = BarePeer(*await asyncio.open_connection(*one.address))
            peer.write_frame(b"GET / HTTP/1.1")
            await peer.wait_cut()
            peer.close()
        assert events.refusals == [("here", NO_NODE, "the other side does not speak TLS")]
        assert one.counters.refused == 3

    run(scenario)
