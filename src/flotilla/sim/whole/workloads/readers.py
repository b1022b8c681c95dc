"""Readers of a log at every replica, while it is written: from the leader, the nearest, any, linearizable, by time.

Two kinds: readers as applications use them, and probes, which ask one replica for what it has. At the end the whole log
of every partition is read from every replica. `readers_judge` says what must hold.
"""

import asyncio
from functools import partial
from random import Random
from typing import Final

from flotilla.client.async_client import AsyncClient
from flotilla.codec.batch.header import parse_header
from flotilla.codec.batch.view import BatchView
from flotilla.sim.devices.clock import EPOCH_MS
from flotilla.sim.whole.pace import think
from flotilla.sim.whole.simulation import Simulation
from flotilla.sim.whole.workloads.contents import Contents, judge_contents
from flotilla.sim.whole.workloads.probes import Probes, ask
from flotilla.sim.whole.workloads.producers import TIMEOUT_MS, Producers
from flotilla.sim.whole.workloads.readers_judge import Copies, contents_of, judge_copies, judge_readers
from flotilla.types.errors import FlotillaError
from flotilla.types.ids import NO_NODE, NodeId
from flotilla.types.limits import KIB
from flotilla.types.operations import LATEST, Fetch, ListOffsets

TOPIC: Final = "read"
_PARTITIONS: Final = 3
_MODES: Final = ("leader", "nearest", "spread", "linearizable")
#: While its disk refuses writes, a replica without a leader answers for the end of the log with what it has, and may
#: lack what others have acknowledged. Under these faults an end that was found without a quorum is not judged.
_UNSURE_ENDS: Final = ("full-disk", "write-fails", "sync-fails", "read-fails")
#: Small, so that one answer rarely holds everything.
_FETCH_BYTES: Final = 4 * KIB
_POLLS_MAX: Final = 8
_POLL_MS: Final = 300
#: One reading: its start is looked up, and each poll ends with its wait.
_READ_MS: Final = TIMEOUT_MS + _POLLS_MAX * _POLL_MS + 1_000


