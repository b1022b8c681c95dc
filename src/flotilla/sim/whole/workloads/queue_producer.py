"""A producer of a queue: plain, delayed, urgent, repeated and short-lived messages, alone and in batches.

Some cannot be handled: all their attempts fail, and those of a batch may fail at the same time.
"""

import asyncio
from random import Random
from typing import Any, Final

from flotilla.client.async_client import AsyncClient
from flotilla.sim.whole.pace import think
from flotilla.sim.whole.workloads.queue_scene import ENQUEUE, FAILING, HANGING, TIMEOUT_MS, TOPIC, QueueScene

#: Between two calls of a burst, on average.
_THINK_S: Final = 0.5
_BATCH_MAX: Final = 5
#: How often none of a batch can be handled, and a message alone.
_BAD_BATCHES: Final = 0.2
_BAD: Final = 0.05


class QueueProducer:
    def __init__(self, scene: QueueScene, name: str) -> None:
        self._scene = scene
        self._name = name
        self._number = 0

    async def run(self) -> None:
        scene = self._scene
        chance = scene.simulation.stream(self._name)
        async with scene.client(self._name) as client, scene.client(f"{self._name}-again") as other:
            while not scene.is_calm:
                await think(chance, _THINK_S)
                if chance.random() < 0.2:
                    await self._produce_many(client, chance)
                else:
                    await self._produce(client, other, chance)
        scene.busy -= 1

    def _payload(self, fate: str = "") -> str:
        self._number += 1
        return f"{self._name}/{self._number}{fate}"

    async def _produce(self, client: AsyncClient, other: AsyncClient, chance: Random) -> None:
        payload = self._payload(_draw_fate(chance, _BAD))
        fields = _draw_fields(chance, payload)
        if "idempotency_key" in fields and chance.random() < 0.5:
            # Two of the application do the same at once.
            await asyncio.gather(self._send(client, payload, fields), self._send(other, payload, fields))
            return
        await self._send(client, payload, fields)
        if "idempotency_key" in fields:
            # The application does not know whether it was here before.
            await self._send(client, payload, fields)

    async def _send(self, client: AsyncClient, payload: str, fields: dict[str, Any]) -> None:
        scene = self._scene
        call = scene.history.begin(self._name, ENQUEUE, TIMEOUT_MS, payloads=[payload], **fields)
        receipt = await scene.attempt(call, client.produce(TOPIC, payload.encode(), **fields))
        if receipt is not None:
            place = (receipt.partition, receipt.offset)
            call.result["places"] = [place]
            if "delay_ms" in fields:
                scene.delayed.append(place)

    async def _produce_many(self, client: AsyncClient, chance: Random) -> None:
        scene = self._scene
        fate = _draw_fate(chance, _BAD_BATCHES)
        payloads = [self._payload(fate) for _ in range(chance.randint(2, _BATCH_MAX))]
        call = scene.history.begin(self._name, ENQUEUE, TIMEOUT_MS, payloads=payloads)
        receipts = await scene.attempt(call, client.produce_many(TOPIC, [payload.encode() for payload in payloads]))
        if receipts is not None:
            call.result["places"] = [(receipt.partition, receipt.offset) for receipt in receipts]


def _draw_fate(chance: Random, bad: float) -> str:
    return chance.choice((FAILING, HANGING)) if chance.random() < bad else ""


def _draw_fields(chance: Random, payload: str) -> dict[str, Any]:
    kind = chance.random()
    if kind < 0.15:
        return {"delay_ms": chance.randint(500, 8_000)}
    if kind < 0.3:
        return {"priority": chance.randint(1, 7)}
    if kind < 0.4:
        return {"idempotency_key": payload}
    if kind < 0.45:
        return {"ttl_ms": chance.randint(1, 3_000)}
    if kind < 0.5:
        # It expires before its time comes.
        return {"ttl_ms": chance.randint(200, 1_000), "delay_ms": chance.randint(2_000, 5_000)}
    if kind < 0.75:
        return {"key": b"%d" % chance.randrange(4)}
    return {}
