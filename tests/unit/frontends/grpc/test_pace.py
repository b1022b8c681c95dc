"""Large messages take turns, and leave the loop to others in between."""

import asyncio
import time

import pytest

from flotilla.frontends.grpc.admission import Admission
from flotilla.frontends.grpc.pace import LARGE_BYTES_MIN, Pace, timed

LARGE = bytes(LARGE_BYTES_MIN + 1)


def test_a_large_message_waits_for_the_rest_after_the_one_before() -> None:
    async def run() -> None:
        pace = Pace()
        begun_s = time.monotonic()
        # Alone it waits for nothing, however long it took.
        await pace.wait(0.01)
        assert not pace._turn.locked()
        waiting = [asyncio.ensure_future(pace.wait(0.01)) for _ in range(2)]
        await asyncio.gather(*waiting)
        assert time.monotonic() - begun_s >= 2 * 4 * 0.01

    asyncio.run(run())


def test_the_time_of_the_copy_is_that_of_the_last_step() -> None:
    async def read() -> bytes:
        await asyncio.sleep(0.05)
        time.sleep(0.01)
        return LARGE

    data, took_s = asyncio.run(timed(read()))  # type: ignore[arg-type]
    assert data is LARGE
    assert took_s >= 0.01

    async def slow() -> bytes:
        time.sleep(0.05)
        await asyncio.sleep(0)
        return b""

    assert asyncio.run(timed(slow()))[1] < 0.05  # type: ignore[arg-type]


def test_a_cancelled_read_is_told_so() -> None:
    told: list[str] = []

    async def read() -> bytes:
        try:
            return await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            told.append("cancelled")
            raise

    async def run() -> None:
        reading = asyncio.ensure_future(timed(read()))
        await asyncio.sleep(0)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading

    asyncio.run(run())
    assert told == ["cancelled"]


def test_large_messages_wait_with_their_room_and_small_ones_do_not() -> None:
    async def run() -> None:
        admission = Admission(10 * len(LARGE), message_bytes_max=2 * len(LARGE))
        admission._pace._free_at_s = time.monotonic() + 60

        async def large() -> bytes:
            return LARGE

        async def small() -> bytes:
            return b"small"

        async def small_or_end() -> bytes | None:
            return b"small"

        waiting = [
            asyncio.ensure_future(admission.receive(large, "a")),
            asyncio.ensure_future(admission.receive_next(large, "b", is_large=True)),
            asyncio.ensure_future(admission.receive_next(large, "c", is_large=False)),
        ]
        assert await admission.receive(small, "d") == b"small"
        assert await admission.receive_next(small_or_end, "d", is_large=True) == b"small"
        assert not [each for each in waiting if each.done()]
        # What each of them had reserved beyond its size is given back.
        while admission.used_bytes != 3 * len(LARGE) + 2 * len(b"small"):
            await asyncio.sleep(0)
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        assert admission.used_bytes == 2 * len(b"small")

    asyncio.run(run())
