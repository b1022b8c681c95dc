"""One chaos run: brokers, clients and faults for a while; then healing, draining and the verdict.

1. Errors are planted into a good history: the rules must notice each, or nothing is run. Three brokers start, two
   topics are created, and every client begins.
2. A fault is drawn, injected, held and healed, or several at a time that act on different parts, each for a time of its
   own; then every partition must have all its voters within a minute. Again.
3. The producers stop. Queue and stream group get the rest, every replica is read from its start, and the rules judge.
4. Errors are planted into copies of the run's own history: a verdict of rules that miss one is worth nothing.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Final

from flotilla.cli.chaos.judge.history import History, Place, ReplicaLog
from flotilla.cli.chaos.judge.plants import good_history, plant_errors
from flotilla.cli.chaos.judge.rules import Finding, held_by_two, judge, unknown_but_stored
from flotilla.cli.chaos.machine.brokers import ChaosCluster
from flotilla.cli.chaos.scenario import machine_faults, network, operations, process
from flotilla.cli.chaos.scenario.rig import Fault, Rig
from flotilla.cli.chaos.workload.clients import (
    BOOKS,
    CLIENTS,
    PAIRS,
    PARTITIONS,
    QUEUE_GROUP,
    STREAM_GROUP,
    Books,
    records_from,
)
from flotilla.cli.chaos.workload.direct_connection import DirectConnection
from flotilla.types.errors import FlotillaError, OffsetOutOfRangeError, UnavailableError
from flotilla.types.operations.log import Fetch, Fetched

if TYPE_CHECKING:
    from flotilla.client.admin.group_info import GroupInfo


#: Faults cost attempts: no message of the books may become a dead letter.
_MAX_DELIVERIES: Final = 1_000
_CALL_MS: Final = 8_000
_FETCH_BYTES: Final = 4 << 20
#: In the folder of the cluster, which `--keep` keeps.
HISTORY_FILE: Final = "history.jsonl"
#: Of several faults, how long after the first the others begin.
_STAGGER_S_MAX: Final = 2.0
#: Small files, so that they roll.
FLAGS: Final = ("--journal-file-bytes", "2MiB", "--segment-file-bytes", "256KiB")


@dataclass(frozen=True, slots=True)
class Scenario:
    faults: tuple[Fault, ...]
    needs_network: bool = False
    #: The faults need the library under the brokers, and so a compiler.
    needs_library: bool = False
    #: How many faults there may be at a time.
    overlap_max: int = 1


SCENARIOS: Final[dict[str, Scenario]] = {
    "process": Scenario(process.FAULTS),
    "network": Scenario(network.FAULTS, needs_network=True),
    "power": Scenario(machine_faults.POWER, needs_library=True),
    "disk": Scenario(machine_faults.DISK, needs_library=True),
    "clock": Scenario(machine_faults.CLOCK, needs_library=True),
    "operations": Scenario(operations.FAULTS),
}
SCENARIOS["together"] = Scenario(
    tuple(fault for scenario in SCENARIOS.values() for fault in scenario.faults),
    needs_network=True,
    needs_library=True,
    overlap_max=3,
)


@dataclass(frozen=True, slots=True)
class RunPlan:
    scenario: str
    seed: int
    run_s: float
    is_starved: bool = False
    #: Pause between a heal and the next fault.
    calm_s: float = 1.5


@dataclass(slots=True)
class Verdict:
    """The result, as `--json` prints it."""

    scenario: str
    seed: int
    seconds: float = 0.0
    faults: dict[str, int] = field(default_factory=dict)
    #: Errors planted that were noticed, by the history that they were planted into.
    planted: dict[str, int] = field(default_factory=dict)
    judged: dict[str, int] = field(default_factory=dict)
    sometimes: dict[str, int] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        return not self.findings


async def run_scenario(plan: RunPlan, cluster: ChaosCluster, say: Callable[[str], None]) -> Verdict:
    from flotilla.client.async_client import AsyncClient

    scenario = SCENARIOS[plan.scenario]
    verdict = Verdict(plan.scenario, plan.seed)
    began = time.monotonic()
    random = Random(plan.seed)
    if _plant(verdict, good_history(), "a good history", random, say):
        return verdict
    if scenario.needs_network:
        await cluster.open_network()
    await asyncio.to_thread(cluster.start_ready)
    if plan.is_starved:
        cluster.starve()

    def addresses() -> dict[int, str]:
        return {node.node: cluster.address(node.node) for node in cluster.running}

    books = Books(Random(plan.seed + 1), addresses)
    async with AsyncClient(cluster.servers, timeout_ms=_CALL_MS) as client:
        rig = Rig(cluster, client, books, random, say, is_starved=plan.is_starved)
        await _create_topics(rig)
        clients = {name: AsyncClient(cluster.servers, timeout_ms=_CALL_MS, name=name) for name in CLIENTS}
        tasks = [asyncio.create_task(CLIENTS[name](books, clients[name], name), name=name) for name in CLIENTS]
        try:
            await _inject_faults(rig, plan, scenario, verdict, tasks)
            await _drain(rig, tasks)
        finally:
            books.is_quiet = books.is_over = True
            for outcome in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(outcome, BaseException):
                    rig.fail("clients keep working", repr(outcome))
            await asyncio.gather(*(each.close(timeout_ms=2_000) for each in clients.values()), return_exceptions=True)
        await _read_ends(rig)
    rig.note_exits()
    if cluster.network is not None:
        await cluster.network.close()
    say("judging the history")
    await asyncio.to_thread(_judge, rig, verdict)
    if not verdict.findings:
        await asyncio.to_thread(_plant, verdict, books.history, "the history of this run", random, say)
    verdict.seconds = round(time.monotonic() - began, 1)
    return verdict


async def _create_topics(rig: Rig) -> None:
    async def create() -> str:
        for topic, partitions in ((BOOKS, PARTITIONS), (PAIRS, 1)):
            await rig.client.create_topic(
                topic,
                partitions=partitions,
                replication_factor=3,
                if_not_exists=True,
                max_deliveries=_MAX_DELIVERIES,
                nack_backoff_ms=100,
                visibility_ms=5_000,
            )
        return ""

    await rig.wait_until(create, "topics can be created")
    await rig.wait_whole()


async def _inject_faults(
    rig: Rig, plan: RunPlan, scenario: Scenario, verdict: Verdict, tasks: list["asyncio.Task[None]"]
) -> None:
    ends = time.monotonic() + plan.run_s
    waiting: list[Fault] = []
    while time.monotonic() < ends and not any(task.done() for task in tasks):
        await asyncio.sleep(rig.random.uniform(0.3, plan.calm_s))
        # Every fault once before any of them again.
        waiting = waiting or rig.random.sample(scenario.faults, len(scenario.faults))
        chosen = choose_faults(waiting, rig.random.randint(min(scenario.overlap_max, 2), scenario.overlap_max))
        waiting = [fault for fault in waiting if fault not in chosen]
        rig.books.counts[f"times of {len(chosen)} faults at once"] += len(chosen) > 1
        async with asyncio.TaskGroup() as group:
            for place, fault in enumerate(chosen):
                verdict.faults[fault.name] = verdict.faults.get(fault.name, 0) + 1
                # The first one at once, the others while it lasts or soon after.
                delay_s = rig.random.uniform(0.0, _STAGGER_S_MAX) if place else 0.0
                group.create_task(_suffer(rig.branch(fault), fault, delay_s))
        rig.restart_stopped()
        if not await rig.wait_whole():
            return


def choose_faults(waiting: list[Fault], count: int) -> list[Fault]:
    """Up to `count` of the faults that wait, from the first on, no two of which act on the same part."""
    chosen: list[Fault] = []
    taken: set[str] = set()
    for fault in waiting:
        if len(chosen) < count and taken.isdisjoint(fault.parts):
            chosen.append(fault)
            taken.update(fault.parts)
    return chosen


async def _suffer(rig: Rig, fault: Fault, delay_s: float) -> None:
    """One fault from its beginning to its end."""
    hold_s = rig.random.uniform(*fault.hold_s)
    await asyncio.sleep(delay_s)
    rig.say(f"{fault.name}, for {hold_s:.1f} s; {len(rig.books.history.sends)} sent so far")
    await fault.inject(rig)
    await asyncio.sleep(hold_s)
    await fault.heal(rig)
    rig.restart_stopped()


async def _drain(rig: Rig, tasks: list["asyncio.Task[None]"]) -> None:
    """Ends the producers, and waits until both groups have got everything."""
    rig.books.is_quiet = True
    rig.say("no more faults; waiting for the groups to get everything")

    lags: dict[str, int] = {}

    async def is_drained() -> str:
        complaint = ""
        for group in (QUEUE_GROUP, STREAM_GROUP):
            info = await rig.client.describe_group(BOOKS, group)
            lags[group] = info.lag + info.dying
            if lags[group] and not complaint:
                complaint = f"group {group} lags by {info.lag}: {await _explain_first(rig, info)}"
        return complaint

    await rig.wait_until(is_drained, "groups drain", left=lambda: sum(lags.values()))
    rig.say("both groups have everything; reading every replica")


async def _explain_first(rig: Rig, info: "GroupInfo") -> str:
    """The state of the oldest message that the group has not settled."""
    for number, part in info.partitions.items():
        if part.lag and info.kind == "queue":
            found = await rig.client.explain(BOOKS, info.name, number, part.floor, history=False)
            sums = f"{part.ready} ready, {part.leased} leased, {part.delayed} delayed"
            holder = f" by {found.holder} for {found.remaining_ms} ms" if found.holder else ""
            return f"{BOOKS}/{number}@{part.floor} is {found.state}{holder} ({sums}); {found.next}"
    return "its members have not committed everything"


async def _read_ends(rig: Rig) -> None:
    history = rig.books.history
    for part in range(rig.books.partitions):
        place = Place(BOOKS, part)
        try:
            history.stream_commits[place] = await rig.client.committed_offset(BOOKS, STREAM_GROUP, part) or 0
        except FlotillaError as error:
            rig.fail("offsets can be read", f"{place}: {error}")
    metadata = await rig.metadata()
    if metadata is None:
        rig.fail("the cluster answers at the end", "no metadata")
        return
    for topic in metadata.topics:
        if topic.name not in history.replication:
            continue
        for part_info in topic.partitions:
            for node in part_info.replicas:
                place = Place(topic.name, part_info.number)

                async def read(node: int = node, place: Place = place) -> str:
                    history.replicas.append(await _read_replica(rig, node, place))
                    return ""

                await rig.wait_until(read, f"{place} can be read at node {node}")


async def _read_replica(rig: Rig, node: int, place: Place) -> ReplicaLog:
    """Everything from the start on, with nothing acknowledged missing. Raises FlotillaError."""
    log = ReplicaLog(node, place, 0, [])
    try:
        async with DirectConnection(rig.cluster.address(node)) as connection:
            while True:
                at = log.start + len(log.payloads)
                answer = await connection.ask(
                    Fetch(*place, at, _FETCH_BYTES, is_any_replica=True, is_linearizable=True)
                )
                if isinstance(answer, OffsetOutOfRangeError) and not at:
                    # Records were removed; the rules will say which.
                    log.start = await rig.client.find_offset(*place, "earliest")
                    continue
                if isinstance(answer, FlotillaError):
                    raise answer
                assert isinstance(answer, Fetched)
                log.payloads += records_from(answer, at)
                if log.start + len(log.payloads) >= answer.next_offset:
                    return log
    except (OSError, EOFError, TimeoutError) as error:
        raise UnavailableError(f"node {node}: {error!r}") from error


def _plant(verdict: Verdict, history: History, what: str, random: Random, say: Callable[[str], None]) -> bool:
    """Tests the rules with errors planted into a history. True, and findings: they are blind."""
    planted = plant_errors(history, random)
    verdict.planted[what] = len(planted.seen)
    say(f"{len(planted.seen)} errors planted into {what} were noticed, {len(planted.missed)} were not")
    verdict.findings += [Finding("planted errors are seen", f"{name}, in {what}") for name in planted.missed]
    return bool(planted.missed)


def _judge(rig: Rig, verdict: Verdict) -> None:
    history = rig.books.history
    history.save(rig.cluster.folder / HISTORY_FILE)
    verdict.findings = [*rig.findings, *judge(history)]
    verdict.judged = history.sizes()
    counts = rig.books.counts
    counts["unknown produces that were stored"] = unknown_but_stored(history)
    counts["messages held by two"] = held_by_two(history)
    for name in ("sync_failures", "writes_refused", "read_failures", "hangs"):
        counts[f"injected: {name.replace('_', ' ')}"] += sum(
            machine.count(name) for machine in rig.cluster.machines.values()
        )
    verdict.sometimes = dict(sorted(counts.items()))
