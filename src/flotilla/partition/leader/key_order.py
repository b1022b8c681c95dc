"""The order of messages by key: of each key one message at a time, in the order of offsets.

A key is busy from the lease of one of its messages until that message is settled, however often it fails in between.
Its other messages that an ordered poll meets meanwhile are blocked. Messages without a key are not ordered.

A stuck key does not delay other keys. When `BLOCKED_COUNT_MAX` messages are blocked, polls look ahead of the ready ones
that no place is left for, in rounds: a round goes through the log once, in order, and passes over the messages of busy
keys, which stay ready. A key that was passed over gets nothing more from the same round, because its first message is
among those. When such keys were freed, the next round begins with the first message of theirs that was passed over.

Only ordered polls learn keys. Messages that left the ready ones in another way (leases of an earlier leader, failures
that wait for a retry) are noted as `unknown`, and their keys are read before the next ordered poll chooses: so the
order holds over a change of leaders.
"""

from collections.abc import Callable, Iterable
from functools import partial
from heapq import heappop, heappush, nlargest
from typing import Final, TypeAlias

from flotilla.partition.leader.places import BLOCKED, LEASED
from flotilla.partition.leader.ready_messages import Chosen, ReadyMessages
from flotilla.partition.offset_runs import Run, RunMap, RunSet
from flotilla.types.errors import FlotillaError
from flotilla.types.ids import Offset

#: The keys of the messages in [first, end), or of the first ones of them; None where a message has none.
KeysOf: TypeAlias = Callable[[Offset, Offset], list[bytes | None]]

#: Bounds the memory of one group. Beyond it, messages of busy keys stay ready, and are passed over.
BLOCKED_COUNT_MAX: Final = 262_144
#: Messages that an ordered poll looks at beyond those that it asked for.
_LOOK_AHEAD: Final = 1_024
#: Keys that a round passes over before it ends.
_PASSED_COUNT_MAX: Final = 65_536
#: The name of the branch; no filter is empty.
_AHEAD: Final = ()


