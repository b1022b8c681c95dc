"""Idempotency keys: a record that is sent again with the same key is answered with the offset of the first one.

A key is remembered by its digest, in a window with the bounds of the partition's producers: as many keys as that has
batches, and as long. Time comes from the same stamps (`producers`). Keys in flight are the leader's memory.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from flotilla.types.ids import Offset

DIGEST_BYTES: Final = 16
#: In the place of a record without a key.
NO_DIGEST: Final = b""


def digests_of(keys: Iterable[bytes]) -> list[bytes]:
    """One for each record of a batch."""
    return [blake2b(key, digest_size=DIGEST_BYTES).digest() if key else NO_DIGEST for key in keys]


class KeyTable:
    """The newest keys of one partition, in the order of offsets."""

    __slots__ = ("entries_max", "offsets", "order")

    def __init__(self, entries_max: int) -> None:
        assert entries_max > 0
        self.entries_max = entries_max
        #: Digest to the offset of the first record with that key.
        self.offsets: dict[bytes, Offset] = {}
        #: The same digests. The dict would not do: finding its first item skips all that were deleted.
        self.order: deque[bytes] = deque()

    def __len__(self) -> int:
        return len(self.order)

    def record(self, base_offset: Offset, keys: Iterable[bytes]) -> None:
        """A batch with keys was stored."""
        for into, digest in enumerate(digests_of(keys)):
            # A leader admits no key twice while it is remembered. If it did, the first offset would stay.
            if digest and digest not in self.offsets:
                self.offsets[digest] = base_offset + into
                self.order.append(digest)
        self._shrink()

    def forget_below(self, end: Offset) -> None:
        """The window of records below `end` is over."""
        while self.order and self.offsets[self.order[0]] < end:
            del self.offsets[self.order.popleft()]

    def configure(self, entries_max: int) -> None:
        self.entries_max = entries_max
        self._shrink()

    def _shrink(self) -> None:
        while len(self.order) > self.entries_max:
            del self.offsets[self.order.popleft()]


@dataclass(slots=True)
class Known:
    """Records of a batch whose keys are stored or in flight."""

    #: Places in the batch, ascending, and the offset of the first record with the same key.
    positions: list[int]
    offsets: list[Offset]
    #: Of the newest batch among them that is in flight; None: all of them are stored.
    token: object | None


@dataclass(slots=True)
class _KeyedBatch:
    base_offset: Offset
    digests: Sequence[bytes]
    token: object


class PendingKeys:
    """Keys of batches in flight, in front of the stored keys."""

    def __init__(self, table: KeyTable) -> None:
        self._table = table
        #: In the order of offsets.
        self._batches: deque[_KeyedBatch] = deque()
        self._by_digest: dict[bytes, tuple[Offset, object]] = {}

    def find(self, digests: Sequence[bytes], applied: Offset) -> Known | None:
        """None: all keys of the batch are new. Batches below `applied` are not in flight any more."""
        while self._batches and self._batches[0].base_offset < applied:
            self._forget(self._batches.popleft())
        known = Known([], [], None)
        newest = -1
        for position, digest in enumerate(digests):
            pending = self._by_digest.get(digest)
            offset = self._table.offsets.get(digest) if pending is None else pending[0]
            if offset is None:
                continue
            known.positions.append(position)
            known.offsets.append(offset)
            if pending is not None and offset > newest:
                newest, known.token = pending
        return known if known.positions else None

    def begin(self, base_offset: Offset, digests: Sequence[bytes], token: object) -> None:
        """A batch with keys, all of them new, is proposed."""
        assert token is not None, "None says that nothing is in flight"
        self._batches.append(_KeyedBatch(base_offset, digests, token))
        for into, digest in enumerate(digests):
            if digest:
                assert digest not in self._by_digest
                self._by_digest[digest] = (base_offset + into, token)

    def retract(self, base_offset: Offset) -> None:
        """Undoes the last `begin`, if it was at this offset: the batch could not be proposed."""
        if self._batches and self._batches[-1].base_offset >= base_offset:
            batch = self._batches.pop()
            assert batch.base_offset == base_offset, "only the last batch can be retracted"
            self._forget(batch)

    def clear(self) -> None:
        self._batches.clear()
        self._by_digest.clear()

    def _forget(self, batch: _KeyedBatch) -> None:
        for digest in batch.digests:
            if digest:
                del self._by_digest[digest]
