"""The log on disk as consensus reads it. The caller writes it, from each Ready."""

from typing import Protocol

from flotilla.raft.messages import Entry, SnapshotMeta
from flotilla.types.ids import Index, Term


class StoredLog(Protocol):
    """The entries a replica has handed to its store, in order, without gaps.

    `first_index() - 1` is the base: its term is known, its entry is gone (0 and term 0 for a new log).
    The store serves entries from `save` on, before they are durable; the core itself tracks what is durable.
    """

    def first_index(self) -> Index: ...

    def last_index(self) -> Index:
        """The base when the log is empty."""

    def term(self, index: Index) -> Term:
        """For base <= index <= last_index, also for entries whose body is damaged."""

    def entries(self, low: Index, high: Index, max_bytes: int) -> list[Entry]:
        """Entries [low, high), as many as fit into max_bytes but at least one.

        Raises CorruptionError with the damaged range when a checksum does not match, and NotLoadedError.
        """

    def unsaved_repair_bytes(self) -> int:
        """The size of the repaired entries that a crash would lose. No later `save` makes these durable any sooner."""

    def snapshot(self) -> SnapshotMeta | None:
        """The newest durable snapshot."""

    def snapshot_chunk(self, index: Index, offset: int, length: int) -> bytes | None:
        """Bytes of the snapshot at `index`; None when that one is gone (a newer one took its place).

        Raises CorruptionError, NotLoadedError.
        """
