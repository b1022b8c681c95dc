"""`python -m bench [area ...]`: measures, prints a table, and writes the figures as JSON into bench/results/."""

import json
import os
import signal
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench import broker, contest, scale, spark
from bench.cluster import failover, moves, readers
from bench.contest import duel
from bench.endpoints import console_paint, grpc_calls, http_tasks, security, typescript
from bench.figure import Absence, Figure
from bench.groups import delays, handlers, pauses, streams
from bench.options import BenchOptions
from bench.parts import assignment, idle, journal, queue_machine, recovery, repair, replication, simulator, snapshots
from bench.peers import PEERS
from bench.scale import capacity

RESULTS = Path(__file__).parent / "results"
AREAS: dict[str, Callable[[BenchOptions], Sequence[Figure | Absence]]] = {
    "journal": journal.measure,
    "replication": replication.measure,
    "idle": idle.measure,
    "recovery": recovery.measure,
    "repair": repair.measure,
    "simulator": simulator.measure,
    "queue": queue_machine.measure,
    "snapshots": snapshots.measure,
    "handlers": handlers.measure,
    "pauses": pauses.measure,
    "delays": delays.measure,
    "assignment": assignment.measure,
    "readers": readers.measure,
    "streams": streams.measure,
    "broker": broker.measure,
    "failover": failover.measure,
    "http": http_tasks.measure,
    "console": console_paint.measure,
    "moves": moves.measure,
    "scale": scale.measure,
    "capacity": capacity.measure,
    "grpc": grpc_calls.measure,
    "typescript": typescript.measure,
    "security": security.measure,
    "contest": contest.measure,
    "duel": duel.measure,
    "apart": duel.measure_apart,
    "spark": spark.measure,
}
#: The default areas: brokers as users run them. The others measure parts.
USUAL = ("contest", "failover", "scale")
_MARKS = {True: "[green]met[/]", False: "[red]missed[/]", None: ""}


def amount(value: float, unit: str) -> str:
    if unit == "B/s":
        return f"{value / 1e6:,.0f} MB/s"
    if unit == "of a core":
        return f"{100 * value:.2f} % of a core"
    if value < 10:
        return f"{value:.3f} {unit}"
    return f"{value:,.1f} {unit}" if value < 1000 else f"{value:,.0f} {unit}"


def table(figures: Sequence[Figure], absences: Sequence[Absence], title: str) -> Table:
    result = Table(title=title, title_justify="left")
    for column in ("area", "figure", "value", "probe", "ratio", "lowest - highest", "goal", ""):
        result.add_column(column, justify="right" if column in ("value", "probe", "ratio") else "left")
    for figure in figures:
        goal = "" if figure.goal is None else f"{'<=' if figure.at_most else '>='} {figure.goal:g}"
        result.add_row(
            figure.area,
            figure.name,
            amount(figure.value, figure.unit),
            f"{amount(figure.probe, figure.unit)} ({figure.probe_name})",
            f"{figure.ratio:.3g}",
            f"{figure.spread[0]:.3g} - {figure.spread[1]:.3g}",
            goal,
            _MARKS[figure.is_met],
        )
    for absence in absences:
        result.add_row(absence.area, absence.name, absence.reason)
    return result


def parse(words: list[str]) -> Namespace:
    parser = ArgumentParser("python -m bench", description="Measure, as ratios to probes of this machine and to peers.")
    parser.add_argument("areas", nargs="*", metavar="area", help=f"of {', '.join(AREAS)}; else {', '.join(USUAL)}")
    quick = os.environ.get("QUICK", "") not in ("", "0")
    parser.add_argument("--quick", action="store_true", default=quick, help="small sizes; also QUICK=1")
    parser.add_argument("--full", action="store_true", help="a log of 20 GB and a hundred failovers; takes an hour")
    folder = Path(os.environ.get("FOLDER", RESULTS))
    parser.add_argument("--folder", type=Path, default=folder, help="on the disk to be measured; also FOLDER")
    products = [peer.product for peer in PEERS]
    parser.add_argument("--peers", type=_products, help=f"of {','.join(products)}, by commas, or none; else all")
    parser.add_argument("--nodes", type=int, choices=(1, 3), default=3, help="of every contestant")
    parser.add_argument("--rounds", type=int, help="of the contest, and of the clients for Node")
    parser.add_argument("--failovers", type=int, help="of each kind")
    parser.add_argument("--log-gb", type=float, help="size of the large log")
    arguments = parser.parse_args(words)
    unknown = [name for name in arguments.areas if name not in AREAS]
    if unknown:
        parser.error(f"no such area: {', '.join(unknown)}")
    return arguments


def _products(text: str) -> tuple[str, ...]:
    chosen = tuple(filter(None, text.split(","))) if text != "none" else ()
    unknown = set(chosen) - {peer.product for peer in PEERS}
    if unknown:
        raise ValueError(f"no such product: {', '.join(sorted(unknown))}")
    return chosen


def options_of(arguments: Namespace) -> BenchOptions:
    def pick(chosen: float | None, *, quick: float, usual: float, full: float) -> float:
        return chosen or (quick if arguments.quick else full if arguments.full else usual)

    return BenchOptions(
        folder=arguments.folder.resolve(),
        quick=arguments.quick,
        results=RESULTS,
        peers=arguments.peers,
        nodes=arguments.nodes,
        contest_rounds=int(pick(arguments.rounds, quick=1, usual=3, full=5)),
        failovers=int(pick(arguments.failovers, quick=3, usual=10, full=100)),
        log_gb=pick(arguments.log_gb, quick=0.1, usual=1, full=20),
    )


def main(words: list[str]) -> int:
    arguments = parse(words)
    RESULTS.mkdir(exist_ok=True)
    options = options_of(arguments)
    # SIGTERM must stop all servers too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    console = Console()
    found: list[Figure | Absence] = []
    for name in arguments.areas or USUAL:
        console.print(f"[dim]measuring {name}[/]")
        found += AREAS[name](options)
    figures = [each for each in found if isinstance(each, Figure)]
    absences = [each for each in found if isinstance(each, Absence)]
    console.print(table(figures, absences, options.machine()))
    for note in dict.fromkeys(each.note for each in found if each.note):
        console.print(f"[dim]{note}[/]", highlight=False)
    report = {
        "time": options.started.isoformat(timespec="seconds"),
        "machine": options.machine(),
        "quick": options.quick,
        "figures": [figure.as_json() for figure in figures],
        "absent": [absence.as_json() for absence in absences],
    }
    path = options.results_path("figures").with_suffix(".json")
    path.write_text(json.dumps(report, indent=2) + "\n")
    console.print(f"[dim]{path}[/]")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
