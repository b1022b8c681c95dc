"""The waiters of one partition, by group and in the order of arrival.

When something may be ready for a group, its waiters are offered it one after the other until one finds nothing: one
message wakes one waiter, not all. All events of one turn of the loop wake a group once, and an event of one group wakes
no other. Waiters with order by key or with a filter stand in rows of their own, because there may be nothing for
them while there is for others.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from flotilla.broker.ports import Outside

W = TypeVar("W")


class WaitingRoom(Generic[W]):
    def __init__(
        self, outside: Outside, may_serve: Callable[[], bool], offer: Callable[[W], bool], served: Callable[[], None]
    ) -> None:
        """`offer` returns whether the waiter took something; `served` is called after all were asked."""
        self._outside = outside
        self._may_serve = may_serve
        self._offer = offer
        self._served = served
        #: By group and filter.
        self._rows: dict[str, dict[Hashable, OrderedDict[W, None]]] = {}
        #: Groups to be woken; None: all of them.
        self._woken: dict[str | None, None] = {}
        self._is_wake_due = False

    def __bool__(self) -> bool:
        return bool(self._rows)

    def enter(self, waiter: W, group: str, row: Hashable = None) -> None:
        """Adds a waiter at the end of its row."""
        self._rows.setdefault(group, {}).setdefault(row, OrderedDict())[waiter] = None

    def leave(self, waiter: W, group: str, row: Hashable = None) -> None:
        """No effect if it is not there."""
        rows = self._rows.get(group, {})
        waiters = rows.get(row)
        if waiters is not None and waiter in waiters:
            del waiters[waiter]
            if not waiters:
                del rows[row]
                if not rows:
                    del self._rows[group]

    def of(self, group: str) -> list[W]:
        """All waiters of a group."""
        return [waiter for row in self._rows.get(group, {}).values() for waiter in row]

    def empty(self) -> None:
        self._rows.clear()

    def wake_soon(self, group: str | None = None) -> None:
        """Something may be ready for one group, or for any."""
        if not self._rows:
            return
        self._woken[group] = None
        if not self._is_wake_due:
            self._is_wake_due = True
            self._outside.later(0, self._wake)

    def _wake(self) -> None:
        self._is_wake_due = False
        woken, self._woken = self._woken, {}
        if not self._rows or not self._may_serve():
            return
        groups = list(self._rows) if None in woken else [group or "" for group in woken]
        rows = [row for group in groups for row in self._rows.get(group, {}).values()]
        for row in rows:
            self._serve(row)
        self._served()

    def _serve(self, row: OrderedDict[W, None]) -> None:
        while row and self._rows:
            waiter = next(iter(row))
            if not self._offer(waiter):
                break
            if waiter in row:
                # It can take more, after the other waiters of its row.
                row.move_to_end(waiter)
