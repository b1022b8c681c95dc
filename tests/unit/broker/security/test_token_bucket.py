"""The token bucket: bursts, debts and how they end."""

from hypothesis import given
from hypothesis import strategies as st

from flotilla.broker.security.token_bucket import TokenBucket
from flotilla.types.limits import QUOTA_PAUSE_MS_MAX


def test_a_burst_of_one_second_passes_and_then_the_rate():
    bucket = TokenBucket(100, 0)
    bucket.take(100, 0)
    assert bucket.wait_ms(0) == 0
    bucket.take(1, 0)
    assert bucket.wait_ms(0) == 10
    assert bucket.wait_ms(9) == 1
    assert bucket.wait_ms(10) == 0


def test_nothing_is_saved_up_beyond_a_second():
    bucket = TokenBucket(100, 0)
    bucket.take(101, 3_600_000)
    assert bucket.wait_ms(3_600_000) == 10


def test_slow_rates_gain_something_each_millisecond():
    bucket = TokenBucket(1, 0)
    bucket.take(2, 0)
    assert [bucket.wait_ms(now_ms) for now_ms in range(0, 1_001, 250)] == [1_000, 750, 500, 250, 0]


def test_a_debt_has_an_end():
    bucket = TokenBucket(10, 0)
    bucket.take(10**12, 0)
    assert bucket.wait_ms(0) == QUOTA_PAUSE_MS_MAX


def test_a_clock_that_stands_still_or_goes_back_gives_nothing():
    bucket = TokenBucket(10, 1_000)
    bucket.take(11, 1_000)
    assert bucket.wait_ms(500) == 100
    assert bucket.wait_ms(1_000) == 100


@given(
    st.integers(1, 10_000),
    st.lists(st.tuples(st.integers(1, 20_000), st.integers(0, 3_000)), min_size=1, max_size=30),
)
def test_whoever_waits_as_told_keeps_the_rate(rate, steps):
    """Requests no larger than the longest pause pays for: after any number of them, no more than burst and rate."""
    bucket = TokenBucket(rate, 0)
    now_ms, taken = 0, 0
    for tokens, idle_ms in steps:
        tokens = min(tokens, rate * QUOTA_PAUSE_MS_MAX // 1_000)
        bucket.take(tokens, now_ms)
        taken += tokens
        now_ms += bucket.wait_ms(now_ms)
        assert bucket.wait_ms(now_ms) == 0
        assert taken * 1_000 <= rate * (1_000 + now_ms)
        now_ms += idle_ms
