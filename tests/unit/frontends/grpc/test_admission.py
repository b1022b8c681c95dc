"""Records on their way are bounded: single calls are refused, streams wait, and nothing is lost on the way."""

import asyncio

import pytest

from flotilla.frontends.grpc.admission import Admission
from flotilla.types.errors import OverloadedError


def test_a_call_without_room_is_refused_as_retryable() -> None:
    admission = Admission(100)
    admission.take(60)
    with pytest.raises(OverloadedError) as caught:
        admission.take(60)
    assert caught.value.retry_after_ms > 0
    admission.give(60)
    admission.take(200)
    assert admission.used_bytes == 200


def test_streams_wait_in_order_and_may_go() -> None:
    async def run() -> None:
        admission = Admission(100)
        admission.take(100)
        waiting = [asyncio.ensure_future(admission.wait(size)) for size in (80, 50, 40)]
        await asyncio.sleep(0)
        waiting[1].cancel()
        await asyncio.gather(waiting[1], return_exceptions=True)
        admission.give(100)
        await waiting[0]
        await asyncio.sleep(0)
        assert not waiting[2].done()
        admission.give(80)
        # Granted and cancelled in the same turn: it is given back.
        waiting[2].cancel()
        await asyncio.gather(waiting[2], return_exceptions=True)
        assert admission.used_bytes == 0

    asyncio.run(run())
