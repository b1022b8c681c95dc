"""Garbage collection around a run."""

import gc
import weakref

import pytest

from flotilla.sim.garbage import rare_collections


class Ring:
    """Garbage that only a collection finds."""

    def __init__(self) -> None:
        self.itself = self


def test_what_a_run_leaves_behind_is_collected_and_the_thresholds_come_back():
    before = gc.get_threshold()

    @rare_collections()
    def run() -> weakref.ref:
        assert gc.get_threshold()[0] > before[0]
        return weakref.ref(Ring())

    assert run()() is None
    assert gc.get_threshold() == before


def test_the_thresholds_come_back_after_a_failure():
    before = gc.get_threshold()
    with pytest.raises(ValueError, match="broken"), rare_collections():
        raise ValueError("broken")
    assert gc.get_threshold() == before
