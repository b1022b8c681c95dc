"""The rate limit of a group: never exceeded, also over failovers, and not undercut for long."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flotilla.partition.leader.rate_limit import RateLimit
from flotilla.partition.state.group import GroupState
from tests.unit.partition.leading import GROUP, Leading, offsets

MINUTE_MS = 60_000


def paced(
    per_minute: int, burst: int = 1, now_ms: int = 0, state: GroupState | None = None
) -> tuple[RateLimit, GroupState]:
    state = state or GroupState(0, 1)
    pacing = RateLimit(state)
    pacing.configure(per_minute, burst, now_ms)
    return pacing, state


def take(pacing: RateLimit, state: GroupState, wanted: int, now_ms: int) -> int:
    """Reserves what is wanted and takes what there is."""
    pacing.available(now_ms, wanted)
    tat_us = pacing.wanted_reservation(now_ms)
    if tat_us is not None:
        state.reserved_tat_us = tat_us
    count = pacing.available(now_ms, wanted)
    pacing.take(count, now_ms)
    return count


def test_without_a_limit_everything_may_go() -> None:
    pacing, _ = paced(0)
    assert pacing.available(0, 1_000_000) == 1_000_000
    pacing.take(1_000_000, 0)
    assert pacing.wanted_reservation(0) is None
    assert pacing.next_token_ms(0) == 0


@pytest.mark.parametrize(
    ("per_minute", "burst", "every_ms"),
    [(60, 1, 1_000), (600, 1, 100), (1, 1, MINUTE_MS), (7, 1, 8_572), (60, 10, 1_000)],
)
def test_a_burst_goes_at_once_and_then_one_after_the_other(per_minute: int, burst: int, every_ms: int) -> None:
    now_ms = 5_000
    pacing, state = paced(per_minute, burst, now_ms)
    assert take(pacing, state, 1_000, now_ms) == burst
    assert take(pacing, state, 1_000, now_ms) == 0
    for _ in range(5):
        wait_ms = pacing.next_token_ms(now_ms)
        assert every_ms - 2 <= wait_ms <= every_ms
        assert take(pacing, state, 1_000, now_ms + wait_ms - 1) == 0
        now_ms += wait_ms
        assert take(pacing, state, 1_000, now_ms) == 1


def test_nothing_goes_that_the_log_has_not_reserved() -> None:
    pacing, state = paced(60, 10)
    assert pacing.available(0, 10) == 0
    tat_us = pacing.wanted_reservation(0)
    assert tat_us == 10_000_000, "as much as was wanted, and no more"
    assert pacing.available(0, 10) == 0
    state.reserved_tat_us = tat_us
    assert pacing.available(0, 10) == 10


def test_a_reservation_is_asked_for_once_and_again_when_it_was_lost() -> None:
    pacing, _ = paced(6_000)
    pacing.available(0, 1)
    assert pacing.wanted_reservation(0) == 1_000_000
    pacing.available(999, 1)
    assert pacing.wanted_reservation(999) is None
    assert pacing.wanted_reservation(1_000) is not None


def test_a_slow_token_is_reserved_when_it_is_there_and_not_before() -> None:
    """Otherwise a failover would cost an hour for a message that was never delivered."""
    pacing, state = paced(1)
    assert take(pacing, state, 1, 0) == 1
    reserved_us = state.reserved_tat_us
    assert take(pacing, state, 1, MINUTE_MS - 1) == 0
    assert state.reserved_tat_us == reserved_us
    later, _ = paced(1, 1, MINUTE_MS - 1, state)
    # All that a failover costs is the margin of the reservation.
    assert take(later, state, 1, MINUTE_MS + 500) == 1


def test_a_reservation_of_a_slow_token_is_good_when_it_has_taken_a_moment() -> None:
    pacing, state = paced(6)
    assert pacing.available(0, 1) == 0
    tat_us = pacing.wanted_reservation(0)
    assert tat_us is not None
    state.reserved_tat_us = tat_us
    assert pacing.available(40, 1) == 1


def test_idle_groups_reserve_nothing() -> None:
    pacing, _ = paced(60)
    assert pacing.wanted_reservation(0) is None


def test_tokens_of_unsent_messages_are_returned() -> None:
    pacing, state = paced(60, 5)
    assert take(pacing, state, 5, 0) == 5
    pacing.refund(2)
    assert pacing.available(0, 5) == 2


def test_raising_the_limit_helps_at_once() -> None:
    pacing, state = paced(1, 1)
    assert take(pacing, state, 1, 0) == 1
    pacing.configure(60_000, 1, 0)
    assert pacing.next_token_ms(0) <= 1_001


def test_a_leader_with_a_slow_clock_does_not_wait_for_ever() -> None:
    state = GroupState(0, 1)
    state.reserved_tat_us = 10**15
    pacing, _ = paced(60, 1, 1_000, state)
    assert pacing.next_token_ms(1_000) <= 2_000


@settings(max_examples=60, deadline=None)
@given(per_minute=st.integers(1, 100_000), burst=st.integers(1, 50), seed=st.integers(0, 2**32))
def test_no_window_sees_more_than_the_limit_also_over_failovers(per_minute: int, burst: int, seed: int) -> None:
    """The old leader goes on for a while, and spends what it had reserved."""
    random = Random(seed)
    now_ms = 1_000
    pacing, state = paced(per_minute, burst, now_ms)
    old: RateLimit | None = None
    given_at: list[tuple[int, int]] = []
    for _ in range(60):
        now_ms += random.choice((0, 1, 10, 100, 2_000))
        if random.random() < 0.1:
            # It sees no more reservations: its state is that of a replica that is cut off.
            old = pacing
            old._group = GroupState(0, 1)
            old._group.reserved_tat_us = state.reserved_tat_us
            pacing, _ = paced(per_minute, burst, now_ms, state)
        count = take(pacing, state, random.randint(1, 2 * burst), now_ms)
        if old is not None:
            spent = old.available(now_ms, burst)
            old.take(spent, now_ms)
            count += spent
        if random.random() < 0.2 and count and old is None:
            pacing.refund(1)
            count -= 1
        given_at.append((now_ms, count))
    for first, (began_ms, _) in enumerate(given_at):
        total = 0
        for time_ms, count in given_at[first:]:
            total += count
            assert total <= burst + (time_ms - began_ms) * per_minute / MINUTE_MS + 1e-6


# In a group.


def test_a_poll_gets_what_the_limit_allows_and_when_there_is_more() -> None:
    here = Leading()
    here.set(rate_limit_per_minute=60, rate_limit_burst=2)
    here.append(5)
    assert here.poll() == []
    assert here.reserve() == 1
    assert offsets(here.poll()) == [0, 1]
    assert here.poll() == []
    assert here.leader.retry_after_ms(GROUP, here.now_ms) == 1_000
    assert here.leader.next_event_ms(here.now_ms) == here.now_ms + 1_000
    assert not here.leader.has_ready(GROUP, here.now_ms)
    assert here.pass_ms(1_000)
    here.reserve()
    assert offsets(here.poll()) == [2]


def test_a_group_with_nothing_ready_reserves_nothing() -> None:
    here = Leading()
    here.set(rate_limit_per_minute=60)
    assert here.poll() == []
    assert here.reserve() == 0


def test_unsent_messages_cost_no_token() -> None:
    here = Leading()
    here.set(rate_limit_per_minute=60, rate_limit_burst=2)
    here.append(3)
    here.poll()
    here.reserve()
    leases = here.poll()
    here.leader.release_unsent(GROUP, leases, here.now_ms)
    assert offsets(here.poll()) == [0, 1]
    here.leader.expire(GROUP, 0, 2, here.now_ms)
    assert offsets(here.poll()) == [2]
