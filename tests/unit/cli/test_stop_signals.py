"""What SIGTERM and SIGINT do to a process that stops in order."""

import asyncio
import os
import signal
from collections.abc import Iterator

import pytest

from flotilla.cli.terminal.stop_signals import STOPPING, StopSignals


@pytest.fixture(autouse=True)
def usual() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in STOPPING}
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
        signals.tell(asyncio.get_running_loop(), stopping.set)
        send(first)
        await asyncio.wait_for(stopping.wait(), 30)
        assert (signals.asked_by, ended) == (signal.Signals(first).name, [])
        send(second)

    with StopSignals(ended.append) as signals:
        asyncio.run(work())
    assert ended == [1]


def test_what_comes_before_anybody_listens_is_kept() -> None:
    async def work() -> None:
        stopping = asyncio.Event()
        signals.tell(asyncio.get_running_loop(), stopping.set)
        await asyncio.wait_for(stopping.wait(), 30)

    with StopSignals() as signals:
        send(signal.SIGTERM)
        asyncio.run(work())


def test_what_comes_when_all_is_done_changes_nothing() -> None:
    ended: list[int] = []
    with StopSignals(ended.append) as signals:
        send(signal.SIGTERM)
        signals.done()
        send(signal.SIGTERM)
    send(signal.SIGINT)
    assert ended == []


def test_who_never_served_leaves_signals_as_they_were() -> None:
    before = [signal.getsignal(number) for number in STOPPING]
    with StopSignals():
        assert [signal.getsignal(number) for number in STOPPING] != before
    assert [signal.getsignal(number) for number in STOPPING] == before
