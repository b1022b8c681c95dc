"""The order of messages by key: of each key one message at a time, in the order of offsets.

A key is busy from the lease of one of its messages until that message is settled, however often it fails in between.
Its other messages that an ordered poll meets meanwhile are blocked. Messages without a key are not ordered. A stuck key
does not delay other keys, until `BLOCKED_COUNT_MAX` messages are blocked and the rest of its messages stand in the way.

Only ordered polls learn keys. Messages that left the ready ones in another way (leases of an earlier leader, failures
that wait for a retry) are noted as `unknown`, and their keys are read before the next ordered poll chooses: so the
order holds over a change of leaders.
"""

from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from typing import Final, TypeAlias

from flotilla.partition.leader.places import BLOCKED
from flotilla.partition.leader.ready_messages import Chosen, ReadyMessages
from flotilla.partition.offset_runs import Run, RunMap, RunSet
from flotilla.types.errors import FlotillaError
from flotilla.types.ids import Offset

#: The keys of the messages in [first, end), one for each; None where a message has none.
KeysOf: TypeAlias = Callable[[Offset, Offset], list[bytes | None]]

#: Bounds the memory of one group. Beyond it, messages of busy keys stay ready, in the way of others.
BLOCKED_COUNT_MAX: Final = 262_144
#: Messages that an ordered poll looks at beyond those that it asked for.
_LOOK_AHEAD: Final = 1_024


class KeyOrder:
    """The busy keys of one group at one leader."""

    __slots__ = ("_blocked", "_busy", "_key_of", "blocked_count", "unknown")

    def __init__(self) -> None:
        #: The message that makes each key busy, and the same the other way round.
        self._busy: dict[bytes, Offset] = {}
        self._key_of: dict[Offset, bytes] = {}
        #: A heap of blocked messages for each busy key. It may hold messages that are not blocked any more.
        self._blocked: dict[bytes, list[Offset]] = {}
        self.blocked_count = 0
        #: Taken messages whose keys have not been read.
        self.unknown = RunSet()

    def __len__(self) -> int:
        """Busy keys."""
        return len(self._busy)

    def learn_unknown(self, taken: RunMap[int], keys_of: KeysOf) -> None:
        """Reads the keys of `unknown`, as far as the messages are still taken."""
        for first, end in self.unknown:
            for low, high, _ in list(taken.within(first, end)):
                self.learn(low, high, keys_of)
        self.unknown.clear()

    def learn(self, first: Offset, end: Offset, keys_of: KeysOf) -> None:
        """These messages are taken: their keys are busy."""
        for offset, key in enumerate(keys_of(first, end), first):
            if key is not None and key not in self._busy:
                self._occupy(key, offset)

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
) -> list[Chosen]:
    """Takes out up to `count_max` messages whose keys are free, and blocks the others that it meets.

    Raises FlotillaError if the log cannot be read before anything is chosen.
    """
    chosen: list[Chosen] = []
    unplaced: list[Offset] = []
    left = count_max
    looks = _LOOK_AHEAD + count_max
    while left and looks > 0:
        found = ready.choose(min(left, looks), poll_number)
        if not found:
            break
        looks -= sum([end - first for first, end, _ in found])
        found.reverse()
        try:
            while found:
                first, end, priority = found[-1]
                admitted = _admit(keys, taken, first, end, keys_of, unplaced)
                chosen += [(low, high, priority) for low, high in admitted]
                left -= sum([high - low for low, high in admitted])
                found.pop()
        except FlotillaError:
            # The log cannot be read there now: the rest stays ready.
            for first, end, _ in found:
                ready.put(first, end, due_ms)
            if not chosen:
                _put_back(ready, unplaced, due_ms)
                raise
            break
    _put_back(ready, unplaced, due_ms)
    return chosen


def _put_back(ready: ReadyMessages, offsets: Iterable[Offset], due_ms: int) -> None:
    for offset in offsets:
        ready.put(offset, offset + 1, due_ms)


def _admit(
    keys: KeyOrder, taken: RunMap[int], first: Offset, end: Offset, keys_of: KeysOf, unplaced: list[Offset]
) -> list[Run]:
    """The messages that may go. The others are blocked, or added to `unplaced` when too many are."""
    admitted: list[Run] = []
    for offset, key in enumerate(keys_of(first, end), first):
        if key is None or keys.may_go(offset, key):
            if admitted and admitted[-1][1] == offset:
                admitted[-1] = (admitted[-1][0], offset + 1)
            else:
                admitted.append((offset, offset + 1))
        elif keys.is_full:
            unplaced.append(offset)
        else:
            keys.block(offset, key)
            taken.set(offset, offset + 1, BLOCKED)
    return admitted
