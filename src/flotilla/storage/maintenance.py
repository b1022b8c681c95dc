"""Background work: moves tails into segments, removes files that are not needed, creates spare journal files.

A job is planned on the loop from copies, runs on any thread touching only its own copies and the disk, and
is taken over on the loop. There it is reconciled with changes of the log since: entries truncated meanwhile
do not count, and a log that was reset takes nothing. The journal stays authoritative until a checkpoint that
names the new files is durable, so a job may die at any point or run again.
"""

from collections.abc import Callable
from functools import partial
from itertools import count

from flotilla.storage.damage.repairs import RepairedEntry
from flotilla.storage.framing import FRAME_BYTES, seal_absent, sealed_again
from flotilla.storage.group_log import SegmentedLog
from flotilla.storage.journal import Journal, SpareFile
from flotilla.storage.options import StoreOptions
from flotilla.storage.ports import Buffer, Disk, File
from flotilla.storage.segment import Segment, SegmentWriter, group_folder, walk_file
from flotilla.storage.segment_index import SparseIndex
from flotilla.types.errors import DiskFullError, FlotillaError
from flotilla.types.ids import Index


class GroupFlush:
    """Appends one group's tail to its segments, and rewrites segments with repaired entries."""

    __slots__ = (
        "_active", "_base", "_bodies", "_created", "_disk", "_had_segments", "_heads", "_is_done", "_is_second_run",
        "_numbers", "_options", "_rewrites", "_salt", "_terms", "appended", "first_index", "generation", "last_index",
        "log", "overlay", "replaced",
    )  # fmt: skip

    def __init__(
        self, log: SegmentedLog, disk: Disk, options: StoreOptions, numbers: "count[int]", *, rewrites: bool
    ) -> None:
        """Without `rewrites` segments stay as they are, and the job reads nothing."""
        self._disk = disk
        self._options = options
        self._salt = log.salt.value
        self._numbers = numbers
        self.log = log
        self.generation = log.generation
        self.first_index = log.tail.first_index
        self.last_index = log.last_index()
        self._rewrites = [segment.copy() for segment in log.segments if rewrites and _is_due(log, segment)]
        self.overlay = _repairs_of(log, self._rewrites)
        self._heads: list[bytes] = log.tail.heads[:]
        self._bodies: list[Buffer] = [entry.data for entry in log.tail.entries]
        for index, repaired in self.overlay.items():
            if index >= self.first_index:
                self._heads[index - self.first_index] = repaired.head
                self._bodies[index - self.first_index] = repaired.entry.data
        self._had_segments = bool(log.segments)
        self._base = log.base
        self._terms = log.terms.copy()
        active = log.segments[-1] if log.segments else None
        if active is not None and (active.is_closed or any(active.number == old.number for old in self._rewrites)):
            active = None
        self._active = active.copy() if active is not None else None
        #: Old numbers and the segments that replace them: extended (same number) or rewritten (a new one).
        self.replaced: list[tuple[int, Segment]] = []
        self.appended: list[Segment] = []
        self._created: list[Segment] = []
        self._is_second_run = False
        self._is_done = False
        log.is_flushing = True
        log.truncated_from = 1 << 63

    @staticmethod
    def is_needed(log: SegmentedLog) -> bool:
        return bool(log.tail.entries or log.overlay)

    @staticmethod
    def is_repair_due(log: SegmentedLog) -> bool:
        """Whether repaired entries can be moved to where they belong, once and for all."""
        if not log.overlay or not log.is_attached:
            return False
        is_tail_mended = log.damaged.next_from(log.tail.first_index) is None
        has_tail_repairs = log.overlay.ranges.next_from(log.tail.first_index) is not None
        return (is_tail_mended and has_tail_repairs) or any(map(log.is_mended, log.segments))

    def run(self) -> None:
        if self._is_done:
            return
        if self._is_second_run:
            # After a failed sync the file's cached pages cannot be trusted: everything goes to new files.
            self._forget_first_run()
        self._is_second_run = True
        folder = group_folder(self.log.group)
        self._disk.make_directory(folder)
        if not self._had_segments:
            self._disk.sync_directory("groups")
        for segment in self._rewrites:
            self._rewrite(segment)
        self._append()
        if self._created:
            self._disk.sync_directory(folder)
        self._is_done = True

    def created_paths(self) -> list[str]:
        """The files that this job created."""
        return [path for segment in self._created for path in (segment.path, segment.index_path)]

    def _forget_first_run(self) -> None:
        for path in self.created_paths():
            self._disk.remove(path)
        self._created = []
        self.replaced = []
        self.appended = []
        self._active = None

    def _append(self) -> None:
        at = 0
        active = self._active
        while at < len(self._heads):
            if active is not None:
                writer = SegmentWriter(self._disk, self._options, active, create=False)
            else:
                writer = self._create(self.first_index + at)
            try:
                while at < len(self._heads) and not writer.is_full:
                    writer.append(self._heads[at], self._bodies[at])
                    at += 1
                segment = writer.finish()
            finally:
                writer.close()
            if active is not None:
                self.replaced.append((active.number, segment))
                active = None
            else:
                self.appended.append(segment)

    def _rewrite(self, old: Segment) -> None:
        """Copies a segment, with the repaired entries in place."""
        index = max(old.first_index, self._base + 1)
        writer = self._create(index)
        try:
            for head, body in self._repaired_frames(old, index):
                writer.append(head, body)
            segment = writer.finish()
        finally:
            writer.close()
        segment.is_closed = True
        self.replaced.append((old.number, segment))

    def _repaired_frames(self, old: Segment, low: Index) -> list[tuple[Buffer, Buffer]]:
        frames: dict[Index, tuple[Buffer, Buffer]] = {
            index: (repaired.head, repaired.entry.data) for index, repaired in self.overlay.items()
        }
        if self._disk.exists(old.path):
            file = self._disk.open(old.path)
            try:
                self._add_intact(frames, file, old, low)
            finally:
                file.close()
        return [
            frames.get(index) or (seal_absent(self.log.group, index, self._terms.term(index), self._salt), b"")
            for index in range(low, old.last_index + 1)
        ]

    def _add_intact(self, frames: dict[Index, tuple[Buffer, Buffer]], file: File, old: Segment, low: Index) -> None:
        """Adds the frames of the file that were not repaired."""
        while low <= old.last_index:
            if low in self.overlay:
                low += 1
                continue
            high = next(
                (index for index in range(low, old.last_index + 1) if index in self.overlay), old.last_index + 1
            )
            place = old.index.before_index(low)
            _, end = next(old.index.points_after(high - 1), (high, old.index.end_position))
            want_bytes = min(max(end - place[1], FRAME_BYTES), self._options.transfer_bytes)
            part = Segment(old.group, old.number, old.index, old.salt)
            part.last_index = high - 1
            for _, found in walk_file(file, part, file.size(), *place, low, want_bytes):
                stored = found.stored
                if stored is not None and old.salt == self._salt:
                    frames[found.index] = stored.head, stored.body
                elif stored is not None:
                    frames[found.index] = sealed_again(stored.frame, stored.body, self._salt), stored.body
            low = high

    def _create(self, first_index: Index) -> SegmentWriter:
        segment = Segment(self.log.group, next(self._numbers), SparseIndex(first_index), self._salt)
        self._created.append(segment)
        return SegmentWriter(self._disk, self._options, segment, create=True)

    def take_over(self) -> list[str]:
        """On the loop: the log uses the new segments. Returns files that are not needed after all."""
        log = self.log
        if log.generation != self.generation:
            return self.created_paths()
        old_numbers = {number for number, _ in self.replaced}
        segments = [segment for segment in log.segments if segment.number not in old_numbers]
        for segment in log.segments:
            if segment.number in old_numbers and all(segment.number != taken.number for _, taken in self.replaced):
                log.release_segment(segment)
        segments += [segment for _, segment in self.replaced]
        segments += self.appended
        segments.sort(key=_first_index)
        if self._active is None:
            for segment in segments[: -len(self.appended) or None]:
                # A second run did not append to the segment that was open before; see run().
                segment.is_closed = True
        log.segments = segments
        log.is_flushing = False
        log.tail.drop_through(min(self.last_index, log.truncated_from - 1))
        log.cut_segments(log.truncated_from)
        log.drop_before_start()
        self._take_over_repairs()
        return []

    def _take_over_repairs(self) -> None:
        self.log.overlay.remove(self.overlay.values())


