"""Planned hand-overs of leadership under a producer: how long no message is acknowledged, and the books of it.

Nothing is killed, and no other topic is touched: each time the leader of one partition is asked to let another replica
lead. One message is in flight all the time. The gap is the longest time between two acknowledgements from before the
hand-over until a message that was sent after it; beside it stands the longest of a stretch without a hand-over. At the
end all messages are read back: one that was acknowledged and is not in its place is lost, one in two places doubled.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from time import perf_counter

import uvloop

from flotilla.cli.demo.ledger import Ledger, Place
from flotilla.client.async_client import AsyncClient
from flotilla.types.errors import FlotillaError, UnavailableError
from flotilla.types.ids import NO_NODE, NodeId
from flotilla.types.operations.cluster import LEADER

_PARTITION = 0
#: Traffic before each hand-over, to compare with.
_STEADY_S = 1.0
_LOOK_S = 0.01
#: An heir that has not caught up in time lets the leader lead on: it is asked again then.
_ASK_AGAIN_S = 3.0
_WAIT_S_MAX = 30.0
_POLL_MESSAGES = 10_000
#: Longer than any broker that works keeps a reader waiting.
_SILENCE_MS = 10_000


@dataclass(frozen=True, slots=True)
class HandOvers:
    """As `--json` prints it."""

    count: int
    gap_p50_ms: float
    gap_longest_ms: float
    #: The longest time between two acknowledgements while nothing was handed over.
    steady_longest_ms: float
    acknowledged: int
    #: Sent and refused, so that nothing was promised.
    refused: int
    lost: int
    doubled: int

    @property
    def is_good(self) -> bool:
        return not self.lost and not self.doubled


def measure_hand_overs(servers: list[str], topic: str, count: int) -> HandOvers:
    """On an empty topic whose first partition has more than one replica. Raises UnavailableError if nobody takes it."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_measure(servers, topic, count))


async def _measure(servers: list[str], topic: str, count: int) -> HandOvers:
    async with AsyncClient(servers) as client:
        sender = Sender(client, topic)
        # No group of tasks: it would wrap the error that says what went wrong.
        sending = asyncio.create_task(sender.run())
        try:
            measured = [await _hand_over(client, topic, sender) for _ in range(count)]
        finally:
            sender.is_stopping = True
            await sending
        await _read_back(client, topic, sender.ledger)
    gaps_s = [gap_s for gap_s, _ in measured]
    return HandOvers(
        count=count,
        gap_p50_ms=1e3 * median(gaps_s),
        gap_longest_ms=1e3 * max(gaps_s),
        steady_longest_ms=1e3 * max(steady_s for _, steady_s in measured),
        acknowledged=len(sender.ledger.acknowledged),
        refused=len(sender.ledger.failed),
        lost=len(sender.ledger.lost),
        doubled=len(sender.ledger.doubled),
    )


class Sender:
    """Sends numbers one after the other, each when the last one has its answer."""

    def __init__(self, client: AsyncClient, topic: str) -> None:
        self._client = client
        self._topic = topic
        self.ledger = Ledger()
        self.is_stopping = False
        #: When each acknowledged message was sent, and when it was acknowledged.
        self.moments: list[tuple[float, float]] = []

    async def run(self) -> None:
        while not self.is_stopping:
            number = self.ledger.next_number()
            sent = perf_counter()
            try:
                receipt = await self._client.produce(self._topic, b"%d" % number, partition=_PARTITION)
            except FlotillaError as error:
                self.ledger.note_failed(number, f"{error.code}: {error}")
                await asyncio.sleep(_LOOK_S)
                continue
            self.moments.append((sent, perf_counter()))
            self.ledger.note_acknowledged(number, Place(receipt.partition, receipt.offset))

    async def wait_acknowledged(self, sent_after: float) -> float:
        """When the first message was acknowledged that was sent after that."""
        deadline = perf_counter() + _WAIT_S_MAX
        while not self.moments or self.moments[-1][0] <= sent_after:
            if perf_counter() > deadline:
                raise UnavailableError(f"no message was acknowledged within {_WAIT_S_MAX:.0f} s")
            await asyncio.sleep(_LOOK_S)
        return next(done for sent, done in self.moments if sent > sent_after)

    def longest_gap(self, begin: float, end: float) -> float:
        """Between two acknowledgements, from the last one before `begin` on, or from the last one to `end`."""
        last_before = max((done for _, done in self.moments if done <= begin), default=begin)
        within = [done for _, done in self.moments if begin < done <= end]
        return max(later - earlier for earlier, later in pairwise([last_before, *within, end]))


async def _hand_over(client: AsyncClient, topic: str, sender: Sender) -> tuple[float, float]:
    """The gap of one hand-over, and the longest of the stretch before it; in seconds."""
    steady = await sender.wait_acknowledged(sent_after=perf_counter())
    await asyncio.sleep(_STEADY_S)
    before = await _next_leader(client, topic, NO_NODE, _WAIT_S_MAX)
    began = perf_counter()
    await _move_leadership(client, topic, before)
    ended = await sender.wait_acknowledged(sent_after=perf_counter())
    return sender.longest_gap(began, ended), sender.longest_gap(steady, began)


async def _move_leadership(client: AsyncClient, topic: str, before: NodeId) -> None:
    deadline = perf_counter() + _WAIT_S_MAX
    while before != NO_NODE and perf_counter() < deadline:
        # An error says that it cannot be had now, or that it may be under way: who leads shows what came of it.
        with suppress(FlotillaError):
            await client.admin.transfer_leadership(topic, _PARTITION)
        if await _next_leader(client, topic, before, _ASK_AGAIN_S) != NO_NODE:
            return
    raise UnavailableError(f"nobody took the leadership of {topic} within {_WAIT_S_MAX:.0f} s")


async def _next_leader(client: AsyncClient, topic: str, before: NodeId, wait_s: float) -> NodeId:
    """Who leads and did not before, by its own word; NO_NODE if there is nobody in time."""
    deadline = perf_counter() + wait_s
    while perf_counter() < deadline:
        with suppress(FlotillaError):
            described = await client.admin.describe_replicas(topic, _PARTITION)
            leaders = [replica.node for replica in described.replicas if replica.role == LEADER]
            if leaders and leaders[0] != before:
                return leaders[0]
        await asyncio.sleep(_LOOK_S)
    return NO_NODE


async def _read_back(client: AsyncClient, topic: str, ledger: Ledger) -> None:
    end = await client.find_offset(topic, _PARTITION, "latest")
    position = 0
    async with client.reader(topic, offset=0, partitions=[_PARTITION]) as consumer:
        while position < end:
            messages = await consumer.poll(_POLL_MESSAGES, wait_ms=_SILENCE_MS)
            if not messages:
                # What does not come is counted as lost.
                return
            for message in messages:
                ledger.note_read(int(message.payload), Place(message.partition, message.offset))
            position = messages[-1].offset + 1
