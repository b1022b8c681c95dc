"""The cost of planned leadership transfers for a producer: the gap between acknowledgements, and lost messages.

Nothing is killed, and no other topic is touched. One message is in flight all the time. The gap is the longest time
between two acknowledgements from before the transfer until a message that was sent after it; the longest gap without a
transfer is measured beside it. At the end all messages are read back: an acknowledged one that is not at its place is
lost, one at two places doubled.
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
#: Traffic before each transfer, for comparison.
_STEADY_S = 1.0
_POLL_S = 0.01
#: The leader keeps leading if its successor does not catch up in time; then the transfer is repeated.
_ASK_AGAIN_S = 3.0
_WAIT_S_MAX = 30.0
_POLL_MESSAGES = 10_000
#: Longer than a healthy broker delays a reader.
_SILENCE_MS = 10_000


@dataclass(frozen=True, slots=True)
class HandOvers:
    """The result, as `--json` prints it."""

    count: int
    gap_p50_ms: float
    gap_longest_ms: float
    #: The longest gap without a transfer.
    steady_longest_ms: float
    acknowledged: int
    #: Not acknowledged.
    refused: int
    lost: int
    doubled: int

    @property
    def is_good(self) -> bool:
        return not self.lost and not self.doubled


def measure_hand_overs(servers: list[str], topic: str, count: int) -> HandOvers:
    """Needs an empty topic with replicas. Raises UnavailableError if no replica takes over."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_measure(servers, topic, count))


async def _measure(servers: list[str], topic: str, count: int) -> HandOvers:
    async with AsyncClient(servers) as client:
        sender = Sender(client, topic)
        # A task group would wrap the error.
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
    """Sends numbers one by one, each after the receipt of the last."""

    def __init__(self, client: AsyncClient, topic: str) -> None:
        self._client = client
        self._topic = topic
        self.ledger = Ledger()
        self.is_stopping = False
        #: Times of sending and of acknowledgement of each acknowledged message.
        self.moments: list[tuple[float, float]] = []

    async def run(self) -> None:
        while not self.is_stopping:
            number = self.ledger.next_number()
            sent = perf_counter()
            try:
                receipt = await self._client.produce(self._topic, b"%d" % number, partition=_PARTITION)
            except FlotillaError as error:
                self.ledger.note_failed(number, f"{error.code}: {error}")
                await asyncio.sleep(_POLL_S)
                continue
            self.moments.append((sent, perf_counter()))
            self.ledger.note_acknowledged(number, Place(receipt.partition, receipt.offset))

    async def wait_acknowledged(self, sent_after: float) -> float:
        """The time of the first acknowledgement of a message that was sent after `sent_after`."""
        deadline = perf_counter() + _WAIT_S_MAX
        while not self.moments or self.moments[-1][0] <= sent_after:
            if perf_counter() > deadline:
                raise UnavailableError(f"no message was acknowledged within {_WAIT_S_MAX:.0f} s")
            await asyncio.sleep(_POLL_S)
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
        # An error may hide a transfer in progress: the next leader shows the outcome.
        with suppress(FlotillaError):
            await client.admin.transfer_leadership(topic, _PARTITION)
        if await _next_leader(client, topic, before, _ASK_AGAIN_S) != NO_NODE:
            return
    raise UnavailableError(f"no replica took the leadership of {topic} within {_WAIT_S_MAX:.0f} s")


async def _next_leader(client: AsyncClient, topic: str, before: NodeId, wait_s: float) -> NodeId:
    """The replica that reports to lead and is not `before`; NO_NODE if there is none in time."""
    deadline = perf_counter() + wait_s
    while perf_counter() < deadline:
        with suppress(FlotillaError):
            described = await client.admin.describe_replicas(topic, _PARTITION)
            leaders = [replica.node for replica in described.replicas if replica.role == LEADER]
            if leaders and leaders[0] != before:
                return leaders[0]
        await asyncio.sleep(_POLL_S)
    return NO_NODE


async def _read_back(client: AsyncClient, topic: str, ledger: Ledger) -> None:
    end = await client.find_offset(topic, _PARTITION, "latest")
    position = 0
    async with client.reader(topic, offset=0, partitions=[_PARTITION]) as consumer:
        while position < end:
            messages = await consumer.poll(_POLL_MESSAGES, wait_ms=_SILENCE_MS)
            if not messages:
                # Messages that do not arrive count as lost.
                return
            for message in messages:
                ledger.note_read(int(message.payload), Place(message.partition, message.offset))
            position = messages[-1].offset + 1
