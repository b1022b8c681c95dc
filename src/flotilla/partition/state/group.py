"""The replicated state of one queue group: settled messages, failures and deaths, as runs of offsets.

Only committed commands change it, so it survives every leader. Leases are not here: they are the leader's memory for
one term.

Invariants:
1. everything below `floor` is settled, `floor` itself is not, and `settled` holds the settled messages above it;
2. only unsettled messages have failures;
3. deaths are numbered without gaps in the order in which they happened; `dying` holds those that are not buried.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from flotilla.partition.offset_runs import Run, RunMap, RunSet
from flotilla.partition.state.endings import ACKED, DEAD, End, Endings
from flotilla.types.ids import Index, Offset
from flotilla.types.limits import (
    CUT_REASON_BYTES_MAX,
    GROUP_DYING_COUNT_MAX,
    GROUP_FAILED_COUNT_MAX,
    GROUP_REASON_COUNT_MAX,
    GROUP_SETTLED_RUN_COUNT_MAX,
)


class Failure(NamedTuple):
    """The failed attempts of a message that will be retried."""

    attempts: int
    #: The next attempt comes no earlier, by the leader's clock.
    not_before_ms: int
    #: Of the newest attempt.
    reason: str


class DeathRun(NamedTuple):
    """Messages that died together. `number` is that of the first; the others follow it."""

    number: int
    first: Offset
    end: Offset
    #: The last one included.
    attempts: int
    reason: str
    died_ms: int


class Death(NamedTuple):
    """One message on its way to the dead-letter topic."""

    number: int
    offset: Offset
    attempts: int
    reason: str
    died_ms: int


@dataclass(slots=True)
class Totals:
    """Messages, counted since the group was opened; resetting it changes none of them."""

    acked: int = 0
    #: Attempts that failed and left another one.
    failed: int = 0
    #: Outlived by their time to live.
    expired: int = 0
    #: Sent to the dead-letter topic.
    dead: int = 0
    #: Failed for the last time in a group that has no dead letters.
    dropped: int = 0
    cancelled: int = 0
    #: Removed by retention or by hand before the group had settled them.
    trimmed: int = 0


class GroupState:
    """One queue group in one partition."""

    __slots__ = (
        "born",
        "dying",
        "dying_count",
        "endings",
        "failures",
        "first_lease",
        "floor",
        "generation",
        "holders",
        "next_death",
        "partition_count",
        "reserved_tat_us",
        "settled",
        "start",
        "totals",
        "used_ms",
    )

    def __init__(
        self, start: Offset, born: Index, partition_count: int = 0, first_lease: int = 0, used_ms: int = 0
    ) -> None:
        #: How many partitions the topic had when the group was opened: in younger ones it begins at the start.
        self.partition_count = partition_count
        #: The index of the entry that opened the group: it tells groups of the same name apart.
        self.born = born
        #: The index of the entry that opened or reset it last. Earlier leases are void.
        self.generation = born
        #: Lower lease ids are earlier ones, of this group or of one that had its name.
        self.first_lease = first_lease
        #: The offset at which the group was opened or reset last.
        self.start = start
        #: The first unsettled offset. It moves back by a reset only.
        self.floor = start
        self.settled = RunSet()
        self.failures: RunMap[Failure] = RunMap()
        #: How settled messages ended, unless they were acked at their first attempt.
        self.endings = Endings()
        #: Dead messages that are settled, but not known to be in the dead-letter topic; in the order of numbers.
        self.dying: deque[DeathRun] = deque()
        #: Messages in `dying`.
        self.dying_count = 0
        #: The number of the next death.
        self.next_death = 0
        #: Members that may hold leases; the empty name stands for those without a name of their own.
        self.holders: dict[str, None] = {}
        #: Tokens of the rate limit are reserved up to this theoretical arrival time.
        self.reserved_tat_us = 0
        self.totals = Totals()
        #: When members were last there, by commands that have to do with them: not later than they really were.
        self.used_ms = used_ms

    # Questions.

    def is_settled(self, offset: Offset) -> bool:
        return offset < self.floor or self.settled.contains(offset)

    @property
    def is_full(self) -> bool:
        """Whether its state has reached a bound: then only messages that come back are delivered."""
        return (
            self.failures.count >= GROUP_FAILED_COUNT_MAX
            or self.dying_count >= GROUP_DYING_COUNT_MAX
            or self.settled.has_runs(GROUP_SETTLED_RUN_COUNT_MAX)
        )

    def unsettled(self, first: Offset, end: Offset) -> Iterator[Run]:
        """The unsettled parts of [first, end). The group may not change while they are iterated."""
        return self.settled.gaps(max(first, self.floor), end)

    def attempts(self, offset: Offset) -> int:
        """Failed attempts."""
        failure = self.failures.get(offset)
        return 0 if failure is None else failure.attempts

    def by_attempts(self, first: Offset, end: Offset) -> list[tuple[Offset, Offset, int]]:
        """The unsettled parts of [first, end), each with the number of failed attempts of its messages."""
        if not self.failures:
            return [(low, high, 0) for low, high in self.unsettled(first, end)]
        found = []
        for low, high in self.unsettled(first, end):
            at = low
            for piece_first, piece_end, failure in self.failures.within(low, high):
                if at < piece_first:
                    found.append((at, piece_first, 0))
                found.append((piece_first, piece_end, failure.attempts))
                at = piece_end
            if at < high:
                found.append((at, high, 0))
        return found

    def lag(self, next_offset: Offset) -> int:
        """Unsettled messages."""
        return next_offset - self.floor - self.settled.count

    def deaths(self, limit: int, from_number: int = 0) -> list[Death]:
        """The oldest deaths that are not buried, at most `limit`, beginning with that number."""
        found: list[Death] = []
        for run in self.dying:
            skipped = max(from_number - run.number, 0)
            last = min(run.end - run.first, skipped + limit - len(found))
            found += [
                Death(run.number + into, run.first + into, run.attempts, run.reason, run.died_ms)
                for into in range(skipped, last)
            ]
            if len(found) == limit:
                break
        return found

    def death_of(self, offset: Offset) -> Death | None:
        """None: the message is not dying. A linear search, for explanations."""
        for run in self.dying:
            if run.first <= offset < run.end:
                return Death(run.number + offset - run.first, offset, run.attempts, run.reason, run.died_ms)
        return None

    def lowest_dying(self) -> Offset | None:
        """Retention must keep this message: it is not in the dead-letter topic yet."""
        return min((run.first for run in self.dying), default=None)

    # Changes, each by a committed command. They leave settled messages as they are, and return how many others they
    # changed.

    def settle(self, first: Offset, end: Offset) -> int:
        first = max(first, self.floor)
        if first >= end:
            return 0
        if self.failures.count:
            self.failures.remove(first, end)
        if first > self.floor:
            return self.settled.add(first, end)
        if not self.settled.count or end <= self.settled.first:
            # The usual case: a run at the floor moves it, and need not be stored.
            self.floor = self.settled.advance(end)
            return end - first
        count = self.settled.add(first, end)
        self.floor = self.settled.advance(first)
        return count

    def acknowledge(self, runs: Iterable[Run]) -> int:
        """Settles messages as acked. Only those that had failed before get an ending."""
        count = 0
        if self.failures.count:
            for first, end in runs:
                count += self.end(first, end, ACKED)
            return count
        settled = self.settled
        for first, end in runs:
            count += settled.add(first, end) if first > self.floor else self.settle(first, end)
        return count

    def end(self, first: Offset, end: Offset, kind: int) -> int:
        """Settles messages with an ending of this kind."""
        if kind != ACKED:
            for low, high in self.unsettled(first, end):
                self.endings.note(low, high, End(kind))
        if self.failures.count:
            for low, high, failure in self.failures.within(first, end):
                self.endings.note(low, high, End(kind, failure.attempts, failure.reason))
        return self.settle(first, end)

    def fail(self, first: Offset, end: Offset, not_before_ms: int, reason: str) -> int:
        count = 0
        reason = self._bounded(reason)
        for low, high, attempts in self.by_attempts(first, end):
            self.failures.set(low, high, Failure(attempts + 1, not_before_ms, reason))
            count += high - low
        return count

    def retry_now(self, offset: Offset, now_ms: int) -> None:
        """A message that failed waits no longer for its next attempt."""
        for first, end, failure in list(self.failures.within(offset, offset + 1)):
            if failure.not_before_ms > now_ms:
                self.failures.set(first, end, failure._replace(not_before_ms=now_ms))

    def die(self, first: Offset, end: Offset, reason: str, now_ms: int) -> int:
        before = self.next_death
        reason = self._bounded(reason)
        for low, high, attempts in self.by_attempts(first, end):
            self.dying.append(DeathRun(self.next_death, low, high, attempts + 1, reason, now_ms))
            self.endings.note(low, high, End(DEAD, attempts + 1, reason, now_ms))
            self.next_death += high - low
        self.dying_count += self.next_death - before
        self.settle(first, end)
        return self.next_death - before

    def _bounded(self, reason: str) -> str:
        """A million messages may fail with as many texts: when there are many, they are cut."""
        if len(self.failures) + len(self.dying) < GROUP_REASON_COUNT_MAX:
            return reason
        return reason.encode("utf-8")[:CUT_REASON_BYTES_MAX].decode("utf-8", "ignore")

    def bury(self, below_number: int, first_number: int = 0) -> int:
        """Deaths with these numbers are in the dead-letter topic. Returns how many were not there before."""
        before = self.dying_count
        passed: list[DeathRun] = []
        while self.dying and self.dying[0].number < below_number:
            run = self.dying.popleft()
            low = max(first_number - run.number, 0)
            high = below_number - run.number
            length = run.end - run.first
            if low:
                passed.append(run._replace(end=run.first + min(low, length)))
            if high < length:
                self.dying.appendleft(run._replace(number=below_number, first=run.first + high))
            self.dying_count -= max(min(high, length) - low, 0)
        self.dying.extendleft(reversed(passed))
        return before - self.dying_count

    def trim(self, log_start: Offset) -> int:
        """The log has removed everything below. Dying messages keep their `DeathRun`."""
        unsettled = list(self.unsettled(self.floor, log_start)) if log_start > self.floor else []
        self.endings.trim(log_start, unsettled)
        if log_start <= self.floor:
            return 0
        count = sum(high - low for low, high in unsettled)
        self.failures.remove(0, log_start)
        self.floor = self.settled.advance(log_start)
        return count

    def reset(self, start: Offset, generation: Index, first_lease: int = 0) -> None:
        """Starts again at `start`: nothing is settled, nothing has failed. Dying messages stay dead."""
        self.generation = generation
        self.first_lease = max(first_lease, self.first_lease)
        self.holders = {}
        self.start = start
        self.floor = start
        self.settled.clear()
        self.failures.clear()
        self.endings.clear()
