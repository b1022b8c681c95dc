"""The producers of a partition, so that a batch that is sent twice is stored once.

A producer numbers its records without gaps; a batch is named by (producer, epoch, first sequence). The newest batches
of all producers form one window, bounded by count and by time. Inside of it every repetition is recognised and answered
with the offset of the first copy, whichever of several pipelined batches it is. Of a producer whose batches have all
left the window only the last sequence is remembered: it may go on, but older repetitions are refused, never stored
again. That memory has the same bounds. A producer that is forgotten must begin again with sequence 0.

The count takes only what is older than the horizon: however many batches come, each is remembered for that long. So
there may be more of them than the count says, up to `is_full`; then a leader takes no new ones.

Memory: two array slots and one reference per batch (24 bytes), so that a full window of one producer costs little more
than 2 MB, and a producer that sent one batch about half a kilobyte.

Time is not stored per batch. A stamp says "everything stored by now is at least as old as this", so nothing is
forgotten before its time, however rare stamps are, and a batch needs no clock. Stamps that the horizon needs are wanted
only while the tables are half full: then so much is stored that they weigh nothing.
"""

from array import array
from bisect import bisect_right
from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from flotilla.types.errors import FlotillaError, OutOfWindowError, ProducerFencedError, SequenceGapError
from flotilla.types.ids import Offset
from flotilla.types.limits import DEDUP_BATCH_COUNT_MAX, DEDUP_HORIZON_MS, DEDUP_PRODUCER_COUNT_MAX

SEQUENCE_MASK: Final = 2**32 - 1
#: Sequences wrap around: one that is at most half the circle back is old, any other is ahead.
_BEHIND_MAX: Final = 2**31
#: Evicted slots are cut off an array when they are this many and half of it: so cutting costs little per batch.
_SLACK_MIN: Final = 64
#: The shortest distance of stamps is this fraction of the window.
_MARKS: Final = 256
#: The same of the horizon, while the tables are half full.
_HORIZON_MARKS: Final = 32
#: Marks beyond this number are thinned out, but for those of the horizon.
_MARKS_MAX: Final = 1_024
#: Batches and idle producers that a stored batch, and a stamp, may push out: each takes about a microsecond.
_EVICTED_PER_BATCH: Final = 2
_EVICTED_PER_STAMP: Final = 1_024


class New:
    """The batch follows the stored ones: it may be stored."""

    __slots__ = ()


@dataclass(slots=True)
class Duplicate:
    """The batch is stored; its first record is at `first_offset`."""

    first_offset: Offset


NEW: Final = New()
SequenceCheck: TypeAlias = New | Duplicate | FlotillaError


class Idle(NamedTuple):
    """A producer without a batch in the window."""

    epoch: int
    next_sequence: int
    last_offset: Offset


class Mark(NamedTuple):
    """Batches below `end` were stored at `stamp_ms` or before."""

    stamp_ms: int
    end: Offset
    #: Idempotency keys that had been recorded by then.
    keys: int = 0


