"""The last look at a queue: what is stored, how each message ended in each group, and what the groups have counted."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, TypeVar

from flotilla.client.admin.dead_letter import read_letter
from flotilla.client.async_client import AsyncClient
from flotilla.client.producer.receipt import Receipt
from flotilla.client.reader.message import Message
from flotilla.codec.batch.view import BatchView
from flotilla.sim.whole.workloads.queue_scene import ALL_GROUPS, GROUPS, PARTITIONS, TOPIC, QueueScene
from flotilla.types.dead_letters import dead_letter_topic, redriven_count
from flotilla.types.errors import FlotillaError, ForgottenError, NotFoundError
from flotilla.types.operations.queue import ACKED_STATE, ExplainMessage
from flotilla.types.records import Record

T = TypeVar("T")
#: Partition and offset.
Place = tuple[int, int]

_PAUSE_S: Final = 0.5
_AT_ONCE: Final = 32
_SAMPLE_STEP: Final = 8


@dataclass(slots=True)
class Stored:
    payload: str
    #: How often it was redriven before.
    redriven: int = 0


@dataclass(slots=True)
class Letter:
    """A dead letter."""

    origin: Place
    payload: str
    reason: str
    attempts: int
    #: How often the message was redriven before it died.
    redriven: int = 0


@dataclass(slots=True)
class Audit:
    log: dict[Place, Stored] = field(default_factory=dict)
    letters: dict[str, list[Letter]] = field(default_factory=dict)
    #: By group and place.
    states: dict[tuple[str, Place], str] = field(default_factory=dict)
    #: Of acked messages, by group and place; None: it is forgotten.
    results: dict[tuple[str, Place], str | None] = field(default_factory=dict)
    #: By group and partition.
    counted: dict[tuple[str, int], dict[str, int]] = field(default_factory=dict)


class Auditor:
    def __init__(self, scene: QueueScene) -> None:
        self._scene = scene
        self.audit = Audit()
        self.is_done = False
        self.doing = "waits for the groups"

    async def run(self) -> None:
        scene = self._scene
        async with scene.client("auditor") as client:
            while not await _insist(lambda: self._is_drained(client)):
                await asyncio.sleep(_PAUSE_S)
            scene.is_drained = True
            while scene.consumers:
                self.doing = f"waits for {', '.join(scene.consumers)}"
                await asyncio.sleep(_PAUSE_S)
            await self._read(client)
        self.is_done = True

    async def _is_drained(self, client: AsyncClient) -> bool:
        """Whether every group has settled everything, and every dead letter is in its topic."""
        for group in ALL_GROUPS:
            info = await client.describe_group(TOPIC, group)
            self.doing = f"{group} owes {info.lag} messages and {info.dying} letters, {info.leased} are leased"
            if info.lag or info.dying or len(info.partitions) < PARTITIONS:
                return False
        return True

    async def _read(self, client: AsyncClient) -> None:
        audit = self.audit
        self.doing = "reads the log"
        for message in await _insist(lambda: _read_topic(client, TOPIC)):
            place = (message.partition, message.offset)
            key = (await _insist(lambda place=place: _record(client, place))).idempotency_key  # type: ignore[misc]
            redriven = redriven_count(key)
            audit.log[message.partition, message.offset] = Stored(message.payload.decode(), redriven)
        for group in GROUPS:
            self.doing = f"reads the letters of {group}"
            topic = dead_letter_topic(group, TOPIC)
            audit.letters[group] = [
                Letter(
                    origin=(letter.origin_partition, letter.origin_offset),
                    payload=letter.payload.decode(),
                    reason=letter.reason,
                    attempts=letter.attempts,
                    redriven=letter.redriven,
                )
                for letter in map(read_letter, await _insist(lambda topic=topic: _read_topic(client, topic)))  # type: ignore[misc]
            ]
        for group in ALL_GROUPS:
            self.doing = f"asks how the messages of {group} ended"
            await self._explain(client, group)
            await _insist(lambda group=group: self._count(client, group))  # type: ignore[misc]

    async def _explain(self, client: AsyncClient, group: str) -> None:
        # Of the other groups a few: they owe nothing, and the models know the state of each message.
        places = list(self.audit.log)[:: 1 if group in GROUPS else _SAMPLE_STEP]

        async def explain(place: Place) -> None:
            found = await _insist(lambda: client.explain(TOPIC, group, *place, history=False))
            self.audit.states[group, place] = found.state
            if group in GROUPS and found.state == ACKED_STATE:
                self.audit.results[group, place] = await _insist(lambda: _result(client, group, place))

        for at in range(0, len(places), _AT_ONCE):
            await asyncio.gather(*map(explain, places[at : at + _AT_ONCE]))

    async def _count(self, client: AsyncClient, group: str) -> None:
        info = await client.describe_group(TOPIC, group)
        for number, part in info.partitions.items():
            self.audit.counted[group, number] = {
                "acked": part.acked_total,
                "dead": part.dead_total,
                "expired": part.expired_total,
                "cancelled": part.cancelled_total,
                "trimmed": part.trimmed_total,
            }


async def _insist(work: Callable[[], Awaitable[T]]) -> T:
    """Until it is answered."""
    while True:
        try:
            return await work()
        except FlotillaError:
            await asyncio.sleep(_PAUSE_S)


async def _result(client: AsyncClient, group: str, place: Place) -> str | None:
    try:
        return (await client.result(Receipt(*place, topic=TOPIC), group=group)).decode()
    except ForgottenError:
        return None


async def _record(client: AsyncClient, place: Place) -> Record:
    """The whole record: clients do not show idempotency keys."""
    request = ExplainMessage(TOPIC, place[0], place[1], GROUPS[0], has_record=True)
    found = await client._call(request, None)
    return BatchView(found.batch).records()[0]


async def _read_topic(client: AsyncClient, topic: str) -> list[Message]:
    found: list[Message] = []
    try:
        described = await client.describe_topic(topic)
    except NotFoundError:
        return found
    for part in described.partitions:
        position = await client.find_offset(topic, part.number, "earliest")
        end = await client.find_offset(topic, part.number, "latest")
        while position < end:
            messages = await client.peek(topic, part.number, offset=position, max_messages=500)
            if not messages:
                break
            found += messages
            position = messages[-1].offset + 1
    return found
