"""Producers of a log and its last reader: every acknowledged record is read once, in order, at its offset."""

from typing import Final

from flotilla.client.async_client import AsyncClient
from flotilla.sim.whole.simulation import Simulation
from flotilla.sim.whole.workloads.contents import Contents, judge_contents, read_contents
from flotilla.sim.whole.workloads.producers import Producers

TOPIC: Final = "log"
_PARTITIONS: Final = 2


class LogWorkload:
    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._producers = Producers(simulation, TOPIC, partitions=_PARTITIONS)
        self._is_calm = False
        self._is_reading = False
        #: What was read at the end.
        self._contents: Contents | None = None

    async def prepare(self, client: AsyncClient) -> None:
        await client.create_topic(TOPIC, partitions=_PARTITIONS, if_not_exists=True)

    def start(self) -> None:
        self._producers.start()

    def calm(self) -> None:
        self._is_calm = True
        self._producers.calm()

    def is_done(self) -> bool:
        if self._is_calm and not self._producers.running and not self._is_reading:
            self._is_reading = True
            self._simulation.client("log-last-reader", self._read_all)
        return self._contents is not None

    def describe(self) -> str:
        return f"{self._producers.running} producers, read: {self._contents is not None}"

    async def _read_all(self) -> None:
        async with AsyncClient(self._simulation.cluster.servers, name="log-last-reader") as client:
            self._contents = await read_contents(client, TOPIC, _PARTITIONS)

    def judge(self) -> None:
        assert self._contents is not None
        judge_contents(TOPIC, self._producers.calls(), self._contents)
