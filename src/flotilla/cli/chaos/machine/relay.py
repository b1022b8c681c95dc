"""A network in user space: a relay before every port of every node, and links that can be cut and slowed.

Nodes advertise the addresses of their relays, so all traffic passes here. A relay knows both ends of a connection: the
node that it stands before, and the node that dials, from the handshake between nodes; clients are CLIENTS. A cut holds
bytes back as a network does that drops packets: connections stay, and go on when it heals.
"""

import asyncio
from typing import Final

from flotilla.peers.handshake import HANDSHAKE_BYTES_MAX, HandshakeError, decode_hello

HOST = "127.0.0.1"
#: The far end of a connection that no node dialled.
CLIENTS: Final = 0
_CHUNK_BYTES = 64 * 1024
_LENGTH_BYTES = 4


class Network:
    """The state of every link, one way each: from a node or CLIENTS to a node or CLIENTS."""

    def __init__(self) -> None:
        self._cut: set[tuple[int, int]] = set()
        self._delay_s: dict[tuple[int, int], float] = {}
        self._bytes_per_s: dict[tuple[int, int], float] = {}
        self._healed = asyncio.Event()
        self._servers: list[asyncio.Server] = []
        self._pumps: set[asyncio.Task[None]] = set()
        self._writers: dict[asyncio.StreamWriter, tuple[int, int]] = {}

    def cut(self, source: int, target: int) -> None:
        self._cut.add((source, target))

    def slow(self, source: int, target: int, *, delay_s: float = 0.0, bytes_per_s: float = 0.0) -> None:
        self._delay_s[source, target] = delay_s
        self._bytes_per_s[source, target] = bytes_per_s

    def reset(self, node: int) -> None:
        """Ends every connection of a node at once."""
        for writer, ends in self._writers.items():
            if node in ends:
                writer.transport.abort()

    def heal(self) -> None:
        self._cut.clear()
        self._delay_s.clear()
        self._bytes_per_s.clear()
        self._healed.set()
        self._healed = asyncio.Event()

    async def listen(self, node: int, port: int, *, is_for_peers: bool) -> int:
        """Starts a relay before a port of a node; the relay's own port."""

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._pumps.add(task)
            try:
                await self._serve(node, port, reader, writer, is_for_peers=is_for_peers)
            except asyncio.CancelledError:
                pass  # `close` ends it; the listener would report a cancelled task as an error.
            finally:
                self._pumps.discard(task)

        server = await asyncio.start_server(serve, HOST, 0)
        self._servers.append(server)
        bound: int = server.sockets[0].getsockname()[1]
        return bound

    async def close(self) -> None:
        for server in self._servers:
            server.close()
        for pump in list(self._pumps):
            pump.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)

    async def _serve(
        self, node: int, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_for_peers: bool
    ) -> None:
        far_writer: asyncio.StreamWriter | None = None
        try:
            source, first = await _introduction(reader) if is_for_peers else (CLIENTS, b"")
            await self._pass(source, node, len(first))
            far_reader, far_writer = await asyncio.open_connection(HOST, port)
            self._writers[writer] = self._writers[far_writer] = (source, node)
            far_writer.write(first)
            pumps = [
                asyncio.ensure_future(self._pump(source, node, reader, far_writer)),
                asyncio.ensure_future(self._pump(node, source, far_reader, writer)),
            ]
            try:
                await asyncio.wait(pumps)
            finally:
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)
        except (OSError, EOFError, HandshakeError):
            pass  # The dialling side sees a closed connection.
        finally:
            opened = [each for each in (writer, far_writer) if each is not None]
            for each in opened:
                self._writers.pop(each, None)
                each.close()
            await asyncio.gather(*(each.wait_closed() for each in opened), return_exceptions=True)

    async def _pump(self, source: int, target: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Passes bytes on until one side ends. The end of a connection does not pass a cut either."""
        try:
            while chunk := await reader.read(_CHUNK_BYTES):
                await self._pass(source, target, len(chunk))
                writer.write(chunk)
                await writer.drain()
            await self._pass(source, target, 0)
            writer.write_eof()
        except OSError:
            await self._pass(source, target, 0)
            writer.transport.abort()

    async def _pass(self, source: int, target: int, size: int) -> None:
        """Returns when the link lets these bytes through."""
        link = (source, target)
        delay_s = self._delay_s.get(link, 0.0)
        rate = self._bytes_per_s.get(link, 0.0)
        if rate:
            delay_s += size / rate
        if delay_s:
            await asyncio.sleep(delay_s)
        while link in self._cut:
            await self._healed.wait()


async def _introduction(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """The node that dials, from the first frame of a link, and that frame."""
    length = await reader.readexactly(_LENGTH_BYTES)
    size = int.from_bytes(length, "big")
    if size > HANDSHAKE_BYTES_MAX:
        raise HandshakeError("not a hello")
    frame = await reader.readexactly(size)
    return decode_hello(frame).sender, length + frame
