"""One group's log: segments, then the tail, and the metadata of every entry.

Writing is a change in memory plus a record in the block being collected; replaying the journal makes the
same changes without the records (the `*_in_memory` methods). Invariants:
  L1  base <= durable_index <= last_index; segments cover (base, durable_index], the tail the rest, without gaps
  L2  the term of every index from the base on is known, also of damaged entries
  L3  an entry whose checksum does not match, or whose body is lost, is never returned: it is in `damaged`
  L4  a file is released (trash) by the block that replaces it, and removed only after that block is durable
"""

from bisect import insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from flotilla.raft.messages import (
    CONFIG,
    ENTRY_OVERHEAD_BYTES,
    Configuration,
    Entry,
    HardState,
    Snapshot,
    SnapshotMeta,
)
from flotilla.replica.ports import Recovered
from flotilla.storage.block import PendingBlock
from flotilla.storage.damage.ranges import IndexRanges
from flotilla.storage.damage.repairs import Overlay, RepairedEntry, UnsavedRepairs
from flotilla.storage.framing import PAIR, START, TRIPLE, TRUNCATE, record
from flotilla.storage.in_memory.tail import Tail
from flotilla.storage.in_memory.term_runs import TermRuns
from flotilla.storage.options import StoreOptions
from flotilla.storage.ports import Disk
from flotilla.storage.reads.loads import Loads
from flotilla.storage.segment import Segment
from flotilla.storage.segment_index import NO_OFFSET
from flotilla.storage.snapshots import SnapshotFile
from flotilla.storage.store_format import Salt
from flotilla.types.errors import CorruptionError, NotLoadedError
from flotilla.types.ids import GroupId, Index, Term
from flotilla.types.records import Span

#: Above every index: nothing was truncated.
_NEVER = 1 << 63
#: Damaged places that a reader looks for behind the one that it met.
_AHEAD_MAX = 32


class Collector:
    """The block being collected and the damage found by readers, shared by the store and its logs."""

    __slots__ = ("block", "found_damage", "searches")

    def __init__(self, block: PendingBlock) -> None:
        self.block = block
        #: Group and range of the damage that readers found.
        self.found_damage: list[tuple[GroupId, Index, Index]] = []
        #: Logs that are searched for more damage, and from where on.
        self.searches: dict[GroupId, Index] = {}


@dataclass(slots=True)
class Step:
    """One position of a walk; `entry` is None where [index, next_index) is damaged."""

    index: Index
    next_index: Index
    entry: Entry | None
    span: Span | None