class KeyOrder:
    """The busy keys of one group at one leader."""

    __slots__ = (
        "_ahead",
        "_blocked",
        "_busy",
        "_freed",
        "_key_of",
        "_passed",
        "_round_end",
        "blocked_count",
        "unknown",
    )

    def __init__(self) -> None:
        #: The message that makes each key busy, and the same the other way round.
        self._busy: dict[bytes, Offset] = {}
        self._key_of: dict[Offset, bytes] = {}
        #: A heap of blocked messages for each busy key. It may hold messages that are not blocked any more.
        self._blocked: dict[bytes, list[Offset]] = {}
        self.blocked_count = 0
        #: Taken messages whose keys have not been read.
        self.unknown = RunSet()
        #: What the present round has not looked at, as a branch of the ready messages; None: there is no round.
        self._ahead: ReadyMessages | None = None
        #: Keys with messages that it or earlier rounds have passed over, with the first of them; those that were freed
        #: since; and where the log ended when the round began.
        self._passed: dict[bytes, Offset] = {}
        self._freed: dict[bytes, None] = {}
        self._round_end: Offset = 0

    def __len__(self) -> int:
        """Busy keys."""
        return len(self._busy)

    def learn_unknown(self, taken: RunMap[int], keys_of: KeysOf) -> None:
        """Reads the keys of `unknown`, as far as the messages are still taken."""
        for first, end in list(self.unknown):
            for low, high, _ in list(taken.within(first, end)):
                while low < high:
                    # What was learned needs no second look, should the next ones not be readable yet.
                    low = self.learn(low, high, keys_of)
                    self.unknown.discard(first, low)
            self.unknown.discard(first, end)

    def learn(self, first: Offset, end: Offset, keys_of: KeysOf) -> Offset:
        """These messages are taken: their keys are busy. Returns the end of what was learned."""
        found = keys_of(first, end)
        for offset, key in enumerate(found, first):
            if key is not None and key not in self._busy:
                self._occupy(key, offset)
        return first + len(found)

    def may_go(self, offset: Offset, key: bytes) -> bool:
        """Whether the key is free or busy with this very message, which then keeps it busy until it is settled."""
        busy_with = self._busy.get(key)
        if busy_with is None:
            self._occupy(key, offset)
            return True
        return busy_with == offset

    def block(self, offset: Offset, key: bytes) -> None:
        """Until its key is free."""
        heappush(self._blocked.setdefault(key, []), offset)
        self.blocked_count += 1

    @property
    def is_full(self) -> bool:
        return self.blocked_count >= BLOCKED_COUNT_MAX

    def most_blocked(self, limit: int) -> tuple[list[tuple[bytes, Offset, int]], int]:
        """Keys with the message that makes each busy and how many it blocks, the most first; and how many keys."""
        found = [(len(waiting), key) for key, waiting in self._blocked.items() if waiting]
        return [(key, self._busy[key], count) for count, key in nlargest(limit, found)], len(found)

    def begin_looking_ahead(
        self, ready: ReadyMessages, unplaced: Iterable[tuple[Offset, bytes]], log_end: Offset
    ) -> ReadyMessages:
        """The ready messages that the present round, or a new one, has not looked at.

        `unplaced` were just taken out of the ready ones: the round does not meet them.
        """
        ahead = ready.branch(_AHEAD)
        if ahead is not self._ahead:
            self._ahead = ahead
            self._passed.clear()
            self._freed.clear()
            self._round_end = log_end
        for offset, key in unplaced:
            self._pass_over(offset, key)
        return ahead

    def _pass_over(self, offset: Offset, key: bytes) -> None:
        known = self._passed.get(key)
        if known is None or offset < known:
            self._passed[key] = offset

    def may_go_ahead(self, offset: Offset, key: bytes) -> bool:
        """`may_go` for a message that a round meets."""
        busy_with = self._busy.get(key)
        if busy_with == offset:
            return True
        if busy_with is None and key not in self._passed:
            self._occupy(key, offset)
            return True
        self._pass_over(offset, key)
        return False

    def end_looking_ahead(self, ready: ReadyMessages, looks: "_Looks", log_end: Offset) -> None:
        """Begins the next round if this one is through and keys were freed that it had passed over."""
        is_through = looks.has_ended or looks.seen_end > self._round_end or len(self._passed) >= _PASSED_COUNT_MAX
        if is_through and self._freed:
            start = min([self._passed[key] for key in self._freed])
            ready.rewind_branch(_AHEAD, start)
            # The first message of the others lies before the round, which must not give a later one.
            self._passed = {key: offset for key, offset in self._passed.items() if offset < start}
            self._freed.clear()
            self._round_end = log_end

    def has_unseen(self, ready: ReadyMessages) -> bool:
        """Whether another poll may find more, though the last one has chosen nothing."""
        if not self.is_full:
            return ready.has_any()
        return self._ahead is None or self._ahead.has_any()

    def end(self, first: Offset, end: Offset, is_blocked: Callable[[Offset], bool]) -> list[Offset]:
        """These messages are settled. Returns the messages that they had blocked and that may go now, in order.

        `is_blocked` says whether a message that was blocked still is; others are passed over.
        """
        if not self._key_of:
            return []
        if end - first <= len(self._key_of):
            ended = [offset for offset in range(first, end) if offset in self._key_of]
        else:
            ended = sorted([offset for offset in self._key_of if first <= offset < end])
        freed = []
        for offset in ended:
            chosen = self._free(self._key_of.pop(offset), is_blocked)
            if chosen is not None:
                freed.append(chosen)
        return sorted(freed)

    def sweep(self, is_settled: Callable[[Offset], bool], is_blocked: Callable[[Offset], bool]) -> list[Offset]:
        """`end` for all messages that were settled without it: cancelled or trimmed."""
        freed: list[Offset] = []
        for offset in [each for each in self._key_of if is_settled(each)]:
            freed += self.end(offset, offset + 1, is_blocked)
        return sorted(freed)

    def _occupy(self, key: bytes, offset: Offset) -> None:
        self._busy[key] = offset
        self._key_of[offset] = key

    def _free(self, key: bytes, is_blocked: Callable[[Offset], bool]) -> Offset | None:
        """The first blocked message of the key, which is busy with it now; None: the key is free."""
        del self._busy[key]
        if key in self._passed:
            self._freed[key] = None
        waiting = self._blocked.get(key, [])
        while waiting:
            offset = heappop(waiting)
            self.blocked_count -= 1
            if is_blocked(offset):
                self._occupy(key, offset)
                return offset
        self._blocked.pop(key, None)
        return None


