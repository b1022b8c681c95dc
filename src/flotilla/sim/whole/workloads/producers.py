"""Producers of numbered records, which a workload shares with its judges through the history."""

import asyncio
from collections.abc import Sequence
from typing import Final

from flotilla.client.async_client import AsyncClient
from flotilla.sim.whole.history import Call
from flotilla.sim.whole.pace import think
from flotilla.sim.whole.simulation import Simulation
from flotilla.types.errors import FlotillaError

TIMEOUT_MS: Final = 8_000
#: Between two turns of a producer in a burst, on average.
_THINK_S: Final = 0.1
#: How many records a producer may send at once.
_AT_ONCE_MAX: Final = 3


class Producers:
    """Clients that produce into one topic until it is calm. Payloads are `client/number`, and no two are equal."""

    def __init__(
        self,
        simulation: Simulation,
        topic: str,
        *,
        partitions: int,
        count: int = 2,
        keys: Sequence[str] = (),
        think_s: float = _THINK_S,
    ) -> None:
        """With `keys` every record has one of them, which decides its partition."""
        self._simulation = simulation
        self._topic = topic
        self._partitions = partitions
        self._count = count
        self._keys = keys
        self._think_s = think_s
        self._is_calm = False
        self.running = 0

    def start(self) -> None:
        for number in range(1, self._count + 1):
            self.running += 1
            name = f"{self._topic}-producer-{number}"
            self._simulation.client(name, lambda name=name: self._run(name))  # type: ignore[misc]

    def calm(self) -> None:
        self._is_calm = True

    def calls(self) -> list[Call]:
        """What they did."""
        return produces(self._simulation.history.calls, self._topic)

    async def _run(self, name: str) -> None:
        chance = self._simulation.stream(name)
        number = 0
        async with AsyncClient(self._simulation.cluster.servers, timeout_ms=TIMEOUT_MS, name=name) as client:
            while not self._is_calm:
                await think(chance, self._think_s)
                at_once = chance.randint(1, _AT_ONCE_MAX)
                keys = [chance.choice(self._keys) for _ in range(at_once)] if self._keys else [""] * at_once
                sends = []
                for key in keys:
                    number += 1
                    partition = None if key else chance.randrange(self._partitions)
                    payload = f"{name}/{number}"
                    sends.append(
                        produce_one(self._simulation, client, name, self._topic, payload, key=key, partition=partition)
                    )
                await asyncio.gather(*sends)
        self.running -= 1


async def produce_one(
    simulation: Simulation,
    client: AsyncClient,
    name: str,
    topic: str,
    payload: str,
    *,
    key: str = "",
    partition: int | None = None,
) -> None:
    """Produces a record for the client of this name, and records how that ended."""
    history = simulation.history
    call = history.begin(name, "produce", TIMEOUT_MS, topic=topic, partition=partition, key=key, payload=payload)
    try:
        receipt = await client.produce(topic, payload.encode(), key=key.encode() if key else None, partition=partition)
    except FlotillaError as error:
        history.failed(call, error)
    else:
        history.done(call, partition=receipt.partition, offset=receipt.offset)


def produces(calls: Sequence[Call], topic: str) -> list[Call]:
    return [call for call in calls if call.operation == "produce" and call.arguments["topic"] == topic]