class MaintenanceJob:
    __slots__ = (
        "_disk", "_journal", "_retired", "_spare_number", "_wants_reserve", "flushes", "has_created_reserve",
        "keep_from", "removals", "spare",
    )  # fmt: skip

    def __init__(
        self,
        disk: Disk,
        journal: Journal,
        *,
        removals: list[str],
        flushes: list[GroupFlush] | None,
        keep_from: int,
        spare_number: int,
        retired: int,
        wants_reserve: bool,
    ) -> None:
        self._disk = disk
        self._journal = journal
        self.removals = removals
        #: None: no flush was planned, so no checkpoint follows.
        self.flushes = flushes
        #: The oldest journal file needed once the flush is checkpointed.
        self.keep_from = keep_from
        self._spare_number = spare_number
        #: The file that is reused as the spare; 0: a new one.
        self._retired = retired
        self.spare: SpareFile | None = None
        self._wants_reserve = wants_reserve
        self.has_created_reserve = False

    def run(self) -> None:
        """An error of one file stops no other file's work. The first one is raised at the end."""
        # Removal first: it frees space for the rest.
        steps: list[Callable[[], None]] = [partial(self._disk.remove, path) for path in self.removals]
        steps += [flush.run for flush in self.flushes or ()]
        errors: list[FlotillaError] = []
        for step in steps:
            try:
                step()
            except FlotillaError as error:
                errors.append(error)
        if errors:
            raise errors[0]
        try:
            # The reserve first: a writer that has a spare no longer waits for room.
            if self._wants_reserve and not self.has_created_reserve:
                self._journal.create_reserve()
                self.has_created_reserve = True
            if self._spare_number and self.spare is None:
                self.spare = self._journal.create_spare(self._spare_number, self._retired)
        except DiskFullError:
            # The writer creates a file when it needs one, and reports a failure.
            pass


def _is_due(log: SegmentedLog, segment: Segment) -> bool:
    """Whether a segment is rewritten: nothing of it is damaged any more, or the journal is about to let go of repairs.

    Otherwise it is left as it is until more has been repaired: every byte of it is written once.
    """
    return log.is_mended(segment) or any(
        repaired.is_journaled for repaired in log.overlay.within(segment.first_index, segment.last_index + 1)
    )


def _repairs_of(log: SegmentedLog, segments: list[Segment]) -> dict[Index, RepairedEntry]:
    """The repaired entries in these segments and in the tail."""
    ranges = [(segment.first_index, segment.last_index + 1) for segment in segments]
    ranges.append((log.tail.first_index, log.last_index() + 1))
    return {repaired.entry.index: repaired for low, high in ranges for repaired in log.overlay.within(low, high)}


def _first_index(segment: Segment) -> Index:
    return segment.first_index
