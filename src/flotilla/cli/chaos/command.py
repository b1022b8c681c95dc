"""`flotilla chaos`: a work queue while its leaders are killed again and again, and the books at the end.

Three real brokers, a producer, and a queue group whose handlers fail now and then. Every so often the broker that
leads a partition is killed with `kill -9` and started again on its disk. At the end every message that was acknowledged
must have been handled, or lie in the dead-letter topic exactly once if its handler never succeeded. A message may be
handled twice, as at-least-once says; how many were is told. The exit code is 1 if the books do not balance.
"""

import asyncio
import logging
import signal
import time
from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Protocol

import typer
import uvloop

from flotilla.cli.chaos.audit import audit_books, check_audit
from flotilla.cli.demo.ledger import Place
from flotilla.cli.local_cluster import LocalCluster
from flotilla.cli.terminal.exit_codes import FAILED
from flotilla.cli.terminal.output import complain, note, print_json, print_table
from flotilla.cli.terminal.servers import AsJson, read_duration
from flotilla.types.errors import FlotillaError, UnavailableError
from flotilla.types.ids import NO_NODE, NodeId
from flotilla.types.tasks import QUEUE_PREFIX, WORKER_GROUP

if TYPE_CHECKING:
    from flotilla.client.async_client import AsyncClient
    from flotilla.client.producer.aio import AsyncDelivery
    from flotilla.client.queue.aio import AsyncQueueMessage

#: As the task API names them, so that the same books are kept of both.
QUEUE = "chaos"
TOPIC = QUEUE_PREFIX + QUEUE
GROUP = WORKER_GROUP
PARTITIONS = 3
CONCURRENCY = 32
MAX_DELIVERIES = 3
#: Every so many messages are never handled with success, and every so many fail once.
POISON_EVERY = 101
FAILING_EVERY = 13
#: Far beyond what anything here takes; then something is wrong and is said.
_SETTLE_S_MAX = 120.0
_TURN_S = 0.02
_QUIET_S = 0.2


@dataclass(slots=True)
class Books:
    """What was promised, and what became of it."""

    acknowledged: set[int] = field(default_factory=set)
    #: Sent without an answer that says whether they are stored.
    unknown: set[int] = field(default_factory=set)
    #: How often a handler has come to its end with success.
    handled: Counter[int] = field(default_factory=Counter)
    buried: Counter[int] = field(default_factory=Counter)
    #: Where acknowledged messages are, and where those were that somebody has dealt with, once for each time.
    places: dict[int, Place] = field(default_factory=dict)
    dealt_with: list[Place] = field(default_factory=list)

    @property
    def lost(self) -> list[int]:
        """Acknowledged, and neither handled nor among the dead letters."""
        return sorted(number for number in self.acknowledged if not self.handled[number] and not self.buried[number])

    @property
    def buried_wrongly(self) -> list[int]:
        """Dead letters that are there twice, or that a handler had no trouble with."""
        return sorted(number for number, count in self.buried.items() if count > 1 or not is_poison(number))

    @property
    def is_balanced(self) -> bool:
        return bool(self.acknowledged) and not self.lost and not self.buried_wrongly


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
    buried_wrongly: int
    is_good: bool
    #: What Spark found, by kind; None if it was not asked.
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


def chaos(
    duration: Annotated[str, typer.Option("--for", metavar="DURATION", help="How long.")] = "60s",
    every: Annotated[str, typer.Option("--every", metavar="DURATION", help="From one kill to the next.")] = "10s",
    rate: Annotated[int, typer.Option("--rate", min=1, max=20_000, help="Messages a second.")] = 300,
    with_audit: Annotated[
        bool, typer.Option("--audit", help="Have Spark compare the books with the log; needs Java.")
    ] = False,
    over_http: Annotated[bool, typer.Option("--http", help="Through the task API, at all nodes in turn.")] = False,
    as_json: AsJson = False,
) -> None:
    """Kill a leader of a working queue again and again, and count that nothing was lost."""
    run_s = read_duration(duration, "--for") / 1000
    every_s = read_duration(every, "--every") / 1000
    if with_audit:
        check_audit()
    try:
        with (
            TemporaryDirectory(prefix="flotilla-chaos-", ignore_cleanup_errors=True) as folder,
            asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
        ):
            plan = Plan(run_s, every_s, rate, is_quiet=as_json, with_audit=with_audit, over_http=over_http)
            findings = runner.run(_run(Path(folder), plan))
    except asyncio.CancelledError:
        complain("chaos was ended before its end")
        raise typer.Exit(FAILED.code) from None
    if as_json:
        print_json(asdict(findings))
    else:
        rows = [
            (name.replace("_", " "), value)
            for name, value in asdict(findings).items()
            if name != "is_good" and value is not None
        ]
        print_table(("what", "count"), [(name, str(value)) for name, value in rows])
        typer.echo("nothing was lost" if findings.is_good else "THE BOOKS DO NOT BALANCE")
    if not findings.is_good:
        raise typer.Exit(FAILED.code)


