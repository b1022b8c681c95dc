"""`flotilla bench`: what a cluster does for a client of this machine, and what the machine does without it.

Against a running cluster it makes a topic and removes it again. Without one it starts three brokers on a folder of
the disk to measure, and shows what a synced append costs there: every acknowledgement waits for one.
"""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flotilla.cli.output import note, print_json, print_table
from flotilla.cli.servers import DEFAULT_TIMEOUT, SERVERS_VARIABLE, AsJson, connect

if TYPE_CHECKING:
    from flotilla.cli.journal_probe import Append
    from flotilla.client.sync import Client

RATE = 1_000
_SINGLES = 500
_PIPELINED = 50_000
_BULK = 200_000
_BULK_BYTES_MAX = 50_000_000
_PROBE_BYTES = 100_000_000


@dataclass(frozen=True, slots=True)
class Outcome:
    """One line of the result, as `--json` prints it. Rates are in messages a second."""

    workload: str
    payload_bytes: int
    rate: float | None = None
    p50_ms: float | None = None
    p99_ms: float | None = None


def bench(
    servers: Annotated[
        str,
        typer.Option(
            "--servers",
            "-s",
            metavar="HOST:PORT,...",
            envvar=SERVERS_VARIABLE,
            help="A running cluster to measure, brokers separated by commas; without it, three brokers are started.",
        ),
    ] = "",
    payload_bytes: Annotated[
        list[int] | None, typer.Option("--payload-bytes", min=8, max=65_536, help="May be repeated; else 100 and 1024.")
    ] = None,
    data: Annotated[
        Path, typer.Option(help="A folder on the disk to measure when brokers are started; it is left as it was.")
    ] = Path(),
    as_json: AsJson = False,
) -> None:
    """Measure what clients get from a cluster, and what the disk and the loopback of this machine give without it."""
    sizes = payload_bytes or [100, 1_024]
    appends: list[Append] = []
    outcomes: list[Outcome] = []
    if servers:
        outcomes += _measure(servers.split(","), sizes)
    else:
        from flotilla.cli.journal_probe import measure_appends

        note("measuring the disk")
        appends += measure_appends(data)
        with _local_cluster(data) as started:
            outcomes += _measure(started, sizes)
    if as_json:
        print_json({"appends": [asdict(each) for each in appends], "workloads": [asdict(each) for each in outcomes]})
        return
    if appends:
        _print_appends(appends)
    _print_outcomes(outcomes)


@contextmanager
def _local_cluster(data: Path) -> Iterator[list[str]]:
    from flotilla.cli.local_cluster import LocalCluster
    from flotilla.cli.probes import scratch

    with scratch(data, "flotilla-bench") as folder, LocalCluster.on_free_ports(folder) as cluster:
        note("starting three brokers")
        cluster.start()
        cluster.wait_ready()
        yield cluster.servers


def _measure(servers: list[str], sizes: list[int]) -> Iterator[Outcome]:
    from flotilla.cli.probes import copy_rate, echo_durations
    from flotilla.cli.workloads import cuts

    with connect(",".join(servers), DEFAULT_TIMEOUT) as client:
        for size_bytes in sizes:
            note(f"measuring payloads of {size_bytes} bytes")
            p50, p99 = cuts(echo_durations(size_bytes, _SINGLES))
            yield Outcome("loopback echo", size_bytes, None, 1e3 * p50, 1e3 * p99)
            yield Outcome("loopback copy", size_bytes, copy_rate(_PROBE_BYTES) / size_bytes)
            with _topic(client) as topic:
                yield from _workloads(client, servers, topic, size_bytes)


@contextmanager
def _topic(client: "Client") -> Iterator[str]:
    """A topic of one partition, as one queue elsewhere is; nobody else has its name."""
    name = f"flotilla-bench-{secrets.token_hex(4)}"
    client.create_topic(name, partitions=1)
    try:
        yield name
    finally:
        client.delete_topic(name)


def _workloads(client: "Client", servers: list[str], topic: str, size_bytes: int) -> Iterator[Outcome]:
    from flotilla.cli import workloads

    payload = bytes(size_bytes)
    bulk = min(_BULK, _BULK_BYTES_MAX // size_bytes)
    client.produce_many(topic, [payload] * 1_000)
    p50, p99 = workloads.cuts(workloads.produce_one_by_one(client, topic, payload, _SINGLES))
    yield Outcome("produce, one in flight", size_bytes, 1 / p50, 1e3 * p50, 1e3 * p99)
    yield Outcome(
        "producer.send, pipelined", size_bytes, workloads.produce_pipelined(client, topic, payload, _PIPELINED)
    )
    yield Outcome("produce_many", size_bytes, workloads.produce_in_bulk(client, topic, payload, bulk))
    yield Outcome("replay", size_bytes, workloads.replay(client, topic, bulk))
    p50, p99 = workloads.cuts(workloads.end_to_end(servers, topic, size_bytes, RATE, 2 * RATE))
    yield Outcome(f"end to end at {RATE:,} a second", size_bytes, RATE, 1e3 * p50, 1e3 * p99)


def _print_appends(appends: "list[Append]") -> None:
    rows = []
    for row in appends:
        cells = (row.disk_p50_us, row.disk_p99_us, row.journal_p50_us, row.journal_p99_us)
        ratio = row.journal_p50_us / row.disk_p50_us
        rows.append((f"{row.size_bytes:,} B", *(f"{cell:,.0f} us" for cell in cells), f"{ratio:.2f}"))
    print_table(("append", "disk p50", "p99", "journal p50", "p99", "ratio"), rows)
    typer.echo()


def _print_outcomes(outcomes: list[Outcome]) -> None:
    rows = [
        (
            row.workload,
            f"{row.payload_bytes:,} B",
            "" if row.rate is None else f"{row.rate:,.0f}",
            "" if row.p50_ms is None else f"{row.p50_ms:.2f}",
            "" if row.p99_ms is None else f"{row.p99_ms:.2f}",
        )
        for row in outcomes
    ]
    print_table(("workload", "payload", "messages/s", "p50 ms", "p99 ms"), rows)
