"""Simulated TCP: what a protocol sees of it."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from flotilla.sim.devices.world import SECOND
from flotilla.sim.whole.sockets import WINDOW_BYTES
from tests.sim.whole.test_loop import Two

PORT = 9


class Peer(asyncio.Protocol):
    def __init__(self, *, is_echo: bool = False) -> None:
        self.received = bytearray()
        self.pieces = 0
        self.is_echo = is_echo
        self.is_paused = False
        self.transport: Any = None
        self.lost: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()
        self.ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.pieces += 1
        self.received += data
        if self.is_echo:
            self.transport.write(data)

    def eof_received(self) -> bool:
        self.ended = True
        return False

    def pause_writing(self) -> None:
        self.is_paused = True

    def resume_writing(self) -> None:
        self.is_paused = False

    def connection_lost(self, error: Exception | None) -> None:
        self.lost.set_result(error)


def serve(peers: list[Peer], *, is_echo: bool = False) -> Callable[[], Coroutine[Any, Any, None]]:
    async def main() -> None:
        def made() -> Peer:
            peers.append(Peer(is_echo=is_echo))
            return peers[-1]

        await asyncio.get_running_loop().create_server(made, "right", PORT)

    return main


async def dial(host: str = "right") -> Peer:
    _, protocol = await asyncio.get_running_loop().create_connection(Peer, host, PORT)
    assert isinstance(protocol, Peer)
    return protocol


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.01)


def test_bytes_arrive_in_order_in_pieces_of_any_size() -> None:
    peers: list[Peer] = []
    data = bytes(range(256)) * 4_000

    async def main() -> None:
        await asyncio.sleep(1)
        peer = await dial()
        for at in range(0, len(data), 5_000):
            peer.transport.write(data[at : at + 5_000])
        await until(lambda: len(peer.received) == len(data))
        assert peer.received == data
        assert peer.pieces > 5
        peer.transport.close()
        assert await peer.lost is None
        await until(peers[0].lost.done)
        assert peers[0].ended

    two = Two()
    two.cluster.internet.choppiness = 0.5
    two.run(main, serve(peers, is_echo=True))
    assert peers[0].received == data


def test_nobody_listens_no_such_name_and_no_such_host() -> None:
    async def main() -> None:
        with pytest.raises(ConnectionRefusedError):
            await dial()
        with pytest.raises(OSError, match="not known"):
            await dial("nowhere")

    async def idle() -> None:
        pass

    Two().run(main, idle)


def test_a_receiver_that_does_not_read_holds_up_its_sender() -> None:
    peers: list[Peer] = []

    async def main() -> None:
        await asyncio.sleep(1)
        peer = await dial()
        await until(lambda: bool(peers))
        peers[0].transport.pause_reading()
        peer.transport.write(bytes(4 * WINDOW_BYTES))
        assert peer.is_paused
        await asyncio.sleep(1)
        assert peer.is_paused
        assert peer.transport.get_write_buffer_size() >= 3 * WINDOW_BYTES
        peers[0].transport.resume_reading()
        await until(lambda: not peer.is_paused)
        await until(lambda: len(peers[0].received) == 4 * WINDOW_BYTES)

    Two().run(main, serve(peers))


def test_a_small_window_makes_writes_leave_in_parts_and_loses_nothing() -> None:
    peers: list[Peer] = []
    two = Two()
    data = bytes(range(256)) * 20

    async def main() -> None:
        await asyncio.sleep(1)
        peer = await dial()
        two.cluster.internet.window_bytes = 300
        peer.transport.write(data)
        assert peer.transport.get_write_buffer_size() == len(data) - 300
        await until(lambda: len(peers[0].received) == len(data))
        # The window is drawn down below what is on its way, and opened again.
        peer.transport.write(data)
        two.cluster.internet.window_bytes = 10
        peer.transport.write(data)
        two.cluster.internet.window_bytes = WINDOW_BYTES
        await until(lambda: len(peers[0].received) == 3 * len(data))

    two.run(main, serve(peers))
    assert peers[0].received == 3 * data
    assert two.cluster.internet.partial_writes > 10


def test_a_name_follows_a_host_that_moved() -> None:
    peers: list[Peer] = []
    two = Two()
    internet, host = two.cluster.internet, two.hosts[1]
    dialled: list[Peer] = []
    lost: list[BaseException | None] = []

    async def main() -> None:
        dialled.append(await dial())
        lost.append(await dialled[-1].lost)

    async def again() -> None:
        with pytest.raises(OSError, match="unreachable"):
            await dial()
        internet.rename_all()
        dialled.append(await dial())

    first = two.cluster.run(host, serve(peers))
    two.world.run_until(SECOND)
    left = two.cluster.run(two.hosts[0], main)
    two.world.run_until(2 * SECOND)
    host.is_powered = False
    first.die(is_heard=False)
    internet.move(host, "10.2.0.1")
    host.is_powered = True
    two.cluster.run(host, serve(peers))
    dialled[0].transport.write(b"to the old address")
    two.world.run_until(10 * SECOND)
    # Nobody is there to say that the connection is gone.
    assert lost == []
    left.loop.create_task(again())
    two.world.run_until(12 * SECOND)
    assert len(dialled) == 2
    assert two.failures == []


def test_a_process_that_is_killed_resets_its_connections() -> None:
    peers: list[Peer] = []
    two = Two()
    seen: list[BaseException | None] = []

    async def main() -> None:
        await asyncio.sleep(1)
        peer = await dial()
        seen.append(await peer.lost)

    right = two.cluster.run(two.hosts[1], serve(peers))
    two.cluster.run(two.hosts[0], main)
    two.world.run_until(3 * SECOND)
    assert seen == []
    right.die(is_heard=True)
    two.world.run_until(4 * SECOND)
    assert isinstance(seen[0], ConnectionResetError)


def test_a_host_without_power_leaves_its_peer_half_open_until_it_is_back() -> None:
    peers: list[Peer] = []
    two = Two()
    seen: list[BaseException | None] = []
    dialled: list[Peer] = []

    async def main() -> None:
        await asyncio.sleep(1)
        dialled.append(await dial())
        seen.append(await dialled[0].lost)

    right = two.cluster.run(two.hosts[1], serve(peers))
    two.cluster.run(two.hosts[0], main)
    two.world.run_until(3 * SECOND)
    two.hosts[1].is_powered = False
    right.die(is_heard=False)
    dialled[0].transport.write(b"into the dark")
    two.world.run_until(60 * SECOND)
    assert seen == []
    two.hosts[1].is_powered = True
    dialled[0].transport.write(b"hello?")
    two.world.run_until(61 * SECOND)
    assert isinstance(seen[0], ConnectionResetError)


def test_a_path_that_is_cut_one_way_holds_everything_up_and_loses_nothing() -> None:
    peers: list[Peer] = []
    two = Two()
    left, right = two.hosts
    dialled: list[Peer] = []

    async def main() -> None:
        await asyncio.sleep(1)
        dialled.append(await dial())

    two.cluster.run(right, serve(peers))
    two.cluster.run(left, main)
    two.world.run_until(3 * SECOND)
    two.cluster.internet.cut(left, right)
    dialled[0].transport.write(b"one")
    peers[0].transport.write(b"two")
    two.world.run_until(20 * SECOND)
    assert peers[0].received == b""
    assert dialled[0].received == b"two"
    two.cluster.internet.mend(left, right)
    two.world.run_until(21 * SECOND)
    assert peers[0].received == b"one"


def test_a_full_accept_queue_makes_a_dial_wait() -> None:
    peers: list[Peer] = []
    two = Two()
    two.cluster.internet.backlog = 0
    made: list[float] = []

    async def main() -> None:
        await asyncio.sleep(1)
        await dial()
        made.append(two.world.now_us / SECOND)

    two.cluster.run(two.hosts[1], serve(peers))
    two.cluster.run(two.hosts[0], main)
    two.world.run_until(5 * SECOND)
    assert made == []
    assert two.cluster.internet.full_queues[two.hosts[0]] > 1
    two.cluster.internet.backlog = 10
    two.world.run_until(20 * SECOND)
    assert len(made) == 1


def test_a_dial_that_is_given_up_leaves_no_connection_behind() -> None:
    peers: list[Peer] = []
    two = Two()

    async def main() -> None:
        await asyncio.sleep(1)
        dialling = asyncio.create_task(dial())
        await asyncio.sleep(0.0002)
        dialling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await dialling

    right = two.cluster.run(two.hosts[1], serve(peers))
    left = two.cluster.run(two.hosts[0], main)
    two.world.run_until(10 * SECOND)
    assert not left.sockets
    assert not right.sockets
    assert two.failures == []
