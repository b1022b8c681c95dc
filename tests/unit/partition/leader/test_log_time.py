"""Log time: what a leader stamps, and from which time it counts ages."""

import pytest

from flotilla.partition.leader.log_time import CATCH_UP_MS, RATE_MIN, LogTime

DAY_MS = 86_400_000
STEP_MS = 500


class Leader:
    """A leader that looks at its clocks each STEP_MS; cluster time is `ahead_ms` ahead of the monotonic clock."""

    def __init__(self, log_ms: int, cluster_ms: int, oldest_ms: int | None = None) -> None:
        self.steady_ms = 7
        self.ahead_ms = cluster_ms - self.steady_ms
        self.is_trusted = True
        self.oldest_ms = log_ms if oldest_ms is None else oldest_ms
        self.time = LogTime(log_ms, self.steady_ms)

    @property
    def cluster_ms(self) -> int:
        return self.steady_ms + self.ahead_ms

    def run(self, ms: int) -> None:
        for _ in range(ms // STEP_MS):
            self.steady_ms += STEP_MS
            self.time.advance(self.cluster_ms if self.is_trusted else None, self.steady_ms, self.oldest_ms)


def test_log_time_is_cluster_time() -> None:
    leader = Leader(log_ms=DAY_MS, cluster_ms=DAY_MS)
    leader.run(60_000)
    assert leader.time.now_ms == leader.time.aged_ms == leader.cluster_ms
    assert leader.time.behind_ms == 0


def test_an_empty_log_begins_with_cluster_time() -> None:
    leader = Leader(log_ms=0, cluster_ms=DAY_MS)
    leader.run(STEP_MS)
    assert leader.time.now_ms == leader.time.aged_ms == leader.cluster_ms


def test_without_a_majority_it_runs_with_the_monotonic_clock() -> None:
    leader = Leader(log_ms=DAY_MS, cluster_ms=400 * DAY_MS)
    leader.is_trusted = False
    leader.run(60_000)
    assert leader.time.now_ms == DAY_MS + 60_000
    assert leader.time.aged_ms == DAY_MS


def test_ages_follow_a_jump_of_all_clocks_in_small_steps() -> None:
    leader = Leader(log_ms=DAY_MS, cluster_ms=9 * DAY_MS)
    leader.run(60_000)
    assert leader.time.now_ms == leader.cluster_ms
    assert leader.time.aged_ms - DAY_MS <= 8 * DAY_MS // 60 + 60_000
    leader.run(30 * 60_000)
    assert leader.time.aged_ms < 5 * DAY_MS
    leader.run(8 * CATCH_UP_MS)
    assert leader.time.behind_ms == 0


def test_ages_follow_at_least_at_a_multiple_of_the_monotonic_clock() -> None:
    leader = Leader(log_ms=DAY_MS, cluster_ms=DAY_MS + 3_600_000)
    leader.run(60_000)
    assert leader.time.aged_ms == DAY_MS + RATE_MIN * 60_000


@pytest.mark.parametrize("future_ms", [DAY_MS, 365 * DAY_MS])
def test_a_stamp_from_the_future_stops_no_ageing(future_ms: int) -> None:
    leader = Leader(log_ms=DAY_MS + future_ms, cluster_ms=DAY_MS)
    before_ms = leader.time.now_ms
    leader.run(60_000)
    assert leader.time.now_ms == before_ms + 60_000
    leader.run(60_000)
    assert leader.time.aged_ms == before_ms + 120_000


def test_messages_from_before_a_stamp_from_the_future_age_by_cluster_time() -> None:
    leader = Leader(log_ms=30 * DAY_MS, cluster_ms=DAY_MS, oldest_ms=DAY_MS)
    leader.run(60_000)
    assert leader.time.aged_ms == leader.cluster_ms
    assert leader.time.now_ms == 30 * DAY_MS + 60_000
