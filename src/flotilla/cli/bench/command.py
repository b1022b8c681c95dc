"""`flotilla bench`: throughput and latency of a cluster for a client of this machine, beside those of the bare machine.

Against a running cluster it creates and deletes its own topics, stops no broker, and moves only the leadership of its
own topic. Otherwise it starts three brokers on a folder of the disk to measure, and shows the cost of a synced append
there: every acknowledgement waits for one.
"""

import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from flotilla.cli.terminal.exit_codes import FAILED
from flotilla.cli.terminal.output import complain, note, print_json, print_table
from flotilla.cli.terminal.progress import Stages
from flotilla.cli.terminal.servers import SERVERS_VARIABLE, AsJson, Cluster
from flotilla.types.operations import TopicInfo

if TYPE_CHECKING:
    from flotilla.cli.bench.hand_over import HandOvers
    from flotilla.cli.bench.journal_probe import Append
    from flotilla.client.client import Client

RATE = 1_000
_SINGLES = 500
_PIPELINED = 50_000
_BULK = 200_000
_BULK_BYTES_MAX = 50_000_000
_PROBE_BYTES = 100_000_000
_HAND_OVERS = 5


class Figures(NamedTuple):
    """Messages a second, and the time of one; None: not measured."""

    rate: float | None = None
    p50_ms: float | None = None
    p99_ms: float | None = None


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
            help="Brokers of the cluster to measure, separated by commas; default: three new local brokers.",
        ),
    ] = "",
    payload_bytes: Annotated[
        list[int] | None, typer.Option("--payload-bytes", min=8, max=65_536, help="Repeatable; default: 100 and 1024.")
    ] = None,
    data: Annotated[
        Path, typer.Option(help="A folder on the disk to measure with local brokers; nothing stays in it.")
    ] = Path(),
    as_json: AsJson = False,
) -> None:
    """Measure a cluster, beside the disk and the loopback of this machine.

    Example: `flotilla bench --servers node1:7600 --payload-bytes 1024`
    """
    sizes = payload_bytes or [100, 1_024]
    appends: list[Append] = []
    with Stages(_stage_count(len(sizes), is_local=not servers), is_quiet=as_json) as stages:
        if servers:
            outcomes, hand_overs = _measure(servers.split(","), sizes, stages)
        else:
            from flotilla.cli.bench.journal_probe import measure_appends

            stages.begin("the disk")
            appends += measure_appends(data)
            stages.begin("starting three brokers")
            with _local_cluster(data) as started:
                outcomes, hand_overs = _measure(started, sizes, stages)
    if as_json:
        print_json(
            {
                "appends": [asdict(each) for each in appends],
                "workloads": [asdict(each) for each in outcomes],
                "hand_overs": None if hand_overs is None else asdict(hand_overs),
            }
        )
    else:
        _print_appends(appends)
        _print_outcomes(outcomes)
        _print_hand_overs(hand_overs)
    if hand_overs is not None and not hand_overs.is_good:
        complain(f"{hand_overs.lost} acknowledged messages were lost and {hand_overs.doubled} doubled")
        raise typer.Exit(FAILED.code)


def _stage_count(sizes: int, *, is_local: bool) -> int:
    return 2 * is_local + sizes * (len(_PROBES) + len(_WORKLOADS)) + 1


@contextmanager
def _local_cluster(data: Path) -> Iterator[list[str]]:
    from flotilla.cli.bench.probes import scratch
    from flotilla.cli.local_cluster import LocalCluster

    with scratch(data, "flotilla-bench") as folder, LocalCluster.on_free_ports(folder) as cluster:
        cluster.start_ready()
        yield cluster.servers


def _measure(servers: list[str], sizes: list[int], stages: Stages) -> "tuple[list[Outcome], HandOvers | None]":
    outcomes: list[Outcome] = []

    def run(named: Mapping[str, Callable[[_Subject], Figures]], subject: _Subject) -> None:
        for name, measure in named.items():
            stages.begin(f"{name}, {subject.payload_bytes:,} B")
            outcomes.append(Outcome(name, subject.payload_bytes, *measure(subject)))

    with Cluster(",".join(servers), is_local=True).connect() as client:
        for size_bytes in sizes:
            run(_PROBES, _Subject(client, servers, "", size_bytes))
            with _topic(client) as made:
                client.produce_many(made.name, [bytes(size_bytes)] * 1_000)
                run(_WORKLOADS, _Subject(client, servers, made.name, size_bytes))
        stages.begin("handing leadership over")
        with _topic(client) as made:
            return outcomes, _hand_overs(servers, made)


