"""Random work on the real disk equals a naive store in memory, across restarts."""

import os
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flotilla.storage.posix import PosixDisk
from tests.unit.storage.shadow import Driver, differences


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 1 << 32), st.lists(st.integers(5, 60), min_size=1, max_size=4))
def test_random_work_equals_the_shadow(seed: int, stretches: list[int]) -> None:
    _check(seed, stretches)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 1 << 32), st.lists(st.integers(5, 60), min_size=1, max_size=4))
def test_random_work_equals_the_shadow_where_every_read_may_wait(seed: int, stretches: list[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.delattr(os, "RWF_NOWAIT", raising=False)
        _check(seed, stretches)


def _check(seed: int, stretches: list[int]) -> None:
    with TemporaryDirectory() as folder:
        disk = PosixDisk(folder)
        driver = Driver(disk, Random(seed))
        for steps in stretches:
            for _ in range(steps):
                driver.step()
            assert differences(driver.store, driver.shadow) == []
            driver.store.close()
            driver.reopen()
        driver.store.close()
        disk.close()
