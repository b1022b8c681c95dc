"""A commit that its caller gives up leaves nothing behind: messages come back, or are settled with their results."""

import asyncio

import pytest

from flotilla.client._core import closing
from flotilla.client.async_client import AsyncClient
from flotilla.testing import LocalBroker
from flotilla.types.errors import OutcomeUnknownError, UnavailableError
from flotilla.types.operations.transactions import CommitTransaction, Stage


async def _outcome(client: AsyncClient, topic: str) -> str:
    """How the only message of the topic ended: delivered again, or acknowledged with its result."""
    async with client.queue(topic, group="g") as queue:
        while True:
            found = await queue.poll(wait_ms=300)
            results = await client.peek(f"{topic}-results", 0)
            assert not (found and results)
            if found:
                await found[0].ack()
                return "returned"
            if results:
                assert [message.payload for message in results] == [b"result"]
                return "committed"


async def _cancelled_after(client: AsyncClient, topic: str, steps: int) -> bool:
    """Whether the commit was cancelled after so many steps of the event loop; False: it had ended."""
    for name in (topic, f"{topic}-results"):
        await client.create_topic(name)
    await client.produce(topic, b"work")
    async with client.queue(topic, group="g", visibility_ms=30_000) as queue:
        (message,) = await queue.poll(wait_ms=5_000)
        txn = client.transaction()
        await txn.produce(f"{topic}-results", b"result")
        await txn.ack(message)
        committing = asyncio.ensure_future(txn.commit())
        for _ in range(steps):
            await asyncio.sleep(0.0002)
        if committing.done():
            await committing
            return False
        committing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await committing
    return True


def test_a_cancelled_commit_hides_no_message() -> None:
    async def run() -> None:
        ended = []
        async with broker.async_client() as client:
            for steps in (0, 1, 2, 3, 4, 6, 8, 12, 16):
                topic = f"t{steps}"
                is_cancelled = await _cancelled_after(client, topic, steps)
                ended.append((is_cancelled, await _outcome(client, topic)))
        assert (True, "returned") in ended
        assert (False, "returned") not in ended

    with LocalBroker() as broker:
        asyncio.run(asyncio.wait_for(run(), 100))


def test_a_stage_without_an_answer_ends_the_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was decided, so it is not an unknown outcome."""

    async def run() -> None:
        async with broker.async_client() as client:
            await client.create_topic("t")
            txn = client.transaction()
            await txn.produce("t", b"a")
            network = client._opened()
            call = network.call

            async def lossy(request, *arguments):
                answer = await call(request, *arguments)
                if isinstance(request, Stage):
                    raise OutcomeUnknownError("the connection broke")
                return answer

            monkeypatch.setattr(network, "call", lossy)
            with pytest.raises(UnavailableError, match="is aborted"):
                await txn.commit()
            monkeypatch.undo()
            # The partition has room again, and nothing is visible.
            async with client.transaction() as again:
                await again.produce("t", b"b")
            assert [message.payload for message in await client.peek("t", 0)] == [b"b"]

    with LocalBroker() as broker:
        asyncio.run(asyncio.wait_for(run(), 60))


@pytest.mark.parametrize("fails", [False, True])
def test_the_steps_of_a_commit_share_its_time_limit(monkeypatch: pytest.MonkeyPatch, *, fails: bool) -> None:
    """Each step took its own, so that a commit could take several times its limit."""
    steps: list[tuple[str, int]] = []

    async def run() -> None:
        async with broker.async_client(timeout_ms=10_000) as client:
            await client.create_topic("t")
            txn = client.transaction()
            await txn.produce("t", b"a")
            network = client._opened()
            call = network.call

            async def slow(request, timeout_ms, *arguments):
                steps.append((type(request).__name__, timeout_ms))
                if fails and isinstance(request, CommitTransaction):
                    raise UnavailableError("not now")
                return await call(request, timeout_ms, *arguments)

            monkeypatch.setattr(network, "call", slow)
            monkeypatch.setattr(closing, "steady_ms", lambda: 4_000 * len(steps))
            try:
                await txn.commit()
            except UnavailableError:
                assert fails

    with LocalBroker() as broker:
        asyncio.run(asyncio.wait_for(run(), 60))
    last = ("AbortTransaction", 2_000) if fails else ("TransactionOutcome", 2_000)
    assert steps == [("Stage", 10_000), ("CommitTransaction", 6_000), last]
