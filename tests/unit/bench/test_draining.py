"""Consumers in processes of their own share one tally."""

import multiprocessing

import pytest

from bench.peers.draining import Tally, drained

pytestmark = pytest.mark.slow


def consume(step: int, queue: str, tally: Tally) -> None:
    assert queue == "jobs"
    tally.begin()
    while not tally.is_done:
        tally.add(step)


def test_a_drain_ends_when_all_is_acknowledged() -> None:
    assert drained(consume, 10, "jobs", 1_000, 2) > 0
    assert multiprocessing.active_children() == []


def fail(step: int, queue: str, tally: Tally) -> None:
    tally.begin()
    raise SystemExit(step)


def test_a_consumer_that_fails_ends_the_drain() -> None:
    with pytest.raises(RuntimeError, match="a consumer has failed"):
        drained(fail, 3, "jobs", 1_000, 1)
