"""Networks on loopback, and a bare socket that plays a good or a bad peer."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

import uvloop

from flotilla.codec.frames import frame_header
from flotilla.peers.connection import PING
from flotilla.peers.handshake import PeerHello, PeerWelcome, decode_hello, decode_welcome, encode_hello, encode_welcome
from flotilla.peers.network import PeerNetwork
from flotilla.raft.messages import Append, Entry, Heartbeat, Message
from flotilla.types.address import Address
from flotilla.types.timing import SILENT_CHECKS_MAX

CLUSTER = b"0123456789abcdef"
LOOPBACK = Address("127.0.0.1", 0)
#: No process listens there.
NOWHERE = Address("127.0.0.1", 1)
CHECK_MS = 20


#: Networks of the running test: closed at its end, also when it fails.
_networks: list[PeerNetwork] = []


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def bounded() -> None:
        try:
            async with asyncio.timeout(20):
                await test()
        finally:
            while _networks:
                _networks.pop().close()
            # A turn for each transport to notice.
            await asyncio.sleep(0)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(bounded())


class Recorder:
    """Notes what a network reports and lets a test wait for it."""

    def __init__(self) -> None:
        self.messages: list[tuple[int, Message]] = []
        self.changes: list[tuple[str, int]] = []
        self.rooms: list[tuple[int, int]] = []
        #: (which side refused, the peer, the reason).
        self.refusals: list[tuple[str, int, str]] = []
        self._news = asyncio.Event()

    def receive(self, messages: list[tuple[int, Message]]) -> bool:
        self.messages += messages
        self._news.set()
        return True

    def peer_up(self, peer: int) -> None:
        self.changes.append(("up", peer))
        self._news.set()

    def peer_down(self, peer: int) -> None:
        self.changes.append(("down", peer))
        self._news.set()

    def peer_room(self, peer: int, room: int) -> None:
        self.rooms.append((peer, room))
        self._news.set()

    def peer_refused(self, peer: int, address: str, reason: str) -> None:
        assert address
        self.refusals.append(("here", peer, reason))
        self._news.set()

    def refused_by_peer(self, peer: int, address: str, reason: str) -> None:
        assert address
        self.refusals.append(("there", peer, reason))
        self._news.set()

    async def wait_until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._news.clear()
            await self._news.wait()

    async def wait_change(self, change: str, peer: int) -> None:
        await self.wait_until(lambda: (change, peer) in self.changes)


def network(
    node: int,
    peers: dict[int, Address],
    *,
    listen: Address = LOOPBACK,
    check_ms: int = CHECK_MS,
    seed: int = 0,
    data: int = 0,
) -> PeerNetwork:
    created = PeerNetwork(
        node=node,
        cluster=CLUSTER,
        listen=listen,
        peers=peers,
        chance=random.Random(node * 1000 + seed),
        check_interval_ms=check_ms,
        data=data,
    )
    _networks.append(created)
    return created


async def pair(check_ms: int = CHECK_MS) -> tuple[PeerNetwork, Recorder, PeerNetwork, Recorder]:
    """Two nodes that are up for each other."""
    one, two = network(1, {}, check_ms=check_ms), network(2, {}, check_ms=check_ms)
    events_one, events_two = Recorder(), Recorder()
    await one.start(events_one)
    await two.start(events_two)
    one.add_peer(2, two.address)
    two.add_peer(1, one.address)
    await events_one.wait_change("up", 2)
    await events_two.wait_change("up", 1)
    return one, events_one, two, events_two


async def wait_pinged(*networks: PeerNetwork, pings: int = 10 * SILENT_CHECKS_MAX) -> None:
    """Waits until every link has received this many pings, and was not cut."""
    for connection in [link._connection for each in networks for link in each._links.values()]:
        assert connection is not None
        enough = connection.received_bytes + pings * len(PING)
        while connection.received_bytes < enough:
            assert not connection.is_closed, connection.reason
            await asyncio.sleep(0.001)


def heartbeat(sender: int, to: int, commit: int = 0) -> tuple[int, Message]:
    return (7, Heartbeat(sender, to, 1, commit))


def append(sender: int, to: int, data: bytes) -> tuple[int, Message]:
    return (7, Append(sender, to, 1, 4, 1, 4, [Entry(5, 1, 1, data)]))


class BarePeer:
    """One end of a link, worked by hand."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def dial(cls, address: Address, host: str = "") -> "BarePeer":
        """From this host; by default from that of the nodes."""
        return cls(*await asyncio.open_connection(*address, local_addr=(host, 0) if host else None))

    def write_frame(self, body: bytes) -> None:
        self.writer.write(frame_header(len(body)) + body)

    async def read_frame(self) -> bytes:
        length = int.from_bytes(await self.reader.readexactly(4), "big")
        return await self.reader.readexactly(length)

    async def introduce(self, hello: PeerHello) -> PeerWelcome:
        self.write_frame(encode_hello(hello))
        return decode_welcome(await self.read_frame())

    async def welcome(self, welcome: PeerWelcome) -> PeerHello:
        """Answers a node that dials."""
        hello = decode_hello(await self.read_frame())
        self.write_frame(encode_welcome(welcome))
        return hello

    async def wait_cut(self) -> None:
        """Returns when the other side has ended the connection; takes in its pings until then."""
        try:
            while await self.reader.read(65536):
                pass
        except ConnectionError:
            pass

    def close(self) -> None:
        self.writer.close()


async def listen_bare(serve: Callable[[BarePeer], Coroutine[Any, Any, None]]) -> tuple[asyncio.Server, Address]:
    """A node whose every incoming connection is worked by `serve`."""

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = BarePeer(reader, writer)
        try:
            await serve(peer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    return server, Address("127.0.0.1", server.sockets[0].getsockname()[1])
