"""Places are shared out among connections."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from flotilla.frontends.grpc.reading_places import ReadingPlaces
from flotilla.types.errors import OverloadedError


class Reader:
    def __init__(self, peer: str, places: ReadingPlaces | None = None) -> None:
        self.peer = peer
        self.is_ended = False
        self._places = places

    def end(self, error: OverloadedError) -> None:
        self.is_ended = True
        if self._places is not None:
            self._places.give(self)


def play(work: Callable[[ReadingPlaces], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(work(ReadingPlaces(3)))


def test_a_free_place_goes_to_the_connection_with_the_fewest() -> None:
    async def work(places: ReadingPlaces) -> None:
        readers = [Reader(peer) for peer in "aab"]
        for each in readers:
            await places.wait(each)
        got: list[str] = []

        async def wait(peer: str) -> None:
            await places.wait(Reader(peer))
            got.append(peer)

        waiting = [asyncio.ensure_future(wait(peer)) for peer in "abcab"]
        await asyncio.sleep(0)
        assert places.is_wanted("a")
        assert not places.is_wanted("b")
        for each in readers:
            places.give(each)
            await asyncio.sleep(0)
        await asyncio.gather(*(each for each in waiting if each.done()))
        # After the first place `a` has one, `b` one and `c` one; then places go by their order of arrival.
        assert got == ["c", "a", "b"]
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    play(work)


def test_who_waits_in_vain_ends_the_most_silent_stream_of_the_connection_with_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("flotilla.frontends.grpc.reading_places._PATIENCE_S", 0.01)

    async def work(places: ReadingPlaces) -> None:
        readers = [Reader(peer, places) for peer in "aab"]
        for each in readers:
            await places.wait(each)
        places.heard(readers[0])
        await places.wait(Reader("c"))
        assert [each.is_ended for each in readers] == [False, True, False]
        # Now each connection has one: nobody has too many.
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await places.wait(Reader("d"))
        assert [each.is_ended for each in readers] == [False, True, False]
        places.give(readers[0])
        await places.wait(Reader("d"))

    play(work)


def test_a_place_that_is_granted_to_a_cancelled_stream_is_given_back() -> None:
    async def work(places: ReadingPlaces) -> None:
        readers = [Reader(peer) for peer in "abc"]
        for each in readers:
            await places.wait(each)
        cancelled = asyncio.ensure_future(places.wait(Reader("d")))
        next_one = asyncio.ensure_future(places.wait(Reader("e")))
        await asyncio.sleep(0)
        places.give(readers[0])
        cancelled.cancel()
        await next_one
        assert cancelled.cancelled()

    play(work)
