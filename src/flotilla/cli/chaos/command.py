"""`flotilla chaos`: real brokers, real clients and faults, and the check at the end that nothing was lost.

A scenario is a table of faults (`chaos/scenario/`); `tasks` is the work queue of `chaos/storm.py`, whose leaders are
killed. The exit code is 1 if a rule was broken, 0 if the scenario cannot run here: then the reason is printed.
"""

import asyncio
import logging
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from secrets import randbelow
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
import uvloop

from flotilla.cli.chaos.machine.brokers import ChaosCluster
from flotilla.cli.chaos.machine.preload import build_preload, missing_compiler
from flotilla.cli.chaos.scenario.run import FLAGS, SCENARIOS, RunPlan, Verdict, run_scenario
from flotilla.cli.chaos.storm import MAX_DELIVERIES, PARTITIONS, TOPIC, Findings, Plan, Storm
from flotilla.cli.local_cluster import LocalCluster, find_free_ports, run_with_cluster
from flotilla.cli.terminal.exit_codes import FAILED
from flotilla.cli.terminal.output import complain, note, print_json, print_table
from flotilla.cli.terminal.servers import AsJson, read_duration
from flotilla.types.errors import InvalidArgumentError

TASKS = "tasks"
#: A seed that is drawn is short enough to be typed.
_SEEDS = 1_000_000
_LOG_LINES = 12
#: Findings of one rule that are printed.
_SHOWN_MAX = 5


def chaos(
    scenario: Annotated[
        str, typer.Option("--scenario", metavar="NAME", help=f"{', '.join(SCENARIOS)} or {TASKS}.")
    ] = "process",
    duration: Annotated[str, typer.Option("--for", metavar="DURATION", help="How long faults last.")] = "60s",
    seed: Annotated[int, typer.Option("--seed", min=0, help="Draws the faults; 0: a new seed.")] = 0,
    starved: Annotated[bool, typer.Option("--starved", help="Each broker gets a tenth of a processor.")] = False,
    keep: Annotated[
        Path | None, typer.Option("--keep", metavar="DIR", help="Keep data and logs in this folder.")
    ] = None,
    every: Annotated[str, typer.Option("--every", metavar="DURATION", help="tasks: interval between kills.")] = "10s",
    rate: Annotated[int, typer.Option("--rate", min=1, max=20_000, help="tasks: messages a second.")] = 300,
    with_audit: Annotated[
        bool, typer.Option("--audit", help="tasks: compare the ledger with the log, with Spark; needs Java.")
    ] = False,
    over_http: Annotated[bool, typer.Option("--http", help="tasks: through the task API, at all nodes.")] = False,
    as_json: AsJson = False,
) -> None:
    """Break real brokers in every way under load, and check that nothing was lost.

    Example: `flotilla chaos --scenario network --for 5m --seed 7`
    """
    run_s = read_duration(duration, "--for") / 1000
    if scenario == TASKS:
        every_s = read_duration(every, "--every") / 1000
        plan = Plan(run_s, every_s, rate, is_quiet=as_json, with_audit=with_audit, over_http=over_http)
        _run_tasks(plan, as_json=as_json)
        return
    if scenario not in SCENARIOS:
        raise InvalidArgumentError(f"no scenario {scenario!r}; there are {', '.join(SCENARIOS)} and {TASKS}")
    missing = missing_compiler() if SCENARIOS[scenario].needs_library else ""
    if missing:
        note(f"scenario {scenario} is skipped: {missing}")
        return
    _run_scenario(RunPlan(scenario, seed or 1 + randbelow(_SEEDS), run_s, is_starved=starved), keep, as_json=as_json)


# Scenarios.


def _run_scenario(plan: RunPlan, keep: Path | None, *, as_json: bool) -> None:
    began = time.monotonic()

    def say(text: str) -> None:
        if not as_json:
            note(f"{time.monotonic() - began:6.1f} s  {text}")

    again = f"flotilla chaos --scenario {plan.scenario} --for {plan.run_s:.0f}s --seed {plan.seed}"
    say(again + (" --starved" if plan.is_starved else ""))
    # Calls fail on purpose; their warnings would only be noise.
    logging.getLogger("flotilla.client").setLevel(logging.ERROR)
    with _folder(keep) as folder, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        library = build_preload(folder) if SCENARIOS[plan.scenario].needs_library else None
        ports = dict(enumerate(find_free_ports(3), 1))
        with ChaosCluster(folder, ports, FLAGS, library=library) as cluster:
            try:
                verdict = runner.run(_until_stopped(plan, cluster, say))
            except asyncio.CancelledError:
                complain("chaos was interrupted")
                raise typer.Exit(FAILED.code) from None
            logs = {} if verdict.is_good else {node.log.name: _tail(node.log) for node in cluster.nodes.values()}
    _print_verdict(verdict, logs, as_json=as_json)
    if not verdict.is_good:
        raise typer.Exit(FAILED.code)


