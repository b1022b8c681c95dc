"""The rounds of a contest: contestants, their order, and the handling of failures."""

import json
import time
from itertools import chain

from rich.console import Console

from bench.contest import course
from bench.contest.chart import draw
from bench.contest.flotilla import PRODUCT, FlotillaPeer
from bench.contest.scores import AREA, Entrant, Scores
from bench.contest.table import markdown, table
from bench.figure import Absence, Figure
from bench.options import BenchOptions
from bench.peers import PEERS
from bench.peers.peer import Peer
from flotilla.cli.bench.probes import scratch

_CONSOLE = Console(stderr=True)


def measure(options: BenchOptions) -> list[Figure | Absence]:
    scores = Scores()
    absences: list[Absence] = []
    versions = _versions(options)
    for number in range(options.contest_rounds):
        for peer, is_synced in line_up(options, number):
            if missing := peer.missing():
                absence = Absence(AREA, peer.product, "not installed: skipped", f"{peer.product} needs {missing}")
                absences += [] if absence in absences else [absence]
                continue
            failure = _run(peer, options, scores, number, is_synced=is_synced)
            absences += [failure] if failure else []
            # After each round: an interrupted run keeps what it measured.
            _save(scores, options, absences, versions)
    Console().print(table(scores, f"contest: medians of {options.contest_rounds} rounds"))
    picture = draw(scores, options.results_path("contest").with_suffix(".png"), options.machine())
    _CONSOLE.print(f"[dim]{versions}\n{picture}[/]")
    return [*scores.figures(), *absences]


def line_up(options: BenchOptions, number: int) -> list[tuple[Peer, bool]]:
    """The contestants of this round, and whether each syncs. Those that sync run in every round, the others once.

    The order rotates, so that no contestant is always first on an idle disk.
    """
    chosen = [peer for peer in PEERS if options.peers is None or peer.product in options.peers]
    everybody: list[tuple[Peer, bool]] = [
        (peer, is_synced)
        for peer in (FlotillaPeer(), *chosen)
        for is_synced in sorted(peer.settings, reverse=True)
        if is_synced or number == 0
    ]
    turn = number % len(everybody)
    return everybody[turn:] + everybody[:turn]


def _run(peer: Peer, options: BenchOptions, scores: Scores, number: int, *, is_synced: bool) -> Absence | None:
    """One contestant of one round. A failure is printed, its values so far are kept, and the others go on."""
    title = f"round {number + 1} of {options.contest_rounds}: {peer.product}"
    started = time.monotonic()
    with _CONSOLE.status(f"{title}: starting") as status, scratch(options.folder, peer.product) as folder:
        machine = list(course.probes(options))
        try:
            with peer.started(folder, nodes=options.nodes, is_synced=is_synced) as contestant:
                is_ours = peer.product == PRODUCT
                entrant = Entrant(contestant.name, contestant.nodes, contestant.is_synced, is_ours=is_ours)

                def tell(work: str) -> None:
                    status.update(f"{title}: {entrant.name}: {work}")

                for measured, value in chain(machine, course.run(contestant, options, tell)):
                    scores.add(entrant, number, measured, value)
            _CONSOLE.print(f"[dim]{title}: {entrant.name} in {time.monotonic() - started:.0f} s[/]")
        except Exception as error:
            _CONSOLE.print(f"[red]{title} failed: {type(error).__name__}: {error}[/]")
            return Absence(AREA, peer.product, f"failed in round {number + 1}", f"{type(error).__name__}: {error}")
    return None


def _versions(options: BenchOptions) -> str:
    peers = {peer.product: peer for peer, _ in line_up(options, 0) if not peer.missing()}
    return ", ".join(f"{product} {peer.version()}" for product, peer in peers.items())


def _save(scores: Scores, options: BenchOptions, absences: list[Absence], versions: str) -> None:
    """All values as JSON, and the table as Markdown, beside the other results."""
    path = options.results_path("contest")
    report = {
        "machine": options.machine(),
        "quick": options.quick,
        "rounds": options.contest_rounds,
        "versions": versions,
        "values": scores.as_json(),
        "ratios": [figure.as_json() for figure in scores.figures()],
        "absent": [absence.as_json() for absence in absences],
    }
    path.with_suffix(".json").write_text(json.dumps(report, indent=2) + "\n")
    path.with_suffix(".md").write_text(markdown(scores))
