"""The run of `flotilla chaos`: a producer, a queue group whose handlers fail now and then, and the killing of leaders.

`Storm` produces and consumes with the public client; `chaos/http.py` has one that uses the task API. Both keep the same
ledger: every acknowledged message must have been handled, or be a dead letter exactly once if its handler never
succeeded. Handling a message twice is allowed: delivery is at least once. No broker may end but by a kill.
"""

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from flotilla.cli.demo.ledger import Place
from flotilla.cli.local_cluster import LocalCluster
from flotilla.cli.terminal.output import note
from flotilla.types.errors import FlotillaError, UnavailableError
from flotilla.types.ids import NO_NODE, NodeId
from flotilla.types.tasks import QUEUE_PREFIX, WORKER_GROUP

if TYPE_CHECKING:
    from flotilla.client.async_client import AsyncClient
    from flotilla.client.producer.aio import AsyncDelivery
    from flotilla.client.queue.aio import AsyncQueueMessage

#: Named as the task API names them, so that one ledger serves both clients.
QUEUE = "chaos"
TOPIC = QUEUE_PREFIX + QUEUE
GROUP = WORKER_GROUP
PARTITIONS = 3
CONCURRENCY = 32
MAX_DELIVERIES = 3
#: Every 101st message never succeeds, and every 13th fails at its first attempt.
POISON_EVERY = 101
FAILING_EVERY = 13
#: Far longer than a healthy cluster needs.
_SETTLE_S_MAX = 120.0
_SEND_EVERY_S = 0.02
_POLL_S = 0.2


@dataclass(slots=True)
class WorkLedger:
    """The messages that were acknowledged, and what became of them."""

    #: Each acknowledged message with the place that its receipt names.
    acknowledged: dict[int, Place] = field(default_factory=dict)
    #: Sent without an answer that says whether they are stored.
    unknown: set[int] = field(default_factory=set)
    #: How often a handler has succeeded.
    handled: Counter[int] = field(default_factory=Counter)
    dead: Counter[int] = field(default_factory=Counter)
    #: The place of every message that was handled or dead-lettered, once for each time.
    settled: list[Place] = field(default_factory=list)

    @property
    def lost(self) -> list[int]:
        """Acknowledged, and neither handled nor dead-lettered."""
        return sorted(number for number in self.acknowledged if not self.handled[number] and not self.dead[number])

    @property
    def dead_wrongly(self) -> list[int]:
        """Dead-lettered twice, or although the handler succeeds."""
        return sorted(number for number, count in self.dead.items() if count > 1 or not is_poison(number))

    @property
    def is_balanced(self) -> bool:
        return bool(self.acknowledged) and not self.lost and not self.dead_wrongly


@dataclass(frozen=True, slots=True)
class Findings:
    """The result, as `--json` prints it."""

    seconds: float
    kills: int
    acknowledged: int
    unknown: int
    handled: int
    handled_again: int
    dead_letters: int
    lost: int
    dead_wrongly: int
    #: Brokers that ended by themselves.
    ended: int
    is_good: bool
    #: What Spark found, by kind; None without `--audit`.
    audit: dict[str, int] | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    run_s: float
    every_s: float
    rate: int
    is_quiet: bool
    with_audit: bool
    over_http: bool


def is_poison(number: int) -> bool:
    return number % POISON_EVERY == 0


class Serving(Protocol):
    """A worker of the queue."""

    async def serve(self) -> None:
        """Returns after `stop`."""

    def stop(self) -> None: ...


