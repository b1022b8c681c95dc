"""Idempotency keys: a record that is sent again with the same key is answered with the offset of the first one.

A key is remembered by its digest, in a window with the bounds of the partition's producers (`producers`): at least as
many keys as that has batches, and every key for the horizon of time. Time comes from the same stamps. Keys in flight
are the leader's memory.

Ten thousand keys a second are three million in a horizon, so a key has to be small. Digests and offsets lie side by
side in buckets, which are immutable bytes: searched in one call, shared with a view for free. A key takes 24 bytes and
its part of a bucket, where a dict and its order took 150. The buckets grow one at a time (linear hashing): no record
pays for all of them.

Forgetting is one number, the floor: keys of earlier offsets are not known any more. Their bytes leave a bucket when it
gets its next key, or when the purge comes by; a snapshot does not have them.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, NamedTuple

from flotilla.types.ids import Offset
from flotilla.types.limits import DEDUP_KEY_COUNT_MAX

DIGEST_BYTES: Final = 16
#: In the place of a record without a key.
NO_DIGEST: Final = b""
#: A digest and an offset, little endian.
_KEY_BYTES: Final = DIGEST_BYTES + 8
#: Keys in a bucket, on average, beyond which there is one bucket more.
_LOAD: Final = 32
#: Buckets that are purged when a batch is stored, and when something is forgotten.
_PURGED_PER_BATCH: Final = 8
_PURGED_AT_ONCE: Final = 2_048
#: Buckets that one step of encoding handles.
STEP: Final = 256


def digests_of(keys: Iterable[bytes]) -> list[bytes]:
    """One for each record of a batch."""
    return [blake2b(key, digest_size=DIGEST_BYTES).digest() if key else NO_DIGEST for key in keys]


class FrozenKeys(NamedTuple):
    """A table as it was when the view was taken. Any thread may read it."""

    floor: Offset
    recorded: int
    forgotten: int
    buckets: list[bytes]

    def steps(self) -> Iterator[list[bytes]]:
        """The buckets without what is forgotten, some at a time."""
        for at in range(0, len(self.buckets), STEP):
            yield [_live(bucket, self.floor) for bucket in self.buckets[at : at + STEP]]


class KeyTable:
    """The keys of one partition."""

    __slots__ = ("_mask", "_purged", "buckets", "entries_max", "floor", "forgotten", "recorded")

    def __init__(self, entries_max: int) -> None:
        assert entries_max > 0
        self.entries_max = entries_max
        #: Keys of earlier offsets are forgotten.
        self.floor: Offset = 0
        #: Keys that were ever recorded, and those of them that are forgotten.
        self.recorded = 0
        self.forgotten = 0
        self._set_buckets([b""])

    def _set_buckets(self, buckets: list[bytes]) -> None:
        #: In each, the keys of its digests in the order of offsets. Their number depends on the keys alone, so that
        #: all replicas have the same.
        self.buckets = buckets
        #: The power of two that is not below their number, less one.
        self._mask = (1 << (len(buckets) - 1).bit_length()) - 1
        #: Buckets below hold nothing that was forgotten before the last time.
        self._purged = len(buckets)

    @classmethod
    def restored(cls, entries_max: int, frozen: FrozenKeys) -> "KeyTable":
        table = cls(entries_max)
        table.floor, table.recorded, table.forgotten, _ = frozen
        table._set_buckets(frozen.buckets)
        return table

    def freeze(self) -> FrozenKeys:
        return FrozenKeys(self.floor, self.recorded, self.forgotten, self.buckets.copy())

    def __len__(self) -> int:
        return self.recorded - self.forgotten

    def size_bytes(self) -> int:
        """Of the keys that are not forgotten."""
        return (self.recorded - self.forgotten) * _KEY_BYTES

    def is_full(self) -> bool:
        """Whether there is no room for new keys: all beyond the count are younger than the horizon."""
        return len(self) >= self.entries_max + DEDUP_KEY_COUNT_MAX

    def get(self, digest: bytes) -> Offset | None:
        """The offset of the first record with that key; None: it is not known, or there is no key."""
        if not digest:
            return None
        bucket = self.buckets[self._place(digest)]
        at = _find(bucket, digest)
        if at < 0:
            return None
        offset = _offset_at(bucket, at)
        return offset if offset >= self.floor else None

    def _place(self, digest: bytes) -> int:
        at = int.from_bytes(digest[:4], "little") & self._mask
        # The last buckets that the mask allows are not there yet: their keys are where they will be split off.
        return at if at < len(self.buckets) else at & (self._mask >> 1)

    def record(self, base_offset: Offset, keys: Iterable[bytes]) -> None:
        """A batch with keys was stored."""
        buckets = self.buckets
        for into, digest in enumerate(digests_of(keys)):
            if not digest:
                continue
            at = self._place(digest)
            bucket = buckets[at]
            if self._purged < len(buckets):
                bucket = _live(bucket, self.floor)
            # A leader admits no key twice while it is remembered. If it did, the first offset would stay.
            if digest in bucket and _find(bucket, digest) >= 0:
                continue
            buckets[at] = bucket + (digest + (base_offset + into).to_bytes(8, "little"))
            self.recorded += 1
            if self.recorded - self.forgotten > _LOAD * len(buckets):
                self._split()
        self._purge(_PURGED_PER_BATCH)

    def _split(self) -> None:
        """One bucket more: it gets its keys from the one that had them until now."""
        new = len(self.buckets)
        mask = (1 << new.bit_length()) - 1
        old = new & (mask >> 1)
        bucket = _live(self.buckets[old], self.floor)
        keys = [bucket[at : at + _KEY_BYTES] for at in range(0, len(bucket), _KEY_BYTES)]
        # One bit of the digest tells the two apart.
        byte, bit = divmod(new.bit_length() - 1, 8)
        self.buckets[old] = b"".join([key for key in keys if not key[byte] >> bit & 1])
        self.buckets.append(b"".join([key for key in keys if key[byte] >> bit & 1]))
        self._mask = mask
        if self._purged == new:
            self._purged += 1

    def forget_below(self, end: Offset, recorded: int) -> None:
        """Keys of offsets below `end` are forgotten: the first ones of that many that had been recorded by then."""
        if end <= self.floor:
            return
        assert self.forgotten <= recorded <= self.recorded
        self.floor = end
        self.forgotten = recorded
        if not len(self):
            self._set_buckets([b""])
            return
        self._purged = 0
        self._purge(_PURGED_AT_ONCE)

    def _purge(self, count: int) -> None:
        """Frees the memory of forgotten keys, some buckets at a time. Nobody can tell the difference."""
        if self._purged >= len(self.buckets):
            return
        buckets, floor = self.buckets, self.floor
        end = min(self._purged + count, len(buckets))
        for at in range(self._purged, end):
            buckets[at] = _live(buckets[at], floor)
        self._purged = end

    def configure(self, entries_max: int) -> None:
        """Keys beyond it are forgotten at a later stamp."""
        self.entries_max = entries_max


def _offset_at(bucket: bytes, at: int) -> Offset:
    return int.from_bytes(bucket[at + DIGEST_BYTES : at + _KEY_BYTES], "little")


def _find(bucket: bytes, digest: bytes) -> int:
    """Where the digest is; below 0: it is not there."""
    at = bucket.find(digest)
    while at > 0 and at % _KEY_BYTES:
        # The end of one key and the beginning of the next.
        at = bucket.find(digest, at + 1)
    return at


def _live(bucket: bytes, floor: Offset) -> bytes:
    """Without the keys of offsets below."""
    at = 0
    while at < len(bucket) and _offset_at(bucket, at) < floor:
        at += _KEY_BYTES
    return bucket[at:] if at else bucket


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
            offset = self._table.get(digest) if pending is None else pending[0]
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
