"""Usage of the process: the runs of its garbage collector."""

import gc
from collections.abc import Iterator
from time import perf_counter, sleep

import pytest

from flotilla.runtime.observability.process_usage import GcPauseTimer

_SLOW_S = 0.03


@pytest.fixture
def watch() -> Iterator[GcPauseTimer]:
    """A started timer that sees only the collections of the test."""
    watch = GcPauseTimer()
    gc.disable()
    watch.start()
    try:
        yield watch
    finally:
        gc.callbacks.remove(watch)
        gc.enable()


class Slow:
    """Garbage that takes long to free, and only the collector can find."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        sleep(_SLOW_S)


@pytest.mark.parametrize("generation", [0, 1, 2])
def test_every_collection_counts(watch: GcPauseTimer, generation: int) -> None:
    for count in (1, 2, 3):
        gc.collect(generation)
        assert watch.pauses.count == count


def test_a_collection_counts_with_its_length(watch: GcPauseTimer) -> None:
    gc.collect()
    before_us = watch.pauses.sum_us
    began_s = perf_counter()
    Slow()
    gc.collect()
    took_us = 1e6 * (perf_counter() - began_s)
    pause_us = watch.pauses.sum_us - before_us
    assert 1e6 * _SLOW_S <= pause_us <= took_us
    assert watch.pauses.max_us >= pause_us


def test_a_second_start_does_not_count_twice(watch: GcPauseTimer) -> None:
    watch.start()
    gc.collect()
    assert watch.pauses.count == 1