def choose_in_key_order(
    ready: ReadyMessages,
    keys: KeyOrder,
    taken: RunMap[int],
    keys_of: KeysOf,
    count_max: int,
    poll_number: int,
    due_ms: int,
    log_end: Offset,
) -> list[Chosen]:
    """Takes out up to `count_max` messages whose keys are free, and blocks the others that it meets.

    Raises FlotillaError if the log cannot be read before anything is chosen.
    """
    unplaced: list[tuple[Offset, bytes]] = []
    looks = _Looks(count_max, poll_number, due_ms)
    try:
        looks.through(ready, partial(_admit, keys, taken, keys_of, unplaced))
        if unplaced and looks.is_unfinished:
            for first, end, _ in looks.chosen:
                # The round must not meet them.
                taken.set(first, end, LEASED)
            ahead = keys.begin_looking_ahead(ready, unplaced, log_end)
            looks.left_looks = _LOOK_AHEAD + count_max
            looks.through(ahead, partial(_admit_ahead, keys, keys_of))
            for first, end, _ in looks.chosen:
                ready.withdraw(first, end)
            keys.end_looking_ahead(ready, looks, log_end)
    finally:
        for offset, _ in unplaced:
            ready.put_back(offset, offset + 1, due_ms)
    return looks.chosen


class _Looks:
    """One poll's way through ready messages."""

    __slots__ = ("_count", "_due_ms", "_poll_number", "chosen", "has_ended", "is_unfinished", "left_looks", "seen_end")

    def __init__(self, count_max: int, poll_number: int, due_ms: int) -> None:
        self.chosen: list[Chosen] = []
        self.left_looks = _LOOK_AHEAD + count_max
        self._count = count_max
        self._poll_number = poll_number
        self._due_ms = due_ms
        #: It may have more, and everything could be read.
        self.is_unfinished = True
        #: There was nothing more to look at, and the end of what was looked at.
        self.has_ended = False
        self.seen_end: Offset = 0

    def through(self, source: ReadyMessages, admit: Callable[[Offset, Offset], tuple[list[Run], Offset]]) -> None:
        while self._count and self.left_looks > 0:
            found = source.choose(min(self._count, self.left_looks), self._poll_number)
            if not found:
                self.has_ended = True
                break
            self.left_looks -= sum([end - first for first, end, _ in found])
            found.reverse()
            try:
                while found:
                    first, end, priority = found[-1]
                    admitted, reached = admit(first, end)
                    self.chosen += [(low, high, priority) for low, high in admitted]
                    self._count -= sum([high - low for low, high in admitted])
                    self.seen_end = max(self.seen_end, reached)
                    found.pop()
                    if reached < end:
                        found.append((reached, end, priority))
            except FlotillaError:
                # The log cannot be read there now: the rest stays ready.
                for first, end, _ in found:
                    source.put_back(first, end, self._due_ms)
                self.is_unfinished = False
                if not self.chosen:
                    raise
                return
        self.is_unfinished = self._count > 0


def _admit(
    keys: KeyOrder,
    taken: RunMap[int],
    keys_of: KeysOf,
    unplaced: list[tuple[Offset, bytes]],
    first: Offset,
    end: Offset,
) -> tuple[list[Run], Offset]:
    """The messages that may go, and the end of those that were looked at.

    The others are blocked, or added to `unplaced` when too many are.
    """
    admitted: list[Run] = []
    found = keys_of(first, end)
    for offset, key in enumerate(found, first):
        if key is None or keys.may_go(offset, key):
            _append(admitted, offset)
        elif keys.is_full:
            unplaced.append((offset, key))
        else:
            keys.block(offset, key)
            taken.set(offset, offset + 1, BLOCKED)
    return admitted, first + len(found)


def _admit_ahead(keys: KeyOrder, keys_of: KeysOf, first: Offset, end: Offset) -> tuple[list[Run], Offset]:
    """The messages that may go, and the end of those that were looked at. The others are passed over."""
    admitted: list[Run] = []
    found = keys_of(first, end)
    for offset, key in enumerate(found, first):
        if key is None or keys.may_go_ahead(offset, key):
            _append(admitted, offset)
    return admitted, first + len(found)


def _append(runs: list[Run], offset: Offset) -> None:
    if runs and runs[-1][1] == offset:
        runs[-1] = (runs[-1][0], offset + 1)
    else:
        runs.append((offset, offset + 1))
