"""An operator of a queue: looks at its groups, cancels, pauses, sends back, and redrives dead letters."""

import asyncio
from random import Random
from typing import Final

from flotilla.client.async_client import AsyncClient
from flotilla.sim.whole.workloads.queue_scene import (
    CANCEL,
    DESCRIBE,
    GROUPS,
    REPLAYED,
    TIMEOUT_MS,
    TOPIC,
    QueueScene,
)

_THINK_S: Final = 2.0
_PAUSED_S: Final = 3.0
_COUNTED: Final = ("lag", "dead_total", "acked_total", "expired_total", "cancelled_total", "trimmed_total")


class QueueOperator:
    def __init__(self, scene: QueueScene, name: str) -> None:
        self._scene = scene
        self._history = scene.history
        self._name = name

    async def run(self) -> None:
        scene = self._scene
        chance = scene.simulation.stream(self._name)
        async with scene.client(self._name) as client:
            while not scene.is_calm:
                await asyncio.sleep(chance.random() * 2 * _THINK_S)
                kind = chance.random()
                if kind < 0.4:
                    await self.describe(client, chance.choice(GROUPS))
                elif kind < 0.7:
                    await self._cancel(client, chance)
                elif kind < 0.8:
                    await self._redrive(client, chance.choice(GROUPS))
                elif kind < 0.9:
                    await self._pause(client, GROUPS[1])
                else:
                    await self._reset(client)
            while not await self._set_paused(client, GROUPS[1], is_paused=False):
                pass
        scene.busy -= 1

    async def describe(self, client: AsyncClient, group: str) -> None:
        call = self._history.begin(self._name, DESCRIBE, TIMEOUT_MS, group=group)
        info = await self._scene.attempt(call, client.describe_group(TOPIC, group))
        if info is not None:
            call.result["partitions"] = {
                number: {
                    "produced": part.next_offset,
                    "dying": part.dying,
                    **{name: getattr(part, name) for name in _COUNTED},
                }
                for number, part in info.partitions.items()
            }

    async def _cancel(self, client: AsyncClient, chance: Random) -> None:
        delayed = self._scene.delayed
        if not delayed:
            return
        partition, offset = delayed.pop(chance.randrange(len(delayed)))
        call = self._history.begin(self._name, CANCEL, TIMEOUT_MS, partition=partition, offset=offset)
        places = await self._scene.attempt(call, client.cancel(TOPIC, partition, offset=offset))
        if places is not None:
            call.result["places"] = places

    async def _redrive(self, client: AsyncClient, group: str) -> None:
        # A run of many requests: its time has no bound of its own.
        call = self._history.begin(self._name, "redrive", group=group)
        run = await self._scene.attempt(call, client.dead_letters(TOPIC, group).redrive(limit=3))
        if run is not None:
            call.result["done"] = run.done

    async def _pause(self, client: AsyncClient, group: str) -> None:
        await self._set_paused(client, group, is_paused=True)
        await asyncio.sleep(_PAUSED_S)
        await self._set_paused(client, group, is_paused=False)

    async def _set_paused(self, client: AsyncClient, group: str, *, is_paused: bool) -> bool:
        """Whether it was done."""
        call = self._history.begin(self._name, "pause" if is_paused else "resume", TIMEOUT_MS, group=group)
        change = client.pause_group if is_paused else client.resume_group
        return await self._scene.attempt(call, change(TOPIC, group)) is not None

    async def _reset(self, client: AsyncClient) -> None:
        call = self._history.begin(self._name, "reset", TIMEOUT_MS, group=REPLAYED)
        await self._scene.attempt(call, client.reset_group(TOPIC, REPLAYED, "earliest"))