async def _run(folder: Path, plan: Plan) -> Findings:
    from flotilla.cli.chaos.http import HttpStorm
    from flotilla.client.async_client import AsyncClient

    # Handlers fail here on purpose, and nobody needs to read of it.
    for name in ("flotilla.client.worker", "flotilla.cli.http_worker"):
        logging.getLogger(name).setLevel(logging.ERROR)
    task = asyncio.current_task()
    assert task is not None
    # So that `kill` also leaves nothing behind.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    with LocalCluster.on_free_ports(folder, node_count=3) as cluster:
        await asyncio.to_thread(_start, cluster)
        async with AsyncClient(cluster.servers) as client:
            await client.create_topic(
                TOPIC, partitions=PARTITIONS, max_deliveries=MAX_DELIVERIES, nack_backoff_ms=100, visibility_ms=10_000
            )
            storm = (HttpStorm if plan.over_http else Storm)(cluster, client, plan)
            findings = await storm.run()
            if not plan.with_audit:
                return findings
            books = storm.books
            counts = await asyncio.to_thread(
                audit_books, TOPIC, cluster.servers, books.places.items(), books.dealt_with, folder
            )
            # A message may be handled again, as at-least-once says.
            faults = sum(count for name, count in counts.items() if name != "consumed_again")
            return replace(findings, audit=counts, is_good=findings.is_good and not faults)


def _start(cluster: LocalCluster) -> None:
    cluster.start()
    cluster.wait_ready()


class Serving(Protocol):
    """What works the queue off."""

    async def serve(self) -> None:
        """Until it is stopped."""

    def stop(self) -> None: ...


class Storm:
    def __init__(self, cluster: LocalCluster, client: "AsyncClient", plan: Plan) -> None:
        self._cluster = cluster
        self._client = client
        self._run_s = plan.run_s
        self._every_s = plan.every_s
        self._rate = plan.rate
        self._is_quiet = plan.is_quiet
        self.books = Books()
        self._kills = 0
        self._began = time.monotonic()

    def _worker(self) -> Serving:
        from flotilla.client.worker import Worker

        return Worker(self._client, TOPIC, GROUP, self._handle, concurrency=CONCURRENCY)

    async def run(self) -> Findings:
        worker = self._worker()
        working = asyncio.create_task(worker.serve())
        try:
            await asyncio.gather(self._produce(), self._kill())
            self._tell("no more messages and no more kills; the rest is worked off")
            await self._wait_settled(working)
        finally:
            worker.stop()
            await working
        await self._read_dead_letters()
        books = self.books
        return Findings(
            seconds=round(time.monotonic() - self._began, 1),
            kills=self._kills,
            acknowledged=len(books.acknowledged),
            unknown=len(books.unknown),
            handled=len(books.handled),
            handled_again=books.handled.total() - len(books.handled),
            dead_letters=books.buried.total(),
            lost=len(books.lost),
            buried_wrongly=len(books.buried_wrongly),
            is_good=books.is_balanced,
        )

    async def _handle(self, message: "AsyncQueueMessage") -> None:
        self.work(int(message.payload), message.attempt, Place(message.partition, message.offset))

    def work(self, number: int, attempt: int, place: Place) -> None:
        """What a handler does, which fails now and then."""
        if is_poison(number):
            raise ValueError("this one never works")
        if number % FAILING_EVERY == 0 and attempt == 1:
            raise OSError("not this time")
        self.books.handled[number] += 1
        self.books.dealt_with.append(place)

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
                await asyncio.sleep(_TURN_S)
            await asyncio.gather(*sending)

    async def _await_answer(self, number: int, delivery: "AsyncDelivery") -> None:
        try:
            receipt = await delivery
        except FlotillaError:
            self.books.unknown.add(number)
        else:
            self.books.acknowledged.add(number)
            self.books.places[number] = Place(receipt.partition, receipt.offset)

    # The killer.

    async def _kill(self) -> None:
        ends = time.monotonic() + self._run_s
        turn = 0
        while time.monotonic() + self._every_s < ends:
            await asyncio.sleep(self._every_s)
            victim = await self._leader_of(turn % PARTITIONS)
            turn += 1
            self._cluster.nodes[victim].kill()
            self._kills += 1
            self._tell(f"kill -9 of node {victim}; {len(self.books.handled)} handled so far")
            await asyncio.sleep(min(1.0, self._every_s / 3))
            self._cluster.restart_node(victim)

    async def _leader_of(self, partition: int) -> NodeId:
        while True:
            try:
                found = (await self._client.metadata([TOPIC])).topics[0].partitions[partition].leader
            except FlotillaError:
                found = NO_NODE
            if found != NO_NODE and self._cluster.nodes[found].is_running:
                return found
            await asyncio.sleep(_QUIET_S)

    # The end.

    async def _wait_settled(self, working: "asyncio.Task[None]") -> None:
        """Until the group owes nothing, dead letters included."""
        deadline = time.monotonic() + _SETTLE_S_MAX
        while time.monotonic() < deadline:
            if working.done():
                working.result()
            try:
                info = await self._client.describe_group(TOPIC, GROUP)
            except FlotillaError:
                await asyncio.sleep(_QUIET_S)
                continue
            if not info.lag and not info.dying:
                return
            await asyncio.sleep(_QUIET_S)
        raise UnavailableError(f"the queue was not worked off within {_SETTLE_S_MAX:.0f} s")

    async def _read_dead_letters(self) -> None:
        letters = await self._client.dead_letters(TOPIC, GROUP).list(limit=1_000_000)
        self.books.buried.update(int(letter.payload) for letter in letters)
        self.books.dealt_with += [Place(letter.origin_partition, letter.origin_offset) for letter in letters]

    def _tell(self, text: str) -> None:
        if not self._is_quiet:
            note(f"{time.monotonic() - self._began:6.1f} s  {text}")
