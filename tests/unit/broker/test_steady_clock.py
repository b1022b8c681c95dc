"""The clock of leases: it follows the time of day, but not its jumps."""

import pytest

from flotilla.broker.steady_clock import BELIEVED_MS, SteadyClock
from tests.unit.broker.fleet import single_node
from tests.unit.broker.queue_driver import TOPIC, poll, polled, store


class Clocks:
    """Outside, as far as a clock needs it."""

    def __init__(self) -> None:
        self.passed_ms = 0
        self.ahead_ms = 1_000_000

    def now_ms(self) -> int:
        return self.passed_ms + self.ahead_ms

    def steady_ms(self) -> int:
        return self.passed_ms


@pytest.fixture
def clocks() -> Clocks:
    return Clocks()


def run(clock: SteadyClock, clocks: Clocks, ms: int, step_ms: int = 7) -> int:
    """How far the clock went; it must not go back on the way."""
    first = last = clock.now_ms()
    for _ in range(ms // step_ms):
        clocks.passed_ms += step_ms
        now_ms = clock.now_ms()
        assert now_ms >= last
        last = now_ms
    return last - first


def test_the_clock_passes_on_the_time_of_day(clocks: Clocks) -> None:
    clock = SteadyClock(clocks)  # type: ignore[arg-type]
    assert run(clock, clocks, 70_000) == 70_000
    assert clock.now_ms() == clocks.now_ms()


@pytest.mark.parametrize("ahead_ms", [-3_600_000, 3_600_000, 3_000, -3_000])
def test_a_jump_changes_its_speed_by_a_tenth_at_most(clocks: Clocks, ahead_ms: int) -> None:
    clock = SteadyClock(clocks)  # type: ignore[arg-type]
    run(clock, clocks, 700)
    clocks.ahead_ms += ahead_ms
    went_ms = run(clock, clocks, 14_000)
    assert 0.9 * 14_000 <= went_ms <= 1.1 * 14_000 + 100
    assert (went_ms > 14_000) == (ahead_ms > 0)


def test_the_clock_never_goes_back_however_much_it_may_correct(clocks: Clocks) -> None:
    clock = SteadyClock(clocks)  # type: ignore[arg-type]
    for number in range(100):
        clocks.ahead_ms += 1 if number % 2 else -1
        run(clock, clocks, 100, step_ms=100)
    clocks.ahead_ms -= 3_600_000
    run(clock, clocks, 500, step_ms=1)


def test_the_clock_comes_back_to_the_time_of_day(clocks: Clocks) -> None:
    clock = SteadyClock(clocks)  # type: ignore[arg-type]
    clocks.ahead_ms += 2_000
    run(clock, clocks, 28_000)
    assert clock.now_ms() == clocks.now_ms()
    clocks.ahead_ms -= 4_000
    run(clock, clocks, 56_000)
    assert clock.now_ms() == clocks.now_ms()


def test_a_clock_that_stays_far_ahead_is_believed(clocks: Clocks) -> None:
    clock = SteadyClock(clocks)  # type: ignore[arg-type]
    clocks.ahead_ms += 10**9
    run(clock, clocks, BELIEVED_MS + 1_000)
    assert clock.now_ms() == clocks.now_ms()


def test_a_clock_that_is_set_takes_no_lease_away_and_stops_no_queue() -> None:
    node = single_node()
    node.fleet.create(TOPIC)
    store(node, b"a")
    polled(node, poll(visibility_ms=10_000))
    for ahead_ms in (3_600_000, -3_600_000):
        node.fleet.wall_ahead_ms = ahead_ms
        node.fleet.advance(2_000)
        assert polled(node, poll(member="b")) == []
    node.fleet.advance(12_000)
    assert polled(node, poll(member="b"))
