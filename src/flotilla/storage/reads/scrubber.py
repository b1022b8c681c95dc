"""The scrubber: reads everything at rest, piece by piece, and finds damage before a reader does.

A piece is a load like that of a reader, from the disk even if the page cache has it. Damaged entries are reported like
those that a reader finds, so their repair begins. The caller decides how fast pieces follow each other. A pass goes
through the groups by id, with their segments and snapshots, then through the journal, then through the small files with
two copies; files that come and go meanwhile are read or not, and belong to the next pass. What cannot be read is left
to the next pass as well, and counted: the pass is not a full one.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from flotilla.storage.damage.copied_files import copied_files
from flotilla.storage.damage.ranges import IndexRanges
from flotilla.storage.damage.repairs import Overlay
from flotilla.storage.ports import Disk
from flotilla.storage.reads.copies_load import CopiesLoad
from flotilla.storage.reads.journal_load import JournalLoad
from flotilla.storage.reads.loads import SegmentLoad, SnapshotLoad
from flotilla.storage.segment import Segment
from flotilla.storage.snapshots import SnapshotFile
from flotilla.storage.store_format import Salt
from flotilla.types.errors import CorruptionError
from flotilla.types.ids import GroupId, Index
from flotilla.types.limits import KIB

#: One piece: a few hundred small entries, which take a thread less than a millisecond.
PIECE_BYTES = 256 * KIB
#: Every piece of a snapshot reads its header again.
SNAPSHOT_PIECE_BYTES = 1024 * KIB


class AnyLog(Protocol):
    """A group's log, as the scrubber needs it."""

    segments: list[Segment]
    snapshots: list[SnapshotFile]
    damaged: IndexRanges
    #: Repaired entries that are not in their segment yet.
    overlay: Overlay
    #: False: its files are not open yet.
    is_attached: bool

    def first_index(self) -> Index: ...

    def last_index(self) -> Index: ...

    def report_damage(self, low: Index, high: Index) -> None: ...


class Scrubber:
    """Belongs to the loop."""

    __slots__ = (
        "_closed", "_copied", "_copied_files", "_disk", "_group", "_journal", "_low", "_offset", "_salt", "_snapshot",
        "bytes", "damage", "passes", "skipped",
    )  # fmt: skip

    def __init__(self, disk: Disk, salt: Salt, copied_texts: Sequence[str]) -> None:
        self._disk = disk
        self._salt = salt
        self._copied_files = list(copied_files(copied_texts))
        #: Verified bytes, damaged places, and passes that have ended.
        self.bytes = 0
        self.damage = 0
        self.passes = 0
        #: Pieces and logs that could not be read.
        self.skipped = 0
        #: The groups of this pass whose files are not open yet.
        self._closed: set[GroupId] = set()
        #: The next place in the journal: file and position.
        self._journal = (0, 0)
        #: The next small file.
        self._copied = 0
        self._begin(0)

    def _begin(self, group: GroupId) -> None:
        self._group = group
        #: The next entry; after the last one, the next snapshot and the place in it.
        self._low: Index = 0
        self._snapshot = 0
        self._offset = 0

    def plan(
        self, logs: Mapping[GroupId, AnyLog], journal: Sequence[tuple[int, int]]
    ) -> SegmentLoad | SnapshotLoad | JournalLoad | CopiesLoad | None:
        """The next piece; None: the pass has ended. `journal`: its files, and where their blocks end."""
        for group in sorted(group for group in logs if group >= self._group):
            if group > self._group:
                self._begin(group)
            if not logs[group].is_attached:
                self.skipped += group not in self._closed
                self._closed.add(group)
                continue
            load = self._of_segments(logs[group]) or self._of_snapshots(logs[group])
            if load is not None:
                load.is_background = True
                return load
        for number, end in journal:
            low = self._journal[1] if number == self._journal[0] else 0
            if number >= self._journal[0] and low < end:
                return JournalLoad(self._disk, self._salt, number, low, end)
        if self._copied < len(self._copied_files):
            return CopiesLoad(self._disk, *self._copied_files[self._copied])
        self.passes += 1
        self._journal = (0, 0)
        self._copied = 0
        self._closed.clear()
        self._begin(0)
        return None

    def _of_segments(self, log: AnyLog) -> SegmentLoad | None:
        low = max(self._low, log.first_index())
        for segment in log.segments:
            if low <= segment.last_index:
                return SegmentLoad(self._disk, segment, max(low, segment.first_index), PIECE_BYTES)
        return None

    def _of_snapshots(self, log: AnyLog) -> SnapshotLoad | None:
        for snapshot in log.snapshots:
            if snapshot.number > self._snapshot or (snapshot.number == self._snapshot and self._offset):
                if snapshot.number > self._snapshot:
                    self._snapshot, self._offset = snapshot.number, 0
                if self._offset < max(snapshot.meta.size_bytes, 1):
                    return SnapshotLoad(self._disk, snapshot, self._offset, SNAPSHOT_PIECE_BYTES)
                self._offset = 0
        return None

    def finish(self, load: SegmentLoad | SnapshotLoad, log: AnyLog | None) -> bool:
        """The piece was read, or could not be. Returns whether the group needs another snapshot.

        `log` is None if the file is gone by now.
        """
        part = load.part
        if isinstance(load, SegmentLoad):
            # A file that cannot be read now is left to the next pass.
            self._low = load.last_index + 1 if part is None else part.next_index
        else:
            self._offset = load.low + SNAPSHOT_PIECE_BYTES
        if log is None:
            return False
        if part is None:
            self.skipped += 1
            return False
        self.bytes += part.size_bytes
        if isinstance(load, SnapshotLoad):
            is_damaged = isinstance(part.content, CorruptionError)
            self.damage += is_damaged
            return is_damaged
        for found in part.found:
            if found.stored is None:
                self.damage += report_found(log, found.index, found.next_index)
        return False

    def finish_journal(self, load: JournalLoad, *, is_current: bool) -> bool:
        """The piece was read, or could not be. Returns whether it is damaged, and still belongs to the journal."""
        self._journal = (load.number, load.next_position)
        if not is_current:
            return False
        if load.part is None:
            self.skipped += 1
            return False
        self.bytes += load.part.size_bytes
        self.damage += load.is_damaged
        return load.is_damaged

    def finish_copies(self, load: CopiesLoad) -> None:
        """The file was read, and perhaps mended, or could not be."""
        self._copied += 1
        if load.part is None:
            self.skipped += 1
        else:
            self.bytes += load.part.size_bytes
        self.damage += load.damage


def report_found(log: AnyLog, low: Index, high: Index) -> int:
    """Reports damage that a background read has found in [low, high); returns the number of places not known before."""
    places = unrepaired(log, max(low, log.first_index()), min(high, log.last_index() + 1))
    new = [(start, stop) for start, stop in places if log.damaged.at(start) is None]
    for start, stop in new:
        log.report_damage(start, stop)
    return len(new)


def unrepaired(log: AnyLog, low: Index, high: Index) -> Iterator[tuple[Index, Index]]:
    """The parts of [low, high) without entries that were repaired and are not in their segment yet."""
    for first, end in log.overlay.ranges.within(low, high):
        if low < first:
            yield low, first
        low = end
    if low < high:
        yield low, high
