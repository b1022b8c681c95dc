"""Why a message is where it is, in words: with the bound that holds for it, and what holds it back."""

from flotilla.partition.explain import delivery_states as states
from flotilla.types.operations.queue import FAIL
from tests.unit.partition.leading import GROUP, Leading


def failed_once(here: Leading) -> list[str]:
    here.settle(here.poll(), FAIL, reason="no such user")
    here.flush()
    return here.explain(0).history


def test_the_bound_of_a_message_counts_more_than_that_of_its_group() -> None:
    here = Leading()
    here.append(2)
    here.leader.limit_deliveries(GROUP, 0, 1, 2)
    assert failed_once(here) == ["attempt 1 of 2 failed: no such user"]
    other = here.explain(1)
    assert other.history == ["attempt 1 of 5 failed: no such user"]


def test_where_nothing_fails_for_the_last_time_there_is_no_bound() -> None:
    here = Leading()
    here.set(max_deliveries=0)
    here.append(1)
    here.leader.limit_deliveries(GROUP, 0, 1, 2)
    assert failed_once(here) == ["attempt 1 failed: no such user"]


def test_an_explanation_names_the_rate_limit() -> None:
    here = Leading()
    here.set(rate_limit_per_minute=6)
    here.append(2)
    assert here.explain(0).next == "the next poll may have it"
    here.poll(1)
    here.reserve()
    assert len(here.poll(1)) == 1
    here.pass_ms(4_000)
    found = here.explain(1)
    assert (found.state, found.remaining_ms) == (states.READY, 6_000)
    assert "rate limit" in found.next
    here.pass_ms(6_000)
    found = here.explain(1)
    assert (found.next, found.remaining_ms) == ("the next poll may have it", 0)


def test_the_next_leader_knows_the_rate_limit_before_the_first_poll() -> None:
    here = Leading()
    here.set(rate_limit_per_minute=6)
    here.append(2)
    here.poll(1)
    here.reserve()
    assert len(here.poll(1)) == 1
    here.change_leader()
    assert here.explain(1).remaining_ms >= 10_000


def test_an_explanation_names_the_pause_before_the_rate_limit() -> None:
    here = Leading()
    here.set(rate_limit_per_minute=6, paused=1)
    here.append(1)
    assert "paused" in here.explain(0, token_ms=5_000).next
