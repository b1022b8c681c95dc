"""A failure of one link ends that link's connection, and the link dials again."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from flotilla.peers import link as link_module
from flotilla.peers.connection import PeerConnection
from flotilla.peers.link import PeerLink
from tests.unit.peers.harness import Recorder, heartbeat, network, pair, run


def reported() -> list[dict[str, Any]]:
    """What reaches the loop's exception handler from now on."""
    found: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: found.append(context))
    return found


@pytest.mark.parametrize("method", ["send", "check"])
def test_a_link_that_raises_is_cut_and_comes_back(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        one, events, _, other_events = await pair()
        found = reported()

        def fail(*args: object) -> None:
            monkeypatch.undo()
            raise ZeroDivisionError("a bug")

        monkeypatch.setattr(PeerLink, method, fail)
        one.send(2, [heartbeat(1, 2)])
        await events.wait_change("down", 2)
        assert [(context["part"], str(context["exception"])) for context in found] == [("link", "a bug")]
        events.changes.clear()
        await events.wait_change("up", 2)
        one.send(2, [heartbeat(1, 2, commit=5)])
        await other_events.wait_until(lambda: heartbeat(1, 2, commit=5) in other_events.messages)

    run(test)


def test_a_connection_whose_check_raises_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        _, events, _, _ = await pair()
        found = reported()
        check = PeerConnection.check

        def fail(connection: PeerConnection) -> None:
            if found:
                check(connection)
            else:
                raise ZeroDivisionError("a bug")

        monkeypatch.setattr(PeerConnection, "check", fail)
        await events.wait_change("down", 2)
        events.changes.clear()
        await events.wait_change("up", 2)
        assert {context["part"] for context in found} == {"link"}

    run(test)


@pytest.mark.parametrize("failure", [RuntimeError("the handler is closed"), UnicodeError("label too long")])
def test_a_dial_that_fails_in_an_unknown_way_is_tried_again(
    failure: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        one, two = network(1, {}), network(2, {})
        events = Recorder()
        await one.start(events)
        await two.start(Recorder())
        failures = [failure] * 3

        def connection(owner: PeerLink) -> PeerConnection:
            if failures:
                raise failures.pop()
            return PeerConnection(owner)

        monkeypatch.setattr(link_module, "PeerConnection", connection)
        one.add_peer(2, two.address)
        two.add_peer(1, one.address)
        await events.wait_change("up", 2)
        assert failures == []

    run(test)


class LateLoop:
    """A loop whose first connection is made as the time of the dial runs out. uvloop closes its socket in silence."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.transport = SilentTransport()

    async def create_connection(self, factory: Callable[[], PeerConnection], host: str, port: int) -> object:
        if self.transport.is_closed:
            return await self._loop.create_connection(factory, host, port)
        factory().connection_made(self.transport)
        self.transport.is_closed = True
        raise TimeoutError

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)


class SilentTransport(asyncio.Transport):
    is_closed = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def writelines(self, list_of_data: Any) -> None:
        assert not self.is_closed

    def abort(self) -> None:
        """Does not report the end."""

    def close(self) -> None:
        """Neither does this."""


def test_a_dial_that_succeeds_as_its_time_runs_out_is_forgotten_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No check comes here: the dial itself must notice."""

    async def test() -> None:
        one, two = network(1, {}, check_ms=1_000_000), network(2, {}, check_ms=1_000_000)
        events = Recorder()
        await one.start(events)
        await two.start(Recorder())
        loop = LateLoop()
        late = SimpleNamespace(get_running_loop=lambda: loop, timeout=asyncio.timeout)
        monkeypatch.setattr(link_module, "asyncio", late)
        one.add_peer(2, two.address)
        two.add_peer(1, one.address)
        await events.wait_change("up", 2)
        assert loop.transport.is_closed

    run(test)