async def _until_stopped(plan: RunPlan, cluster: ChaosCluster, say: Callable[[str], None]) -> Verdict:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await run_scenario(plan, cluster, say)


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        yield keep.resolve()
        return
    with TemporaryDirectory(prefix="flotilla-chaos-", ignore_cleanup_errors=True) as folder:
        yield Path(folder).resolve()


def _tail(log: Path) -> list[str]:
    return log.read_text("utf-8", "replace").splitlines()[-_LOG_LINES:] if log.exists() else []


def _print_verdict(verdict: Verdict, logs: dict[str, list[str]], *, as_json: bool) -> None:
    if as_json:
        findings = [finding._asdict() for finding in verdict.findings]
        print_json({**asdict(verdict), "findings": findings, "is_good": verdict.is_good})
        return
    for name, lines in logs.items():
        note(f"--- {name} ---")
        for line in lines:
            note(line)
    tables = {
        "fault": verdict.faults,
        "errors planted and seen": verdict.planted,
        "judged": verdict.judged,
        "sometimes": verdict.sometimes,
    }
    for title, counts in tables.items():
        print_table((title, "count"), [(name, str(count)) for name, count in counts.items()])
        typer.echo()
    shown: Counter[str] = Counter()
    for finding in verdict.findings:
        shown[finding.rule] += 1
        if shown[finding.rule] <= _SHOWN_MAX:
            typer.echo(f"BROKEN {finding.rule}: {finding.text}")
    for rule, count in shown.items():
        if count > _SHOWN_MAX:
            typer.echo(f"BROKEN {rule}: {count} times in all")
    kept = f"scenario {verdict.scenario}, seed {verdict.seed}, {verdict.seconds} s"
    typer.echo(f"{kept}: " + ("no rule was broken" if verdict.is_good else "RULES WERE BROKEN"))


# The work queue.


def _run_tasks(plan: Plan, *, as_json: bool) -> None:
    if plan.with_audit:
        from flotilla.spark.pipelines.session import check_parts

        check_parts()
    findings = run_with_cluster("chaos", partial(_run, plan))
    if as_json:
        print_json(asdict(findings))
    else:
        rows = [
            (name.replace("_", " "), value)
            for name, value in asdict(findings).items()
            if name != "is_good" and value is not None
        ]
        print_table(("what", "count"), [(name, str(value)) for name, value in rows])
        if findings.ended:
            typer.echo("A BROKER ENDED BY ITSELF")
        elif not findings.is_good:
            typer.echo("THE LEDGER DOES NOT BALANCE")
        else:
            typer.echo("nothing was lost")
    if not findings.is_good:
        raise typer.Exit(FAILED.code)


async def _run(plan: Plan, cluster: LocalCluster) -> Findings:
    from flotilla.cli.chaos.http import HttpStorm
    from flotilla.client.async_client import AsyncClient

    # Handlers fail on purpose; their warnings would only be noise.
    for name in ("flotilla.client.worker", "flotilla.cli.task_api.worker"):
        logging.getLogger(name).setLevel(logging.ERROR)
    await asyncio.to_thread(cluster.start_ready)
    async with AsyncClient(cluster.servers) as client:
        await client.create_topic(
            TOPIC, partitions=PARTITIONS, max_deliveries=MAX_DELIVERIES, nack_backoff_ms=100, visibility_ms=10_000
        )
        storm = (HttpStorm if plan.over_http else Storm)(cluster, client, plan)
        findings = await storm.run()
    if not plan.with_audit:
        return findings
    from flotilla.cli.chaos.audit import audit_ledger

    counts = await asyncio.to_thread(audit_ledger, storm.ledger, cluster.servers, cluster.folder)
    # Delivery is at least once: a message may be handled again.
    faults = sum(count for name, count in counts.items() if name != "consumed_again")
    return replace(findings, audit=counts, is_good=findings.is_good and not faults)