class Storm:
    def __init__(self, cluster: LocalCluster, client: "AsyncClient", plan: Plan) -> None:
        self._cluster = cluster
        self._client = client
        self._run_s = plan.run_s
        self._every_s = plan.every_s
        self._rate = plan.rate
        self._is_quiet = plan.is_quiet
        self.ledger = WorkLedger()
        self._kills = 0
        #: The exits that no kill caused.
        self._ended: list[str] = []
        #: The node that was killed, until it is started again.
        self._victim: NodeId = NO_NODE
        self._began = time.monotonic()

    def _worker(self) -> Serving:
        from flotilla.client.worker import Worker

        return Worker(self._client, TOPIC, GROUP, self._handle, concurrency=CONCURRENCY)

    async def run(self) -> Findings:
        worker = self._worker()
        working = asyncio.create_task(worker.serve())
        watching = asyncio.create_task(self._watch())
        try:
            await asyncio.gather(self._produce(), self._kill())
            self._say("no more messages and no more kills; waiting for the queue to drain")
            await self._wait_settled(working)
        finally:
            worker.stop()
            await working
            watching.cancel()
        await self._read_dead_letters()
        self.look()
        return self.findings()

    def findings(self) -> Findings:
        ledger = self.ledger
        return Findings(
            seconds=round(time.monotonic() - self._began, 1),
            kills=self._kills,
            acknowledged=len(ledger.acknowledged),
            unknown=len(ledger.unknown),
            handled=len(ledger.handled),
            handled_again=ledger.handled.total() - len(ledger.handled),
            dead_letters=ledger.dead.total(),
            lost=len(ledger.lost),
            dead_wrongly=len(ledger.dead_wrongly),
            ended=len(self._ended),
            is_good=ledger.is_balanced and not self._ended,
        )

    async def _handle(self, message: "AsyncQueueMessage") -> None:
        self.work(int(message.payload), message.attempt, Place(message.partition, message.offset))

    def work(self, number: int, attempt: int, place: Place) -> None:
        """The handler, which fails now and then."""
        if is_poison(number):
            raise ValueError("this one never works")
        if number % FAILING_EVERY == 0 and attempt == 1:
            raise OSError("not this time")
        self.ledger.handled[number] += 1
        self.ledger.settled.append(place)

    # The producer.

    async def _produce(self) -> None:
        started = time.monotonic()
        sending: set[asyncio.Task[None]] = set()
        async with self._client.producer(TOPIC, linger_ms=2) as producer:
            number = 0
            while (elapsed := time.monotonic() - started) < self._run_s:
                while number < elapsed * self._rate:
                    number += 1
                    delivery = await producer.send(b"%d" % number, key=b"%d" % (number % 97))
                    task = asyncio.create_task(self._await_answer(number, delivery))
                    sending.add(task)
                    task.add_done_callback(sending.discard)
                await asyncio.sleep(_SEND_EVERY_S)
            await asyncio.gather(*sending)

    async def _await_answer(self, number: int, delivery: "AsyncDelivery") -> None:
        try:
            receipt = await delivery
        except FlotillaError:
            self.ledger.unknown.add(number)
        else:
            self.ledger.acknowledged[number] = Place(receipt.partition, receipt.offset)

    # The killer.

    async def _kill(self) -> None:
        ends = time.monotonic() + self._run_s
        while time.monotonic() + self._every_s < ends:
            await asyncio.sleep(self._every_s)
            victim = await self._leader_of(self._kills % PARTITIONS)
            self._victim = victim
            self._cluster.nodes[victim].kill()
            self._kills += 1
            self._say(f"kill -9 of node {victim}; {len(self.ledger.handled)} handled so far")
            await asyncio.sleep(min(1.0, self._every_s / 3))
            self._cluster.restart_node(victim)
            self._victim = NO_NODE

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_POLL_S)
            self.look()

    def look(self) -> None:
        """Notes each node that ended by itself, and starts it again."""
        for node in self._cluster.nodes.values():
            if node.node == self._victim or node.is_running:
                continue
            self._ended.append(f"node {node.node} ended by itself with {node.wait_gone()}: {node.last_words()}")
            note(self._ended[-1])
            self._cluster.restart_node(node.node)

    async def _leader_of(self, partition: int) -> NodeId:
        while True:
            try:
                found = (await self._client.admin.metadata([TOPIC])).topics[0].partitions[partition].leader
            except FlotillaError:
                found = NO_NODE
            if found != NO_NODE and self._cluster.nodes[found].is_running:
                return found
            await asyncio.sleep(_POLL_S)

    # The check at the end.

    async def _wait_settled(self, working: "asyncio.Task[None]") -> None:
        """Returns when every message is settled, dead letters included."""
        deadline = time.monotonic() + _SETTLE_S_MAX
        while time.monotonic() < deadline:
            if working.done():
                working.result()
            try:
                info = await self._client.describe_group(TOPIC, GROUP)
            except FlotillaError:
                await asyncio.sleep(_POLL_S)
                continue
            if not info.lag and not info.dying:
                return
            await asyncio.sleep(_POLL_S)
        raise UnavailableError(f"the queue did not drain within {_SETTLE_S_MAX:.0f} s")

    async def _read_dead_letters(self) -> None:
        letters = await self._client.dead_letters(TOPIC, GROUP).list(limit=1_000_000)
        self.ledger.dead.update(int(letter.payload) for letter in letters)
        self.ledger.settled += [Place(letter.origin_partition, letter.origin_offset) for letter in letters]

    def _say(self, text: str) -> None:
        if not self._is_quiet:
            note(f"{time.monotonic() - self._began:6.1f} s  {text}")
