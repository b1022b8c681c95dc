"""Links of the network in user space: they pass, hold back and let go again what nodes and clients send."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from flotilla.cli.chaos.machine.relay import CLIENTS, HOST, Network
from flotilla.codec.frames import frame_header
from flotilla.peers.handshake import PeerHello, encode_hello

NODE = 2


async def end(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()
    with suppress(OSError):
        await writer.wait_closed()


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while content := await reader.read(1000):
            writer.write(content.upper())
            await writer.drain()
    await end(writer)


def run(test: Callable[[Network, int], Awaitable[None]], *, is_for_peers: bool = False) -> None:
    async def bounded() -> None:
        echoes: list[asyncio.Task[None]] = []

        def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            echoes.append(asyncio.ensure_future(echo(reader, writer)))

        async with asyncio.timeout(20):
            server = await asyncio.start_server(serve, HOST, 0)
            network = Network()
            port = await network.listen(NODE, server.sockets[0].getsockname()[1], is_for_peers=is_for_peers)
            try:
                await test(network, port)
            finally:
                await network.close()
                server.close()
                await asyncio.gather(*echoes)

    asyncio.run(bounded())


async def is_silent(reader: asyncio.StreamReader) -> bool:
    """Nothing comes within many turns of the loop, in which everything that may pass does."""
    reading = asyncio.ensure_future(reader.readexactly(1))
    done, _ = await asyncio.wait([reading], timeout=0.05)
    if done:
        return False
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    return True


def test_bytes_pass_both_ways():
    async def test(network: Network, port: int) -> None:
        reader, writer = await asyncio.open_connection(HOST, port)
        writer.write(b"hello")
        assert await reader.readexactly(5) == b"HELLO"
        await end(writer)

    run(test)


@pytest.mark.parametrize("link", [(CLIENTS, NODE), (NODE, CLIENTS)])
def test_a_cut_holds_bytes_back_one_way_and_lets_them_go_when_it_heals(link: tuple[int, int]):
    async def test(network: Network, port: int) -> None:
        reader, writer = await asyncio.open_connection(HOST, port)
        writer.write(b"a")
        await reader.readexactly(1)
        network.cut(*link)
        writer.write(b"b")
        assert await is_silent(reader)
        network.heal()
        assert await reader.readexactly(1) == b"B"
        await end(writer)

    run(test)


def test_the_end_of_a_connection_does_not_pass_a_cut():
    async def test(network: Network, port: int) -> None:
        reader, writer = await asyncio.open_connection(HOST, port)
        writer.write(b"a")
        await reader.readexactly(1)
        network.cut(NODE, CLIENTS)
        writer.write_eof()
        assert await is_silent(reader)
        network.heal()
        assert await reader.read() == b""
        await end(writer)

    run(test)


def test_a_link_between_nodes_is_known_by_its_hello():
    async def test(network: Network, port: int) -> None:
        hello = encode_hello(PeerHello(bytes(16), 3, NODE, 1))
        first = frame_header(len(hello)) + hello
        network.cut(1, NODE)
        reader, writer = await asyncio.open_connection(HOST, port)
        writer.write(first)
        assert await reader.readexactly(len(first)) == first.upper()
        network.cut(3, NODE)
        writer.write(b"x")
        assert await is_silent(reader)
        await end(writer)

    run(test, is_for_peers=True)


def test_a_reset_ends_the_connections_of_a_node():
    async def test(network: Network, port: int) -> None:
        reader, writer = await asyncio.open_connection(HOST, port)
        writer.write(b"a")
        await reader.readexactly(1)
        network.reset(NODE)
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await reader.readexactly(1)
        await end(writer)

    run(test)


def test_a_node_that_is_down_refuses_through_its_relay():
    async def test(network: Network, port: int) -> None:
        with socket.socket() as bound:
            bound.bind((HOST, 0))  # Taken, and nobody listens.
            relay = await network.listen(1, bound.getsockname()[1], is_for_peers=False)
            reader, writer = await asyncio.open_connection(HOST, relay)
            assert await reader.read() == b""
            await end(writer)

    run(test)
