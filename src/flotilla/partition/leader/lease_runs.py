"""Runs of messages: under the leases that they had, under those of members, and without any."""

from collections.abc import Sequence

from flotilla.partition.commands.hand_over import HeldGroup, HeldLease, HeldRun
from flotilla.partition.leader.group_delivery import GroupDelivery
from flotilla.partition.leader.settlement_outbox import Piece
from flotilla.partition.offset_runs import Run
from flotilla.types.operations.queue import LeaseRange


def restored(group: GroupDelivery, pieces: list[Piece], now_ms: int) -> HeldGroup:
    """The leases that were ended by these pieces."""
    leases = [
        HeldLease(
            piece.lease.lease_id,
            piece.lease.member,
            max(now_ms - piece.lease.given_ms, 0),
            (HeldRun(piece.first, piece.end, max(piece.deadline_ms - now_ms, 0)),),
        )
        for piece in pieces
        if piece.lease is not None
    ]
    return HeldGroup(group.name, group.generation, tuple(leases))


def under_leases(
    group: GroupDelivery, ranges: Sequence[LeaseRange], members: Sequence[str], *, is_earlier: bool
) -> list[LeaseRange]:
    """All ranges with lease ids: those of the members' leases where a range has none."""
    found: list[LeaseRange] = []
    for run, member in zip(ranges, members, strict=True):
        if run.lease_id:
            found.append(run)
        else:
            found += group.ranges_of(run, member, is_earlier=is_earlier)
    return found


def runs_of(pieces: list[Piece]) -> tuple[Run, ...]:
    """In the order of offsets, neighbours as one."""
    runs: list[Run] = []
    for piece in pieces:
        if runs and runs[-1][1] == piece.first:
            runs[-1] = (runs[-1][0], piece.end)
        else:
            runs.append((piece.first, piece.end))
    return tuple(runs)
