"""A topic that keeps few messages, for a group that holds what it is owed and a slow one that does not.

Retention removes what the slow group has not come to. `judge` says what must hold all the same.
"""

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, Final

from flotilla.client.async_client import AsyncClient
from flotilla.client.queue.aio import AsyncQueueMessage
from flotilla.sim.whole.pace import think
from flotilla.sim.whole.simulation import Simulation
from flotilla.sim.whole.workloads.contents import read_partition
from flotilla.sim.whole.workloads.lives import Lives
from flotilla.sim.whole.workloads.queue_scene import TIMEOUT_MS, QueueScene
from flotilla.sim.whole.workloads.trimmed_topic.judge import (
    ACK,
    COUNTED,
    DESCRIBE,
    KEPT,
    LEASE,
    STORE,
    judge_trimmed,
)
from flotilla.types.errors import FlotillaError

TOPIC: Final = "readings"
_PARTITIONS: Final = 2
#: Of each partition.
_KEPT: Final = 10
_HOLDER: Final = "billing"
_LOOSE: Final = "display"
_GROUPS: Final = (_HOLDER, _LOOSE)
#: Fills segments, so that files go, too.
_PAD: Final = " " * 2_000
_VISIBILITY_MS: Final = 2_000
_POLL_MS: Final = 500
_THINK_S: Final = 0.1
_LIFE_S: Final = 15
_PAUSE_S: Final = 0.5
#: Between two messages of the slow group, on average.
_SLOW_S: Final = 1.0


class TrimmedWorkload:
    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._scene = QueueScene(simulation)
        self._workers: list[Lives] = []
        self._is_auditing = False
        self._doing = "not begun"

    async def prepare(self, client: AsyncClient) -> None:
        await client.create_topic(
            TOPIC,
            partitions=_PARTITIONS,
            if_not_exists=True,
            retention_messages=_KEPT,
            visibility_ms=_VISIBILITY_MS,
            max_deliveries=1_000,
        )
        await client.alter_group(TOPIC, _LOOSE, holds_retention=0)

    def start(self) -> None:
        scene = self._scene
        scene.busy += 1
        self._simulation.client("readings-producer", self._produce)
        for group in _GROUPS:
            lives = Lives(self._simulation, f"{group}-worker", self._worker(group), life_s=_LIFE_S)
            self._workers.append(lives)
            lives.start()
        scene.busy += 1
        self._simulation.client("readings-observer", self._observe)

    def calm(self) -> None:
        self._scene.is_calm = True
        for worker in self._workers:
            worker.calm()

    def is_done(self) -> bool:
        if self._scene.is_calm and not self._scene.busy and not self._is_auditing:
            self._is_auditing = True
            self._simulation.client("readings-auditor", self._audit)
        return self._scene.is_drained and all(worker.is_over for worker in self._workers)

    def describe(self) -> str:
        return f"{self._scene.busy} producers and observers, audit: {self._doing}"

    def judge(self) -> None:
        judge_trimmed(self._simulation.history, _HOLDER, _KEPT)

    # Clients.

    async def _produce(self) -> None:
        name, scene = "readings-producer", self._scene
        chance = self._simulation.stream(name)
        number = 0
        async with scene.client(name) as client:
            while not scene.is_calm:
                await think(chance, _THINK_S)
                number += 1
                payload = f"{name}/{number}"
                call = scene.history.begin(name, STORE, TIMEOUT_MS, payload=payload)
                receipt = await scene.attempt(call, client.produce(TOPIC, (payload + _PAD).encode()))
                if receipt is not None:
                    call.result = {"partition": receipt.partition, "offset": receipt.offset}
        scene.busy -= 1

    def _worker(self, group: str) -> Callable[[str], Coroutine[Any, Any, None]]:
        async def work(name: str) -> None:
            chance = self._simulation.stream(name)
            while not self._scene.is_drained:
                try:
                    await self._serve(name, group, chance)
                except FlotillaError:
                    await asyncio.sleep(_PAUSE_S)

        return work

    async def _serve(self, name: str, group: str, chance: Random) -> None:
        scene = self._scene
        async with scene.client(name) as client:
            consumer = client.queue(TOPIC, group)
            while not scene.is_drained:
                call = scene.history.begin(name, LEASE, _POLL_MS + TIMEOUT_MS, group=group)
                messages = await scene.attempt(call, consumer.poll(1 if group == _LOOSE else 8, wait_ms=_POLL_MS))
                if messages is None:
                    await asyncio.sleep(_PAUSE_S)
                    continue
                call.result = {"messages": [(each.partition, each.offset, _payload(each)) for each in messages]}
                for message in messages:
                    if group == _LOOSE and not scene.is_calm:
                        await asyncio.sleep(chance.random() * 2 * _SLOW_S)
                    ack = scene.history.begin(
                        name, ACK, TIMEOUT_MS, group=group, partition=message.partition, offset=message.offset
                    )
                    await scene.attempt(ack, message.ack())

    async def _observe(self) -> None:
        name, scene = "readings-observer", self._scene
        chance = self._simulation.stream(name)
        async with scene.client(name) as client:
            while not scene.is_calm:
                await asyncio.sleep(chance.random() * 2)
                await self._look(client, name, chance.choice(_GROUPS))
        scene.busy -= 1

    async def _look(self, client: AsyncClient, name: str, group: str) -> bool:
        """Whether the group is owed nothing, and retention has removed what it may."""
        call = self._scene.history.begin(name, DESCRIBE, TIMEOUT_MS, group=group)
        info = await self._scene.attempt(call, client.describe_group(TOPIC, group))
        if info is None:
            return False
        names = (*COUNTED, "next_offset", "log_start")
        parts = {number: {name: getattr(part, name) for name in names} for number, part in info.partitions.items()}
        call.result = {"partitions": parts}
        self._doing = f"{group}: {parts}"
        for part in parts.values():
            if part["log_start"]:
                self._simulation.note("log trimmed")
            if part["trimmed_total"]:
                self._simulation.note("message trimmed")
        return len(parts) == _PARTITIONS and not any(
            part["lag"] or part["log_start"] < part["next_offset"] - _KEPT for part in parts.values()
        )

    # The end.

    async def _audit(self) -> None:
        name, scene = "readings-auditor", self._scene
        async with scene.client(name) as client:
            for group in _GROUPS:
                while not await self._look(client, name, group):
                    await asyncio.sleep(_PAUSE_S)
            for partition in range(_PARTITIONS):
                while not await self._read(client, name, partition):
                    await asyncio.sleep(_PAUSE_S)
        scene.is_drained = True

    async def _read(self, client: AsyncClient, name: str, partition: int) -> bool:
        call = self._scene.history.begin(name, KEPT, partition=partition)
        try:
            start = await client.find_offset(TOPIC, partition, "earliest")
            found = await read_partition(client, TOPIC, partition)
            end = await client.find_offset(TOPIC, partition, "latest")
        except FlotillaError as error:
            self._scene.history.failed(call, error)
            return False
        records = {offset: payload.rstrip() for offset, payload in found.items()}
        self._scene.history.done(call, start=start, end=end, records=records)
        return True


def _payload(message: AsyncQueueMessage) -> str:
    return message.payload.decode().rstrip()
