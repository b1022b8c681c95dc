"""`flotilla demo`: three brokers, a producer and a reader, `kill -9` of a leader, and the check at the end.

Everything is real: processes, sockets, files, the public client. It uses free ports and a temporary folder, and removes
everything except the lake and the report of the last act. The exit code is 1 if an acknowledged message was lost or
stored twice.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from flotilla.cli.demo.ledger import Ledger
from flotilla.cli.local_cluster import LocalCluster, run_with_cluster
from flotilla.cli.terminal.exit_codes import FAILED
from flotilla.cli.terminal.output import console, print_json, table
from flotilla.cli.terminal.servers import AsJson
from flotilla.types.errors import FlotillaError, UnavailableError
from flotilla.types.ids import NO_NODE
from flotilla.types.operations import Metadata

if TYPE_CHECKING:
    from flotilla.cli.demo.pipeline import Evidence
    from flotilla.cli.demo.traffic import Traffic
    from flotilla.cli.demo.view import DemoView
    from flotilla.client.async_client import AsyncClient

TOPIC = "demo"
PARTITIONS = 3
_POLL_S = 0.1
_ASK_MS = 300
#: Far longer than a healthy cluster needs.
_RECOVERY_S_MAX = 30.0
_READING_S_MAX = 30.0

_NEXT = """\
Next:
  flotilla cluster start                    your own cluster; Ctrl-C stops it
  flotilla topic create orders --partitions 3
  flotilla produce orders 'hello'           or lines: seq 1000 | flotilla produce orders
  flotilla consume orders --follow
  flotilla shell                            the same, interactively"""


@dataclass(frozen=True, slots=True)
class Findings:
    """The result, as `--json` prints it."""

    sent: int
    acknowledged: int
    read: int
    lost: int
    doubled: int
    refused: int
    killed_node: int
    partitions_led: int
    #: From the kill to the first acknowledgement of a later message, in the slowest partition.
    recovery_s: float
    is_good: bool
    #: Of the last act; None without one.
    evidence: "Evidence | None" = None


class Play(StrEnum):
    ALL = "all"
    FAILOVER = "failover"


def demo(
    play: Annotated[
        Play, typer.Argument(metavar="all|failover", help="failover: skip the last act, which needs Java.")
    ] = Play.ALL,
    rate: Annotated[int, typer.Option("--rate", min=3, max=20_000, help="Messages a second.")] = 1_000,
    phase: Annotated[float, typer.Option("--phase", min=0.2, max=600, help="Seconds of traffic in each phase.")] = 3.0,
    as_json: AsJson = False,
) -> None:
    """Show a cluster of three survive `kill -9` of a leader, and check that nothing was lost.

    The last act archives everything with Spark, queries log and archive as one table, and audits both.

    Example: `flotilla demo failover`
    """
    act = partial(_run, rate=rate, phase_s=phase, is_quiet=as_json, has_spark=play is Play.ALL)
    findings = run_with_cluster("demo", act)
    if as_json:
        print_json(asdict(findings))
    else:
        _print_findings(findings)
    if not findings.is_good:
        raise typer.Exit(FAILED.code)


async def _run(cluster: LocalCluster, *, rate: int, phase_s: float, is_quiet: bool, has_spark: bool) -> Findings:
    from flotilla.cli.demo.traffic import Traffic
    from flotilla.cli.demo.view import DemoView
    from flotilla.client.async_client import AsyncClient

    ledger = Ledger()
    with DemoView(console(is_stderr=is_quiet), ledger) as view:
        view.report("starting three brokers")
        await asyncio.to_thread(cluster.start_ready)
        view.report(f"a cluster of three is ready at {', '.join(cluster.servers)}")
        async with AsyncClient(cluster.servers) as client:
            await client.create_topic(TOPIC, partitions=PARTITIONS)
            view.report(f"topic {TOPIC!r} has {PARTITIONS} partitions, each its own Raft group with three replicas")
            traffic = Traffic(client, TOPIC, PARTITIONS, rate, ledger)
            try:
                findings = await _Demo(cluster, client, traffic, view, phase_s).run()
            finally:
                await traffic.close()
        return await asyncio.to_thread(_last_act, cluster, ledger, view, findings) if has_spark else findings


def _last_act(cluster: LocalCluster, ledger: Ledger, view: "DemoView", findings: Findings) -> Findings:
    from flotilla.spark.pipelines.session import missing_parts

    missing = missing_parts()
    if missing:
        view.report(f"the last act is skipped. {missing}")
        return findings
    from flotilla.cli.demo.pipeline import run_act

    evidence = run_act(TOPIC, cluster.servers, ledger, view.report)
    return replace(findings, evidence=evidence, is_good=findings.is_good and evidence.is_good)


class _Demo:
    def __init__(
        self, cluster: LocalCluster, client: "AsyncClient", traffic: "Traffic", view: "DemoView", phase_s: float
    ) -> None:
        self._cluster = cluster
        self._client = client
        self._traffic = traffic
        self._view = view
        self._phase_s = phase_s

    async def run(self) -> Findings:
        await self._wait("every partition to have a leader", self._is_led)
        self._traffic.start()
        self._view.report("a producer writes and a reader reads; acknowledged means synced on two disks of three")
        await self._watch(self._phase_s)
        victim, led = await self._kill_leader()
        recovery_s = await self._wait_recovered(led)
        await self._watch(self._phase_s)
        await self._restart(victim)
        await self._watch(self._phase_s)
        await self._traffic.finish_sending()
        self._view.report("the producer stops; the reader reads the rest")
        await self._traffic.finish_reading(_READING_S_MAX)
        await self._look()
        return self._findings(victim, len(led), recovery_s)

    async def _kill_leader(self) -> tuple[int, list[int]]:
        metadata = await self._wait("every partition to have a leader", self._is_led)
        assert metadata is not None
        leaders = {part.number: part.leader for part in metadata.topics[0].partitions}
        victim = leaders[0]
        led = [number for number, leader in leaders.items() if leader == victim]
        killed_at = time.monotonic()
        self._cluster.nodes[victim].kill()
        self._traffic.mark_failure(led, killed_at)
        names = ", ".join(map(str, led))
        self._view.report(f"kill -9 of node {victim}, which led partition {names}", "bold red")
        return victim, led

    async def _wait_recovered(self, led: list[int]) -> float:
        await self._wait("the partitions to have new leaders", self._has_recovered)
        recovery_s = max(self._traffic.gaps_s.values())
        self._view.report(f"the next message is acknowledged {recovery_s:.2f} s after the kill", "bold green")
        return recovery_s

    async def _restart(self, victim: int) -> None:
        self._view.report(f"node {victim} starts again on the disk it left behind")
        self._cluster.restart_node(victim)
        await self._wait(f"node {victim} to come back", self._is_complete)
        self._view.report(f"node {victim} is back and catches up")

    def _findings(self, victim: int, led: int, recovery_s: float) -> Findings:
        ledger = self._traffic.ledger
        return Findings(
            sent=ledger.sent,
            acknowledged=len(ledger.acknowledged),
            read=len(ledger.read),
            lost=len(ledger.lost),
            doubled=len(ledger.doubled),
            refused=len(ledger.failed),
            killed_node=victim,
            partitions_led=led,
            recovery_s=round(recovery_s, 3),
            is_good=ledger.is_balanced,
        )

    # Watching.

    async def _watch(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            await self._look()
            await asyncio.sleep(_POLL_S)

    async def _look(self) -> Metadata | None:
        self._traffic.check()
        try:
            metadata = await self._client.admin.metadata([TOPIC], timeout_ms=_ASK_MS)
        except FlotillaError:
            metadata = None
        self._view.look(metadata)
        return metadata

    async def _wait(self, what: str, is_reached: Callable[[Metadata | None], bool]) -> Metadata | None:
        """The metadata at which the condition held."""
        deadline = time.monotonic() + _RECOVERY_S_MAX
        while not is_reached(metadata := await self._look()):
            if time.monotonic() > deadline:
                raise UnavailableError(f"gave up after {_RECOVERY_S_MAX:.0f} s waiting for {what}")
            await asyncio.sleep(_POLL_S / 4)
        return metadata

    def _is_led(self, metadata: Metadata | None) -> bool:
        if metadata is None or not metadata.topics:
            # A lagging broker may not know the topic yet.
            return False
        return all(part.leader != NO_NODE for part in metadata.topics[0].partitions)

    def _is_complete(self, metadata: Metadata | None) -> bool:
        return metadata is not None and sum(broker.is_alive for broker in metadata.brokers) == len(self._cluster.nodes)

    def _has_recovered(self, metadata: Metadata | None) -> bool:
        return self._traffic.has_recovered


def _print_findings(findings: Findings) -> None:
    printer = console()
    rows = [
        ("acknowledged", findings.acknowledged),
        ("read back", findings.read),
        ("lost", findings.lost),
        ("stored twice", findings.doubled),
        ("refused with an error", findings.refused),
        ("first acknowledgement after kill -9", f"{findings.recovery_s:.2f} s"),
    ]
    evidence = findings.evidence
    if evidence is not None:
        rows += [
            ("archived with Spark", evidence.archived),
            ("found by SQL in log and archive", evidence.queried),
            ("missing there, by the audit", evidence.missing),
            ("doubled there, by the audit", evidence.doubled),
        ]
    printer.print()
    printer.print(table(("result", ""), rows))
    result = "nothing was lost, nothing was stored twice" if findings.is_good else "a promise was broken"
    printer.print(f"[bold {'green' if findings.is_good else 'red'}]{result}[/]\n")
    if evidence is not None:
        printer.print(f"lake:   {evidence.lake}\nreport: {evidence.report}\n", soft_wrap=True)
    printer.print(_NEXT)
