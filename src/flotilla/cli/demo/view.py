"""The display of the demo: a live table on a terminal, plain lines elsewhere."""

import time
from collections import deque
from types import TracebackType
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from flotilla.cli.demo.ledger import Ledger
from flotilla.types.ids import NO_NODE
from flotilla.types.operations import Metadata

_EVENTS_SHOWN = 12
#: Rates are those of the last second, not of the whole run.
_WINDOW_S = 1.0
_PLAIN_S = 1.0


class DemoView:
    def __init__(self, console: Console, ledger: Ledger) -> None:
        self._console = console
        self._ledger = ledger
        self._began = time.monotonic()
        self._events: deque[Text] = deque(maxlen=_EVENTS_SHOWN)
        #: Samples of the last second: time, acknowledged, read.
        self._past: deque[tuple[float, int, int]] = deque()
        self._metadata: Metadata | None = None
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None
        self._plain_due = 0.0

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._refresh(self._live)
            self._live.stop()

    def report(self, text: str, style: str = "") -> None:
        """Adds an event."""
        line = Text.assemble((f"{self._elapsed_s:5.1f} s  ", "dim"), (text, style))
        self._events.append(line)
        if self._live is None:
            self._console.print(line)
        else:
            self._refresh(self._live)

    def look(self, metadata: Metadata | None) -> None:
        """Updates rates and leaders. None: no broker answered."""
        now = time.monotonic()
        self._metadata = metadata or self._metadata
        self._past.append((now, len(self._ledger.acknowledged), len(self._ledger.read)))
        while len(self._past) > 2 and self._past[0][0] < now - _WINDOW_S:
            self._past.popleft()
        if self._live is not None:
            self._refresh(self._live)
        elif now >= self._plain_due:
            self._plain_due = now + _PLAIN_S
            self._console.print(Text(f"{self._elapsed_s:5.1f} s  {self._summary()}", "dim"))

    @property
    def _elapsed_s(self) -> float:
        return time.monotonic() - self._began

    def _rates(self) -> tuple[float, float]:
        (before, acknowledged, read), (now, acknowledged_now, read_now) = self._past[0], self._past[-1]
        elapsed_s = max(now - before, 1e-3)
        return (acknowledged_now - acknowledged) / elapsed_s, (read_now - read) / elapsed_s

    def _summary(self) -> str:
        acknowledged_rate, read_rate = self._rates()
        return (
            f"acknowledged {len(self._ledger.acknowledged):,} ({acknowledged_rate:,.0f}/s)  "
            f"read {len(self._ledger.read):,} ({read_rate:,.0f}/s)  "
            f"leaders {' '.join(self._leaders()) or '?'}"
        )

    def _leaders(self) -> list[str]:
        if self._metadata is None or not self._metadata.topics:
            return []
        parts = self._metadata.topics[0].partitions
        return [str(part.leader) if part.leader != NO_NODE else "-" for part in parts]

    def _refresh(self, live: Live) -> None:
        parts: list[Text | Table] = list(self._events)
        if self._past:
            parts += [Text(), self._table(), Text(self._summary())]
        live.update(Group(*parts), refresh=True)

    def _table(self) -> Table:
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("node")
        table.add_column("state")
        table.add_column("leads partitions")
        if self._metadata is None:
            return table
        leaders = self._leaders()
        for broker in sorted(self._metadata.brokers, key=lambda each: each.node):
            led = [str(number) for number, leader in enumerate(leaders) if leader == str(broker.node)]
            state = Text("alive", "green") if broker.is_alive else Text("dead", "bold red")
            table.add_row(str(broker.node), state, " ".join(led) or "-")
        return table
