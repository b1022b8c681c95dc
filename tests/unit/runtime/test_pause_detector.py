"""A long gap between ticks is a pause, which the next call finds, be it a tick or a question."""

import pytest

from flotilla.machine import here
from flotilla.runtime.pause_detector import PauseDetector

MS = 1_000_000


class Clock:
    def __init__(self) -> None:
        self.now_ns = 5 * MS

    def __call__(self) -> int:
        return self.now_ns


@pytest.mark.parametrize(
    ("steps", "pauses"),
    [
        ([], 0),
        ([("pass", 499), ("look", 0)], 0),
        ([("pass", 500), ("look", 1), ("look", 1)], 1),
        # Looking is not being awake: heartbeats leave with ticks only.
        ([("pass", 300), ("look", 0), ("pass", 300), ("look", 1)], 1),
        ([("pass", 300), ("tick", 0), ("pass", 300), ("look", 0)], 0),
        # The ticker may be the first to run after a pause.
        ([("pass", 9_000), ("tick", 1), ("pass", 100), ("tick", 1)], 1),
        ([("pass", 9_000), ("look", 1), ("pass", 9_000), ("tick", 2)], 2),
    ],
)
def test_pauses(steps: list[tuple[str, int]], pauses: int) -> None:
    clock = Clock()
    detector = PauseDetector(500, clock)
    for step, number in steps:
        if step == "pass":
            clock.now_ns += number * MS
            continue
        if step == "tick":
            detector.tick()
        assert detector.pauses() == number
    assert detector.pauses() == pauses


def test_the_clock_goes_forward() -> None:
    assert 0 < here().uptime_ns() <= here().uptime_ns()
