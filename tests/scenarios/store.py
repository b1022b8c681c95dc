"""A log in memory with the store's promises: what was saved is readable at once, what was synced survives.

Two of these make a node's disk in the harness: one holds all that was saved, the other all that was
synced; a crash puts a copy of the second in the place of the first.
"""

from copy import copy

from flotilla.raft.messages import CONFIG, Configuration, Entry, HardState, Ready, Snapshot, SnapshotMeta
from flotilla.types.errors import CorruptionError, StorageFailedError
from flotilla.types.ids import Index, Term
from flotilla.types.snapshot_data import whole


class MemoryLog:
    """Implements flotilla.raft.stored_log.StoredLog."""

    def __init__(self, founders: Configuration) -> None:
        self.hard_state = HardState()
        self.base: Index = 0
        self.base_term: Term = 0
        self.founders = founders
        self.stored: list[Entry] = []
        self.newest_snapshot: Snapshot | None = None
        #: Entries whose bodies cannot be read; their terms can.
        self.damaged: set[Index] = set()
        #: Those of them that may never have been acknowledged.
        self.doubtful: set[Index] = set()
        #: Every read of an entry fails, as with too many open files.
        self.is_unreadable = False
        #: Repaired entries that are not durable yet; a test sets it.
        self.unsaved_bytes = 0

    def copy(self) -> "MemoryLog":
        twin = copy(self)
        twin.stored = list(self.stored)
        twin.damaged = set(self.damaged)
        twin.doubtful = set(self.doubtful)
        return twin

    def save(self, ready: Ready) -> None:
        """Takes over all that a Ready asks to be stored, in the order of its contract."""
        if ready.snapshot is not None:
            self.install(ready.snapshot)
        if ready.truncate_from:
            self._truncate(ready.truncate_from)
        for entry in ready.repaired:
            assert self.term(entry.index) == entry.term
            self.stored[entry.index - self.first_index()] = entry
            self.damaged.discard(entry.index)
        if ready.entries:
            self._truncate(ready.entries[0].index)
            assert ready.entries[0].index == self.last_index() + 1, "a gap in the stored log"
            self.stored.extend(ready.entries)
        if ready.hard_state is not None:
            self.hard_state = ready.hard_state

    def install(self, snapshot: Snapshot) -> None:
        """The log is reset to begin after the snapshot's log."""
        meta = snapshot.meta
        self.newest_snapshot = snapshot
        self.stored.clear()
        self.damaged.clear()
        self.base, self.base_term = meta.log_index, meta.log_term

    def _truncate(self, index: Index) -> None:
        del self.stored[max(index - self.first_index(), 0) :]
        self.damaged = {damaged for damaged in self.damaged if damaged < index}

    def compact(self, first_index: Index) -> None:
        assert self.base < first_index <= self.last_index() + 1
        base_term = self.term(first_index - 1)
        del self.stored[: first_index - self.first_index()]
        self.base, self.base_term = first_index - 1, base_term
        self.damaged = {damaged for damaged in self.damaged if damaged >= first_index}

    def configuration(self) -> Configuration:
        """The newest one that needs no entry to be known."""
        return self.newest_snapshot.meta.configuration if self.newest_snapshot is not None else self.founders

    def configuration_entries(self) -> list[Entry]:
        """Changes after `configuration`, as far as they can be read."""
        known = self.newest_snapshot.meta.index if self.newest_snapshot is not None else 0
        readable = [entry for entry in self.stored if entry.index > known and entry.index not in self.damaged]
        return [entry for entry in readable if entry.kind == CONFIG]

    def damaged_ranges(self) -> list[tuple[Index, Index]]:
        """Half-open, ascending, as far apart as can be."""
        ranges: list[tuple[Index, Index]] = []
        for index in sorted(self.damaged):
            if ranges and ranges[-1][1] == index:
                ranges[-1] = (ranges[-1][0], index + 1)
            else:
                ranges.append((index, index + 1))
        return ranges

    def first_index(self) -> Index:
        return self.base + 1

    def last_index(self) -> Index:
        return self.base + len(self.stored)

    def term(self, index: Index) -> Term:
        assert self.base <= index <= self.last_index()
        return self.base_term if index == self.base else self.stored[index - self.first_index()].term

    def entries(self, low: Index, high: Index, max_bytes: int) -> list[Entry]:
        assert self.base < low <= high <= self.last_index() + 1
        if self.is_unreadable:
            raise StorageFailedError("open: Too many open files")
        found: list[Entry] = []
        for entry in self.stored[low - self.first_index() : high - self.first_index()]:
            max_bytes -= entry.size_bytes
            if max_bytes < 0 and found:
                break
            if entry.index in self.damaged:
                if found:
                    break
                raise CorruptionError("checksum does not hold", low=entry.index, high=entry.index + 1)
            found.append(entry)
        return found

    def unsaved_repair_bytes(self) -> int:
        return self.unsaved_bytes

    def snapshot(self) -> SnapshotMeta | None:
        return None if self.newest_snapshot is None else self.newest_snapshot.meta

    def snapshot_chunk(self, index: Index, offset: int, length: int) -> bytes | None:
        snapshot = self.newest_snapshot
        if snapshot is None or snapshot.meta.index != index:
            return None
        return whole(snapshot.data)[offset : offset + length]