class Producer:
    """A producer with batches in the window, the oldest first. Slots below `head` have left it."""

    __slots__ = ("age", "epoch", "epoch_start", "head", "next_sequence", "offsets", "producer_id", "sequences")

    def __init__(self, producer_id: int, epoch: int, next_sequence: int, age: int = 0) -> None:
        #: How many views of its table had been taken when it was made.
        self.age = age
        self.producer_id = producer_id
        self.epoch = epoch
        #: Of the next record, unwrapped: it does not return to 0 as sequences on the wire do.
        self.next_sequence = next_sequence
        #: First sequence (unwrapped) and first offset of each batch.
        self.sequences = array("Q")
        self.offsets = array("Q")
        self.head = 0
        #: Slots below are of older epochs: they take room in the window, but no repetition matches them.
        self.epoch_start = 0

    def find(self, sequence: int, count: int) -> SequenceCheck:
        """Whether a batch that does not follow the last one was stored before."""
        behind = (self.next_sequence - sequence) & SEQUENCE_MASK
        if behind > _BEHIND_MAX:
            return gap(self.producer_id, self.next_sequence, sequence)
        first = self.next_sequence - behind
        low = max(self.head, self.epoch_start)
        at = bisect_right(self.sequences, first, low) - 1
        if at < low:
            return out_of_window(self.producer_id, sequence)
        end = self.sequences[at + 1] if at + 1 < len(self.sequences) else self.next_sequence
        if first + count > end:
            # A repetition is inside of the first copy; this is another batch.
            return gap(self.producer_id, self.next_sequence, sequence)
        return Duplicate(self.offsets[at] + first - self.sequences[at])

    def copy(self, age: int) -> "Producer":
        other = Producer(self.producer_id, self.epoch, self.next_sequence, age)
        other.sequences = self.sequences[:]
        other.offsets = self.offsets[:]
        other.head = self.head
        other.epoch_start = self.epoch_start
        return other

    def compact(self) -> None:
        head = self.head
        if head >= _SLACK_MIN and head * 2 >= len(self.offsets):
            del self.sequences[:head]
            del self.offsets[:head]
            self.epoch_start = max(self.epoch_start - head, 0)
            self.head = 0


def gap(producer_id: int, expected: int, sequence: int) -> SequenceGapError:
    return SequenceGapError(
        f"producer {producer_id} sent sequence {sequence} where {expected & SEQUENCE_MASK} should follow"
    )


def fenced(producer_id: int, epoch: int, newest: int) -> ProducerFencedError:
    return ProducerFencedError(f"epoch {epoch} of producer {producer_id} was ended by epoch {newest}")


def out_of_window(producer_id: int, sequence: int) -> OutOfWindowError:
    return OutOfWindowError(f"sequence {sequence} of producer {producer_id} is older than the deduplication window")


class FrozenProducers(NamedTuple):
    """A table as it was when the view was taken. Any thread may read it."""

    entries_max: int
    window_ms: int
    old_end: Offset
    marks: list[Mark]
    producers: dict[int, Producer]
    #: In the order in which they will be forgotten.
    idle: dict[int, Idle]


