"""Messages of one key go one at a time and in order: whose turn it is, and who waits behind it.

Only what an ordered poll came across is known here: a key is busy from the lease of one of its messages until that
message is settled, however often it fails in between, and its other messages that come up meanwhile are set aside.
Messages without a key are not ordered. A stuck key costs nobody else anything, until so many of its messages are
aside that the rest of them stand in the way.

What left the ready ones without an ordered poll (leases of an earlier leader, failures that wait for their time) is
noted, and asked for its keys before the next ordered poll chooses: the order holds over a change of leaders.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Final, TypeAlias

from flotilla.partition.offset_runs import RunSet
from flotilla.types.ids import Offset

#: The keys of the messages in [first, end), one for each; None where a message has none.
KeysOf: TypeAlias = Callable[[Offset, Offset], list[bytes | None]]

#: Messages of one group that may be aside; those of busy keys that come up then stay ready, and in the way of others.
BLOCKED_COUNT_MAX: Final = 262_144


class KeyOrder:
    """Of one group at one leader."""

    __slots__ = ("_blocked", "_key_of", "_turns", "blocked_count", "unknown")

    def __init__(self) -> None:
        #: Whose turn it is, by key, and the same the other way round.
        self._turns: dict[bytes, Offset] = {}
        self._key_of: dict[Offset, bytes] = {}
        #: A heap for each busy key that others wait for. Who has left by other ways is found out at its turn.
        self._blocked: dict[bytes, list[Offset]] = {}
        self.blocked_count = 0
        #: Messages that are out or wait, and whose keys nobody has asked for.
        self.unknown = RunSet()

    def __len__(self) -> int:
        """Busy keys."""
        return len(self._turns)

    def learn(self, first: Offset, end: Offset, keys_of: KeysOf) -> None:
        """These are out or wait: their keys are busy."""
        for offset, key in enumerate(keys_of(first, end), first):
            if key is not None and key not in self._turns:
                self._give_turn(key, offset)

    def may_go(self, offset: Offset, key: bytes) -> bool:
        """Whether it is the message's turn, which then lasts until it is settled."""
        turn = self._turns.get(key)
        if turn is None:
            self._give_turn(key, offset)
            return True
        return turn == offset

    def block(self, offset: Offset, key: bytes) -> None:
        """Until its turn comes: its key is busy."""
        heappush(self._blocked.setdefault(key, []), offset)
        self.blocked_count += 1

    @property
    def is_full(self) -> bool:
        return self.blocked_count >= BLOCKED_COUNT_MAX

    def end(self, first: Offset, end: Offset, is_blocked: Callable[[Offset], bool]) -> list[Offset]:
        """These are settled; tells whose turn has come, in the order of offsets.

        `is_blocked` tells whether a message that was set aside still is: others pass their turn on.
        """
        if not self._key_of:
            return []
        if end - first <= len(self._key_of):
            ended = [offset for offset in range(first, end) if offset in self._key_of]
        else:
            ended = sorted([offset for offset in self._key_of if first <= offset < end])
        freed = []
        for offset in ended:
            chosen = self._pass_on(self._key_of.pop(offset), is_blocked)
            if chosen is not None:
                freed.append(chosen)
        return sorted(freed)

    def sweep(self, is_settled: Callable[[Offset], bool], is_blocked: Callable[[Offset], bool]) -> list[Offset]:
        """Ends the turns of messages that were settled without anybody here being told."""
        freed: list[Offset] = []
        for offset in [each for each in self._key_of if is_settled(each)]:
            freed += self.end(offset, offset + 1, is_blocked)
        return sorted(freed)

    def _give_turn(self, key: bytes, offset: Offset) -> None:
        self._turns[key] = offset
        self._key_of[offset] = key

    def _pass_on(self, key: bytes, is_blocked: Callable[[Offset], bool]) -> Offset | None:
        del self._turns[key]
        waiting = self._blocked.get(key, [])
        while waiting:
            offset = heappop(waiting)
            self.blocked_count -= 1
            if is_blocked(offset):
                self._give_turn(key, offset)
                return offset
        self._blocked.pop(key, None)
        return None
