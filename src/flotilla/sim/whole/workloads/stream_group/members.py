"""A stream group: members that join, leave, die and come back, and producers with keys.

A member commits by itself, or leaves that to its client. It notes each partition that it gets with the epoch of it,
and each message that it gets; `judge` says what must hold.
"""

import asyncio
from functools import partial
from random import Random
from typing import Final

from flotilla.client.async_client import AsyncClient
from flotilla.client.stream.aio import AsyncStreamConsumer
from flotilla.sim.whole.simulation import Simulation
from flotilla.sim.whole.workloads.contents import Contents, judge_contents, read_contents
from flotilla.sim.whole.workloads.lives import Lives
from flotilla.sim.whole.workloads.probes import Probes, ask
from flotilla.sim.whole.workloads.producers import TIMEOUT_MS, Producers
from flotilla.sim.whole.workloads.stream_group.judge import judge_stream
from flotilla.types.errors import FlotillaError
from flotilla.types.ids import NodeId
from flotilla.types.operations import ReadOffset

TOPIC: Final = "stream"
GROUP: Final = "members"
_PARTITIONS: Final = 4
_KEYS: Final = ("a", "b", "c", "d", "e", "f", "g", "h")
_MEMBERS: Final = 3
_LIFE_S: Final = 20
_SESSION_MS: Final = 4_000
_POLL_MS: Final = 500
#: A poll may end this much after its wait.
_POLL_LATE_MS: Final = 1_000
#: A life is left by itself at the end of a turn this often,
_LEAVES: Final = 0.02
#: and takes its time with what it got this often.
_DAWDLES: Final = 0.02
_DAWDLE_S: Final = 8


