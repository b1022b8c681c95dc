"""The messages of one group that can be delivered now, by priority, and which of them a poll gets.

Nothing is listed that need not be. Of each priority there is a cursor: what the partition holds behind it is ready,
as far as nobody has settled or taken it. In front of it only what came back is ready: given back, due again, or due
for the first time. So a backlog costs nothing, and what it costs to choose does not grow with it.

Polls with a type filter choose from a branch, one for each filter: a message that a branch has passed over is not
looked at again for that filter, and stays ready for all others.

Invariant: what came back lies in front of its priority's cursor, or has a time of delivery, which cursors pass over.
"""

from bisect import bisect_right
from heapq import heapify, heappop, heappush
from typing import Final, TypeAlias

from flotilla.partition.offset_runs import Run, RunMap, RunSet
from flotilla.partition.state.batch_index import PRIORITIES, BatchIndex
from flotilla.partition.state.group import GroupState
from flotilla.types.ids import Offset

#: [first, end) of one priority.
Chosen: TypeAlias = tuple[Offset, Offset, int]

_BY_PRIORITY: Final = tuple(range(PRIORITIES - 1, -1, -1))
#: Of each poll, one part in so many goes to the oldest messages, whatever their priority.
_OLDEST_SHARE: Final = 4
#: Filters that are remembered. Of one that is not, all has to be looked at anew.
BRANCHES_MAX: Final = 64


