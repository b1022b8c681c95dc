"""Power loss at any operation: what was reported durable is there, and nothing else is."""

from contextlib import suppress
from random import Random

import pytest

from flotilla.raft.messages import DATA, Entry, HardState
from flotilla.sim.devices.crash import SimulatedCrash
from flotilla.sim.devices.disk import SimDisk
from flotilla.storage.store import NodeStore
from tests.unit.storage.shadow import TINY, VOTERS, Driver, describe, differences


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


@pytest.mark.parametrize("seed", range(0, 4000, 8))
def test_a_power_cut_while_recovering_from_a_kill_is_no_corruption(seed: int) -> None:
    """The kill leaves the last block in memory only, and recovery writes the next one before the power goes."""
    disk = SimDisk(Random(seed * 7 + 1))
    store = NodeStore.open(disk, TINY, describe)
    store.create_group(7, VOTERS)
    for index in (1, 2, 3):
        _write(store)
        store.save(7, hard_state=HardState(3, 2, 0), entries=[Entry(index, 3, DATA, b"%d 1 1." % index + bytes(5000))])
    block = store.take_block()
    assert block is not None
    disk.interrupt_after(1)
    with pytest.raises(SimulatedCrash):
        store.write_block(block)
    disk.stop()
    disk.interrupt_after(Random(seed).randrange(12))
    with suppress(SimulatedCrash):
        NodeStore.open(disk, TINY, describe)
    disk.crash()
    log = NodeStore.open(disk, TINY, describe).groups[7]
    assert log.last_index() in (2, 3)
    assert log.recovered().hard_state == HardState(3, 2, 0)
    assert log.entries(1, 3, 1 << 20)[1].index == 2


def _write(store: NodeStore) -> None:
    block = store.take_block()
    assert block is not None
    store.write_block(block)
    store.finish_block(block)
