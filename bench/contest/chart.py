"""The chart of a contest: six measures, a bar per contestant, Flotilla in colour, contestants without a sync pale."""

from pathlib import Path
from typing import Any

from bench.contest import measures
from bench.contest.measures import Better, Measure
from bench.contest.scores import Entrant, Scores
from bench.contest.table import shown

PANELS: tuple[tuple[Measure, str], ...] = (
    (measures.one_in_flight(100)[1], "Produce, one in flight: p50"),
    (measures.pipelined(100)[0], "Produce, pipelined"),
    (measures.replay(100), "Read a backlog"),
    (measures.end_to_end(100)[0], "End to end at 1,000 msg/s: p50"),
    (measures.FAILOVER, "kill -9 of the leader to the next ack"),
    (measures.RESIDENT, "Memory of a node after the work"),
)
_OURS, _SYNCED, _ALONE, _UNSYNCED = "#d9480f", "#4c6ef5", "#bac8ff", "#dee2e6"
_INK, _FAINT = "#212529", "#868e96"
_COLUMNS = 3


def draw(scores: Scores, path: Path, machine: str) -> str:
    """Writes the picture. Returns where it is, or why there is none."""
    if scores.ours is None:
        return "no chart: Flotilla was not measured"
    try:
        from matplotlib.figure import Figure as Canvas
    except ImportError:
        return "no chart: matplotlib is not installed (it comes with the `bench` extra)"
    canvas = Canvas(figsize=(12, 6.4), layout="constrained", facecolor="white")
    canvas.suptitle(
        f"{scores.ours.nodes} brokers on one machine, one Python client, messages of 100 B", color=_INK, fontsize=12
    )
    rows = -(-len(PANELS) // _COLUMNS)
    for axes, (measure, title) in zip(canvas.subplots(rows, _COLUMNS).flat, PANELS, strict=True):
        _panel(axes, scores, measure, title)
    _legend(canvas, machine)
    canvas.savefig(path, dpi=130)
    return str(path)


def bars(scores: Scores, measure: Measure) -> list[tuple[Entrant, float]]:
    """Flotilla first, then contestants that sync, then the others, as far as they were measured."""
    order = sorted(scores.entrants, key=lambda each: (not each.is_ours, not each.is_synced, -each.nodes))
    return [(each, value) for each in order if (value := scores.median_of(measure.name, each)) is not None]


def _panel(axes: Any, scores: Scores, measure: Measure, title: str) -> None:
    found = bars(scores, measure)
    colours = [_colour(each, scores) for each, _ in found]
    drawn = axes.barh([each.name for each, _ in found], [value for _, value in found], color=colours, height=0.7)
    axes.bar_label(drawn, [shown(value) for _, value in found], padding=3, fontsize=8.5, color=_INK)
    hint = {Better.LESS: "less is better", Better.MORE: "more is better", Better.NEITHER: "less is better"}
    axes.set_title(f"{title}\n", loc="left", fontsize=10, color=_INK, fontweight="bold")
    axes.text(0, 1.02, f"{measure.unit}, {hint[measure.better]}", transform=axes.transAxes, fontsize=8, color=_FAINT)
    axes.invert_yaxis()
    axes.margins(x=0.22)
    axes.set_xticks([])
    axes.tick_params(axis="y", length=0, labelsize=8.5, labelcolor=_INK)
    for side in ("top", "right", "bottom"):
        axes.spines[side].set_visible(False)
    axes.spines["left"].set_color(_UNSYNCED)


def _colour(entrant: Entrant, scores: Scores) -> str:
    if entrant.is_ours:
        return _OURS
    if not entrant.is_synced:
        return _UNSYNCED
    return _SYNCED if entrant in scores.rivals() else _ALONE


def _legend(canvas: Any, machine: str) -> None:
    from matplotlib.patches import Patch

    meanings = (
        (_OURS, "Flotilla, a majority has synced before the ack"),
        (_SYNCED, "a majority has synced before the ack"),
        (_ALONE, "synced before the ack, one node"),
        (_UNSYNCED, "the product's default, acknowledged before the sync"),
    )
    handles = [Patch(color=colour, label=label) for colour, label in meanings]
    canvas.legend(handles=handles, loc="outside lower center", ncols=4, fontsize=8.5, frameon=False)
    canvas.text(0.995, 0.995, machine, ha="right", va="top", fontsize=8, color=_FAINT)
