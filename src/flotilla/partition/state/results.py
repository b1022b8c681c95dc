"""The results of acked messages in one partition, by group and offset, until they are old.

An ack may carry a result; it is stored by the entry that settles the message, so a message has one result or none,
whatever fails. Results are forgotten in the order in which they came: when their time to live is over, by the stamps of
log time, or when all of them together take too much memory.

Whether a message had a result is remembered longer than the result: a caller that comes late gets an error, and not the
answer that the message had none. Bounded: when there are too many runs of such messages, the older half is forgotten,
on every replica at the same entry.
"""

from collections import OrderedDict
from itertools import islice
from typing import Final, NamedTuple

from flotilla.partition.offset_runs import RunSet
from flotilla.types.ids import Offset
from flotilla.types.limits import RESULTS_BYTES_MAX, UNKEPT_RUN_COUNT_MAX

#: Memory that a result takes beside its bytes.
OVERHEAD_BYTES: Final = 256
#: A result ages from the next stamp on. One is due when this share of the time to live has passed since the last one.
_STAMPS: Final = 16
_GAP_MS_MIN: Final = 1_000
#: Results without a stamp from which on one is due: a stamp goes through them, and must not take long.
_FRESH_MAX: Final = 2_048


class Result(NamedTuple):
    payload: bytes
    ttl_ms: int
    #: Kept until this log time; 0: there was no stamp since it came.
    until_ms: int = 0


class Unkept:
    """Messages of one group that were acked with a result which is not kept, or not any more."""

    __slots__ = ("known_from", "runs")

    def __init__(self) -> None:
        self.runs = RunSet()
        #: It is not known which messages below had a result.
        self.known_from: Offset = 0

    def add(self, offset: Offset) -> None:
        if offset < self.known_from:
            return
        self.runs.add(offset, offset + 1)
        if len(self.runs) > UNKEPT_RUN_COUNT_MAX:
            self.known_from, _ = next(islice(self.runs, UNKEPT_RUN_COUNT_MAX // 2, None))
            self.runs.discard(0, self.known_from)


class ResultTable:
    __slots__ = ("fresh", "kept", "size_bytes", "unkept")

    def __init__(self) -> None:
        #: By group and offset, in the order in which they came. Those without a stamp are the newest.
        self.kept: OrderedDict[tuple[str, Offset], Result] = OrderedDict()
        #: Of all that are kept, with their overhead.
        self.size_bytes = 0
        #: How many came since the last stamp; those that are gone meanwhile count, too.
        self.fresh = 0
        self.unkept: dict[str, Unkept] = {}

    def find(self, group: str, offset: Offset) -> bytes | None:
        found = self.kept.get((group, offset))
        return None if found is None else found.payload

    def is_unkept(self, group: str, offset: Offset) -> bool:
        """Whether the message had a result that is not kept, or may have had one."""
        known = self.unkept.get(group)
        return known is not None and (offset < known.known_from or known.runs.contains(offset))

    def put(self, group: str, offset: Offset, result: Result) -> None:
        """The message was acked now, with this result. With a time to live of 0 it is not kept. The first one stays."""
        if not result.ttl_ms:
            self._note_unkept(group, offset)
            return
        if (group, offset) in self.kept:
            return
        self.restore(group, offset, result)
        while self.size_bytes > RESULTS_BYTES_MAX:
            self._forget_oldest()

    def restore(self, group: str, offset: Offset, result: Result) -> None:
        """Puts a result at the end as it is; for a snapshot."""
        self.kept[group, offset] = result
        self.fresh += not result.until_ms
        self.size_bytes += len(result.payload) + OVERHEAD_BYTES

    def _forget_oldest(self) -> None:
        (group, offset), result = self.kept.popitem(last=False)
        self.size_bytes -= len(result.payload) + OVERHEAD_BYTES
        self._note_unkept(group, offset)

    def _note_unkept(self, group: str, offset: Offset) -> None:
        known = self.unkept.get(group)
        if known is None:
            known = self.unkept[group] = Unkept()
        known.add(offset)

    # Time.

    def wants_stamp(self, now_ms: int, clock_ms: int) -> bool:
        """Whether a stamp at `now_ms` would let a result age or expire. `clock_ms` is the last one."""
        if not self.kept:
            return False
        oldest = next(iter(self.kept.values()))
        if oldest.until_ms and oldest.until_ms <= now_ms:
            return True
        newest = next(reversed(self.kept.values()))
        if self.fresh >= _FRESH_MAX:
            return now_ms > clock_ms
        return not newest.until_ms and now_ms - clock_ms >= max(newest.ttl_ms // _STAMPS, _GAP_MS_MIN)

    def stamp(self, clock_ms: int) -> None:
        """Log time is this now: what came since the last stamp counts from here, and the oldest may expire."""
        fresh = []
        for key, result in reversed(self.kept.items()):
            if result.until_ms:
                break
            fresh.append(key)
        for key in fresh:
            result = self.kept[key]
            self.kept[key] = result._replace(until_ms=clock_ms + result.ttl_ms)
        self.fresh = 0
        while self.kept:
            oldest = next(iter(self.kept.values()))
            if oldest.until_ms > clock_ms:
                break
            self._forget_oldest()

    # Groups.

    def drop(self, group: str) -> None:
        """The group was reset or deleted: its messages are to be settled again."""
        self.unkept.pop(group, None)
        for key in [key for key in self.kept if key[0] == group]:
            self.size_bytes -= len(self.kept.pop(key).payload) + OVERHEAD_BYTES

    def trim(self, log_start: Offset) -> None:
        """The log has removed everything below: how those messages ended is not remembered without this either."""
        for name, known in list(self.unkept.items()):
            known.runs.discard(0, log_start)
            if not known.runs and known.known_from <= log_start:
                del self.unkept[name]
