"""Accepting clients: within the bounds of an endpoint and of the process, and without descriptors."""

import asyncio
import errno
import socket
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from flotilla.frontends.listener import ACCEPT_COUNT_MAX, ConnectionBudget, Listener


class Echo(asyncio.Protocol):
    def __init__(self, opened: set["Echo"]) -> None:
        self._opened = opened
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._opened.add(self)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._opened.discard(self)


class Echoes:
    def __init__(self, connections_max: int, budget: ConnectionBudget | None = None) -> None:
        self.opened: set[Echo] = set()
        self.listener = Listener(
            lambda: Echo(self.opened),
            count=lambda: len(self.opened),
            connections_max=connections_max,
            budget=budget,
            refusal=str.encode,
        )
        _servers.append(self)


#: Of the running test: closed at its end.
_writers: list[asyncio.StreamWriter] = []
_servers: list[Echoes] = []


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def bounded() -> None:
        try:
            async with asyncio.timeout(20):
                await test()
        finally:
            for writer in _writers:
                writer.close()
            for each in _servers:
                each.listener.close()
                for echo in each.opened:
                    echo.transport.abort()
            _writers.clear()
            _servers.clear()
            await asyncio.sleep(0)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(bounded())


async def say(port: int) -> tuple[bytes, asyncio.StreamWriter]:
    """Connects and says a word at once, as a client does; what comes back."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    _writers.append(writer)
    writer.write(b"hello")
    return await reader.read(100), writer


def test_clients_beyond_the_bounds_get_a_sentence_and_room_is_given_again() -> None:
    async def test() -> None:
        echoes = Echoes(3)
        port = await echoes.listener.start("127.0.0.1", 0)
        said = [await say(port) for _ in range(5)]
        words = [answer for answer, _ in said]
        assert words == [b"hello"] * 3 + [b"too many connections: the limit is 3"] * 2
        assert echoes.listener.refused_count == 2
        said[0][1].close()
        while len(echoes.opened) == 3:
            await asyncio.sleep(0.001)
        assert (await say(port))[0] == b"hello"

    run(test)


def test_a_crowd_is_refused_with_one_descriptor() -> None:
    async def test() -> None:
        echoes = Echoes(10)
        port = await echoes.listener.start("127.0.0.1", 0)
        found = await asyncio.gather(*(say(port) for _ in range(10 * ACCEPT_COUNT_MAX)))
        words = [answer for answer, _ in found]
        assert words.count(b"hello") == len(echoes.opened) == 10
        assert all(answer == b"hello" or answer.startswith(b"too many") for answer in words)

    run(test)


def test_endpoints_share_the_budget_of_the_process() -> None:
    async def test() -> None:
        budget = ConnectionBudget(3)
        one, two = Echoes(100, budget), Echoes(100, budget)
        ports = [await each.listener.start("127.0.0.1", 0) for each in (one, two)]
        said = [await say(ports[number % 2]) for number in range(4)]
        assert [answer for answer, _ in said][:3] == [b"hello"] * 3
        assert said[3][0] == b"too many connections: this process has descriptors for 3"

    run(test)


def test_without_descriptors_accepting_pauses_and_goes_on() -> None:
    class Short:
        """A listening socket of a process that has no descriptor left, for a while."""

        def __init__(self, inner: socket.socket) -> None:
            self.inner = inner
            self.attempts = 0

        def accept(self) -> Any:
            self.attempts += 1
            if self.attempts <= 2:
                raise OSError(errno.EMFILE, "Too many open files")
            return self.inner.accept()

        def __getattr__(self, name: str) -> Any:
            return getattr(self.inner, name)

    async def test() -> None:
        echoes = Echoes(10)
        port = await echoes.listener.start("127.0.0.1", 0)
        listener: Any = echoes.listener
        loop = asyncio.get_running_loop()
        short = Short(listener._sockets[0])
        loop.remove_reader(listener._sockets[0])
        listener._sockets[0] = short
        listener._resume(short)
        assert (await say(port))[0] == b"hello"
        # Twice without a descriptor, once with one, once because nobody else waits: the loop did not spin.
        assert short.attempts <= 4

    run(test)


def test_a_port_that_is_taken_is_an_error() -> None:
    async def test() -> None:
        first = Echoes(1)
        port = await first.listener.start("127.0.0.1", 0)
        second = Echoes(1)
        with pytest.raises(OSError):
            await second.listener.start("127.0.0.1", port)
        assert not second.listener.is_listening
        first.listener.close()
        assert not first.listener.is_listening

    run(test)
