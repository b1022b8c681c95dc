"""Which member of a stream group shall own which partition: pure functions of who is there and who owns what.

A strategy takes the members in the order in which they joined and the owner that each partition has now, and names an
owner for each partition. Whatever it is: nobody's partition stays nobody's only where there are no members, the
spread is even (the counts of two members differ by one at most), and the same question has the same answer everywhere.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from flotilla.types.operations.stream import ROUND_ROBIN, STICKY

#: The owner of a partition that has none.
NOBODY: Final = ""

#: Members, the oldest first; the owner of each partition, one of these or NOBODY. Who shall own each partition.
Strategy: TypeAlias = Callable[[Sequence[str], Sequence[str]], list[str]]


def assign_sticky(members: Sequence[str], owners: Sequence[str]) -> list[str]:
    """The fewest partitions change hands among all even spreads.

    A member keeps what it has, up to its share. Shares differ by one where they do not come out even, and the larger
    ones go to members who have that many: each of them keeps one partition more than it would otherwise.
    """
    if not members:
        return [NOBODY] * len(owners)
    held: dict[str, list[int]] = {member: [] for member in members}
    free: list[int] = []
    for number, owner in enumerate(owners):
        (free if owner == NOBODY else held[owner]).append(number)
    share, rest = divmod(len(owners), len(members))
    # Sorting is stable: among equals the order of joining decides.
    larger = sorted(members, key=lambda member: len(held[member]) <= share)[:rest]
    shares = dict.fromkeys(members, share) | dict.fromkeys(larger, share + 1)
    for member in members:
        free += held[member][shares[member] :]
    free.sort()
    targets = list(owners)
    given = 0
    for member in members:
        wanted = max(shares[member] - len(held[member]), 0)
        for number in free[given : given + wanted]:
            targets[number] = member
        given += wanted
    assert given == len(free), "shares add up to all partitions"
    return targets


def assign_round_robin(members: Sequence[str], owners: Sequence[str]) -> list[str]:
    """One after the other, whoever has it now: who owns a partition follows from its number and the members alone."""
    if not members:
        return [NOBODY] * len(owners)
    return [members[number % len(members)] for number in range(len(owners))]


STRATEGY_BY_NAME: Final[Mapping[str, Strategy]] = {STICKY: assign_sticky, ROUND_ROBIN: assign_round_robin}