class ProducerTable:
    """All producers of one partition.

    `freeze` shares the producers with a view that never changes: one that is older than the last view is copied before
    its first change.
    """

    def __init__(self, entries_max: int, window_ms: int, horizon_ms: int = DEDUP_HORIZON_MS) -> None:
        assert entries_max > 0
        assert window_ms > 0
        self.entries_max = entries_max
        self.window_ms = window_ms
        #: What is younger stays, whatever the count says; 0: the count takes all.
        self.horizon_ms = horizon_ms
        #: Everything below is older than the horizon. Moved by stamps.
        self.old_end: Offset = 0
        self.producers: dict[int, Producer] = {}
        #: In the order in which their last batch left the window, which is the order of last_offset. Not a plain
        #: dict: finding its first key skips all that were deleted before it.
        self.idle: OrderedDict[int, Idle] = OrderedDict()
        #: The producer of each batch in the window, in the order of offsets.
        self.ring: deque[int] = deque()
        self.marks: deque[Mark] = deque()
        #: How many views were taken.
        self._age = 0

    def freeze(self) -> FrozenProducers:
        self._age += 1
        # Keys are never moved, so the dict below an OrderedDict has its order; copying that is ten times as fast.
        idle = dict.copy(self.idle)
        bounds = (self.entries_max, self.window_ms, self.old_end)
        return FrozenProducers(*bounds, list(self.marks), self.producers.copy(), idle)

    def _own(self, producer: Producer) -> Producer:
        """A producer that may be changed: one that a view has is copied first."""
        if producer.age != self._age:
            producer = self.producers[producer.producer_id] = producer.copy(self._age)
        return producer

    def __len__(self) -> int:
        """Batches in the window."""
        return len(self.ring)

    def check(self, producer_id: int, epoch: int, sequence: int, count: int) -> SequenceCheck:
        """NEW, a Duplicate, or the error to refuse the batch with. Changes nothing."""
        producer = self.producers.get(producer_id)
        if producer is not None:
            if epoch == producer.epoch:
                if sequence == producer.next_sequence & SEQUENCE_MASK:
                    return NEW
                return producer.find(sequence, count)
            return begin_epoch(producer_id, producer.epoch, epoch, sequence)
        idle = self.idle.get(producer_id)
        if idle is None:
            return NEW if sequence == 0 else out_of_window(producer_id, sequence)
        if epoch != idle.epoch:
            return begin_epoch(producer_id, idle.epoch, epoch, sequence)
        behind = (idle.next_sequence - sequence) & SEQUENCE_MASK
        if behind == 0:
            return NEW
        if behind > _BEHIND_MAX:
            return gap(producer_id, idle.next_sequence, sequence)
        return out_of_window(producer_id, sequence)

    def record(self, producer_id: int, epoch: int, sequence: int, count: int, base_offset: Offset) -> None:
        """A batch was stored. Its leader has checked it against this table and the batches in flight.

        The producer may be unknown here although it was known when the batch was admitted: batches in flight before
        it can have pushed it out of the window.
        """
        producer = self.producers.get(producer_id)
        if producer is None:
            producer = self._enter(producer_id, epoch, sequence)
        elif producer.age != self._age:
            producer = self._own(producer)
        if producer.epoch != epoch:
            assert epoch > producer.epoch, "a fenced epoch was stored"
            producer.epoch = epoch
            producer.epoch_start = len(producer.offsets)
            producer.next_sequence = sequence
        first = producer.next_sequence
        assert first & SEQUENCE_MASK == sequence, "a batch was stored out of sequence"
        producer.sequences.append(first)
        producer.offsets.append(base_offset)
        producer.next_sequence = first + count
        # The object that the producer has, not another one of the same value.
        self.ring.append(producer.producer_id)
        if len(self.ring) > self.entries_max:
            self._shrink(_EVICTED_PER_BATCH, base_offset + count)

    def _enter(self, producer_id: int, epoch: int, sequence: int) -> Producer:
        idle = self.idle.pop(producer_id, None)
        if idle is not None:
            assert epoch >= idle.epoch, "a fenced epoch was stored"
            assert epoch > idle.epoch or sequence == idle.next_sequence, "a batch was stored out of sequence"
        producer = Producer(producer_id, epoch, sequence, self._age)
        self.producers[producer_id] = producer
        return producer

    def _evict(self) -> None:
        """The oldest batch leaves the window."""
        producer = self._own(self.producers[self.ring.popleft()])
        producer.head += 1
        if producer.head < len(producer.offsets):
            if producer.head >= _SLACK_MIN:
                producer.compact()
            return
        del self.producers[producer.producer_id]
        last_offset = producer.offsets[-1]
        next_sequence = producer.next_sequence & SEQUENCE_MASK
        self.idle[producer.producer_id] = Idle(producer.epoch, next_sequence, last_offset)

    def _shrink(self, count: int, next_offset: Offset) -> None:
        """Pushes out what is beyond the count and older than the horizon, at most so many."""
        old = self.old_end if self.horizon_ms else next_offset
        ring, idle = self.ring, self.idle
        left = count
        while left and len(ring) > self.entries_max:
            oldest = self.producers[ring[0]]
            if oldest.offsets[oldest.head] >= old:
                break
            self._evict()
            left -= 1
        while count and len(idle) > self.entries_max:
            if idle[next(iter(idle))].last_offset >= old:
                break
            idle.popitem(last=False)
            count -= 1

    def is_full(self, producer_id: int) -> bool:
        """Whether there is no room for a batch of that producer: all beyond the count are younger than the horizon."""
        if len(self.ring) >= self.entries_max + DEDUP_BATCH_COUNT_MAX:
            return True
        known = len(self.producers) + len(self.idle)
        if known < 2 * self.entries_max + DEDUP_PRODUCER_COUNT_MAX:
            return False
        return producer_id not in self.producers and producer_id not in self.idle

    # Time.

    def wants_stamp(self, now_ms: int, next_offset: Offset, key_count: int = 0) -> bool:
        """Whether a stamp would let anything expire that could not expire without it.

        `key_count`: entries of another table that expire by the same stamps.
        """
        most = max(len(self.ring), len(self.idle), key_count)
        if not most:
            return False
        if self.marks and self.marks[0].stamp_ms + self.window_ms <= now_ms:
            return True
        if most > self.entries_max and self._find_old_end(now_ms) > self.old_end:
            return True
        return self._is_mark_due(now_ms, next_offset, key_count)

    def _is_mark_due(self, now_ms: int, next_offset: Offset, key_count: int) -> bool:
        if not self.marks:
            return next_offset > 0
        newest = self.marks[-1]
        distance_ms = self.window_ms // _MARKS
        if self.horizon_ms and 2 * max(len(self.ring), len(self.idle), key_count) > self.entries_max:
            distance_ms = min(distance_ms, self.horizon_ms // _HORIZON_MARKS)
        return next_offset > newest.end and now_ms - newest.stamp_ms >= distance_ms

    def stamp(self, now_ms: int, next_offset: Offset, keys: int = 0, key_count: int = 0) -> Mark | None:
        """It is `now_ms`, and everything below next_offset has been stored, with so many keys.

        Returns the mark below which everything is forgotten now; None: nothing more is.
        """
        if self._is_mark_due(now_ms, next_offset, key_count):
            self.marks.append(Mark(now_ms, next_offset, keys))
        passed = None
        while self.marks and self.marks[0].stamp_ms + self.window_ms <= now_ms:
            passed = self.marks.popleft()
            self._forget_below(passed.end)
        self.old_end = max(self.old_end, self._find_old_end(now_ms))
        self._shrink(_EVICTED_PER_STAMP, next_offset)
        if len(self.marks) > _MARKS_MAX:
            self._thin_out(now_ms)
        return passed

    def _find_old_end(self, now_ms: int) -> Offset:
        newest = self.old_mark(now_ms)
        return 0 if newest is None else newest.end

    def old_mark(self, now_ms: int, keys_max: int | None = None) -> Mark | None:
        """The newest mark that is older than the horizon, and that covers at most so many keys."""
        for mark in reversed(self.marks):
            if mark.stamp_ms + self.horizon_ms <= now_ms and (keys_max is None or mark.keys <= keys_max):
                return mark
        return None

    def _thin_out(self, now_ms: int) -> None:
        """What a mark covered counts as younger then, and stays longer."""
        kept: deque[Mark] = deque()
        for mark in self.marks:
            is_young = mark.stamp_ms + self.horizon_ms > now_ms
            if not kept or is_young or mark.stamp_ms - kept[-1].stamp_ms >= self.window_ms // _MARKS:
                kept.append(mark)
        self.marks = kept

    def _forget_below(self, end: Offset) -> None:
        while self.ring:
            oldest = self.producers[self.ring[0]]
            if oldest.offsets[oldest.head] >= end:
                break
            self._evict()
        while self.idle:
            producer_id = next(iter(self.idle))
            if self.idle[producer_id].last_offset >= end:
                break
            del self.idle[producer_id]

    def configure(self, entries_max: int, window_ms: int) -> None:
        """Changes the bounds. Entries beyond them are forgotten when the next ones are stored, or at a stamp."""
        self.entries_max = entries_max
        self.window_ms = window_ms


def begin_epoch(producer_id: int, known: int, epoch: int, sequence: int) -> SequenceCheck:
    """A batch of another epoch than the known one: a newer one begins at 0, an older one has ended."""
    assert epoch != known
    if epoch < known:
        return fenced(producer_id, epoch, known)
    return NEW if sequence == 0 else gap(producer_id, 0, sequence)
