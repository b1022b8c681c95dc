"""A member of a queue group of a replaced topic. It settles some messages late, when their topic may be another one."""

import asyncio
from random import Random
from typing import Final, Literal

from flotilla.client.queue.aio import AsyncQueueConsumer, AsyncQueueMessage
from flotilla.sim.whole.workloads.queue_scene import TIMEOUT_MS
from flotilla.sim.whole.workloads.replaced_topic.scene import LEASE, SETTLE, TOPIC, TopicScene
from flotilla.types.errors import FlotillaError

_POLL_MS: Final = 500
_PAUSE_S: Final = 0.1
_LEASE_MS_MAX: Final = 6_000
#: How long it keeps a message at most, and how often.
_LATE_S: Final = 5
_LATE: Final = 0.3


class Worker:
    def __init__(self, scene: TopicScene, group: str, start: Literal["earliest", "latest"]) -> None:
        self._scene = scene
        self._group = group
        self._start: Literal["earliest", "latest"] = start
        #: Of its present life.
        self._name = ""

    async def run(self, name: str) -> None:
        scene = self._scene
        self._name = name
        chance = scene.simulation.stream(name)
        while not scene.is_drained:
            try:
                await self._serve(chance)
            except FlotillaError:
                await asyncio.sleep(_PAUSE_S)

    async def _serve(self, chance: Random) -> None:
        scene = self._scene
        late: list[asyncio.Task[None]] = []
        async with scene.client(self._name) as client:
            consumer = client.queue(TOPIC, self._group, start=self._start, lease_ms_max=_LEASE_MS_MAX)
            try:
                while not scene.is_drained:
                    for message in await self._lease(consumer, chance):
                        how = _draw(chance, is_calm=scene.is_calm)
                        if not scene.is_calm and chance.random() < _LATE:
                            late = [each for each in late if not each.done()]
                            late.append(asyncio.ensure_future(self._settle_late(message, how, chance)))
                        elif how:
                            await self._settle(message, how)
                    await asyncio.sleep(chance.random() * _PAUSE_S)
            finally:
                await asyncio.gather(*late)

    async def _lease(self, consumer: AsyncQueueConsumer, chance: Random) -> list[AsyncQueueMessage]:
        call = self._scene.history.begin(self._name, LEASE, _POLL_MS + TIMEOUT_MS, group=self._group)
        try:
            messages = await consumer.poll(chance.randint(1, 8), wait_ms=_POLL_MS)
        except FlotillaError as error:
            self._scene.history.failed(call, error)
            raise
        self._scene.history.done(call, messages=[_seen(message) for message in messages])
        return messages

    async def _settle_late(self, message: AsyncQueueMessage, how: str, chance: Random) -> None:
        await asyncio.sleep(chance.random() * _LATE_S)
        await self._settle(message, how or "ack")

    async def _settle(self, message: AsyncQueueMessage, how: str) -> None:
        topic_id, partition, offset, _ = _seen(message)
        call = self._scene.history.begin(
            self._name,
            SETTLE,
            group=self._group,
            how=how,
            topic_id=topic_id,
            partition=partition,
            offset=offset,
        )
        work = message.ack() if how == "ack" else message.nack() if how == "nack" else message.reject()
        await self._scene.attempt(call, work)


def _draw(chance: Random, *, is_calm: bool) -> str:
    """How a message is settled; empty: it is forgotten, and comes again."""
    draw = chance.random()
    if is_calm or draw < 0.7:
        return "ack"
    return "nack" if draw < 0.8 else "reject" if draw < 0.95 else ""


def _seen(message: AsyncQueueMessage) -> tuple[int, int, int, str]:
    return (message._lease.topic_id, message.partition, message.offset, message.payload.decode())
