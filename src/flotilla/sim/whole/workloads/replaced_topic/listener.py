"""A member of a stream group of a replaced topic. At times it commits late, when its topic may be another one."""

import asyncio
from random import Random
from typing import Final, Literal

from flotilla.client.stream.aio import AsyncStreamConsumer
from flotilla.sim.whole.workloads.queue_scene import TIMEOUT_MS
from flotilla.sim.whole.workloads.replaced_topic.scene import BEGIN, COMMIT, READ, TOPIC, TopicScene
from flotilla.types.errors import FlotillaError

_POLL_MS: Final = 300
_PAUSE_S: Final = 0.1
_SESSION_MS: Final = 4_000
#: Between a poll and its commit at most, and how often.
_LATE_S: Final = 3
_LATE: Final = 0.1


class Listener:
    def __init__(self, scene: TopicScene, group: str, start: Literal["earliest", "latest"]) -> None:
        self._scene = scene
        self._group = group
        self._start: Literal["earliest", "latest"] = start

    async def run(self, name: str) -> None:
        scene = self._scene
        chance = scene.simulation.stream(name)
        while not scene.is_drained:
            try:
                await self._serve(name, chance)
            except FlotillaError:
                await asyncio.sleep(_PAUSE_S)

    async def _serve(self, name: str, chance: Random) -> None:
        scene = self._scene
        async with scene.client(name) as client:

            async def assigned(partitions: list[int]) -> None:
                positions = await consumer.positions()
                for number in partitions:
                    scene.happened(
                        name,
                        BEGIN,
                        group=self._group,
                        topic_id=consumer._reading._topic_ids[number],
                        partition=number,
                        position=positions[number],
                    )

            consumer = client.stream(
                TOPIC,
                self._group,
                start=self._start,
                session_ms=_SESSION_MS,
                on_assign=assigned,
                auto_commit_ms=500 if chance.random() < 0.5 else None,
            )
            while not scene.is_drained:
                await self._poll(name, consumer, chance)
                if not scene.is_calm and chance.random() < _LATE:
                    await asyncio.sleep(chance.random() * _LATE_S)
                if chance.random() < 0.5:
                    call = scene.history.begin(name, COMMIT, TIMEOUT_MS, group=self._group)
                    await scene.attempt(call, consumer.commit())
                await asyncio.sleep(chance.random() * 2 * _PAUSE_S)

    async def _poll(self, name: str, consumer: AsyncStreamConsumer, chance: Random) -> None:
        call = self._scene.history.begin(name, READ, group=self._group)
        try:
            messages = await consumer.poll(chance.choice((2, 20)), wait_ms=_POLL_MS)
        except FlotillaError as error:
            self._scene.history.failed(call, error)
            raise
        # Those of the partitions that it has at the end of the poll.
        lives = consumer._reading._topic_ids
        found = [(lives[each.partition], each.partition, each.offset, each.payload.decode()) for each in messages]
        self._scene.history.done(call, messages=found)
