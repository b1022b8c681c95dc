"""Background work: moves tails into segments, removes files that are not needed, creates spare journal files.

A job is planned on the loop from copies, runs on any thread touching only its own copies and the disk, and
is taken over on the loop. There it is reconciled with changes of the log since: entries truncated meanwhile
do not count, and a log that was reset takes nothing. The journal stays authoritative until a checkpoint that
names the new files is durable, so a job may die at any point or run again.
"""

from collections.abc import Iterable
from itertools import count

from flotilla.storage.group_log import SegmentedLog
from flotilla.storage.journal import Journal, SpareFile
from flotilla.storage.options import StoreOptions
from flotilla.storage.ports import Buffer, Disk
from flotilla.storage.segment import Segment, SegmentWriter, group_folder
from flotilla.storage.segment_index import SparseIndex
from flotilla.types.errors import DiskFullError, FlotillaError
from flotilla.types.ids import Index


class GroupFlush:
    """Appends one group's tail, with its repaired entries, to the segments. Reads nothing."""

    __slots__ = (
        "_active", "_bodies", "_created", "_disk", "_had_segments", "_heads", "_is_done", "_is_second_run",
        "_numbers", "_options", "_salt", "appended", "extended", "first_index", "generation", "last_index", "log",
        "repairs",
    )  # fmt: skip

    def __init__(self, log: SegmentedLog, disk: Disk, options: StoreOptions, numbers: "count[int]") -> None:
        self._disk = disk
        self._options = options
        self._salt = log.salt.value
        self._numbers = numbers
        self.log = log
        self.generation = log.generation
        self.first_index = log.tail.first_index
        self.last_index = log.last_index()
        self.repairs = log.overlay.within(self.first_index, self.last_index + 1)
        self._heads: list[bytes] = log.tail.heads[:]
        self._bodies: list[Buffer] = [entry.data for entry in log.tail.entries]
        for repaired in self.repairs:
            at = repaired.entry.index - self.first_index
            self._heads[at] = repaired.head
            self._bodies[at] = repaired.entry.data
        self._had_segments = bool(log.segments)
        active = log.segments[-1] if log.segments else None
        self._active = active.copy() if active is not None and not active.is_closed else None
        #: The segment that was open before, with what was appended to it.
        self.extended: Segment | None = None
        self.appended: list[Segment] = []
        self._created: list[Segment] = []
        self._is_second_run = False
        self._is_done = False
        log.is_flushing = True
        log.truncated_from = 1 << 63

    @staticmethod
    def is_needed(log: SegmentedLog) -> bool:
        return bool(log.tail.entries)

    @staticmethod
    def is_repair_due(log: SegmentedLog) -> bool:
        """Whether repaired entries of the tail can be moved to a segment, once and for all."""
        has_repairs = log.overlay.ranges.next_from(log.tail.first_index) is not None
        return has_repairs and log.is_attached and log.damaged.next_from(log.tail.first_index) is None

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
        self.extended = None
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
                self.extended = segment
                active = None
            else:
                self.appended.append(segment)

    def _create(self, first_index: Index) -> SegmentWriter:
        segment = Segment(self.log.group, next(self._numbers), SparseIndex(first_index), self._salt)
        self._created.append(segment)
        return SegmentWriter(self._disk, self._options, segment, create=True)

    def take_over(self) -> list[str]:
        """On the loop: the log uses the new segments. Returns files that are not needed after all."""
        log = self.log
        if log.generation != self.generation:
            return self.created_paths()
        extended = self.extended
        segments = [segment for segment in log.segments if extended is None or segment.number != extended.number]
        segments += self.appended if extended is None else [extended, *self.appended]
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
        log.overlay.remove(self.repairs)
        return []


class MaintenanceJob:
    __slots__ = (
        "_disk", "_journal", "_retired", "_spare_number", "_wants_reserve", "flushes", "has_created_reserve",
        "keep_from", "removals", "spare", "unremoved",
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
        #: Those that the disk did not remove.
        self.unremoved: list[str] = []
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
        """An error of one file stops no other file's work. The first one of a flush is raised at the end.

        A file that is not removed is waste, and holds up nothing.
        """
        # Removal first: it frees space for the rest.
        self.unremoved = remove_all(self._disk, self.removals)
        errors: list[FlotillaError] = []
        for flush in self.flushes or ():
            try:
                flush.run()
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


def remove_all(disk: Disk, paths: Iterable[str]) -> list[str]:
    """Removes these files and empty folders; returns those that the disk did not remove."""
    left: list[str] = []
    for path in paths:
        try:
            disk.remove(path)
        except FlotillaError:
            left.append(path)
    return left


def _first_index(segment: Segment) -> Index:
    return segment.first_index
