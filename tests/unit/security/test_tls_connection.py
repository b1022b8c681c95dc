"""TLS on real sockets: bytes arrive, bounds are those of a plain connection, and strangers are cut."""

import asyncio
import socket
import ssl
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import uvloop

from flotilla.frontends.listener import Listener
from flotilla.security.client_tls import Tls, fresh_context
from flotilla.security.contexts import TlsError, server_context
from flotilla.security.tls_endpoints import TlsAcceptor, TlsDialler
from tests.unit.security.issuing import expired_files, folder_of, node_files, node_tls, trusting, user_tls

LOOPS: tuple[Any, ...] = (uvloop.new_event_loop, asyncio.new_event_loop)
BIG = bytes(range(256)) * (12 * 4096)


def run(test: Callable[[], Coroutine[Any, Any, None]], loop: Any = uvloop.new_event_loop) -> None:
    async def bounded() -> None:
        try:
            async with asyncio.timeout(20):
                await test()
        finally:
            while _worlds:
                _worlds.pop().close()
            # A turn for each transport to notice.
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(bounded())


class Plain(asyncio.Protocol):
    """Collects what comes."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.is_ended = False
        self.is_paused = False
        self.lost: list[Exception | None] = []
        self.transport: Any = None
        self._news = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self._news.set()

    def data_received(self, data: bytes) -> None:
        self.received += data
        self._news.set()

    def eof_received(self) -> bool:
        self.is_ended = True
        self._news.set()
        return False

    def pause_writing(self) -> None:
        self.is_paused = True

    def resume_writing(self) -> None:
        self.is_paused = False
        self._news.set()

    def connection_lost(self, error: Exception | None) -> None:
        self.lost.append(error)
        self._news.set()

    async def wait(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._news.clear()
            await self._news.wait()


class Buffered(Plain, asyncio.BufferedProtocol):  # type: ignore[misc]
    """The same into memory of its own, as the connections of brokers do."""

    def __init__(self) -> None:
        super().__init__()
        self.room = memoryview(bytearray(100_000))

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.room

    def buffer_updated(self, nbytes: int) -> None:
        self.data_received(bytes(self.room[:nbytes]))


#: Of the running test: closed at its end.
_worlds: "list[World]" = []


class World:
    """A listener, and what was accepted there."""

    def __init__(self, acceptor: TlsAcceptor | None = None, made: type[Plain] = Plain) -> None:
        self.failures: list[str] = []
        self.acceptor = acceptor or self.acceptor_for()
        self.accepted: list[Plain] = []
        self.dialled: list[Plain] = []
        self._made = made

    def acceptor_for(self, client_certificates: str = "off", **bounds: int) -> TlsAcceptor:
        tls = node_tls(1, client_certificates=client_certificates)
        self.tls = tls
        return TlsAcceptor(lambda: tls._context, refused=lambda host, reason: self.failures.append(reason), **bounds)

    def _accept(self) -> Plain:
        made = self._made()
        self.accepted.append(made)
        return made

    async def start(self) -> int:
        loop = asyncio.get_running_loop()
        _worlds.append(self)
        self.server = await loop.create_server(lambda: self.acceptor.accept(self._accept), "0.0.0.0", 0)
        port: int = self.server.sockets[0].getsockname()[1]
        return port

    def close(self) -> None:
        self.server.close()
        self.acceptor.close()
        for each in (*self.accepted, *self.dialled):
            if each.transport is not None:
                each.transport.abort()


async def dial(port: int, tls: Tls, made: type[Plain] = Plain, host: str = "127.0.0.1") -> Plain:
    protocol = made()
    for world in _worlds:
        world.dialled.append(protocol)
    await TlsDialler(fresh_context(tls).get).connect(lambda: protocol, host, port)
    return protocol


async def pair(made: type[Plain] = Plain) -> tuple[World, Plain, Plain]:
    world = World(made=made)
    client = await dial(await world.start(), trusting(), made)
    # The server's side of the handshake ends a little later.
    while not world.accepted:
        await asyncio.sleep(0.001)
    return world, client, world.accepted[0]


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("made", [Plain, Buffered])
def test_bytes_arrive_in_both_directions(made: type[Plain], loop: Any) -> None:
    async def test() -> None:
        _, client, server = await pair(made)
        client.transport.writelines([b"one ", bytearray(b"two "), memoryview(b"three")])
        server.transport.write(BIG)
        await server.wait(lambda: server.received == b"one two three")
        await client.wait(lambda: client.received == BIG)
        assert client.transport.get_extra_info("ssl_object").version() == "TLSv1.3"
        client.transport.close()
        await server.wait(lambda: server.lost == [None])
        await client.wait(lambda: client.lost == [None])
        assert server.is_ended

    run(test, loop)


@pytest.mark.parametrize("loop", LOOPS)
def test_all_that_is_not_sent_counts_and_pauses_the_writer(loop: Any) -> None:
    async def test() -> None:
        _, client, server = await pair()
        client.transport.pause_reading()
        server.transport.set_write_buffer_limits(high=1_000_000, low=100_000)
        total = 0
        while not server.is_paused:
            server.transport.write(BIG)
            total += len(BIG)
            await asyncio.sleep(0)
        # The system has the rest: nothing hides in between.
        assert server.transport.get_write_buffer_size() > 1_000_000
        held = server.transport.get_write_buffer_size()
        server.transport.write(BIG)
        assert server.transport.get_write_buffer_size() >= held + len(BIG)
        total += len(BIG)
        assert len(client.received) <= 64 * 1024
        client.transport.resume_reading()
        await client.wait(lambda: len(client.received) == total)
        await server.wait(lambda: not server.is_paused)

    run(test, loop)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_half_closed_connection_drops_what_comes(loop: Any) -> None:
    async def test() -> None:
        _, client, server = await pair()
        server.transport.write(b"the end")
        server.transport.write_eof()
        client.transport.write(BIG)
        await client.wait(lambda: client.is_ended)
        assert client.received == b"the end"
        await server.wait(lambda: bool(server.lost))
        assert server.received == b""

    run(test, loop)


def test_reading_can_pause_within_what_one_read_brought() -> None:
    class OneByOne(Plain):
        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self.transport.pause_reading()

    async def test() -> None:
        _, client, server = await pair(OneByOne)
        for piece in (b"a", b"b", b"c"):
            client.transport.write(piece)
        for expected in (b"a", b"ab", b"abc"):
            await server.wait(lambda expected=expected: server.received == expected)
            assert not server.transport.is_reading()
            server.transport.resume_reading()
        client.transport.abort()
        await server.wait(lambda: bool(server.lost))

    run(test)


def test_a_client_accepts_its_own_authority_and_the_name_only() -> None:
    async def test() -> None:
        world = World()
        port = await world.start()
        with pytest.raises(TlsError, match=r"self-signed certificate in certificate chain|unable to get local issuer"):
            await dial(port, trusting(authority="other"))
        with pytest.raises(TlsError, match="not accepted"):
            await dial(port, Tls())
        with pytest.raises(TlsError, match="IP address mismatch"):
            await dial(port, trusting(), host="127.0.0.2")
        while len(world.failures) < 3:
            await asyncio.sleep(0.001)
        assert "the other side ended TLS: unknown ca" in world.failures

    run(test)


def test_an_expired_certificate_is_refused() -> None:
    async def test() -> None:
        context = server_context(*expired_files(1), "off")
        port = await World(TlsAcceptor(lambda: context)).start()
        with pytest.raises(TlsError, match="certificate has expired"):
            await dial(port, trusting())

    run(test)


def test_clients_show_certificates_where_they_must() -> None:
    async def test() -> None:
        world = World()
        world.acceptor = world.acceptor_for("required")
        port = await world.start()
        client = await dial(port, user_tls("alice"))
        while not world.accepted:
            await asyncio.sleep(0.001)
        assert str(world.tls.principal(world.accepted[0].transport)) == "user alice"
        client.transport.close()
        for stranger in (trusting(), Tls(folder_of("flotilla") / "ca.crt", *_pair_of("other"))):
            # In TLS 1.3 a client hears only later that its certificate was refused.
            refused = await dial(port, stranger)
            await refused.wait(lambda refused=refused: bool(refused.lost))
            assert isinstance(refused.lost[0], TlsError)
        assert len(world.accepted) == 1
        assert len(world.failures) == 2

    run(test)


def _pair_of(authority: str) -> tuple[Any, Any]:
    tls = user_tls("mallory", authority=authority)
    return tls.certificate, tls.key


def test_plain_bytes_and_older_versions_are_refused() -> None:
    async def test() -> None:
        world = World()
        port = await world.start()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        await reader.read()
        writer.close()
        old = ssl.create_default_context(cafile=str(trusting().ca))
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises(ssl.SSLError, match="PROTOCOL_VERSION"):
            await asyncio.open_connection("127.0.0.1", port, ssl=old)
        assert len(world.failures) == 2
        assert not world.accepted

    run(test)


def test_handshakes_are_bounded_in_time_and_number() -> None:
    async def test() -> None:
        world = World()
        world.acceptor = world.acceptor_for(handshakes_max=3, handshake_ms_max=50)
        port = await world.start()
        silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(10)]
        while len(world.failures) < 7:
            assert world.acceptor.handshake_count <= 3
            await asyncio.sleep(0.001)
        # An honest client finds a place among them.
        client = await dial(port, trusting())
        while world.acceptor.handshake_count:
            await asyncio.sleep(0.005)
        assert len(world.failures) == 10
        client.transport.abort()
        for each in silent:
            each.close()

    run(test)


def test_places_are_kept_for_members() -> None:
    async def test() -> None:
        world = World()
        world.acceptor = world.acceptor_for(handshakes_max=3, is_member=lambda host: host == "127.0.0.1")
        port = await world.start()
        member = socket.create_connection(("127.0.0.1", port))
        while not world.acceptor.handshake_count:
            await asyncio.sleep(0.001)
        strangers = [
            socket.create_connection(("127.0.0.1", port), source_address=(f"127.1.0.{number}", 0))
            for number in range(1, 11)
        ]
        while len(world.failures) < 8:
            await asyncio.sleep(0.001)
        assert next(host for host, _ in world.acceptor._shaking.values()) == "127.0.0.1"
        assert world.acceptor.handshake_count == 3
        for each in (member, *strangers):
            each.close()

    run(test)


def test_a_dial_that_is_cancelled_leaves_nothing_behind() -> None:
    async def test() -> None:
        with socket.create_server(("127.0.0.1", 0)) as mute:
            dialling = asyncio.create_task(dial(mute.getsockname()[1], trusting()))
            connection, _ = await asyncio.to_thread(mute.accept)
            with connection:
                dialling.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await dialling
                connection.settimeout(5)
                # The hello of the client may come before the end.
                while await asyncio.to_thread(_received, connection):
                    pass

    run(test)


def _received(connection: socket.socket) -> bytes:
    try:
        return connection.recv(65536)
    except ConnectionError:
        return b""


def test_two_authorities_are_trusted_while_one_replaces_the_other(tmp_path: Path) -> None:
    both = tmp_path / "ca.crt"
    both.write_bytes(b"".join(Path(trusting(authority=name).ca).read_bytes() for name in ("", "other")))

    async def test() -> None:
        for authority in ("", "other"):
            certificate, key, _ = node_files(1, authority=authority)
            context = server_context(certificate, key, str(both), "required")
            world = World(TlsAcceptor(lambda context=context: context))
            port = await world.start()
            for user in ("", "other"):
                shown = user_tls("alice", authority=user)
                client = await dial(port, Tls(both, shown.certificate, shown.key))
                client.transport.write(b"hello")
            while len(world.accepted) < 2:
                await asyncio.sleep(0.001)
            for accepted in world.accepted:
                await accepted.wait(lambda accepted=accepted: accepted.received == b"hello")

    run(test)


def test_handshakes_count_as_connections_of_a_listener() -> None:
    async def test() -> None:
        world = World()
        accepted = world.accepted
        listener = Listener(
            world._accept,
            count=lambda: sum(not each.lost for each in accepted),
            connections_max=2,
            budget=None,
            refusal=lambda reason: b"never sent",
            tls=world.acceptor,
        )
        port = await listener.start("127.0.0.1", 0)
        client = await dial(port, trusting())
        with socket.create_connection(("127.0.0.1", port)):
            while not world.acceptor.handshake_count:
                await asyncio.sleep(0.001)
            # One is open and one is shaking: the next is closed without a word.
            with pytest.raises(OSError, match=r"ended the handshake|reset"):
                await dial(port, trusting())
            assert listener.refused_count == 1
            listener.close()
        client.transport.abort()
        while not accepted[0].lost:
            await asyncio.sleep(0.001)

    run(test)


@pytest.mark.parametrize("is_optional", [False, True])
def test_a_handshake_that_makes_room_is_counted_no_more(is_optional: bool) -> None:
    async def test() -> None:
        world = World()
        world.acceptor = acceptor = world.acceptor_for(is_optional=is_optional)
        port = await world.start()
        with ExitStack() as clients:
            for _ in range(2):
                clients.enter_context(socket.create_connection(("127.0.0.1", port)))
            while acceptor.handshake_count < 2:
                await asyncio.sleep(0.001)
            assert [acceptor.give_up() for _ in range(3)] == [True, True, False]
            assert acceptor.handshake_count == 0
            while len(world.failures) < 2:
                await asyncio.sleep(0.001)
        assert acceptor.failed_count == 2

    run(test)


def test_a_transport_that_was_closed_without_a_word_ends_nothing_else() -> None:
    """As uvloop does: it raises when it is written to."""

    async def test() -> None:
        _, client, server = await pair()
        below = client.transport._below

        class Closed:
            def __getattr__(self, name: str) -> Any:
                return getattr(below, name)

            def write(self, data: bytes) -> None:
                raise RuntimeError("the handler is closed")

        client.transport._below = Closed()
        with pytest.raises(RuntimeError):
            client.transport.write(b"what the owner must hear of")
        client.transport.close()
        await client.wait(lambda: bool(client.lost))
        await server.wait(lambda: bool(server.lost))

    run(test)
