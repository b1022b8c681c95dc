"""The sizes of storage. The defaults suit a server; the simulator uses files of a few KiB."""

from dataclasses import dataclass

from flotilla.types.limits import (
    JOURNAL_FILE_BYTES,
    KIB,
    MIB,
    SEGMENT_FILE_BYTES,
    SEGMENT_INDEX_INTERVAL_BYTES,
)


@dataclass(frozen=True, slots=True)
class StoreOptions:
    #: A journal file is allocated at this size and closed when the next block does not fit.
    #: A block larger than that gets a file of its own.
    journal_bytes: int = JOURNAL_FILE_BYTES
    #: The journal file that is kept for a full disk.
    reserve_bytes: int = JOURNAL_FILE_BYTES // 4
    #: A store with more unflushed journal files than this flushes them while it opens, not afterwards.
    journal_files_max: int = 4
    #: A segment is closed once it reaches this size; it may be larger by one entry.
    segment_bytes: int = SEGMENT_FILE_BYTES
    #: The distance between two points of a segment's sparse index.
    index_interval_bytes: int = SEGMENT_INDEX_INTERVAL_BYTES
    #: The approximate size of one read or write of a segment.
    transfer_bytes: int = 1 * MIB
    #: Repaired entries of at least this size go to their segments at once, not through the journal.
    direct_repair_bytes: int = 512 * KIB
    #: Segments kept open for reading.
    open_files_max: int = 256
    #: Files beside the store that hold a text twice (`codec/two_copies.py`): their damage is mended as well.
    copied_texts: tuple[str, ...] = ()
