"""A report as one self-contained HTML file.

Content of messages is escaped here, and the page has no script.
"""

import os
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from secrets import token_hex
from typing import Final

_STYLE: Final = """
:root { color-scheme: light dark; --ink: #1c2430; --dim: #667085; --paper: #fff; --grid: #e4e7ec; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ef; --dim: #98a2b3; --paper: #14181f; --grid: #2b323d; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 2rem auto;
  max-width: 60rem; padding: 0 1rem; }
h1 { font-size: 1.6rem; margin-bottom: 0; } h2 { font-size: 1.15rem; margin-top: 2rem; }
p.dim, td.dim { color: var(--dim); }
.numbers { display: flex; flex-wrap: wrap; gap: 2rem; padding: 0; list-style: none; }
.numbers b { display: block; font-size: 1.5rem; }
table { border-collapse: collapse; width: 100%; } th { text-align: left; }
th, td { padding: .25rem .6rem .25rem 0; border-bottom: 1px solid var(--grid); vertical-align: top; }
td { overflow-wrap: anywhere; } td.n { text-align: right; white-space: nowrap; }
svg { width: 100%; height: auto; font: 12px system-ui, sans-serif; }
svg text { fill: var(--ink); } svg text.label { text-anchor: end; fill: var(--dim); }
svg .grid { stroke: var(--grid); } svg .line { fill: none; stroke-width: 2; }
.legend span { margin-right: 1rem; }
.legend i { display: inline-block; width: .8rem; height: .8rem; margin-right: .3rem; }
"""
_COLOURS: Final = ("#2563eb", "#d97706", "#059669", "#dc2626", "#7c3aed", "#0891b2")
_PALETTE: Final = "".join(
    f".s{at} {{ fill: {colour}; }} .l{at} {{ stroke: {colour}; }} .b{at} {{ background: {colour}; }}\n"
    for at, colour in enumerate(_COLOURS)
)


class Report:
    """Parts are added from top to bottom."""

    def __init__(self, title: str, subtitle: str) -> None:
        self._title = title
        self._parts = [f"<h1>{escape(title)}</h1>", f'<p class="dim">{escape(subtitle)}</p>']

    def numbers(self, rows: Iterable[tuple[str, object]]) -> None:
        """Key figures."""
        cells = "".join(f"<li><b>{escape(_shown(value))}</b>{escape(name)}</li>" for name, value in rows)
        self._parts.append(f'<ul class="numbers">{cells}</ul>')

    def heading(self, text: str) -> None:
        self._parts.append(f"<h2>{escape(text)}</h2>")

    def text(self, text: str) -> None:
        self._parts.append(f'<p class="dim">{escape(text)}</p>')

    def picture(self, svg: str) -> None:
        """Adds a plot from `plots`, which escapes its input."""
        self._parts.append(svg)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        head = "".join(f"<th>{escape(name)}</th>" for name in columns)
        body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
        self._parts.append(f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")

    def html(self) -> str:
        return (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{escape(self._title)}</title><style>{_STYLE}{_PALETTE}</style></head>\n"
            f"<body>{chr(10).join(self._parts)}</body></html>\n"
        )

    def write(self, path: Path) -> Path:
        """Writes the file atomically."""
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(f"{path.name}.{token_hex(4)}.new")
        beside.write_text(self.html(), "utf-8")
        os.replace(beside, path)
        return path


def _cell(value: object) -> str:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    opening = '<td class="n">' if is_number else "<td>"
    return f"{opening}{escape(_shown(value))}</td>"


def _shown(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return f"{value:,.1f}" if isinstance(value, float) else str(value)
