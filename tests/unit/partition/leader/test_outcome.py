"""The delay of the next attempt, and the bound on attempts."""

from dataclasses import replace
from random import Random

import pytest

from flotilla.partition.leader.delivery_limits import DeliveryLimits
from flotilla.partition.leader.outcome import Outcome
from flotilla.types.operations.queue import BY_BACKOFF, FAIL
from tests.unit.partition.leading import RULES

FAILED = Outcome(FAIL, 0, replace(RULES, nack_backoff_ms=100, nack_backoff_max_ms=1_000, max_deliveries=5))


@pytest.mark.parametrize(("attempts", "full_ms"), [(1, 100), (2, 200), (4, 800), (5, 1_000), (1_000_000, 1_000)])
def test_the_backoff_doubles_up_to_its_bound_and_half_of_it_is_random(attempts: int, full_ms: int) -> None:
    random = Random(1)
    delays = [FAILED.retry_delay_ms(attempts, random) for _ in range(200)]
    assert full_ms // 2 <= min(delays) < max(delays) <= full_ms


def test_a_delay_of_the_request_is_used_as_it_is() -> None:
    assert replace(FAILED, delay_ms=7).retry_delay_ms(3, Random(1)) == 7
    assert FAILED.delay_ms == BY_BACKOFF


def test_messages_are_split_by_whether_the_attempt_was_their_last() -> None:
    limits = DeliveryLimits()
    limits.set(3, 6, 2)
    assert limits.split(0, 10, 2, FAILED) == [(0, 3, False), (3, 6, True), (6, 10, False)]
    assert limits.split(0, 10, 5, FAILED) == [(0, 10, True)]
    assert [limits.last_attempt_of(offset, FAILED.rules) for offset in (2, 3)] == [5, 2]


def test_a_bound_of_the_request_counts_more_than_known_ones() -> None:
    limits = DeliveryLimits()
    limits.set(0, 4, 2)
    outcome = replace(FAILED, last_attempt_of=lambda offset: 1 if offset == 1 else 3)
    assert limits.split(0, 4, 2, outcome) == [(0, 1, False), (1, 2, True), (2, 4, False)]


def test_without_a_bound_every_failure_is_retried() -> None:
    limits = DeliveryLimits()
    limits.set(0, 4, 2)
    forever = replace(FAILED, rules=replace(FAILED.rules, max_deliveries=0))
    assert limits.split(0, 4, 99, forever) == [(0, 4, False)]
    assert limits.last_attempt_of(0, forever.rules) == 0