class StreamWorkload:
    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._history = simulation.history
        self._producers = Producers(simulation, TOPIC, partitions=_PARTITIONS, keys=_KEYS)
        self._members = [
            Lives(simulation, f"stream-member-{number}", self._live, life_s=_LIFE_S)
            for number in range(1, _MEMBERS + 1)
        ]
        self._is_calm = False
        #: The group has committed everything.
        self._is_read = False
        self._missing = ""
        self._contents: Contents | None = None

    async def prepare(self, client: AsyncClient) -> None:
        await client.create_topic(TOPIC, partitions=_PARTITIONS, if_not_exists=True)

    def start(self) -> None:
        self._producers.start()
        for member in self._members:
            member.start()
        self._simulation.client("stream-observer", self._observe)

    def calm(self) -> None:
        self._is_calm = True
        self._producers.calm()
        for member in self._members:
            member.calm()

    def is_done(self) -> bool:
        return self._contents is not None and all(member.is_over for member in self._members)

    def describe(self) -> str:
        return f"{self._producers.running} producers, read: {self._is_read}, {self._missing}"

    def judge(self) -> None:
        assert self._contents is not None
        judge_contents(TOPIC, self._producers.calls(), self._contents)
        judge_stream(GROUP, self._history.calls, self._contents)

    # A member.

    async def _live(self, life: str) -> None:
        """One life. Calls of the history are named after it."""
        chance = self._simulation.stream(life)
        history = self._history
        is_automatic = chance.random() < 0.5
        async with AsyncClient(self._simulation.cluster.servers, timeout_ms=TIMEOUT_MS, name=life) as client:

            async def assigned(partitions: list[int]) -> None:
                positions = await consumer.positions()
                epochs = consumer._reading.epochs
                for partition in partitions:
                    call = history.begin(life, "assign", group=GROUP, partition=partition, epoch=epochs[partition])
                    history.done(call, position=positions[partition])

            consumer = client.stream(
                TOPIC,
                GROUP,
                session_ms=_SESSION_MS,
                on_assign=assigned,
                auto_commit_ms=500 if is_automatic else None,
                read_from=chance.choice(("leader", "leader", "spread", "nearest")),
            )
            while not self._is_read:
                await self._poll(life, consumer, chance.choice((1, 2, 20, 20)))
                await asyncio.sleep(chance.random() * 0.2)
                if not is_automatic and chance.random() < 0.3:
                    await self._commit(life, consumer, chance)
                if not self._is_calm and chance.random() < _DAWDLES:
                    await asyncio.sleep(chance.random() * _DAWDLE_S)
                if not self._is_calm and chance.random() < _LEAVES:
                    break
            call = history.begin(life, "close", TIMEOUT_MS, group=GROUP)
            try:
                await consumer.close()
            except FlotillaError as error:
                history.failed(call, error)
            else:
                history.done(call)

    async def _poll(self, life: str, consumer: AsyncStreamConsumer, count: int) -> None:
        call = self._history.begin(life, "poll", _POLL_MS + _POLL_LATE_MS, group=GROUP)
        try:
            messages = await consumer.poll(count, wait_ms=_POLL_MS)
        except FlotillaError as error:
            self._history.failed(call, error)
            return
        epochs = consumer._reading.epochs
        found = [(each.partition, epochs[each.partition], each.offset, each.payload.decode()) for each in messages]
        self._history.done(call, messages=found)

    async def _commit(self, life: str, consumer: AsyncStreamConsumer, chance: Random) -> None:
        offsets = None
        if chance.random() < 0.3:
            # Some partitions, up to where they were read or a little before: often in the middle of a batch.
            positions = await consumer.positions()
            offsets = {
                each: max(0, position - chance.choice((0, 0, 1, 2)))
                for each, position in positions.items()
                if chance.random() < 0.5
            }
        committed = await self._commit_offsets(life, consumer, offsets)
        if committed and chance.random() < 0.3:
            # An older position than the one that is committed changes nothing.
            older = {each: max(0, offset - chance.randint(1, 3)) for each, offset in committed.items()}
            owned = set(consumer.assignment)
            await self._commit_offsets(life, consumer, {each: older[each] for each in older if each in owned})

    async def _commit_offsets(
        self, life: str, consumer: AsyncStreamConsumer, offsets: dict[int, int] | None
    ) -> dict[int, int]:
        """What is committed then; nothing if it failed."""
        epochs = dict(consumer._reading.epochs)
        call = self._history.begin(life, "commit", TIMEOUT_MS, group=GROUP, epochs=epochs)
        try:
            committed = await consumer.commit(offsets)
        except FlotillaError as error:
            self._history.failed(call, error)
            return {}
        self._history.done(call, offsets=committed)
        return committed

    # The observer.

    async def _observe(self) -> None:
        name = "stream-observer"
        chance = self._simulation.stream(name)
        probes = Probes()
        async with AsyncClient(self._simulation.cluster.servers, timeout_ms=TIMEOUT_MS, name=name) as client:
            while not self._is_calm or self._producers.running:
                await asyncio.sleep(chance.random())
                partition = chance.randrange(_PARTITIONS)
                if chance.random() < 0.3:
                    await self._look(client, name, partition)
                    continue
                for node in self._simulation.cluster.brokers:
                    probes.start(partial(self._ask, client, name, partition, node))
            await probes.wait()
            for partition in range(_PARTITIONS):
                await self._wait_read(client, name, partition)
            self._is_read = True
            self._contents = await read_contents(client, TOPIC, _PARTITIONS)

    async def _look(self, client: AsyncClient, name: str, partition: int) -> int:
        """The committed offset, 0 if there is none or it cannot be read."""
        call = self._history.begin(name, "committed", TIMEOUT_MS, group=GROUP, partition=partition)
        try:
            offset = await client.committed_offset(TOPIC, GROUP, partition)
        except FlotillaError as error:
            self._history.failed(call, error)
            return 0
        self._history.done(call, offset=offset or 0)
        return offset or 0

    async def _ask(self, client: AsyncClient, name: str, partition: int, node: NodeId) -> None:
        """Whoever answers, not only who leads, must be right."""
        call = self._history.begin(name, "committed", TIMEOUT_MS, group=GROUP, partition=partition, node=node)
        try:
            found = await ask(client, ReadOffset(GROUP, TOPIC, partition), TOPIC, partition, node)
        except FlotillaError as error:
            self._history.failed(call, error)
        else:
            self._history.done(call, offset=found.offset)

    async def _wait_read(self, client: AsyncClient, name: str, partition: int) -> None:
        while True:
            try:
                end = await client.find_offset(TOPIC, partition, "latest")
            except FlotillaError:
                continue
            offset = await self._look(client, name, partition)
            self._missing = f"partition {partition}: {offset} of {end} committed"
            if offset >= end:
                return
            await asyncio.sleep(0.5)