class SegmentedLog:
    __slots__ = (
        "_collector",
        "_disk",
        "_generations",
        "_loads",
        "_options",
        "base",
        "configuration",
        "configuration_entries",
        "damaged",
        "doubtful",
        "generation",
        "group",
        "hard_state",
        "is_attached",
        "is_flushing",
        "overlay",
        "salt",
        "segments",
        "snapshots",
        "tail",
        "terms",
        "truncated_from",
        "unsaved",
    )

    def __init__(
        self,
        group: GroupId,
        configuration: Configuration,
        *,
        disk: Disk,
        loads: Loads,
        options: StoreOptions,
        salt: Salt,
        collector: Collector,
        generations: Iterator[int],
    ) -> None:
        self._disk = disk
        self._loads = loads
        self._options = options
        self.salt = salt
        self._collector = collector
        self.group = group
        #: A new number, unique in the node, whenever the log is reset: the result of a job planned before that
        #: is discarded.
        self.generation = next(generations)
        self._generations = generations
        self.hard_state = HardState()
        #: The configuration the group was created with; a snapshot has its own.
        self.configuration = configuration
        #: CONFIG entries after the oldest snapshot that is kept; all of them while the log begins at 1.
        self.configuration_entries: list[Entry] = []
        #: The index before the first entry.
        self.base: Index = 0
        self.terms = TermRuns(0, 0)
        self.segments: list[Segment] = []
        self.tail = Tail(1)
        self.damaged = IndexRanges()
        #: Those of them that a power cut may have torn before they were acknowledged.
        self.doubtful = IndexRanges()
        self.overlay = Overlay()
        self.unsaved = UnsavedRepairs()
        #: Snapshots that are kept, the newest last; at most two.
        self.snapshots: list[SnapshotFile] = []
        #: Its files are open; see `attachment`. Until then nothing is read from them, and the log does not change.
        self.is_attached = True
        #: A flush runs; the lowest truncation since it was planned.
        self.is_flushing = False
        self.truncated_from: Index = _NEVER

    # Metadata.

    def first_index(self) -> Index:
        return self.base + 1

    def last_index(self) -> Index:
        return self.tail.last_index

    @property
    def durable_index(self) -> Index:
        """The last entry in a synced segment; the base when there is none."""
        return self.tail.first_index - 1

    def term(self, index: Index) -> Term:
        tail = self.tail
        assert self.base <= index <= tail.last_index
        if index >= tail.first_index:
            return tail.entries[index - tail.first_index].term
        return self.terms.term(index)

    def snapshot(self) -> SnapshotMeta | None:
        return self.snapshots[-1].meta if self.snapshots else None

    def unsaved_repair_bytes(self) -> int:
        return self.unsaved.size_bytes

    def lost_ranges(self) -> list[tuple[Index, Index]]:
        """The entries that a crash leaves without a body: the damaged ones, and repaired ones in memory alone."""
        lost = self.damaged
        if self.unsaved:
            lost = IndexRanges(lost.as_list())
            repairs = self.overlay.within(0, _NEVER)
            lost.add_each(repaired.entry.index for repaired in repairs if not repaired.is_journaled)
        return lost.as_list()

    def is_mended(self, segment: Segment) -> bool:
        """Whether repaired entries belong into this segment, and nothing of it is damaged any more."""
        repaired = self.overlay.ranges.next_from(segment.first_index)
        return repaired is not None and repaired <= segment.last_index and not self.is_damaged_in(segment)

    def is_damaged_in(self, segment: Segment) -> bool:
        damage = self.damaged.next_from(segment.first_index)
        return damage is not None and damage <= segment.last_index

    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self.segments) + self.tail.size_bytes

    def recovered(self) -> Recovered:
        snapshot = self.snapshot()
        configuration = self.configuration if snapshot is None else snapshot.configuration
        covered = 0 if snapshot is None else snapshot.index
        return Recovered(
            hard_state=self.hard_state,
            snapshot=snapshot,
            configuration=configuration,
            configuration_entries=[entry for entry in self.configuration_entries if entry.index > covered],
            damaged=self.damaged.as_list(),
            doubtful=self.doubtful.as_list(),
        )

    # Reading.

    def entries(self, low: Index, high: Index, max_bytes: int) -> list[Entry]:
        tail = self.tail
        assert self.base < low <= high <= tail.last_index + 1
        if low >= tail.first_index and not self.damaged and not self.overlay:
            return _fitting(tail.entries[low - tail.first_index : high - tail.first_index], max_bytes)
        found: list[Entry] = []
        is_known = self.damaged.at(low) is not None
        try:
            for step in self._walk(low, high, max_bytes):
                entry = step.entry
                if entry is None:
                    if not found:
                        next_index = step.next_index if is_known else self._damaged_to(step.next_index, high)
                        raise self._corruption(step.index, min(next_index, high))
                    break
                max_bytes -= len(entry.data) + ENTRY_OVERHEAD_BYTES
                if max_bytes < 0 and found:
                    break
                found.append(entry)
        except NotLoadedError:
            if not found:
                raise
        return found

    def read_from_offset(self, offset: int, max_bytes: int, high_index: Index) -> list[Entry]:
        found: list[Entry] = []
        damage: Step | None = None
        try:
            for step in self._walk(self._before_offset(offset), min(high_index, self.last_index() + 1), max_bytes):
                entry, span = step.entry, step.span
                if entry is None:
                    if found:
                        break
                    damage = step
                    continue
                if span is None or span.base_offset + span.count <= offset:
                    continue
                if damage is not None and span.base_offset > offset:
                    # The requested record may lie in the damage, which must not be skipped silently.
                    break
                max_bytes -= len(entry.data) + ENTRY_OVERHEAD_BYTES
                if max_bytes < 0 and found:
                    break
                found.append(entry)
                if max_bytes <= 0:
                    # Nothing more fits: entries without records behind it are not walked in vain.
                    break
        except NotLoadedError:
            if not found:
                raise
        if damage is not None and not found:
            raise self._corruption(damage.index, damage.next_index)
        return found

    def find_time(self, timestamp_ms: int) -> int | None:
        low = self._before_time(timestamp_ms)
        for step in self._walk(low, self.last_index() + 1, self._options.index_interval_bytes):
            if step.span is not None:
                if step.span.timestamp_ms >= timestamp_ms:
                    return step.span.base_offset
            elif step.entry is None:
                raise self._corruption(step.index, step.next_index)
        return None

    def offset_within(self, size_bytes: int) -> int:
        left_bytes = size_bytes - self.tail.size_bytes
        if left_bytes < 0:
            return self.tail.offset_within(size_bytes)
        for segment in reversed(self.segments):
            index, excess_bytes = segment.index, segment.size_bytes - left_bytes
            if excess_bytes > 0:
                offset = index.end_offset_at(excess_bytes) if left_bytes else index.end_offset
                if offset != NO_OFFSET:
                    return offset
            # An index without a point before that leads to the end of the segment before.
            left_bytes = max(-excess_bytes, 0)
        return NO_OFFSET

    def read_snapshot(self) -> Snapshot | None:
        if not self.snapshots:
            return None
        # Another thread may read it: the loop's own remembers the header.
        newest = SnapshotFile(self.snapshots[-1].group, self.snapshots[-1].number, self.snapshots[-1].meta)
        if not newest.meta.size_bytes:
            newest.verify(self._disk)
        return Snapshot(newest.meta, newest.read(self._disk, 0, newest.meta.size_bytes))

    def snapshot_chunk(self, index: Index, offset: int, length: int) -> bytes | None:
        if not self.snapshots or self.snapshots[-1].meta.index != index:
            return None
        return self._loads.snapshot_chunk(self.snapshots[-1], offset, length)

    def _before_offset(self, offset: int) -> Index:
        """An index at or before the first entry with a record at or after `offset`."""
        tail_offset = self.tail.first_offset()
        if tail_offset != NO_OFFSET and offset >= tail_offset:
            return max(self._before_unknown(self.tail.from_offset(offset)), self.base + 1)
        for segment in reversed(self.segments):
            if segment.index.first_offset != NO_OFFSET and segment.index.first_offset <= offset:
                # Points after a cut are dead, and their indexes belong to the next segment.
                return max(min(segment.index.before_offset(offset), segment.last_index + 1), self.base + 1)
        return self.base + 1

    def _before_time(self, timestamp_ms: int) -> Index:
        for segment in self.segments:
            if segment.index.newest_time_ms >= timestamp_ms:
                return max(min(segment.index.before_time(timestamp_ms), segment.last_index + 1), self.base + 1)
        return max(self._before_unknown(self.tail.from_time(timestamp_ms)), self.base + 1)

    def _before_unknown(self, low: Index) -> Index:
        """At or before `low` in the tail: before entries, damaged or repaired, of whose records the tail may not know.

        Without that a reader would pass them by in silence.
        """
        tail = self.tail
        while low > tail.first_index:
            runs = (self.damaged.before(low), self.overlay.ranges.before(low))
            start, end = max((run for run in runs if run is not None), default=(0, 0))
            if end <= tail.first_index or tail.has_records(end, low):
                break
            low = max(start, tail.first_index)
        return low

    def _walk(self, low: Index, high: Index, want_bytes: int) -> Iterator[Step]:
        """Every position of [low, high) in order: repaired entries, damage, and entries of segments and tail."""
        index = low
        while index < high:
            repaired = self.overlay.get(index)
            damage = self.damaged.at(index)
            if repaired is not None:
                step = Step(index, index + 1, repaired.entry, repaired.span)
                yield step
                index += 1
            elif damage is not None:
                yield Step(index, damage[1], None, None)
                index = damage[1]
            else:
                stop = self._next_special(index, high)
                for step in self._walk_plain(index, stop, want_bytes):
                    index = step.next_index
                    yield step
                    if step.entry is None:
                        break

    def _damaged_to(self, low: Index, high: Index) -> Index:
        """Looks on behind damage that was just found: damage comes in clusters, and is repaired quicker together."""
        low = min(low, high)
        try:
            for step in islice(self._walk(low, high, 0), _AHEAD_MAX):
                if step.entry is not None:
                    break
                low = step.next_index
        except NotLoadedError:
            # What comes next is not in memory: the next reader finds it.
            pass
        return low

    def _next_special(self, index: Index, high: Index) -> Index:
        """The next index that is damaged or repaired."""
        nearest = (self.damaged.next_from(index), self.overlay.ranges.next_from(index))
        return min([high, *(special for special in nearest if special is not None)])

    def _walk_plain(self, low: Index, high: Index, want_bytes: int) -> Iterator[Step]:
        tail = self.tail
        window_bytes = min(want_bytes + self._options.index_interval_bytes, self._options.transfer_bytes)
        for segment in self.segments:
            if segment.last_index < low or segment.first_index >= high:
                continue
            for found in self._loads.walk(segment, max(low, segment.first_index), window_bytes):
                if found.index >= high:
                    return
                if found.stored is None:
                    # The damage is recorded, and the caller decides whether to go on.
                    self.report_damage(found.index, found.next_index)
                    yield Step(max(low, found.index), found.next_index, None, None)
                    return
                frame = found.stored.frame
                entry = Entry(frame.index, frame.term, frame.kind, found.stored.body)
                yield Step(found.index, found.next_index, entry, frame.span)
        for index in range(max(low, tail.first_index), min(high, tail.last_index + 1)):
            at = index - tail.first_index
            yield Step(index, index + 1, tail.entries[at], tail.span(at))

    def _forget_damage(self, low: Index, high: Index) -> None:
        self.damaged.remove(low, high)
        self.doubtful.remove(low, high)

    def mark_damaged(self, low: Index, high: Index) -> None:
        """These entries have no intact body until they are repaired."""
        self.damaged.add(max(low, self.base + 1), min(high, self.last_index() + 1))

    def report_damage(self, low: Index, high: Index) -> None:
        """Records damage that a reader has found, so that it is repaired, and the log after it is searched."""
        self.mark_damaged(low, high)
        self._collector.found_damage.append((self.group, low, high))
        self._collector.searches.setdefault(self.group, high)

    def _corruption(self, low: Index, high: Index) -> CorruptionError:
        return CorruptionError(f"group {self.group}: entries [{low}, {high}) are damaged", self.group, low, high)

    # Changing, in memory and in the block being collected.

    def compact(self, first_index: Index, term_before: Term) -> None:
        if first_index <= self.base + 1:
            return
        assert self.is_start(first_index), "the log's start cannot move beyond its end"
        assert term_before == self.term(first_index - 1), "the base must keep its term"
        self._collector.block.records.append(record(START, TRIPLE.pack(self.group, first_index, term_before)))
        self.move_start_in_memory(first_index)

    def truncate(self, first_dropped: Index) -> None:
        self._collector.block.records.append(record(TRUNCATE, PAIR.pack(self.group, first_dropped)))
        self.truncate_in_memory(first_dropped)

    # Changing in memory only: shared by saving and replaying.

    def append_in_memory(self, entry: Entry, head: bytes, span: Span | None) -> None:
        if entry.term != self.terms.last_term:
            self.terms.append(entry.index, entry.term)
        self.tail.append(entry, head, span)
        if entry.kind == CONFIG:
            self.configuration_entries.append(entry)

    def truncate_in_memory(self, first_dropped: Index) -> None:
        assert first_dropped > self.base, f"truncation at {first_dropped} before the log's start {self.base + 1}"
        if first_dropped > self.last_index():
            return
        self.truncated_from = min(self.truncated_from, first_dropped)
        self.terms.truncate(first_dropped)
        self.tail.truncate(first_dropped)
        self.cut_segments(first_dropped)
        self._forget_damage(first_dropped, _NEVER)
        self._forget_repairs(first_dropped, _NEVER)
        while self.configuration_entries and self.configuration_entries[-1].index >= first_dropped:
            self.configuration_entries.pop()

    def move_start_in_memory(self, first_index: Index) -> None:
        self.base = first_index - 1
        self.terms.move_base(self.base)
        self.tail.drop_through(self.base)
        self._forget_damage(0, first_index)
        self._forget_repairs(0, first_index)
        self.drop_before_start()
        self._drop_old_snapshots()

    def _forget_repairs(self, low: Index, high: Index) -> None:
        self.unsaved.forget(low, high)
        self.overlay.forget(low, high)

    def repair_in_memory(self, repairs: list[RepairedEntry]) -> None:
        mended = IndexRanges()
        mended.add_each(repaired.entry.index for repaired in repairs)
        for low, high in mended.as_list():
            self._forget_damage(low, high)
        self.overlay.add(repairs)
        for repaired in repairs:
            entry = repaired.entry
            assert self.term(entry.index) == entry.term, "a repaired entry must be the one that was lost"
            if repaired.is_journaled:
                self.unsaved.remove(entry.index)
            else:
                self.unsaved.add(repaired)
            if entry.kind == CONFIG and all(known.index != entry.index for known in self.configuration_entries):
                # Its body was lost before its configuration was read.
                insort(self.configuration_entries, entry, key=_index)
                self._drop_old_snapshots()

    def take_snapshot_in_memory(self, snapshot: SnapshotFile) -> None:
        """Adds the newest snapshot; the one before is kept while the log reaches back to it.

        One of the same index takes the place of a damaged one.
        """
        if self.snapshots and self.snapshots[-1].meta.index == snapshot.meta.index:
            self.release(self.snapshots.pop().path)
        self.snapshots.append(snapshot)
        for older in self.snapshots[:-2]:
            self.release(older.path)
        del self.snapshots[:-2]
        self._drop_old_snapshots()

    def reset_in_memory(self, snapshot: SnapshotFile, log_index: Index, log_term: Term) -> None:
        """Installs a snapshot: the log is reset to begin after `log_index`, empty."""
        self.generation = next(self._generations)
        for older in self.snapshots:
            if older.number != snapshot.number:
                self.release(older.path)
        self.snapshots = [snapshot]
        for segment in self.segments:
            self.release_segment(segment)
        self.segments = []
        self.is_flushing = False
        self.base = log_index
        self.terms = TermRuns(log_index, log_term)
        self.tail = Tail(log_index + 1)
        self._forget_damage(0, _NEVER)
        self.overlay = Overlay()
        self.unsaved = UnsavedRepairs()
        self.configuration_entries = []

    def paths(self) -> Iterator[str]:
        """Every file of the log."""
        for segment in self.segments:
            yield segment.path
            yield segment.index_path
        for snapshot in self.snapshots:
            yield snapshot.path

    def is_start(self, first_index: Index) -> bool:
        """Whether the log can begin there from now on."""
        return self.base < first_index <= self.last_index() + 1

    def contains(self, index: Index, term: Term) -> bool:
        return self.base <= index <= self.last_index() and self.terms.term(index) == term

    def drop_before_start(self) -> None:
        """Releases segments that lie wholly before the log's start, unless a job may be extending one."""
        if self.is_flushing:
            return
        kept = 0
        while kept < len(self.segments) and self.segments[kept].last_index <= self.base:
            self.release_segment(self.segments[kept])
            kept += 1
        del self.segments[:kept]

    def cut_segments(self, first_dropped: Index) -> None:
        while self.segments and self.segments[-1].first_index >= first_dropped:
            self.release_segment(self.segments.pop())
        if self.segments:
            self.segments[-1].cut(first_dropped - 1)

    def replace_segment(self, old: Segment, new: Segment, repairs: Iterable[RepairedEntry]) -> None:
        """A rewrite is durable: its segment holds these repaired entries."""
        new.cut(old.last_index)
        self.segments[self.segments.index(old)] = new
        self.release_segment(old)
        self.overlay.remove(repairs)

    def release_all(self) -> None:
        """Releases all files: the group was removed."""
        for path in self.paths():
            self.release(path)

    def _drop_old_snapshots(self) -> None:
        """Releases snapshots whose following log is gone; the newest always stays.

        A log that begins at 1 needs no snapshot: the state is rebuilt from nothing, with all its configurations.
        """
        while len(self.snapshots) > 1 and self.snapshots[0].meta.index < self.base:
            self.release(self.snapshots.pop(0).path)
        if self.snapshots and self.base > 0:
            oldest = self.snapshots[0].meta.index
            while self.configuration_entries and self.configuration_entries[0].index <= oldest:
                self.configuration_entries.pop(0)

    def release_segment(self, segment: Segment) -> None:
        self.release(segment.path)
        self.release(segment.index_path)

    def release(self, path: str) -> None:
        self._collector.block.trash.append(path)


def _index(entry: Entry) -> Index:
    return entry.index


def _fitting(entries: list[Entry], max_bytes: int) -> list[Entry]:
    """As many of the entries as fit into max_bytes, at least one."""
    for at, entry in enumerate(entries):
        max_bytes -= len(entry.data) + ENTRY_OVERHEAD_BYTES
        if max_bytes < 0 and at > 0:
            return entries[:at]
    return entries
