"""Reasons for which leadership begins and ends, for logs and metrics. Only FULL_DISK has an effect (election.py).

The numbers travel with a transfer of leadership (`TimeoutNow`), so they never change.
"""

from collections.abc import Mapping
from typing import Final

UNKNOWN: Final = 0

#: Begin: no leader was heard for an election timeout; the link to the leader broke; its node started or
#: got the replica, and no leader was there.
ELECTION_TIMEOUT: Final = 1
LOST_LINK: Final = 2
STARTED: Final = 3

#: Transfers: begin at one node and end at another. A person asked for it; leaders are spread again; the leader's disk
#: is slow; its replica moves away; its node stops; it was removed from the members; its disk has no room; a member does
#: not know the leader's node and refuses it.
OPERATOR: Final = 10
PREFERRED_LEADER: Final = 11
SLOW_DISK: Final = 12
MOVE: Final = 13
SHUTDOWN: Final = 14
REMOVED: Final = 15
FULL_DISK: Final = 16
NOT_KNOWN: Final = 17

#: End: another node was elected; no quorum was heard; the log is damaged; the disk refuses to write; the group failed.
ANOTHER_ELECTED: Final = 20
NO_QUORUM: Final = 21
DAMAGE: Final = 22
FAILING_DISK: Final = 23
FAILURE: Final = 24

NAMES: Final = {
    UNKNOWN: "unknown",
    ELECTION_TIMEOUT: "election_timeout",
    LOST_LINK: "lost_link",
    STARTED: "started",
    OPERATOR: "operator",
    PREFERRED_LEADER: "preferred_leader",
    SLOW_DISK: "slow_disk",
    MOVE: "move",
    SHUTDOWN: "shutdown",
    REMOVED: "removed",
    FULL_DISK: "full_disk",
    NOT_KNOWN: "not_known",
    ANOTHER_ELECTED: "another_elected",
    NO_QUORUM: "no_quorum",
    DAMAGE: "damage",
    FAILING_DISK: "failing_disk",
    FAILURE: "failure",
}


def name_of(reason: int) -> str:
    """A later version may send reasons that this one does not know."""
    return NAMES.get(reason, NAMES[UNKNOWN])


class LeadershipReasons:
    """Why a replica stands, leads or leads no longer, and how often for each reason."""

    __slots__ = ("counts", "latest", "standing", "transfer")

    def __init__(self) -> None:
        #: Why this node stands for election, if it does.
        self.standing = ELECTION_TIMEOUT
        #: Why leadership is being transferred, if it is.
        self.transfer = UNKNOWN
        #: Why leadership last began or ended here.
        self.latest = UNKNOWN
        #: How often it began (True) or ended (False).
        self.counts: dict[tuple[bool, int], int] = {}

    def began(self) -> None:
        self._count(True, self.standing)

    def ended(self, reason: int) -> None:
        self._count(False, reason)

    def _count(self, begins: bool, reason: int) -> None:
        self.latest = reason
        self.counts[begins, reason] = self.counts.get((begins, reason), 0) + 1


def add_counts(counts: dict[tuple[bool, int], int], others: Mapping[tuple[bool, int], int]) -> None:
    """Adds the counts of another replica."""
    for key, count in others.items():
        counts[key] = counts.get(key, 0) + count
