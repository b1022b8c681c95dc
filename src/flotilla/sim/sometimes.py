"""Rare states that a swarm should meet. One that is never reached is a hole in the test, and is printed.

A counter says "this happened so often in this run". The list is closed: a misspelt name is an error.
"""

NAMES = (
    "leader elected",
    "leader crashed",
    "leader removed",
    "leadership transferred",
    "term without leader",
    "append acknowledged",
    "append refused",
    "append of unknown outcome",
    "append overloaded",
    "read acknowledged",
    "read at a follower",
    "entries overwritten",
    "commit of an older term",
    "quiesced",
    "woken",
    "snapshot taken",
    "snapshot installed",
    "snapshot in pieces",
    "snapshot restarted in the middle",
    "log compacted",
    "joint entered",
    "joint left",
    "voter added",
    "voter removed",
    "learner added",
    "damage found",
    "entry repaired",
    "damaged tail dropped",
    "repair by snapshot",
    "crashed at a named point",
    "crashed while writing",
    "crashed in background work",
    "crashed while recovering",
    "crashed while joint",
    "crashed during a snapshot",
    "whole cluster lost power",
    "process killed, machine up",
    "unsynced bytes at a power loss",
    "unsynced names at a power loss",
    "sync failed",
    "write failed",
    "disk full",
    "disk full and recovered",
    "disk rotted",
    "store beyond repair",
    "disk wiped",
    "wiped node rejoined",
    "paused past an election",
    "paused leader deposed",
    "cut one way",
    "partitioned",
    "leader isolated",
    "frame lost",
    "frame repeated",
    "clock jumped",
    "peer reported down",
)


class Sometimes:
    """Counts of one run."""

    __slots__ = ("counts",)

    def __init__(self) -> None:
        self.counts: dict[str, int] = dict.fromkeys(NAMES, 0)

    def seen(self, name: str) -> None:
        self.counts[name] += 1

    def reached(self) -> list[str]:
        return [name for name, count in self.counts.items() if count]


def missing(totals: dict[str, int]) -> list[str]:
    """Names that no run reached."""
    return [name for name in NAMES if not totals.get(name)]
