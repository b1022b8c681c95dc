"""A producer of a replaced topic: records with keys, with idempotency keys that it repeats later, and with neither.

It has one client from the first life to the last, and waits for each record before it sends the next one.
"""

from random import Random
from typing import Any, Final

from flotilla.client.async_client import AsyncClient
from flotilla.sim.whole.pace import think
from flotilla.sim.whole.workloads.queue_scene import TIMEOUT_MS
from flotilla.sim.whole.workloads.replaced_topic.scene import FAREWELL, ORDER, TOPIC, TopicScene
from flotilla.types.errors import FlotillaError

_THINK_S: Final = 0.25
_KEYS: Final = 3
#: Idempotency keys that it may repeat.
_REMEMBERED: Final = 8


class Producer:
    def __init__(self, scene: TopicScene, name: str) -> None:
        self._scene = scene
        self._name = name
        self._number = 0
        self._remembered: list[str] = []

    async def run(self) -> None:
        scene = self._scene
        chance = scene.simulation.stream(self._name)
        try:
            async with scene.client(self._name) as client:
                while not scene.is_final:
                    await think(chance, _THINK_S)
                    await self._turn(client, chance)
                for _ in range(FAREWELL):
                    await self.send(client, self._next())
        except FlotillaError:
            # Closing tells of a record that was given up.
            pass
        scene.busy -= 1

    async def _turn(self, client: AsyncClient, chance: Random) -> None:
        draw = chance.random()
        if draw < 0.4:
            key = f"{self._name}/{chance.randrange(_KEYS)}"
            await self.send(client, self._next(), key=key.encode())
        elif draw < 0.6:
            payload = self._next()
            self._remembered = [*self._remembered[1 - _REMEMBERED :], payload]
            await self.send(client, payload, idempotency_key=payload)
        elif draw < 0.8 and self._remembered:
            # The application does not know that it was here before.
            payload = chance.choice(self._remembered)
            await self.send(client, payload, idempotency_key=payload)
        else:
            await self.send(client, self._next())

    def _next(self) -> str:
        self._number += 1
        return f"{self._name}/{self._number}"

    async def send(self, client: AsyncClient, payload: str, **fields: Any) -> None:
        scene = self._scene
        call = scene.history.begin(self._name, ORDER, TIMEOUT_MS, payload=payload, **fields)
        receipt = await scene.attempt(call, client.produce(TOPIC, payload.encode(), **fields))
        if receipt is not None:
            call.result = {
                "topic_id": receipt.topic_id,
                "partition": receipt.partition,
                "offset": receipt.offset,
                "is_duplicate": receipt.duplicate,
            }
