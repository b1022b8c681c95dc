"""SIGTERM, SIGINT and SIGHUP of a process that stops in order."""

import asyncio
import os
import signal
from collections.abc import Iterator

import pytest

from flotilla.cli.terminal.stop_signals import STOPPING, StopSignals


@pytest.fixture(autouse=True)
def usual() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (*STOPPING, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def send(number: int) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("first", STOPPING)
@pytest.mark.parametrize("second", STOPPING)
def test_the_first_asks_and_the_second_ends(first: int, second: int) -> None:
    ended: list[int] = []

    async def work() -> None:
        stopping = asyncio.Event()
        signals.notify(asyncio.get_running_loop(), stopping.set)
        send(first)
        await asyncio.wait_for(stopping.wait(), 30)
        assert (signals.asked_by, ended) == (signal.Signals(first).name, [])
        send(second)

    with StopSignals(ended.append) as signals:
        asyncio.run(work())
    assert ended == [1]


def test_a_signal_before_notify_is_kept() -> None:
    async def work() -> None:
        stopping = asyncio.Event()
        signals.notify(asyncio.get_running_loop(), stopping.set)
        await asyncio.wait_for(stopping.wait(), 30)

    with StopSignals() as signals:
        send(signal.SIGTERM)
        asyncio.run(work())


def test_a_signal_after_done_changes_nothing() -> None:
    ended: list[int] = []
    with StopSignals(ended.append) as signals:
        send(signal.SIGTERM)
        signals.done()
        send(signal.SIGTERM)
    send(signal.SIGINT)
    assert ended == []


def test_signals_are_restored_without_done() -> None:
    before = [signal.getsignal(number) for number in STOPPING]
    with StopSignals():
        assert [signal.getsignal(number) for number in STOPPING] != before
    assert [signal.getsignal(number) for number in STOPPING] == before


def test_a_hangup_ends_nothing() -> None:
    ended: list[int] = []
    with StopSignals(ended.append) as signals:
        send(signal.SIGHUP)
        assert (signals.asked_by, ended) == ("", [])
        signals.done()
        send(signal.SIGHUP)


def test_a_hangup_has_certificates_read_again_also_one_that_came_early() -> None:
    reloads: list[str] = []
    loop = asyncio.new_event_loop()
    with StopSignals() as signals:
        send(signal.SIGHUP)
        signals.notify_hangup(loop, lambda: reloads.append("again"))
        loop.run_until_complete(asyncio.sleep(0))
        send(signal.SIGHUP)
        loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    assert reloads == ["again", "again"]
