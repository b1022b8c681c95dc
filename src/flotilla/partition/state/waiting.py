"""Messages that wait for a time to come: retention by age spares them, and what was stored after them stays with them.

A message waits until the time of its delivery, or of its next attempt after a failure, for as long as somebody is owed
it: not when it was cancelled, nor when every queue group of the partition has settled it.
"""

from typing import Final

from flotilla.partition.state.machine import PartitionMachine
from flotilla.types.ids import Offset

#: Stretches and failures that one look goes through. Behind them it stops: the next look goes on from there.
LOOKS_MAX: Final = 10_000


def first_waiting(machine: PartitionMachine, time_ms: int, end: Offset) -> Offset:
    """The first message below `end` that waits for a later time than that; `end`: there is none."""
    return _first_retried(machine, time_ms, _first_delayed(machine, time_ms, end))


def _first_delayed(machine: PartitionMachine, time_ms: int, end: Offset) -> Offset:
    for looks, stretch in enumerate(machine.index.delayed_from(machine.log_start)):
        if stretch.first >= end:
            return end
        if looks >= LOOKS_MAX:
            return stretch.first
        if stretch.deliver_at_ms > time_ms:
            owed = _first_owed(machine, stretch.first, min(stretch.end, end))
            if owed is not None:
                return owed
    return end


def _first_owed(machine: PartitionMachine, first: Offset, end: Offset) -> Offset | None:
    """The first message of the run that was not cancelled, and that a group has not settled; without groups, any."""
    gap = next(machine.cancelled.gaps(first, end), None)
    if gap is None or not machine.groups:
        return None if gap is None else gap[0]
    # Cancelled messages are settled in every group.
    found = [next(group.unsettled(first, end), None) for group in machine.groups.values()]
    return min([run[0] for run in found if run is not None], default=None)


def _first_retried(machine: PartitionMachine, time_ms: int, end: Offset) -> Offset:
    for group in machine.groups.values():
        for looks, (first, _, failure) in enumerate(group.failures.within(machine.log_start, end)):
            if failure.not_before_ms > time_ms or looks >= LOOKS_MAX:
                end = first
                break
    return end
