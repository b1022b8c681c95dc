"""A picture of the brokers' figures: latency and rates of everything that was measured, side by side."""

from collections.abc import Sequence
from pathlib import Path

from bench.figure import Figure

#: The end of a figure's name, and the title of its panel.
_PANELS = (
    ("one in flight 100 B, p50", "one in flight, 100 B: p50, less is better"),
    ("pipelined 100 B", "pipelined, 100 B: more is better"),
    ("replay 100 B", "replay, 100 B: more is better"),
    ("end to end at 1,000 msg/s 100 B, p50", "end to end at 1,000 msg/s: p50, less is better"),
)


def draw(figures: Sequence[Figure], path: Path, machine: str) -> str:
    """Writes the picture and says where, or why there is none."""
    panels = [(title, values) for ending, title in _PANELS if (values := bars(figures, ending))]
    if not panels:
        return "no chart: no broker was measured"
    try:
        from matplotlib.figure import Figure as Canvas
    except ImportError:
        return "no chart: matplotlib is not installed (it comes with the `bench` extra)"
    canvas = Canvas(figsize=(9, 1.2 + 1.6 * len(panels)), layout="constrained")
    canvas.suptitle(f"Three brokers on loopback, one Python client ({machine})", fontsize=9)
    for axes, (title, values) in zip(canvas.subplots(len(panels), squeeze=False)[:, 0], panels, strict=True):
        names = list(values)
        drawn = axes.barh(names, [values[name].value for name in names])
        axes.bar_label(drawn, [f"{values[name].value:,.3g} {values[name].unit}" for name in names], padding=3)
        axes.set_title(title, fontsize=9, loc="left")
        axes.margins(x=0.25)
        axes.invert_yaxis()
    canvas.savefig(path, dpi=150)
    return str(path)


def bars(figures: Sequence[Figure], ending: str) -> dict[str, Figure]:
    """For each subject its figure of this name; the first one, for the same value stands beside several probes."""
    found: dict[str, Figure] = {}
    for figure in figures:
        if figure.area == "broker" and figure.name.endswith(f" {ending}"):
            found.setdefault(figure.name.removesuffix(f" {ending}"), figure)
    return found
