"""The assignment of partitions to the members of a stream group: pure functions, one per strategy.

A strategy takes the members in the order in which they joined and the present owner of each partition, and names an
owner for each partition. Every strategy is even (the counts of two members differ by one at most) and deterministic,
and leaves a partition without an owner only where there are no members.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from flotilla.types.operations.stream import ROUND_ROBIN, STICKY

#: The owner of a partition that has none.
NO_OWNER: Final = ""

#: From the members, the oldest first, and the owner of each partition, a member or NO_OWNER, to the next owners.
Strategy: TypeAlias = Callable[[Sequence[str], Sequence[str]], list[str]]


def assign_sticky(members: Sequence[str], owners: Sequence[str]) -> list[str]:
    """Of all even assignments the one that moves the fewest partitions.

    A member keeps its partitions up to its share. Where shares are uneven, the larger ones go to members that own as
    many: each of them keeps one partition more than it would otherwise.
    """
    if not members:
        return [NO_OWNER] * len(owners)
    held: dict[str, list[int]] = {member: [] for member in members}
    free: list[int] = []
    for number, owner in enumerate(owners):
        (free if owner == NO_OWNER else held[owner]).append(number)
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
    """In turn, by number: present owners do not matter."""
    if not members:
        return [NO_OWNER] * len(owners)
    return [members[number % len(members)] for number in range(len(owners))]


STRATEGY_BY_NAME: Final[Mapping[str, Strategy]] = {STICKY: assign_sticky, ROUND_ROBIN: assign_round_robin}
