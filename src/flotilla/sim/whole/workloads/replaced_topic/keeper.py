"""The keeper of a replaced topic: it creates, grows and deletes the topic, and at times the topic of its dead letters.

Before it deletes a life it looks at what that holds, and at how far the queue groups have come. Nothing depends on what
the keeper believes: every call says which life it is about, by the id of the topic. Producers create lives as well.
"""

import asyncio
from random import Random
from typing import Final

from flotilla.client.async_client import AsyncClient
from flotilla.sim.whole.history import DONE
from flotilla.sim.whole.workloads.queue_scene import TIMEOUT_MS
from flotilla.sim.whole.workloads.replaced_topic.producer import Producer
from flotilla.sim.whole.workloads.replaced_topic.scene import (
    CREATE,
    DELETE,
    DELETE_LETTERS,
    EXPLAIN,
    GROW,
    LETTERS,
    PARTITIONS_MAX,
    QUEUES,
    SETTINGS,
    TOPIC,
    TopicScene,
    records_of,
)
from flotilla.types.errors import AlreadyExistsError, FlotillaError
from flotilla.types.operations import TopicInfo

_THINK_S: Final = 1.0
#: Before the last life grows, at most.
_LAST_S: Final = 4
#: Of a life, at most.
_TURNS_MAX: Final = 8
#: Messages of a group that it asks about before a life ends.
_SAMPLE: Final = 16


class Keeper:
    def __init__(self, scene: TopicScene, name: str) -> None:
        self._scene = scene
        self._history = scene.history
        self._name = name

    async def run(self) -> None:
        scene = self._scene
        chance = scene.simulation.stream(self._name)
        async with scene.client(self._name) as client:
            while not scene.is_calm:
                await self.create(client, chance)
                for _ in range(chance.randint(2, _TURNS_MAX)):
                    await asyncio.sleep(chance.random() * 2 * _THINK_S)
                    if self._must_end():
                        break
                    await self._turn(client, chance)
                if not self._must_end():
                    await self._end(client, chance)
            await self.create(client, chance)
            # The last life grows under clients that live on it.
            await asyncio.sleep(chance.random() * _LAST_S)
            await self._grow(client)
            scene.is_final = True
        scene.busy -= 1

    def _must_end(self) -> bool:
        return self._scene.is_calm

    async def create(self, client: AsyncClient, chance: Random) -> None:
        """Until there is a topic with these settings."""
        while True:
            partitions = chance.randint(1, PARTITIONS_MAX // 2)
            call = self._history.begin(self._name, CREATE, TIMEOUT_MS, partitions=partitions)
            try:
                info = await client.create_topic(TOPIC, partitions=partitions, **SETTINGS)
            except AlreadyExistsError as error:
                self._history.failed(call, error)
                # A producer was quicker, or the topic has outlived its deletion.
                if await self._alter(client):
                    return
            except FlotillaError as error:
                self._history.failed(call, error)
            else:
                self._history.done(call, topic_id=info.topic_id)
                return

    async def _alter(self, client: AsyncClient) -> bool:
        try:
            await client.alter_topic(TOPIC, **SETTINGS)
        except FlotillaError:
            return False
        return True

    async def _turn(self, client: AsyncClient, chance: Random) -> None:
        draw = chance.random()
        if draw < 0.4:
            await self._grow(client)
        elif draw < 0.7:
            call = self._history.begin(self._name, DELETE_LETTERS, TIMEOUT_MS)
            await self._scene.attempt(call, client.delete_topic(LETTERS))

    async def _grow(self, client: AsyncClient) -> None:
        info = await self._scene.describe(client)
        if info is None or 2 * len(info.partitions) > PARTITIONS_MAX:
            return
        before = len(info.partitions)
        call = self._history.begin(self._name, GROW, TIMEOUT_MS, topic_id=info.topic_id, before=before)
        grown = await self._scene.attempt(call, client.alter_topic(TOPIC, partitions=2 * before))
        if grown is not None:
            call.result = {"topic_id": grown.topic_id, "partitions": len(grown.partitions)}
            # At once, in each partition: groups may not have heard of the new ones.
            storer = Producer(self._scene, self._name)
            for number in range(before, 2 * before):
                await storer.send(client, f"{self._name}/{call.began_us}/{number}", partition=number)

    async def _end(self, client: AsyncClient, chance: Random) -> None:
        info = await self._scene.describe(client)
        if info is not None:
            copy = await self._scene.copy(client, self._name, info)
            if copy.outcome == DONE:
                places = list(records_of(copy))
                places = chance.sample(places, min(_SAMPLE, len(places)))
                for group in QUEUES:
                    await explain(self._scene, client, self._name, info, group, places)
        call = self._history.begin(self._name, DELETE, TIMEOUT_MS, topic_id=0 if info is None else info.topic_id)
        await self._scene.attempt(call, client.delete_topic(TOPIC))
        if chance.random() < 0.5:
            await asyncio.sleep(chance.random())


async def explain(
    scene: TopicScene,
    client: AsyncClient,
    name: str,
    info: TopicInfo,
    group: str,
    places: list[tuple[int, int]],
) -> bool:
    """Notes the states of messages of this life. False: they cannot be known."""
    call = scene.history.begin(name, EXPLAIN, topic_id=info.topic_id, group=group)
    try:
        found = [await client.explain(TOPIC, group, *place, history=False) for place in places]
        # Ids are never used again: all answers were of this life.
        is_same = (await client.describe_topic(TOPIC)).topic_id == info.topic_id
    except FlotillaError as error:
        scene.history.failed(call, error)
        return False
    states = [(*place, each.state) for place, each in zip(places, found, strict=True)] if is_same else []
    scene.history.done(call, states=states)
    return is_same
