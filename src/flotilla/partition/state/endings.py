"""How messages of one group came to their end, as far as that is more than an ack at the first attempt.

Replicated with the group: whoever asks for a message after a failover, or a week later, gets the same answer. What
is not in here and settled was acknowledged, and never failed. Bounded: when ends are too many and too scattered,
those of the older messages are forgotten, on every replica at the same entry.
"""

from itertools import islice
from typing import Final, NamedTuple

from flotilla.partition.offset_runs import RunMap
from flotilla.types.ids import Offset

#: Numbers of the snapshot: they never change.
ACKED: Final = 0
DEAD: Final = 1
CANCELLED: Final = 2
EXPIRED: Final = 3
DROPPED: Final = 4
KINDS: Final = (ACKED, DEAD, CANCELLED, EXPIRED, DROPPED)

#: Runs that one group remembers in one partition.
ENDING_RUNS_MAX: Final = 65_536


class End(NamedTuple):
    kind: int
    #: Attempts that failed, and the reason of the last one.
    attempts: int = 0
    reason: str = ""
    #: Of a death; 0 for the others, so that neighbours stay one run.
    ended_ms: int = 0


class Endings:
    __slots__ = ("known_from", "runs")

    def __init__(self) -> None:
        self.runs: RunMap[End] = RunMap()
        #: Ends of lower offsets may have been forgotten.
        self.known_from: Offset = 0

    def note(self, first: Offset, end: Offset, how: End) -> None:
        """Without effect below what has been forgotten: half of a story is none."""
        first = max(first, self.known_from)
        if first >= end:
            return
        self.runs.set(first, end, how)
        if len(self.runs) > ENDING_RUNS_MAX:
            self._forget_half()

    def _forget_half(self) -> None:
        self.known_from, _, _ = next(islice(self.runs, ENDING_RUNS_MAX // 2, None))
        self.runs.remove(0, self.known_from)

    def trim(self, log_start: Offset) -> None:
        """Nothing below is in the log any more, and nobody can ask for it."""
        self.runs.remove(0, log_start)

    def clear(self) -> None:
        self.runs.clear()
        self.known_from = 0
