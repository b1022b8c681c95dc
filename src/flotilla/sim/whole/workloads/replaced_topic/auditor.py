"""The last look at a replaced topic: its last life, when every group has come to the end of it."""

import asyncio
from typing import Final

from flotilla.client.async_client import AsyncClient
from flotilla.sim.whole.history import DONE
from flotilla.sim.whole.workloads.replaced_topic.keeper import Keeper, explain
from flotilla.sim.whole.workloads.replaced_topic.scene import QUEUES, STREAMS, TOPIC, TopicScene, records_of
from flotilla.types.errors import FlotillaError
from flotilla.types.operations import TopicInfo

_PAUSE_S: Final = 0.5


class Auditor:
    def __init__(self, scene: TopicScene, name: str) -> None:
        self._scene = scene
        self._name = name
        self._keeper = Keeper(scene, name)
        self.doing = "waits for the groups"

    async def run(self) -> None:
        scene = self._scene
        chance = scene.simulation.stream(self._name)
        async with scene.client(self._name) as client:
            while not scene.final_id:
                info = await scene.describe(client)
                if info is None:
                    # A deletion of unknown outcome came late.
                    await self._keeper.create(client, chance)
                    continue
                try:
                    if await self._is_drained(client, info) and await self._read(client, info):
                        scene.final_id = info.topic_id
                except FlotillaError:
                    pass
                await asyncio.sleep(_PAUSE_S)
        scene.is_drained = True

    async def _is_drained(self, client: AsyncClient, info: TopicInfo) -> bool:
        for group in QUEUES:
            found = await client.describe_group(TOPIC, group)
            self.doing = f"{group} owes {found.lag} messages and {found.dying} letters, {found.leased} are leased"
            if found.lag or found.dying or len(found.partitions) < len(info.partitions):
                return False
        for group in STREAMS:
            for part in info.partitions:
                end = await client.find_offset(TOPIC, part.number, "latest")
                offset = await client.committed_offset(TOPIC, group, part.number)
                self.doing = f"{group} has committed {offset} of {end} in partition {part.number}"
                if offset is None or offset < end:
                    return False
        return True

    async def _read(self, client: AsyncClient, info: TopicInfo) -> bool:
        self.doing = "reads the topic"
        copy = await self._scene.copy(client, self._name, info)
        if copy.outcome != DONE:
            return False
        places = list(records_of(copy))
        for group in QUEUES:
            if not await explain(self._scene, client, self._name, info, group, places):
                return False
        return True
