"""Coverage: rare states that a swarm should reach. A state that no run reaches is a hole in the test, and is printed.

A counter says how often a state was reached in a run. The list is closed: a misspelt name is an error.
"""

from flotilla.runtime.driver_ports import CRASH_POINTS


def crashed_at(point: str) -> str:
    """The name under which crashes at one of CRASH_POINTS are counted."""
    return f"crashed at '{point}'"


NAMES = (
    "leader elected",
    "leader crashed",
    "leader removed",
    "leadership transferred",
    "term without leader",
    "entries overwritten",
    "commit of an older term",
    "committed without a lagging voter",
    "lagging voters changed",
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
    "segment rewritten",
    "damaged tail dropped",
    "repair by snapshot",
    "crashed at a named point",
    *map(crashed_at, CRASH_POINTS),
    "crashed while writing",
    "crashed in background work",
    "crashed while recovering",
    "started without a group",
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
    "second disk rotted",
    "disk put back",
    "replica found forgetful",
    "read failed",
    "read failed at a leader",
    "out of descriptors",
    "disk wiped",
    "wiped node rejoined",
    "paused past an election",
    "paused leader deposed",
    "cut one way",
    "partitioned",
    "leader isolated",
    "frame lost",
    "frame repeated",
    "peer reported down",
    "append acknowledged",
    "append refused",
    "append of unknown outcome",
    "append overloaded",
    "read acknowledged",
    "read at a follower",
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
    """States that the runs could have reached and did not."""
    return [name for name, count in totals.items() if not count]
