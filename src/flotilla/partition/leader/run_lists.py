"""Lists of runs: joined, and without other runs."""

from collections.abc import Iterable

from flotilla.partition.leader.ready_messages import Chosen
from flotilla.partition.offset_runs import Run
from flotilla.types.ids import Offset
from flotilla.types.operations.queue import LeaseRange


def by_offset(chosen: list[Chosen]) -> list[Run]:
    """Neighbours as one."""
    runs: list[Run] = []
    for first, end, _ in sorted(chosen):
        if runs and runs[-1][1] == first:
            runs[-1] = (runs[-1][0], end)
        else:
            runs.append((first, end))
    return runs


def refused_of(lease_id: int, first: Offset, end: Offset, accepted: Iterable[Run]) -> list[LeaseRange]:
    """[first, end) without the accepted runs."""
    refused = []
    for low, high in accepted:
        if first < low:
            refused.append(LeaseRange(lease_id, first, low))
        first = high
    if first < end:
        refused.append(LeaseRange(lease_id, first, end))
    return refused
