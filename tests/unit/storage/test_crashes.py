"""Power loss at any operation: what was reported durable is there, and nothing else is."""

from random import Random

import pytest

from flotilla.sim.devices.crash import SimulatedCrash
from flotilla.sim.devices.disk import SimDisk
from tests.unit.storage.shadow import Driver, differences


def _run(seed: int, *, steps: int, faults: bool) -> None:
    random = Random(seed)
    disk = SimDisk(Random(seed + 1))
    driver = Driver(disk, random)
    for _ in range(6):
        disk.interrupt_after(random.choice((3, 10, 40, 200)))
        try:
            for _ in range(steps):
                if faults and random.random() < 0.03:
                    random.choice((disk.fail_next_sync, disk.fail_next_write))()
                if faults and random.random() < 0.02:
                    disk.set_capacity(disk.used_bytes + random.randrange(40_000))
                driver.step()
                if faults and random.random() < 0.1:
                    disk.set_capacity(1 << 50)
            assert differences(driver.store, driver.shadow) == []
        except SimulatedCrash:
            pass
        disk.set_capacity(1 << 50)
        _restart(disk, driver, random)


def _restart(disk: SimDisk, driver: Driver, random: Random) -> None:
    """Recovery may be interrupted too, any number of times."""
    point = ""
    while True:
        # A process that dies inside `remove` may leave the simulated folder tree half changed.
        if random.random() < 0.7 or point == "disk.remove":
            disk.crash()
        else:
            disk.stop()
            disk.failing_syncs = disk.failing_writes = 0
        if random.random() < 0.5:
            disk.interrupt_after(random.randrange(25))
        try:
            driver.reopen()
        except SimulatedCrash as crash:
            point = crash.point
            continue
        disk.interrupt_after(1 << 30)
        return


@pytest.mark.parametrize("seed", range(60))
def test_a_crash_at_any_operation_keeps_everything_durable(seed: int) -> None:
    _run(seed, steps=80, faults=False)


@pytest.mark.parametrize("seed", range(1000, 1060))
def test_failed_syncs_and_a_full_disk_lose_nothing(seed: int) -> None:
    _run(seed, steps=80, faults=True)
