"""The ready messages of one group, by priority, and the choice of a poll among them.

Each priority has a cursor: messages after it are ready if they are neither settled nor taken. Before it only messages
that came back are ready: released, due for a retry, or due for the first time. Only those are listed. So a backlog
costs no memory, and choosing does not take longer with it. A group whose state has reached a bound gets only messages
that came back.

Polls with a filter choose from a branch, one for each filter: a message that a branch has passed over is not
looked at again for that filter, and stays ready for all others.

Invariant: a message that came back lies before its priority's cursor, or has a time of delivery, which cursors skip.
"""

from bisect import bisect_right
from collections.abc import Hashable
from heapq import heapify, heappop, heappush
from typing import Final, TypeAlias

from flotilla.partition.offset_runs import Run, RunMap, RunSet
from flotilla.partition.state.batch_index import PRIORITIES, BatchIndex
from flotilla.partition.state.group import GroupState
from flotilla.types.ids import Offset

#: [first, end) of one priority.
Chosen: TypeAlias = tuple[Offset, Offset, int]

_BY_PRIORITY: Final = tuple(range(PRIORITIES - 1, -1, -1))
#: One part in this many of each poll goes to the oldest messages of any priority, so that none starves.
_OLDEST_SHARE: Final = 4
#: Filters that are remembered. A poll with another one looks at all messages anew.
BRANCHES_MAX: Final = 64


