"""Rewrites: copies of segments, with the repaired entries in place.

A rewrite reads the old segment, and a disk may never return that. So it is a load: planned on the loop, run on the
threads that read logs, piece by piece, touching only itself and the disk, and taken over on the loop. A file that hangs
holds up its own group, and no flush. The old segment and the journal stay authoritative until a checkpoint that names
the new segment is durable, so a rewrite may be dropped at any point.
"""

from collections.abc import Iterable, Iterator

from flotilla.storage.damage.ranges import IndexRanges
from flotilla.storage.framing import FRAME_BYTES, sealed_again
from flotilla.storage.group_log import SegmentedLog
from flotilla.storage.options import StoreOptions
from flotilla.storage.ports import Buffer, Disk, File
from flotilla.storage.reads.scrubber import report_found
from flotilla.storage.segment import Segment, SegmentWriter, group_folder, walk_file
from flotilla.storage.segment_index import SparseIndex
from flotilla.types.ids import GroupId, Index
from flotilla.types.limits import LOAD_THREADS_MAX

#: One piece, in transfers. Readers of the group wait for it.
_PIECE_TRANSFERS = 4
#: Rewrites at a time: each has a thread, and keeps a file open.
_REWRITES_MAX = LOAD_THREADS_MAX


class SegmentRewrite:
    """The copy of one segment. Implements replica.ports.Load; each run writes a piece."""

    __slots__ = (
        "_disk", "_old", "_options", "_repaired", "_writer", "damage", "has_failed", "is_background", "new",
        "old_number", "repairs",
    )  # fmt: skip

    def __init__(self, disk: Disk, options: StoreOptions, log: SegmentedLog, segment: Segment, number: int) -> None:
        """`number`: of the new segment."""
        self._disk = disk
        self._options = options
        self.is_background = False
        self.old_number = segment.number
        # The loop may cut its own; the index is never changed, only replaced.
        self._old = Segment(segment.group, segment.number, segment.index, segment.salt)
        self._old.last_index = segment.last_index
        first_index, end = max(segment.first_index, log.base + 1), segment.last_index + 1
        self.new = Segment(segment.group, number, SparseIndex(first_index), log.salt.value)
        self.repairs = {repaired.entry.index: repaired for repaired in log.overlay.within(first_index, end)}
        self._repaired = IndexRanges(log.overlay.ranges.within(first_index, end))
        # Open from the first piece to the last: a write that fails after its file was closed might go unnoticed.
        self._writer: SegmentWriter | None = None
        #: Entries that are neither intact nor repaired: the rewrite ends before them.
        self.damage: tuple[Index, Index] | None = None
        #: The last run has not returned.
        self.has_failed = False

    @property
    def group(self) -> GroupId:
        return self._old.group

    @property
    def path(self) -> str:
        return self._old.path

    @property
    def is_complete(self) -> bool:
        return self.new.is_closed

    def created_paths(self) -> list[str]:
        return [self.new.path, self.new.index_path]

    def run(self) -> None:
        """Writes the next piece; with the last one all of them are durable. After an error it must not be run again."""
        self.has_failed = True
        folder = group_folder(self.group)
        if self._writer is None:
            self._disk.make_directory(folder)
            self._writer = SegmentWriter(self._disk, self._options, self.new, create=True)
        left_bytes = _PIECE_TRANSFERS * self._options.transfer_bytes
        for head, body in self._frames():
            self._writer.append(head, body)
            left_bytes -= len(head) + len(body)
            if left_bytes <= 0:
                break
        if self.new.last_index == self._old.last_index:
            self._writer.finish()
            self._disk.sync_directory(folder)
            self.new.is_closed = True
        self.has_failed = False

    def close(self) -> None:
        """No further piece follows."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _frames(self) -> Iterator[tuple[Buffer, Buffer]]:
        """Heads and bodies from the first that is not written yet to the last, or up to damage."""
        file = self._disk.open(self.path) if self._disk.exists(self.path) else None
        try:
            index = self.new.last_index + 1
            while index <= self._old.last_index and self.damage is None:
                repaired = self.repairs.get(index)
                if repaired is not None:
                    yield repaired.head, repaired.entry.data
                    index += 1
                    continue
                high = self._repaired.next_from(index) or self._old.last_index + 1
                if file is None:
                    self.damage = index, high
                    return
                yield from self._intact_frames(file, index, high)
                index = high
        finally:
            if file is not None:
                file.close()

    def _intact_frames(self, file: File, low: Index, high: Index) -> Iterator[tuple[Buffer, Buffer]]:
        """Those in [low, high), of which none was repaired, or up to damage."""
        old = self._old
        place = old.index.before_index(low)
        _, end = next(old.index.points_after(high - 1), (high, old.index.end_position))
        want_bytes = min(max(end - place[1], FRAME_BYTES), self._options.transfer_bytes)
        part = Segment(old.group, old.number, old.index, old.salt)
        part.last_index = high - 1
        for _, found in walk_file(file, part, file.size(), *place, low, want_bytes):
            stored = found.stored
            if stored is None:
                self.damage = found.index, found.next_index
                return
            if old.salt == self.new.salt:
                yield stored.head, stored.body
            else:
                yield sealed_again(stored.frame, stored.body, self.new.salt), stored.body


class Rewrites:
    """The rewrites of a store: a few at a time, and at most one for each group. Belongs to the loop."""

    __slots__ = ("_disk", "_failed", "_options", "_running", "_unfinished")

    def __init__(self, disk: Disk, options: StoreOptions) -> None:
        self._disk = disk
        self._options = options
        self._running: dict[GroupId, SegmentRewrite] = {}
        #: Those of them whose next piece was not handed out yet.
        self._unfinished: list[SegmentRewrite] = []
        #: Segments whose rewrite failed, until `retry`.
        self._failed: set[int] = set()

    def retry(self) -> None:
        self._failed.clear()

    def plan(self, logs: Iterable[SegmentedLog], numbers: Iterator[int]) -> list[SegmentRewrite]:
        """The next pieces of rewrites that have begun, and the first ones of mended segments of these logs."""
        pieces, self._unfinished = self._unfinished, []
        return pieces + [begun for log in logs if (begun := self._begin(log, numbers)) is not None]

    def _begin(self, log: SegmentedLog, numbers: Iterator[int]) -> SegmentRewrite | None:
        if log.group in self._running or not log.is_attached or len(self._running) >= _REWRITES_MAX:
            return None
        # A flush may be extending the last one.
        segments = log.segments[:-1] if log.is_flushing else log.segments
        segment = next((one for one in segments if one.number not in self._failed and log.is_mended(one)), None)
        if segment is None:
            return None
        # No later flush extends it.
        segment.is_closed = True
        rewrite = SegmentRewrite(self._disk, self._options, log, segment, next(numbers))
        self._running[log.group] = rewrite
        return rewrite

    def finish(self, rewrite: SegmentRewrite, log: SegmentedLog | None) -> list[str]:
        """A piece has ended, also with an error; after the last one the log uses the new segment.

        `log` is None if it is gone. Returns files that are not needed after all.
        """
        if rewrite.has_failed:
            self._failed.add(rewrite.old_number)
        elif log is not None and (old := _mended(log, rewrite.old_number)) is not None:
            if rewrite.damage is not None:
                report_found(log, *rewrite.damage)
            elif rewrite.is_complete:
                self._end(rewrite)
                log.replace_segment(old, rewrite.new, rewrite.repairs.values())
                return []
            else:
                self._unfinished.append(rewrite)
                return []
        self._end(rewrite)
        return rewrite.created_paths()

    def _end(self, rewrite: SegmentRewrite) -> None:
        del self._running[rewrite.group]
        rewrite.close()


def _mended(log: SegmentedLog, number: int) -> Segment | None:
    """The segment, if it still has repaired entries and no damage."""
    segment = next((one for one in log.segments if one.number == number), None)
    return segment if segment is not None and log.is_mended(segment) else None
