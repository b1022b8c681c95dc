"""The endings of one group's settled messages, other than an ack at the first attempt.

Replicated with the group: a question gets the same answer after a failover, or a week later. A settled message without
an ending was acked, and never failed. Bounded: when there are too many runs, the endings of the older half are
forgotten, on every replica at the same entry. Endings go with their messages, except for those that the log removed
before the group had settled them.
"""

from collections.abc import Iterable
from itertools import islice
from typing import Final, NamedTuple

from flotilla.partition.offset_runs import Run, RunMap, RunSet, filled
from flotilla.types.ids import Offset

#: The snapshot stores these numbers: they never change.
ACKED: Final = 0
DEAD: Final = 1
CANCELLED: Final = 2
EXPIRED: Final = 3
DROPPED: Final = 4
KINDS: Final = (ACKED, DEAD, CANCELLED, EXPIRED, DROPPED)

#: Bounds the memory of one group in one partition.
ENDING_RUNS_MAX: Final = 65_536
#: The newest runs that the log removed unsettled.
TRIMMED_RUNS_MAX: Final = 1_024


class End(NamedTuple):
    kind: int
    #: Attempts that failed, and the reason of the last one.
    attempts: int = 0
    reason: str = ""
    #: Of a death; 0 for the others, so that neighbours stay one run.
    ended_ms: int = 0


#: Of a settled message without an ending.
_PLAIN: Final = End(ACKED)


class Endings:
    __slots__ = ("known_from", "runs", "trimmed")

    def __init__(self) -> None:
        self.runs: RunMap[End] = RunMap()
        #: Endings of lower offsets may be forgotten.
        self.known_from: Offset = 0
        #: Removed by the log before they were settled.
        self.trimmed = RunSet()

    def note(self, first: Offset, end: Offset, how: End) -> None:
        """No effect below `known_from`: other endings there are forgotten."""
        first = max(first, self.known_from)
        if first >= end:
            return
        self.runs.set(first, end, how)
        if len(self.runs) > ENDING_RUNS_MAX:
            self._forget_half()

    def _forget_half(self) -> None:
        self.known_from, _, _ = next(islice(self.runs, ENDING_RUNS_MAX // 2, None))
        self.runs.remove(0, self.known_from)

    def otherwise(self, first: Offset, end: Offset, kinds: tuple[int, ...]) -> list[Run]:
        """The parts of settled messages that are known to have ended in none of these ways."""
        known = filled(self.runs, max(first, self.known_from), end, _PLAIN)
        return [(low, high) for low, high, how in known if how.kind not in kinds]

    def trim(self, log_start: Offset, unsettled: Iterable[Run]) -> None:
        """The log has removed everything below, and with it these messages that had not ended."""
        self.runs.remove(0, log_start)
        for first, end in unsettled:
            self.trimmed.add(first, end)
        while self.trimmed.has_runs(TRIMMED_RUNS_MAX + 1):
            self.trimmed.discard(*next(iter(self.trimmed)))

    def clear(self) -> None:
        self.runs.clear()
        self.trimmed.clear()
        self.known_from = 0
