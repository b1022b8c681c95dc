"""Bar and line plots as SVG for a self-contained page.

Pure functions. Colours are classes of the page, which may be dark.
"""

from collections.abc import Sequence
from html import escape
from typing import Final

WIDTH: Final = 720
_BAR_HEIGHT: Final = 22
_LABEL_WIDTH: Final = 260
_VALUE_WIDTH: Final = 90
_LABEL_CHARS: Final = 38
_PLOT_HEIGHT: Final = 180
_MARGIN_LEFT: Final = 64
_MARGIN_BOTTOM: Final = 28
_TICKS: Final = 4
#: More colours cannot be distinguished.
SERIES_MAX: Final = 6


def bars(rows: Sequence[tuple[str, float]]) -> str:
    """Horizontal bars with labels and values."""
    height = _BAR_HEIGHT * len(rows)
    top = max((value for _, value in rows), default=0) or 1
    room = WIDTH - _LABEL_WIDTH - _VALUE_WIDTH
    parts = []
    for at, (label, value) in enumerate(rows):
        y = at * _BAR_HEIGHT
        width = max(room * value / top, 1)
        parts.append(
            f"<g><title>{escape(label)}</title>"
            f'<text x="{_LABEL_WIDTH - 8}" y="{y + 15}" class="label">{escape(_short(label))}</text>'
            f'<rect x="{_LABEL_WIDTH}" y="{y + 3}" width="{width:.1f}" height="{_BAR_HEIGHT - 6}" class="s0"/>'
            f'<text x="{_LABEL_WIDTH + width + 6:.1f}" y="{y + 15}">{number(value)}</text></g>'
        )
    return _picture(height, parts)


def lines(moments: Sequence[str], series: Sequence[tuple[str, Sequence[float | None]]]) -> str:
    """At most SERIES_MAX lines over the same moments, with a legend; None is a gap."""
    shown = series[:SERIES_MAX]
    values = [value for _, row in shown for value in row if value is not None]
    top = max(values, default=0) or 1
    width, height = WIDTH - _MARGIN_LEFT - 8, _PLOT_HEIGHT - 8
    steps = max(len(moments) - 1, 1)
    parts = []
    for tick in range(_TICKS + 1):
        y = 8 + height - height * tick / _TICKS
        parts.append(f'<line x1="{_MARGIN_LEFT}" x2="{WIDTH - 8}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>')
        parts.append(f'<text x="{_MARGIN_LEFT - 6}" y="{y + 4:.1f}" class="label">{number(top * tick / _TICKS)}</text>')
    for at, (_, row) in enumerate(shown):
        points = [
            (_MARGIN_LEFT + width * place / steps, 8 + height - height * value / top)
            for place, value in enumerate(row)
            if value is not None
        ]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline points="{path}" class="line l{at}"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" class="s{at}"/>' for x, y in points]
    for at, anchor in ((0, "start"), (len(moments) - 1, "end")):
        if moments:
            x = _MARGIN_LEFT + width * max(at, 0) / steps
            parts.append(
                f'<text x="{x:.1f}" y="{_PLOT_HEIGHT + 18}" text-anchor="{anchor}">{escape(moments[at])}</text>'
            )
    return _picture(_PLOT_HEIGHT + _MARGIN_BOTTOM, parts) + _legend([name for name, _ in shown])


def number(value: float) -> str:
    """A number with three digits and a unit."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g}"


def _legend(names: Sequence[str]) -> str:
    marks = (f'<span><i class="b{at}"></i>{escape(name)}</span>' for at, name in enumerate(names))
    return f'<p class="legend">{"".join(marks)}</p>'


def _picture(height: int, parts: Sequence[str]) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img">{"".join(parts)}</svg>'


def _short(label: str) -> str:
    return label if len(label) <= _LABEL_CHARS else label[: _LABEL_CHARS - 1] + "…"
