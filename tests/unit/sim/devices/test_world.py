"""Events run in order of time, then of scheduling; chance depends on the seed and the stream's name only."""

from flotilla.sim.devices.clock import TICK_US, NodeClock
from flotilla.sim.devices.world import SECOND, World


def test_events_run_by_time_then_by_order_of_scheduling() -> None:
    world = World(1)
    seen: list[object] = []
    world.after(20, seen.append, "late")
    world.after(10, seen.append, "first")
    world.after(10, seen.append, "second")
    world.after(30, seen.append, "beyond")
    world.run_until(20)
    assert seen == ["first", "second", "late"]
    assert world.now_us == 20


def test_an_event_may_schedule_more_for_the_same_moment() -> None:
    world = World(1)
    seen: list[int] = []

    def again(left: int) -> None:
        seen.append(world.now_us)
        if left:
            world.after(0, again, left - 1)

    world.after(5, again, 2)
    world.run_until(5)
    assert seen == [5, 5, 5]


def test_the_past_is_not_scheduled() -> None:
    world = World(1)
    seen: list[int] = []
    world.run_until(100)
    world.at(50, lambda: seen.append(world.now_us))
    world.run_until(200)
    assert seen == [100]


def test_streams_are_independent_and_repeatable() -> None:
    first, second = World(7), World(7)
    first.stream("faults").random()
    assert first.stream("disk").random() == second.stream("disk").random()
    assert World(7).stream("disk").random() != World(8).stream("disk").random()
    assert World(7).stream("disk").random() != World(7).stream("network").random()


def test_digest_depends_on_what_happened_when() -> None:
    def digest(*steps: tuple[int, int]) -> int:
        world = World(1)
        for time_us, value in steps:
            world.at(time_us, world.mix, value)
        world.run_until(100)
        return world.digest

    assert digest((1, 5), (2, 6)) == digest((1, 5), (2, 6))
    assert len({digest((1, 5), (2, 6)), digest((1, 6), (2, 5)), digest((1, 5), (3, 6)), digest((1, 5))}) == 4


def test_a_fast_clock_ticks_more_often() -> None:
    assert NodeClock().tick_interval_us == TICK_US
    assert NodeClock(drift_ppm=50_000).tick_interval_us < TICK_US < NodeClock(drift_ppm=-50_000).tick_interval_us


def test_a_wall_clock_jumps_but_a_change_of_drift_does_not_show() -> None:
    clock = NodeClock(drift_ppm=10_000)
    before = clock.wall_us(100 * SECOND)
    clock.drift(-10_000, 100 * SECOND)
    assert clock.wall_us(100 * SECOND) == before
    interval = clock.tick_interval_us
    clock.jump(-3600 * SECOND)
    assert clock.wall_us(100 * SECOND) == before - 3600 * SECOND
    assert clock.tick_interval_us == interval


def test_a_pause_swallows_ticks() -> None:
    assert NodeClock().missed_ticks(10 * TICK_US + 1) == 10
