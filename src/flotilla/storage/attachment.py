"""Attachments: when a store is opened, each log opens the files that it names and finds damage in them.

Like a load, an attachment is planned on the loop, runs on any thread touching only itself and the disk, and is taken
over on the loop. A disk may never return one file. Then the store is open without that log: nothing of it is read, its
tail goes to new segments and its repaired entries to the journal again, until a later attachment has read the file.
"""

from collections.abc import Sequence

from flotilla.storage.group_log import SegmentedLog
from flotilla.storage.options import StoreOptions
from flotilla.storage.ports import Disk
from flotilla.storage.reads.scrubber import unrepaired
from flotilla.storage.segment import attach
from flotilla.storage.snapshots import SnapshotFile
from flotilla.types.errors import CorruptionError
from flotilla.types.ids import GroupId, Index


class Attachment:
    """The files of one log. Implements replica.ports.Load."""

    __slots__ = (
        "_base", "_damaged", "_disk", "_lost_state", "_options", "_segments", "_snapshots", "_usable", "is_background",
        "log", "path",
    )  # fmt: skip

    def __init__(self, disk: Disk, options: StoreOptions, log: SegmentedLog, numbers: Sequence[int]) -> None:
        """`numbers`: the segments that are not open yet."""
        self._disk = disk
        self._options = options
        self.log = log
        self.is_background = False
        #: The file that is being read, for reports.
        self.path = ""
        self._base = log.base
        self._segments = [segment.copy() for segment in log.segments if segment.number in numbers]
        self._snapshots = [SnapshotFile(known.group, known.number, known.meta) for known in log.snapshots]
        #: Once `run` has returned: damaged entries, the snapshots that the log goes on with, and the last entry of a
        #: state that is lost.
        self._damaged: list[tuple[Index, Index]] = []
        self._usable: list[SnapshotFile] = []
        self._lost_state: Index = 0
        log.is_attached = False
        for segment in log.segments:
            # Where its last frame ends is not known: nothing may be appended.
            segment.is_closed = True

    @classmethod
    def of(cls, disk: Disk, options: StoreOptions, log: SegmentedLog) -> "Attachment":
        """The first attachment of a log that was recovered from the journal."""
        return cls(disk, options, log, [segment.number for segment in log.segments])

    def again(self) -> "Attachment":
        """Another attempt. This one may still wait for the disk."""
        return Attachment(self._disk, self._options, self.log, [segment.number for segment in self._segments])

    @property
    def group(self) -> GroupId:
        return self.log.group

    def run(self) -> None:
        for segment in self._segments:
            self.path = segment.path
            self._damaged += attach(self._disk, self._options, segment)
        self._usable = self._snapshots
        if not self._snapshots or self._is_intact(self._snapshots[-1]):
            return
        older = [snapshot for snapshot in self._snapshots[:-1] if snapshot.meta.index >= self._base]
        if older and self._is_intact(older[0]):
            self._usable = older
        elif self._base == 0:
            # The whole log is there: the state is rebuilt from the first entry.
            self._usable = []
        else:
            self._lost_state = self._snapshots[-1].meta.index

    def _is_intact(self, snapshot: SnapshotFile) -> bool:
        self.path = snapshot.path
        try:
            snapshot.verify(self._disk)
        except CorruptionError:
            return False
        return True

    def finish(self) -> None:
        """On the loop: the log uses its files from now on."""
        log = self.log
        found = {segment.number: segment for segment in self._segments}
        for segment in log.segments:
            if segment.number in found:
                segment.index = found[segment.number].index
                # Nothing is appended to a segment of before the store had a salt.
                is_last = segment is log.segments[-1] and segment.salt == log.salt.value
                segment.is_closed = found[segment.number].is_closed or not is_last
        usable = {snapshot.number for snapshot in self._usable}
        for snapshot in log.snapshots:
            if snapshot.number not in usable:
                log.release(snapshot.path)
        log.snapshots = [snapshot for snapshot in log.snapshots if snapshot.number in usable]
        for low, high in self._damaged:
            for start, stop in unrepaired(log, low, high):
                log.mark_damaged(start, stop)
        log.mark_damaged(log.base + 1, self._lost_state + 1)
        log.is_attached = True


def attach_all(attachments: Sequence[Attachment]) -> None:
    """One after the other, however long the disk takes. Raises StorageFailedError."""
    for attachment in attachments:
        attachment.run()
        attachment.finish()
