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
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer
import uvloop

from flotilla.cli.exit_codes import FAILED
from flotilla.cli.local_cluster import LocalCluster
from flotilla.cli.output import complain, note, print_json, print_table
from flotilla.cli.servers import AsJson, read_duration
from flotilla.types.errors import FlotillaError, UnavailableError
from flotilla.types.ids import NO_NODE, NodeId

if TYPE_CHECKING:
    from flotilla.client.aio import AsyncClient
    from flotilla.client.aio_queue import AsyncQueueMessage

TOPIC = "chaos"
GROUP = "workers"
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


def is_poison(number: int) -> bool:
    return number % POISON_EVERY == 0


def chaos(
    duration: Annotated[str, typer.Option("--for", metavar="DURATION", help="How long.")] = "60s",
    every: Annotated[str, typer.Option("--every", metavar="DURATION", help="From one kill to the next.")] = "10s",
    rate: Annotated[int, typer.Option("--rate", min=1, max=20_000, help="Messages a second.")] = 300,
    as_json: AsJson = False,
) -> None:
    """Kill a leader of a working queue again and again, and count that nothing was lost."""
    run_s = read_duration(duration, "--for") / 1000
    every_s = read_duration(every, "--every") / 1000
    try:
        with (
            TemporaryDirectory(prefix="flotilla-chaos-", ignore_cleanup_errors=True) as folder,
            asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
        ):
            findings = runner.run(_run(Path(folder), run_s, every_s, rate, is_quiet=as_json))
    except asyncio.CancelledError:
        complain("chaos was ended before its end")
        raise typer.Exit(FAILED.code) from None
    if as_json:
        print_json(asdict(findings))
    else:
        rows = [(name.replace("_", " "), value) for name, value in asdict(findings).items() if name != "is_good"]
        print_table(("what", "count"), [(name, str(value)) for name, value in rows])
        typer.echo("nothing was lost" if findings.is_good else "THE BOOKS DO NOT BALANCE")
    if not findings.is_good:
        raise typer.Exit(FAILED.code)


async def _run(folder: Path, run_s: float, every_s: float, rate: int, *, is_quiet: bool) -> Findings:
    from flotilla.client.aio import AsyncClient

    # Handlers fail here on purpose, and nobody needs to read of it.
    logging.getLogger("flotilla.client.worker").setLevel(logging.ERROR)
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
            return await _Storm(cluster, client, run_s, every_s, rate, is_quiet=is_quiet).run()


def _start(cluster: LocalCluster) -> None:
    cluster.start()
    cluster.wait_ready()


class _Storm:
    def __init__(
        self, cluster: LocalCluster, client: "AsyncClient", run_s: float, every_s: float, rate: int, *, is_quiet: bool
    ) -> None:
        self._cluster = cluster
        self._client = client
        self._run_s = run_s
        self._every_s = every_s
        self._rate = rate
        self._is_quiet = is_quiet
        self._books = Books()
        self._kills = 0
        self._began = time.monotonic()

    async def run(self) -> Findings:
        from flotilla.client.worker import Worker

        worker = Worker(
            self._client,
            TOPIC,
            GROUP,
            self._handle,
            concurrency=CONCURRENCY,
        )
        working = asyncio.create_task(worker.serve())
        try:
            await asyncio.gather(self._produce(), self._kill())
            self._tell("no more messages and no more kills; the rest is worked off")
            await self._wait_settled(working)
        finally:
            worker.stop()
            await working
        await self._read_dead_letters()
        books = self._books
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
        number = int(message.payload)
        if is_poison(number):
            raise ValueError("this one never works")
        if number % FAILING_EVERY == 0 and message.attempt == 1:
            raise OSError("not this time")
        self._books.handled[number] += 1

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

    async def _await_answer(self, number: int, delivery: "asyncio.Future[object] | object") -> None:
        try:
            await delivery  # type: ignore[misc]
        except FlotillaError:
            self._books.unknown.add(number)
        else:
            self._books.acknowledged.add(number)

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
            self._tell(f"kill -9 of node {victim}; {len(self._books.handled)} handled so far")
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
        self._books.buried.update(int(letter.payload) for letter in letters)

    def _tell(self, text: str) -> None:
        if not self._is_quiet:
            note(f"{time.monotonic() - self._began:6.1f} s  {text}")
