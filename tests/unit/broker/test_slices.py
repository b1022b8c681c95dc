"""Work in slices: all of it, in order, with pauses that grow with what a slice took, and not stopped by one failure."""

from collections.abc import Callable
from typing import Any

from flotilla.broker.slices import in_slices


class _Loop:
    """A clock that work moves on, and timers that are fired by hand."""

    def __init__(self) -> None:
        self.ms = 0
        self.due: list[tuple[int, Callable[[], None]]] = []

    def steady_ms(self) -> int:
        return self.ms

    def later(self, delay_ms: int, action: Callable[[], None]) -> None:
        self.due.append((delay_ms, action))


def test_a_slice_ends_after_two_milliseconds_and_rests_longer_than_it_took() -> None:
    loop: Any = _Loop()
    done: list[object] = []

    def act(item: int) -> None:
        loop.ms += item
        done.append(item)

    in_slices(loop, [1, 1, 1, 30, 0, 0], act, lambda: done.append("end"))
    pauses = []
    assert done == [1, 1]
    while loop.due:
        pause_ms, go_on = loop.due.pop()
        pauses.append(pause_ms)
        go_on()
    assert done == [1, 1, 1, 30, 0, 0, "end"]
    assert pauses == [12, 100]


def test_items_that_take_no_time_are_bounded_by_their_number_and_one_that_fails_stops_no_other() -> None:
    loop: Any = _Loop()
    seen: list[int] = []

    def act(item: int) -> None:
        seen.append(item)
        if item == 3:
            raise ValueError("broken")

    in_slices(loop, range(300), act, lambda: seen.append(-1))
    assert len(seen) == 256
    loop.due.pop()[1]()
    assert seen == [*range(300), -1]