class ReadyMessages:
    """Of one group at one leader. `taken` are messages that are not settled and not ready."""

    __slots__ = ("_branches", "_cursors", "_group", "_index", "_returned", "_taken")

    def __init__(self, index: BatchIndex, group: GroupState, taken: RunMap[int]) -> None:
        self._index = index
        self._group = group
        self._taken = taken
        self._cursors = [group.floor] * PRIORITIES
        self._returned = [RunSet() for _ in range(PRIORITIES)]
        #: By wish, the one that was asked for last behind the others.
        self._branches: dict[tuple[str, ...], ReadyMessages] = {}

    def branch(self, types: tuple[str, ...]) -> "ReadyMessages":
        """Where polls with this wish choose: they take from all, but what they choose and leave they pass over."""
        found = self._branches.pop(types, None)
        if found is None:
            found = ReadyMessages(self._index, self._group, self._taken)
            # What is ready here is ready there, at the same places: it need not be looked through.
            found._cursors = self._cursors[:]
            found._returned = [returned.copy() for returned in self._returned]
            if len(self._branches) >= BRANCHES_MAX:
                del self._branches[next(iter(self._branches))]
        self._branches[types] = found
        return found

    # Choosing.

    def has_any(self) -> bool:
        return self.best_priority() >= 0

    def best_priority(self) -> int:
        """-1: there is nothing."""
        plain_ends, returned = self._index.plain_ends, self._returned
        for priority in _BY_PRIORITY:
            if (plain_ends[priority] or returned[priority].count) and self._head(priority) is not None:
                return priority
        return -1

    def oldest(self) -> list[Offset]:
        """Of each priority the first message that never left, and the first that came back or came due."""
        ahead = [self._ahead(priority) for priority in _BY_PRIORITY]
        back = [self._back(priority) for priority in _BY_PRIORITY]
        return [found[0] for found in (*ahead, *back) if found is not None]

    def choose(self, count_max: int, poll_number: int) -> list[Chosen]:
        """Takes out so many at most: by priority and then by offset, but a share for the oldest of all.

        The share is rounded down, and every fourth poll gets one more: even a poll of one is for the oldest then.
        """
        chosen: list[Chosen] = []
        oldest: list[Chosen] = []
        share = count_max // _OLDEST_SHARE + (poll_number % _OLDEST_SHARE == _OLDEST_SHARE - 1)
        left = max(count_max - share, 0)
        # Nobody has settled or taken anything from there on: that need not be asked of each stretch.
        free_from = max(self._group.floor, self._group.settled.end, self._taken.end)
        ends, cursors = self._index.plain_ends, self._cursors
        for priority in _BY_PRIORITY:
            if left:
                if self._returned[priority].count:
                    left = self._choose_returned(priority, left, chosen)
                elif ends[priority] and ends[priority][-1] > cursors[priority]:
                    left = self._choose_ahead(priority, left, chosen, free_from)
                if left:
                    continue
            oldest.append(self._unseen(priority))
        self._choose_oldest(left + min(share, count_max), oldest, chosen)
        return _join(chosen)

    def _choose_returned(self, priority: int, left: int, chosen: list[Chosen]) -> int:
        """Takes out so many of one priority at most; tells how many are missing, which means that it has no more."""
        while left and (head := self._head(priority)) is not None:
            left -= self._consume(head, left, chosen)
        return left

    def _choose_ahead(self, priority: int, left: int, chosen: list[Chosen], free_from: Offset) -> int:
        """The same where nothing came back: stretch by stretch, of which only the first is searched for."""
        firsts, ends = self._index.plain_firsts[priority], self._index.plain_ends[priority]
        cursor = self._cursors[priority]
        at = bisect_right(ends, cursor)
        while left and at < len(ends):
            first, end = firsts[at], ends[at]
            if first < cursor:
                first = cursor
            free = (first, end) if first >= free_from else self.first_free(first, end)
            cursor = end
            if free is not None:
                first, cursor = free
                if cursor > first + left:
                    cursor = first + left
                chosen.append((first, cursor, priority))
                left -= cursor - first
            if cursor == end:
                at += 1
        self._cursors[priority] = cursor
        return left

    def _choose_oldest(self, left: int, oldest: list[Chosen], chosen: list[Chosen]) -> None:
        """Takes out so many of the heads with the lowest offsets. Those that were not looked at may stay so."""
        heapify(oldest)
        while left and oldest:
            first, end, priority = heappop(oldest)
            head = self._head(priority) if first == end else (first, end, priority)
            if head is None:
                continue
            if oldest and oldest[0] < head:
                heappush(oldest, head)
                continue
            # A head is of neighbours: no other priority has anything between its first and its last.
            left -= self._consume(head, left, chosen)
            if left:
                heappush(oldest, self._unseen(priority))

    def _unseen(self, priority: int) -> Chosen:
        """Stands for a head that was not looked for: an empty run, from which on it can be."""
        first = self._cursors[priority]
        returned = self._returned[priority]
        if returned.count and returned.first < first:
            first = returned.first
        return first, first, priority

    def _head(self, priority: int) -> Chosen | None:
        """The lowest offsets of one priority, as far as they are neighbours. They stay where they are."""
        ahead = self._ahead(priority)
        if self._returned[priority].count:
            back = self._back(priority)
            if back is not None and (ahead is None or back[0] < ahead[0]):
                return (*back, priority)
        return ahead

    def _consume(self, head: Chosen, count: int, chosen: list[Chosen]) -> int:
        """Takes out so many of a head at most; tells how many."""
        first, end, priority = head
        stop = min(end, first + count)
        returned = self._returned[priority]
        if returned.count and returned.contains(first):
            returned.discard(first, stop)
        else:
            self._cursors[priority] = stop
        chosen.append((first, stop, priority))
        return stop - first

    def _ahead(self, priority: int) -> Chosen | None:
        """Behind the cursor, which moves there."""
        firsts, ends = self._index.plain_firsts[priority], self._index.plain_ends[priority]
        cursor = self._cursors[priority]
        for at in range(bisect_right(ends, cursor), len(ends)):
            first, end = firsts[at], ends[at]
            free = self.first_free(first if first > cursor else cursor, end)
            if free is not None:
                self._cursors[priority] = free[0]
                return free[0], free[1], priority
            cursor = end
        self._cursors[priority] = cursor
        return None

    def _back(self, priority: int) -> Run | None:
        """Of what came back. What has been settled since is forgotten on the way."""
        returned = self._returned[priority]
        while returned:
            first, end = next(iter(returned))
            free = self.first_free(first, end)
            if free is not None:
                return free
            returned.discard(first, end)
        return None

    def first_free(self, first: Offset, end: Offset) -> Run | None:
        """The first part of [first, end) that nobody has settled or taken."""
        group = self._group
        if first < group.floor:
            first = group.floor
        settled, taken = group.settled, self._taken
        while first < end:
            gap = settled.first_gap(first, end) if settled.count else (first, end)
            if gap is None or not taken.count:
                return gap
            free = taken.first_gap(gap[0], gap[1])
            if free is not None:
                return free
            first = gap[1]
        return None

    # Coming and going.

    def put(self, first: Offset, end: Offset, due_ms: int) -> None:
        """Messages are ready again that were taken. Those with a time of delivery behind due_ms will come by then."""
        for stretch in self._index.within(max(first, self._group.floor), end):
            stretch_end = stretch.end
            if stretch.deliver_at_ms > due_ms:
                continue
            if not stretch.deliver_at_ms:
                # What lies behind the cursor will be found there.
                stretch_end = min(stretch_end, self._cursors[stretch.priority])
            if stretch.first < stretch_end:
                self._returned[stretch.priority].add(stretch.first, stretch_end)
        for branch in self._branches.values():
            branch.put(first, end, due_ms)

    def put_due(self, first: Offset, end: Offset, priority: int) -> None:
        """Messages of one stretch are ready whose time of delivery has come, and which nobody has settled or taken."""
        self._returned[priority].add(first, end)
        for branch in self._branches.values():
            branch.put_due(first, end, priority)

    def withdraw(self, first: Offset, end: Offset) -> None:
        """Messages are taken without having been chosen; the cursors will find them taken."""
        for returned in self._returned:
            if returned:
                returned.discard(first, end)


def _join(chosen: list[Chosen]) -> list[Chosen]:
    """In the order of priorities and offsets, neighbours as one."""
    joined: list[Chosen] = []
    for first, end, priority in sorted(chosen, key=_rank):
        if joined and joined[-1][1] == first and joined[-1][2] == priority:
            joined[-1] = (joined[-1][0], end, priority)
        else:
            joined.append((first, end, priority))
    return joined


def _rank(chosen: Chosen) -> tuple[int, Offset]:
    return -chosen[2], chosen[0]
