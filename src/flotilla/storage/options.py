"""The sizes storage works with. Defaults suit a server; the simulator uses files of a few KiB."""

from dataclasses import dataclass

from flotilla.types.limits import (
    JOURNAL_FILE_BYTES,
    MIB,
    SEGMENT_FILE_BYTES,
    SEGMENT_INDEX_INTERVAL_BYTES,
)


@dataclass(frozen=True, slots=True)
class StoreOptions:
    #: A journal file is allocated at this size and closed when the next block does not fit.
    #: A block larger than that gets a file of its own.
    journal_bytes: int = JOURNAL_FILE_BYTES
    #: With more journal files than this to be flushed, a store flushes them before it is open, and not afterwards.
    journal_files_max: int = 4
    #: A segment is closed once it has grown to this size; it may be larger by one entry.
    segment_bytes: int = SEGMENT_FILE_BYTES
    #: One point of a segment's sparse index for this many bytes.
    index_interval_bytes: int = SEGMENT_INDEX_INTERVAL_BYTES
    #: One read or write of a segment moves about this much.
    transfer_bytes: int = 1 * MIB
    #: Segments kept open for reading.
    open_files_max: int = 256
