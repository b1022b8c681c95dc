"""`python -m bench [area ...]`: measures, prints a table, and writes the figures as JSON into bench/results/.

QUICK=1 in the environment takes small sizes and few rounds. FOLDER names a folder on the disk to be
measured; without it a folder beside the results is used.
"""

import json
import os
import platform
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench import broker, chart, idle, journal, recovery, replication, simulator
from bench.figure import Absence, Figure
from bench.options import BenchOptions

RESULTS = Path(__file__).parent / "results"
AREAS: dict[str, Callable[[BenchOptions], Sequence[Figure | Absence]]] = {
    "journal": journal.measure,
    "replication": replication.measure,
    "idle": idle.measure,
    "recovery": recovery.measure,
    "simulator": simulator.measure,
    "broker": broker.measure,
}
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


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in AREAS]
    if unknown:
        sys.stderr.write(f"no such area: {', '.join(unknown)}; there are {', '.join(AREAS)}\n")
        return 2
    RESULTS.mkdir(exist_ok=True)
    folder = Path(os.environ.get("FOLDER", RESULTS))
    options = BenchOptions(folder, quick=os.environ.get("QUICK", "") not in ("", "0"))
    console = Console()
    found: list[Figure | Absence] = []
    for name in names or AREAS:
        with console.status(f"measuring {name}"):
            found += AREAS[name](options)
    figures = [each for each in found if isinstance(each, Figure)]
    absences = [each for each in found if isinstance(each, Absence)]
    machine = f"{os.cpu_count()} processors, Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}"
    console.print(table(figures, absences, machine))
    for note in dict.fromkeys(each.note for each in found if each.note):
        console.print(f"[dim]{note}[/]")
    now = datetime.now(UTC)
    report = {
        "time": now.isoformat(timespec="seconds"),
        "machine": machine,
        "quick": options.quick,
        "figures": [figure.as_json() for figure in figures],
        "absent": [absence.as_json() for absence in absences],
    }
    path = RESULTS / f"{now:%Y%m%d-%H%M%S}.json"
    path.write_text(json.dumps(report, indent=2) + "\n")
    console.print(f"[dim]{path}[/]")
    console.print(f"[dim]{chart.draw(figures, path.with_suffix('.png'), machine)}[/]")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
