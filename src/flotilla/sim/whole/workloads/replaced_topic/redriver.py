"""The operator of a replaced topic who redrives its dead letters, alone, and looks at what has become of them."""

import asyncio
from typing import Final

from flotilla.client.admin.dead_letter import DeadLetter
from flotilla.client.async_client import AsyncClient
from flotilla.sim.whole.history import DONE
from flotilla.sim.whole.workloads.replaced_topic.scene import LETTERS, PACKING, REDRIVE, TOPIC, TopicScene
from flotilla.types.errors import FlotillaError

_THINK_S: Final = 1.0
_LIST_MAX: Final = 1_000


class Redriver:
    def __init__(self, scene: TopicScene, name: str) -> None:
        self._scene = scene
        self._name = name

    async def run(self) -> None:
        scene = self._scene
        chance = scene.simulation.stream(self._name)
        while not scene.is_calm:
            try:
                async with scene.client(self._name) as client:
                    while not scene.is_calm:
                        await asyncio.sleep(chance.random() * 2 * _THINK_S)
                        await self._redrive(client)
            except FlotillaError:
                # Also closing tells of a letter that was not stored.
                pass
        scene.busy -= 1

    async def _redrive(self, client: AsyncClient) -> None:
        scene = self._scene
        letters = client.dead_letters(TOPIC, PACKING)
        before = await self._look(client)
        listed = await letters.list(_LIST_MAX)
        # A run of many requests: its time has no bound of its own.
        call = scene.history.begin(self._name, REDRIVE)
        run = await scene.attempt(call, letters.redrive())
        if run is None or not run.done:
            return
        left = [_place(letter) for letter in await letters.list(_LIST_MAX)]
        gone = [letter for letter in listed if _place(letter) not in left]
        info = await scene.describe(client)
        if info is None or before[0] != info.topic_id:
            return
        copy = await scene.copy(client, self._name, info)
        # All the while the topic and that of the letters were the same, none came, and this run took those that are
        # gone: not a late answer to an earlier run.
        if copy.outcome == DONE and await self._look(client) == before and run.done == len(gone):
            sent = [(letter.payload.decode(), letter.redriven + 1) for letter in gone]
            call.result = {"sent": sent, "records": copy.result["records"]}

    async def _look(self, client: AsyncClient) -> tuple[int, int, int]:
        """The lives of the topic and of its letters, and how many letters were ever there. Raises FlotillaError."""
        topic, letters = await client.describe_topic(TOPIC), await client.describe_topic(LETTERS)
        return topic.topic_id, letters.topic_id, await client.find_offset(LETTERS, 0, "latest")


def _place(letter: DeadLetter) -> tuple[int, int]:
    return letter.partition, letter.offset
