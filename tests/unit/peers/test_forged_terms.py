"""A forged frame at a real node: a term that no election can have reached costs the connection and nothing else."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from flotilla.broker.catalog import METADATA_GROUP
from flotilla.codec.peer.frames import encode_frame
from flotilla.peers.handshake import ACCEPTED, PeerHello, PeerWelcome
from flotilla.raft.messages import Append, Message, VoteRequest
from flotilla.raft.node import TERM_JUMP_MAX
from flotilla.server import Server
from flotilla.types.address import Peer
from flotilla.types.settings import NodeSettings
from tests.unit.peers.harness import LOOPBACK, BarePeer, listen_bare, run

FORGED: list[Callable[[int], Message]] = [
    lambda term: Append(2, 1, term, 0, 0, 0, []),
    lambda term: VoteRequest(2, 1, term, 9, term, transfer=True),
]


@pytest.mark.parametrize("forged", FORGED, ids=["append", "vote"])
def test_a_forged_term_costs_a_real_node_nothing(forged: Callable[[int], Message], tmp_path: Path) -> None:
    async def scenario() -> None:
        gone = asyncio.Event()

        async def serve(peer: BarePeer) -> None:
            await peer.welcome(PeerWelcome(ACCEPTED, sender=2, version=1))
            await peer.wait_cut()
            gone.set()

        listener, two = await listen_bare(serve)
        server = Server(
            NodeSettings(
                node_id=1,
                data_dir=str(tmp_path),
                listen=LOOPBACK,
                peer_listen=LOOPBACK,
                http_listen=None,
                grpc_listen=None,
                peers=(Peer(1, LOOPBACK), Peer(2, two)),
            )
        )
        await server.start()
        try:
            network, driver = server.node.network, server.node.runtime.driver
            while METADATA_GROUP not in driver.replicas:
                await asyncio.sleep(0.01)
            raft = driver.replicas[METADATA_GROUP].raft
            hello = PeerHello(network.own.cluster, sender=2, to=1, process=5)
            for ahead in (TERM_JUMP_MAX, 2**62):
                peer = await BarePeer.dial(network.address)
                assert (await peer.introduce(hello)).decision == ACCEPTED
                # A node that cannot win an election stays at its term.
                term, cut = raft.term, network.counters.damaged
                peer.write_frame(b"".join(encode_frame([(METADATA_GROUP, forged(term + ahead))])))
                await peer.wait_cut()
                peer.close()
                assert (raft.term, network.counters.damaged) == (term, cut + 1)
                assert driver.impossible_messages == cut + 1
            # The largest term that is taken.
            peer = await BarePeer.dial(network.address)
            await peer.introduce(hello)
            peer.write_frame(b"".join(encode_frame([(METADATA_GROUP, forged(term + TERM_JUMP_MAX - 1))])))
            while raft.term < term + TERM_JUMP_MAX - 1:
                await asyncio.sleep(0)
            peer.close()
        finally:
            await server.stop()
            await gone.wait()
            listener.close()

    run(scenario)