class ReadyMessages:
    """`taken` are messages that are neither settled nor ready."""

    __slots__ = ("_branches", "_cursors", "_group", "_index", "_returned", "_taken")

    def __init__(self, index: BatchIndex, group: GroupState, taken: RunMap[int], start: Offset = 0) -> None:
        """Messages below `start` are not among them."""
        self._index = index
        self._group = group
        self._taken = taken
        self._cursors = [max(group.floor, start)] * PRIORITIES
        self._returned = [RunSet() for _ in range(PRIORITIES)]
        #: By filter, the most recently used last.
        self._branches: dict[Hashable, ReadyMessages] = {}

    def branch(self, wanted: Hashable) -> "ReadyMessages":
        """The ready messages that polls with this filter have not passed over."""
        found = self._branches.pop(wanted, None)
        if found is None:
            found = ReadyMessages(self._index, self._group, self._taken)
            # The same messages are ready there, so copying needs no search.
            found._cursors = self._cursors[:]
            found._returned = [returned.copy() for returned in self._returned]
            if len(self._branches) >= BRANCHES_MAX:
                del self._branches[next(iter(self._branches))]
        self._branches[wanted] = found
        return found

    def rewind_branch(self, wanted: Hashable, start: Offset) -> None:
        """The branch looks again at the messages from `start` on that are ready here."""
        branch = self._branches[wanted]
        branch._cursors = [min(cursor, max(start, self._group.floor)) for cursor in branch._cursors]
        for mine, other in zip(self._returned, branch._returned, strict=True):
            if mine and start < mine.end:
                for first, end in list(mine.within(start, mine.end)):
                    other.add(first, end)

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
        """Of each priority the first message after the cursor, and the first that came back or came due."""
        ahead = [self._ahead(priority) for priority in _BY_PRIORITY]
        back = [self._back(priority) for priority in _BY_PRIORITY]
        return [found[0] for found in (*ahead, *back) if found is not None]

    def choose(self, count_max: int, poll_number: int) -> list[Chosen]:
        """Takes out up to `count_max` messages: by priority and then by offset, but a share of the oldest of all.

        The share is rounded down, and every fourth poll gets one more: so polls of one message reach the oldest, too.
        """
        chosen: list[Chosen] = []
        oldest: list[Chosen] = []
        share = count_max // _OLDEST_SHARE + (poll_number % _OLDEST_SHARE == _OLDEST_SHARE - 1)
        left = max(count_max - share, 0)
        # From there on nothing is settled or taken: that need not be looked up for each stretch.
        free_from = max(self._group.floor, self._group.settled.end, self._taken.end)
        ends, cursors = self._index.plain_ends, self._cursors
        is_full = self._group.is_full
        for priority in _BY_PRIORITY:
            if left:
                if self._returned[priority].count:
                    left = self._choose_returned(priority, left, chosen)
                elif ends[priority] and ends[priority][-1] > cursors[priority] and not is_full:
                    left = self._choose_ahead(priority, left, chosen, free_from)
                if left:
                    continue
            oldest.append(self._unseen(priority))
        self._choose_oldest(left + min(share, count_max), oldest, chosen)
        return _join(chosen)

    def _choose_returned(self, priority: int, left: int, chosen: list[Chosen]) -> int:
        """Takes out up to `left` messages of one priority. Returns how many are missing: then it has no more."""
        while left and (head := self._head(priority)) is not None:
            left -= self._consume(head, left, chosen)
        return left

    def _choose_ahead(self, priority: int, left: int, chosen: list[Chosen], free_from: Offset) -> int:
        """The same where nothing came back: stretch by stretch, with one search for the first."""
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
        """Takes out up to `left` messages, lowest offsets first. Searches for a head only when it may be the next."""
        heapify(oldest)
        while left and oldest:
            first, end, priority = heappop(oldest)
            head = self._head(priority) if first == end else (first, end, priority)
            if head is None:
                continue
            if oldest and oldest[0] < head:
                heappush(oldest, head)
                continue
            # A head is a run of neighbours: no other priority has a message inside of it.
            left -= self._consume(head, left, chosen)
            if left:
                heappush(oldest, self._unseen(priority))

    def _unseen(self, priority: int) -> Chosen:
        """An empty run in place of a head that was not searched for: the head is there or later."""
        first = self._cursors[priority]
        returned = self._returned[priority]
        if returned.count and returned.first < first:
            first = returned.first
        return first, first, priority

    def _head(self, priority: int) -> Chosen | None:
        """The first run of neighbours of one priority. It is not taken out."""
        ahead = self._ahead(priority)
        if self._returned[priority].count:
            back = self._back(priority)
            if back is not None and (ahead is None or back[0] < ahead[0]):
                return (*back, priority)
        return ahead

    def _consume(self, head: Chosen, count: int, chosen: list[Chosen]) -> int:
        """Takes out up to `count` messages of a head. Returns how many."""
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
        """The first run after the cursor, which moves to it. None, too, while the group takes no new messages."""
        if self._group.is_full:
            return None
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
        """The first run of messages that came back. Drops those that were settled since."""
        returned = self._returned[priority]
        while returned:
            first, end = next(iter(returned))
            free = self.first_free(first, end)
            if free is not None:
                return free
            returned.discard(first, end)
        return None

    def first_free(self, first: Offset, end: Offset) -> Run | None:
        """The first part of [first, end) that is neither settled nor taken."""
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
        """Taken messages are ready again, except those whose time of delivery is after `due_ms`: they come later."""
        self.put_back(first, end, due_ms)
        for branch in self._branches.values():
            branch.put(first, end, due_ms)

    def put_back(self, first: Offset, end: Offset, due_ms: int) -> None:
        """`put` for messages that were chosen here and not taken. Branches have them, or have passed over them."""
        for stretch in self._index.within(max(first, self._group.floor), end):
            stretch_end = stretch.end
            if stretch.deliver_at_ms > due_ms:
                continue
            if not stretch.deliver_at_ms:
                # The cursor finds the messages after it.
                stretch_end = min(stretch_end, self._cursors[stretch.priority])
            if stretch.first < stretch_end:
                self._returned[stretch.priority].add(stretch.first, stretch_end)

    def put_due(self, first: Offset, end: Offset, priority: int) -> None:
        """Free messages of one stretch are ready: their time of delivery has come."""
        self._returned[priority].add(first, end)
        for branch in self._branches.values():
            branch.put_due(first, end, priority)

    def withdraw(self, first: Offset, end: Offset) -> None:
        """Messages were taken without `choose`. Cursors skip them by `taken`."""
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
