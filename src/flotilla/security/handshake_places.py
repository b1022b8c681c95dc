"""Places for handshakes in progress at the port for nodes: which one is given up when there are too many.

The address with the most of them loses its oldest. Handshakes from addresses of members keep their places, whatever
comes from elsewhere, as long as they are few: beyond that a member's address counts as any other, so that whoever
floods a node from there does not keep a node out that joins.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import TypeVar

from flotilla.types.limits import PEER_MEMBER_HANDSHAKE_COUNT_MAX

T = TypeVar("T")


def given_up(hosts: Mapping[T, str], is_member: Callable[[str], bool]) -> T:
    """The handshake that loses its place. `hosts` are the addresses of all, the oldest handshake first."""
    others = {each: host for each, host in hosts.items() if not is_member(host)}
    if not others or len(hosts) - len(others) > PEER_MEMBER_HANDSHAKE_COUNT_MAX:
        others = dict(hosts)
    [(busiest, _)] = Counter(others.values()).most_common(1)
    return next(each for each, host in others.items() if host == busiest)


def nobody(host: str) -> bool:
    """Where there are no members."""
    return False