def _hand_overs(servers: list[str], topic: TopicInfo) -> "HandOvers | None":
    """None: the topic has one replica."""
    from flotilla.cli.bench.hand_over import measure_hand_overs

    (partition,) = topic.partitions
    return measure_hand_overs(servers, topic.name, _HAND_OVERS) if len(partition.replicas) > 1 else None


@contextmanager
def _topic(client: "Client") -> Iterator[TopicInfo]:
    """A topic with one partition and a random name."""
    name = f"flotilla-bench-{secrets.token_hex(4)}"
    made = client.create_topic(name, partitions=1)
    try:
        yield made
    finally:
        client.delete_topic(name)


# Measurements. Their modules are imported late: they take longer to load than `--help` should.


class _Subject(NamedTuple):
    client: "Client"
    servers: list[str]
    #: Empty for probes of the machine.
    topic: str
    payload_bytes: int

    @property
    def payload(self) -> bytes:
        return bytes(self.payload_bytes)

    @property
    def bulk(self) -> int:
        return min(_BULK, _BULK_BYTES_MAX // self.payload_bytes)


def _echo(subject: _Subject) -> Figures:
    from flotilla.cli.bench.probes import echo_durations

    return _timed(echo_durations(subject.payload_bytes, _SINGLES))


def _copy(subject: _Subject) -> Figures:
    from flotilla.cli.bench.probes import copy_rate

    return Figures(copy_rate(_PROBE_BYTES) / subject.payload_bytes)


def _one_in_flight(subject: _Subject) -> Figures:
    from flotilla.cli.bench.workloads import cuts, produce_one_by_one

    durations = produce_one_by_one(subject.client, subject.topic, subject.payload, _SINGLES)
    return _timed(durations, rate=1 / cuts(durations)[0])


def _pipelined(subject: _Subject) -> Figures:
    from flotilla.cli.bench.workloads import produce_pipelined

    return Figures(produce_pipelined(subject.client, subject.topic, subject.payload, _PIPELINED))


def _in_bulk(subject: _Subject) -> Figures:
    from flotilla.cli.bench.workloads import produce_in_bulk

    return Figures(produce_in_bulk(subject.client, subject.topic, subject.payload, subject.bulk))


def _replay(subject: _Subject) -> Figures:
    from flotilla.cli.bench.workloads import replay

    return Figures(replay(subject.client, subject.topic, subject.bulk))


def _end_to_end(subject: _Subject) -> Figures:
    from flotilla.cli.bench.workloads import end_to_end

    return _timed(end_to_end(subject.servers, subject.topic, subject.payload_bytes, RATE, 2 * RATE), rate=RATE)


def _timed(durations_s: list[float], rate: float | None = None) -> Figures:
    from flotilla.cli.bench.workloads import cuts

    p50, p99 = cuts(durations_s)
    return Figures(rate, 1e3 * p50, 1e3 * p99)


#: By their name in the table.
_PROBES = {"loopback echo": _echo, "loopback copy": _copy}
#: In this order: the replay reads what was produced before.
_WORKLOADS = {
    "produce, one in flight": _one_in_flight,
    "producer.send, pipelined": _pipelined,
    "produce_many": _in_bulk,
    "replay": _replay,
    f"end to end at {RATE:,} a second": _end_to_end,
}


# Tables.


def _print_appends(appends: "list[Append]") -> None:
    if not appends:
        return
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


def _print_hand_overs(measured: "HandOvers | None") -> None:
    if measured is None:
        note("not measured with one replica: handing over leadership, which needs two brokers")
        return
    cells = (measured.gap_p50_ms, measured.gap_longest_ms, measured.steady_longest_ms)
    counts = (measured.acknowledged, measured.lost, measured.doubled)
    typer.echo()
    print_table(
        ("leadership handed over", "gap p50 ms", "longest ms", "without ms", "acknowledged", "lost", "doubled"),
        [(f"{measured.count} times", *(f"{cell:.2f}" for cell in cells), *counts)],
    )
