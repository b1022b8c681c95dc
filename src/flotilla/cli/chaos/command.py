"""`flotilla chaos`: kills the leaders of a working queue again and again, and checks that nothing was lost.

Starts three real brokers, a producer and a queue group. At regular intervals the leader of a partition is killed with
`kill -9` and restarted on its disk. The exit code is 1 if the ledger does not balance at the end.
"""

import asyncio
import logging
from dataclasses import asdict, replace
from functools import partial
from typing import Annotated

import typer

from flotilla.cli.chaos.storm import MAX_DELIVERIES, PARTITIONS, TOPIC, Findings, Plan, Storm
from flotilla.cli.local_cluster import LocalCluster, run_with_cluster
from flotilla.cli.terminal.exit_codes import FAILED
from flotilla.cli.terminal.output import print_json, print_table
from flotilla.cli.terminal.servers import AsJson, read_duration


def chaos(
    duration: Annotated[str, typer.Option("--for", metavar="DURATION", help="How long to send messages.")] = "60s",
    every: Annotated[str, typer.Option("--every", metavar="DURATION", help="Interval between two kills.")] = "10s",
    rate: Annotated[int, typer.Option("--rate", min=1, max=20_000, help="Messages a second.")] = 300,
    with_audit: Annotated[
        bool, typer.Option("--audit", help="Compare the ledger with the log, with Spark; needs Java.")
    ] = False,
    over_http: Annotated[bool, typer.Option("--http", help="Through the task API, at all nodes in turn.")] = False,
    as_json: AsJson = False,
) -> None:
    """Kill leaders of a working queue again and again, and check that nothing was lost."""
    run_s = read_duration(duration, "--for") / 1000
    every_s = read_duration(every, "--every") / 1000
    if with_audit:
        from flotilla.spark.pipelines.session import check_parts

        check_parts()
    plan = Plan(run_s, every_s, rate, is_quiet=as_json, with_audit=with_audit, over_http=over_http)
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
        typer.echo("nothing was lost" if findings.is_good else "THE LEDGER DOES NOT BALANCE")
    if not findings.is_good:
        raise typer.Exit(FAILED.code)


async def _run(plan: Plan, cluster: LocalCluster) -> Findings:
    from flotilla.cli.chaos.http import HttpStorm
    from flotilla.client.async_client import AsyncClient

    # Handlers fail on purpose; their warnings would only be noise.
    for name in ("flotilla.client.worker", "flotilla.cli.http_worker"):
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