class ReadersWorkload:
    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._history = simulation.history
        self._producers = Producers(simulation, TOPIC, partitions=_PARTITIONS)
        self._is_calm = False
        self._reading = 0
        self._is_ending = False
        #: What every replica holds at the end.
        self._copies: Copies = {}
        self._is_copied = False
        self._missing = ""

    async def prepare(self, client: AsyncClient) -> None:
        await client.create_topic(TOPIC, partitions=_PARTITIONS, if_not_exists=True)

    def start(self) -> None:
        self._producers.start()
        for mode in _MODES:
            self._reading += 1
            self._simulation.client(f"reader-{mode}", lambda mode=mode: self._read(mode))  # type: ignore[misc]
        self._reading += 1
        self._simulation.client("read-probe", self._probe)

    def calm(self) -> None:
        self._is_calm = True
        self._producers.calm()

    def is_done(self) -> bool:
        if self._is_calm and not self._producers.running and not self._reading and not self._is_ending:
            self._is_ending = True
            self._simulation.client("read-copier", self._copy_all)
        return self._is_copied

    def describe(self) -> str:
        return f"{self._producers.running} producers, {self._reading} readers, {self._missing}"

    def judge(self) -> None:
        judge_copies(TOPIC, self._copies)
        contents: Contents = {}
        times: dict[int, dict[int, int]] = {}
        for partition, copies in self._copies.items():
            contents[partition], times[partition] = contents_of(next(iter(copies.values())))
        judge_contents(TOPIC, self._producers.calls(), contents)
        is_end_known = not any(name in _UNSURE_ENDS for name in self._simulation.plan.faults)
        judge_readers(TOPIC, self._history.calls, contents, times, is_end_known=is_end_known)

    # Readers as applications use them.

    async def _read(self, mode: str) -> None:
        name = f"reader-{mode}"
        chance = self._simulation.stream(name)
        async with AsyncClient(self._simulation.cluster.servers, timeout_ms=TIMEOUT_MS, name=name) as client:
            while not self._is_calm:
                await think(chance, 0.25)
                await self._read_once(client, name, mode, chance)
        self._reading -= 1

    async def _read_once(self, client: AsyncClient, name: str, mode: str, chance: Random) -> None:
        """Opens a reader somewhere, and reads a while."""
        partition = chance.randrange(_PARTITIONS)
        time_ms = self._draw_time(chance) if chance.random() < 0.4 else None
        call = self._history.begin(name, "read", _READ_MS, topic=TOPIC, partition=partition, mode=mode, time_ms=time_ms)
        found: list[tuple[int, str]] = []
        start = -1
        try:
            reader = client.reader(
                TOPIC,
                partitions=[partition],
                offset="earliest" if time_ms is None else None,
                timestamp_ms=time_ms,
                read_from="leader" if mode == "linearizable" else mode,  # type: ignore[arg-type]
                linearizable=mode == "linearizable",
                fetch_bytes=_FETCH_BYTES,
            )
            async with reader:
                start = (await reader.positions())[partition]
                for _ in range(chance.randint(1, _POLLS_MAX)):
                    messages = await reader.poll(chance.randint(1, 100), wait_ms=_POLL_MS)
                    found += [(message.offset, message.payload.decode()) for message in messages]
        except FlotillaError as error:
            self._history.failed(call, error)
        else:
            self._history.done(call)
        # What it got before an error counts, too.
        call.result = {"start": start, "messages": found}

    def _draw_time(self, chance: Random) -> int:
        """By a right clock, some time since the beginning of the run, or a little later."""
        return EPOCH_MS + int(chance.random() * (self._simulation.world.now_us // 1_000 + 1_000))

    # Probes of one replica.

    async def _probe(self) -> None:
        name = "read-probe"
        chance = self._simulation.stream(name)
        probes = Probes()
        async with AsyncClient(self._simulation.cluster.servers, timeout_ms=TIMEOUT_MS, name=name) as client:
            while not self._is_calm:
                await think(chance, 0.15)
                partition = chance.randrange(_PARTITIONS)
                time_ms = self._draw_time(chance) if chance.random() < 0.5 else None
                dice = chance.random()
                if dice < 0.1:
                    await self._find(client, name, partition, time_ms)
                elif dice < 0.4:
                    for node in self._simulation.cluster.brokers:
                        probes.start(partial(self._find, client, name, partition, time_ms, node))
                else:
                    node = chance.choice(list(self._simulation.cluster.brokers))
                    offset = int(chance.random() * 2 * len(self._producers.calls()) / _PARTITIONS)
                    is_linearizable = chance.random() < 0.5
                    probes.start(partial(self._fetch, client, name, partition, node, offset, is_linearizable))
            await probes.wait()
        self._reading -= 1

    async def _find(
        self, client: AsyncClient, name: str, partition: int, time_ms: int | None, node: NodeId = NO_NODE
    ) -> None:
        """Of `node`: whoever answers, not only who leads, must be right."""
        call = self._history.begin(
            name, "find", TIMEOUT_MS, topic=TOPIC, partition=partition, time_ms=time_ms, node=node
        )
        at_ms = LATEST if time_ms is None else time_ms
        try:
            if node == NO_NODE:
                offset = await client.find_offset(
                    TOPIC, partition, "latest" if time_ms is None else None, timestamp_ms=time_ms
                )
            else:
                offset = (await ask(client, ListOffsets(TOPIC, partition, at_ms), TOPIC, partition, node)).offset
        except FlotillaError as error:
            self._history.failed(call, error)
        else:
            self._history.done(call, offset=offset)

    async def _fetch(
        self, client: AsyncClient, name: str, partition: int, node: NodeId, offset: int, is_linearizable: bool
    ) -> None:
        call = self._history.begin(
            name,
            "fetch",
            TIMEOUT_MS,
            topic=TOPIC,
            partition=partition,
            node=node,
            offset=offset,
            is_linearizable=is_linearizable,
        )
        request = _fetch_request(partition, offset, is_linearizable=is_linearizable)
        try:
            fetched = await ask(client, request, TOPIC, partition, node)
        except FlotillaError as error:
            self._history.failed(call, error)
        else:
            messages = [
                (view.offset(place), view.payload(place).decode())
                for view in map(BatchView, fetched.batches)
                for place in range(view.count)
            ]
            self._history.done(call, messages=messages, end=fetched.next_offset)

    # The end.

    async def _copy_all(self) -> None:
        async with AsyncClient(self._simulation.cluster.servers, timeout_ms=TIMEOUT_MS, name="read-copier") as client:
            for partition in range(_PARTITIONS):
                end, replicas = await self._find_replicas(client, partition)
                for node in replicas:
                    if self._can_be_asked(node):
                        copy = await self._copy(client, partition, node, end)
                        self._copies.setdefault(partition, {})[node] = copy
        self._is_copied = True

    def _can_be_asked(self, node: NodeId) -> bool:
        """Some stay broken for ever."""
        cluster = self._simulation.cluster
        broker = cluster.brokers[node]
        return broker.is_running and not cluster.internet.is_unplugged(broker.host)

    async def _find_replicas(self, client: AsyncClient, partition: int) -> tuple[int, list[NodeId]]:
        while True:
            try:
                end = await client.find_offset(TOPIC, partition, "latest")
                found = await client.describe_topic(TOPIC)
            except FlotillaError:
                continue
            return end, list(found.partitions[partition].replicas)

    async def _copy(self, client: AsyncClient, partition: int, node: NodeId, end: int) -> dict[int, bytes]:
        """All batches by their first offset, as one replica has them."""
        copy: dict[int, bytes] = {}
        position = 0
        while position < end:
            self._missing = f"partition {partition}, node {node}: read {position} of {end}"
            try:
                fetched = await ask(client, _fetch_request(partition, position), TOPIC, partition, node)
            except FlotillaError as error:
                self._missing += f", {error}"
                await asyncio.sleep(0.2)
                continue
            for batch in fetched.batches:
                header = parse_header(batch)
                copy[header.base_offset] = bytes(batch)
                position = header.base_offset + header.count
        return copy


def _fetch_request(partition: int, offset: int, *, is_linearizable: bool = False) -> Fetch:
    return Fetch(TOPIC, partition, offset, _FETCH_BYTES, is_any_replica=True, is_linearizable=is_linearizable)
