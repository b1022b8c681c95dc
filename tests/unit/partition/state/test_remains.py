"""A replaced state is freed in bounded steps, and nothing of it before the first one."""

import gc
from collections import Counter
from itertools import pairwise
from sys import getrefcount

from flotilla.partition.state.group import GroupState
from flotilla.partition.state.machine import PartitionMachine
from flotilla.partition.state.producers import Producer
from tests.unit.partition.batches import describe

#: Fewer than the reasons that a group keeps.
COUNT = 16_000
#: Objects that one step may free.
STEP_MAX = 2_048


def test_failures_are_freed_a_few_at_a_time() -> None:
    machine = PartitionMachine(describe)
    group = machine.groups["group"] = GroupState(0, 1)
    # Each failure refers to it once, so its references count the failures that are left.
    reason = "".join(["disk", " full"])
    alone = getrefcount(reason)
    for offset in range(COUNT):
        group.fail(offset, offset + 1, 1_000 + offset, reason)
    del group
    remains = machine.restore(b"")
    counts = [getrefcount(reason) - alone]
    assert counts == [COUNT], "replacing the state frees nothing"
    for _ in remains:
        counts.append(getrefcount(reason) - alone)
    assert counts[-1] == 0, "all of it is freed by now, without the collector of cycles"
    assert max(before - after for before, after in pairwise(counts)) <= STEP_MAX


def test_producers_are_freed_a_few_at_a_time() -> None:
    machine = PartitionMachine(describe)
    for number in range(COUNT):
        machine.producers.record(number + 1, 0, 0, 1, number)
    counts = [_producers()]
    remains = machine.restore(b"")
    counts.append(_producers())
    assert counts[0] == counts[1], "replacing the state frees nothing"
    for _ in remains:
        counts.append(_producers())
    assert counts[0] - counts[-1] == COUNT
    assert max(before - after for before, after in pairwise(counts)) <= STEP_MAX


def _producers() -> int:
    return Counter(map(type, gc.get_objects()))[Producer]


def test_a_view_of_a_replaced_state_stays_as_it_was() -> None:
    machine = PartitionMachine(describe)
    group = machine.groups["group"] = GroupState(0, 1)
    for offset in range(0, COUNT, 2):
        group.fail(offset, offset + 1, 1_000 + offset, "disk full")
        machine.producers.record(offset + 1, 0, 0, 1, offset)
    expected = machine.snapshot()
    encode = machine.freeze()
    for _ in machine.restore(b""):
        pass
    assert b"".join(encode()) == expected
    assert len(group.failures) == COUNT // 2, "nor is it taken from a reader of the old state"
    assert machine.snapshot() == PartitionMachine(describe).snapshot()
