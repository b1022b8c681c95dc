"""Credit of event streams: which of their messages are not settled yet.

A client cannot answer on an event stream. So credit comes back with the requests that settle its messages, if they
come to the same node, and otherwise when the leases expire.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import TypeAlias

from flotilla.types.ids import Offset

Place: TypeAlias = tuple[int, Offset]


class Window:
    """The unsettled messages of one stream."""

    def __init__(self, add_credit: Callable[[int], None], closed: Callable[["Window"], None]) -> None:
        self._add_credit = add_credit
        self._closed = closed
        #: Each with the timer that ends its lease.
        self._out: dict[Place, asyncio.TimerHandle] = {}

    def given(self, places: Iterable[Place], visibility_ms: int) -> None:
        loop = asyncio.get_running_loop()
        for place in places:
            self._out[place] = loop.call_later(visibility_ms / 1000, self.settled, place)

    def settled(self, place: Place) -> None:
        """Without effect for a message of another stream."""
        timer = self._out.pop(place, None)
        if timer is not None:
            timer.cancel()
            self._add_credit(1)

    def extended(self, place: Place, visibility_ms: int) -> None:
        if place in self._out:
            self._out[place].cancel()
            self.given((place,), visibility_ms)

    def close(self) -> None:
        for timer in self._out.values():
            timer.cancel()
        self._out.clear()
        self._closed(self)


class Unsettled:
    """The unsettled messages of all streams, by topic and group."""

    def __init__(self) -> None:
        self._windows: dict[tuple[str, str], dict[Window, None]] = {}

    def open(self, topic: str, group: str, add_credit: Callable[[int], None]) -> Window:
        def closed(window: Window) -> None:
            windows = self._windows.get((topic, group), {})
            windows.pop(window, None)
            if not windows:
                self._windows.pop((topic, group), None)

        window = Window(add_credit, closed)
        self._windows.setdefault((topic, group), {})[window] = None
        return window

    def settled(self, topic: str, group: str, places: Iterable[Place]) -> None:
        windows = self._windows.get((topic, group))
        if windows:
            for place in places:
                for window in windows:
                    window.settled(place)

    def extended(self, topic: str, group: str, places: Iterable[Place], visibility_ms: int) -> None:
        windows = self._windows.get((topic, group))
        if windows:
            for place in places:
                for window in windows:
                    window.extended(place, visibility_ms)
