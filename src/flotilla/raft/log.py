"""The log as consensus sees it: the stored log plus entries that no Ready has taken yet.

Invariants, each asserted where it could break:
  base <= handed, handed <= min(committed, durable) or handed came with a snapshot
  committed <= last_index
  durable <= last_index: every entry up to `durable` survives a power cut of this node

Entries leave `pending` when a Ready takes them; from then on the store serves them. Durability is
tracked by Ready, not by index alone: an entry may be overwritten while its first write is in flight
and even come back by a third leader, so a truncation also cuts the claims of unfinished writes.

The configuration in force is the newest one in the log, committed or not, as in the paper (section 6): a
candidate then never needs a vote of a member that a later entry of its own log has removed.
"""

from collections import deque
from typing import Final

from flotilla.raft.configuration import decode_configuration
from flotilla.raft.messages import CONFIG, Configuration, Entry, SnapshotMeta
from flotilla.raft.stored_log import StoredLog
from flotilla.types.errors import CorruptionError, StorageFailedError
from flotilla.types.ids import Index, Term

#: Above every index.
NO_LIMIT: Final = 1 << 63


class RaftLog:
    __slots__ = (
        "_claims",
        "base",
        "committed",
        "configurations",
        "durable",
        "found_damage",
        "handed",
        "last_index",
        "pending",
        "pending_first",
        "stored",
        "unreadable_to",
    )

    def __init__(self, stored: StoredLog, configuration: Configuration, *, committed: Index, applied: Index) -> None:
        self.stored = stored
        self.base: Index = stored.first_index() - 1
        last = stored.last_index()
        #: The end of the log, pending entries included: pending_first + len(pending) - 1.
        self.last_index: Index = last
        #: Entries not yet taken by a Ready. Everything from pending_first on is here, all below is stored.
        self.pending: list[Entry] = []
        self.pending_first: Index = last + 1
        #: Everything recovered from disk is durable.
        self.durable: Index = last
        #: Known to be on a majority. Moved by the leader's quorum, by appends and by heartbeats.
        self.committed: Index = min(max(committed, self.base, self._agreed(applied)), last)
        #: The last entry handed out by `take_committed`; the state machine applies all up to here.
        self.handed: Index = max(applied, self.base)
        #: The configuration as of `handed`, then every later one in the log, with their indexes.
        self.configurations: list[tuple[Index, Configuration]] = [(self.handed, configuration)]
        #: Reads of stored entries up to here failed or wait for a load. They are tried again after the next load or
        #: tick. Later entries are read: the newest ones are in memory.
        self.unreadable_to: Index = 0
        #: Damaged ranges found while reading; the next Ready starts their repair.
        self.found_damage: list[tuple[Index, Index]] = []
        #: (Ready number, last index it stores) of writes in flight.
        self._claims: deque[tuple[int, Index]] = deque()

    def _agreed(self, applied: Index) -> Index:
        """How far the log is known to have produced the recovered state; the base when that is not known.

        After a repair by snapshot the state is the leader's, and the log after it may be a suffix of our own that
        never committed.
        """
        meta = self.stored.snapshot()
        is_same = meta is not None and meta.index == applied and self.matches(applied, meta.term)
        return applied if is_same else self.base

    def last_term(self) -> Term:
        return self.term(self.last_index)

    def term(self, index: Index) -> Term:
        """The term of base <= index <= last_index."""
        if index >= self.pending_first:
            return self.pending[index - self.pending_first].term
        return self.stored.term(index)

    def matches(self, index: Index, term: Term) -> bool:
        return self.base <= index <= self.last_index and self.term(index) == term

    def find_not_newer(self, index: Index, term: Term) -> Index:
        """The last index at or before `index` whose term is at most `term`: the last at which two logs may agree."""
        index = min(index, self.last_index)
        while index > self.base and self.term(index) > term:
            index -= 1
        return index

    def entries(self, low: Index, high: Index, max_bytes: int) -> list[Entry]:
        """Entries [low, high) up to max_bytes, at least one. Empty: they are damaged or cannot be read now."""
        assert self.base < low <= high <= self.last_index + 1
        found: list[Entry] = []
        if low < self.pending_first:
            if low <= self.unreadable_to:
                return []
            try:
                found = self.stored.entries(low, min(high, self.pending_first), max_bytes)
            except CorruptionError as damage:
                self.found_damage.append((damage.low, damage.high))
                return []
            except StorageFailedError:
                # An error of one file, such as too many open files, must not end more than this read.
                self.unreadable_to = low
                return []
            if high <= self.pending_first or found[-1].index + 1 < self.pending_first:
                return found
            max_bytes -= sum(entry.size_bytes for entry in found)
        for entry in self.pending[max(low - self.pending_first, 0) : high - self.pending_first]:
            max_bytes -= entry.size_bytes
            if max_bytes < 0 and found:
                break
            found.append(entry)
        return found

    def append(self, entries: list[Entry]) -> None:
        """Appends at the end, or overwrites an uncommitted suffix from entries[0].index on."""
        first = entries[0].index
        assert first > self.committed, f"overwriting committed entry {first} <= {self.committed}"
        if first <= self.last_index:
            self.truncate(first)
        assert first == self.last_index + 1
        self.pending.extend(entries)
        self.last_index += len(entries)
        for entry in entries:
            if entry.kind == CONFIG:
                self.add_configuration(entry)

    def add_configuration(self, entry: Entry) -> None:
        """Keeps the list ascending, without entries that the snapshot's configuration covers."""
        place = len(self.configurations)
        while place and self.configurations[place - 1][0] >= entry.index:
            place -= 1
        if place:
            self.configurations.insert(place, (entry.index, decode_configuration(entry.data)))

    def truncate(self, index: Index) -> None:
        """Forgets everything from `index` on."""
        assert index > self.committed
        if index < self.pending_first:
            self.pending.clear()
            self.pending_first = index
        else:
            del self.pending[index - self.pending_first :]
        self.last_index = min(self.last_index, index - 1)
        self.durable = min(self.durable, index - 1)
        self._claims = deque((number, min(last, index - 1)) for number, last in self._claims)
        while len(self.configurations) > 1 and self.configurations[-1][0] >= index:
            self.configurations.pop()

    def take_pending(self, number: int) -> list[Entry]:
        """Hands the pending entries to Ready `number`, whose write makes them durable."""
        entries, self.pending = self.pending, []
        if entries:
            assert entries[-1].index == self.last_index
            self.pending_first = self.last_index + 1
            self._claims.append((number, self.last_index))
        return entries

    def written(self, number: int) -> None:
        """All writes up to Ready `number` are durable."""
        while self._claims and self._claims[0][0] <= number:
            self.durable = max(self.durable, self._claims.popleft()[1])

    def commit_to(self, index: Index) -> bool:
        if index <= self.committed:
            return False
        assert index <= self.last_index, f"commit {index} after the end {self.last_index}"
        self.committed = index
        return True

    def take_committed(self, max_bytes: int, high: Index = NO_LIMIT) -> list[Entry]:
        """The next entries up to `high` that are both committed and durable here."""
        if not self.has_committed(high):
            return []
        entries = self.entries(self.handed + 1, min(self.committed, self.durable, high) + 1, max_bytes)
        if entries:
            assert entries[0].index == self.handed + 1
            self.handed = entries[-1].index
            while len(self.configurations) > 1 and self.configurations[1][0] <= self.handed:
                self.configurations.pop(0)
        return entries

    def has_committed(self, high: Index = NO_LIMIT) -> bool:
        """Whether `take_committed` may have entries up to `high`."""
        return self.handed < min(self.committed, self.durable, high) and self.handed >= self.unreadable_to

    def restore(self, meta: SnapshotMeta, suffix: list[Entry]) -> None:
        """The store now begins after meta.log_index, with `suffix`; the state machine is at meta.index."""
        self.base = meta.log_index
        self.pending.clear()
        self._claims.clear()
        last = suffix[-1].index if suffix else meta.log_index
        self.pending_first = last + 1
        self.last_index = last
        self.durable = last
        # A suffix that was kept may differ from the leader's log: only entries that the snapshot covers are committed.
        place = meta.index - meta.log_index - 1
        agrees = place < 0 or (place < len(suffix) and suffix[place].term == meta.term)
        self.committed = min(max(self.committed, meta.index if agrees else meta.log_index), last)
        self.handed = meta.index
        self.configurations = [(meta.index, meta.configuration)]
        for entry in suffix:
            if entry.kind == CONFIG:
                self.add_configuration(entry)

    def compacted(self) -> None:
        """The store's first index moved."""
        self.base = self.stored.first_index() - 1
        assert self.base <= self.handed, "compacted what was not applied"
