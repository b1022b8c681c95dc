"""Batches of a partition's log as its queue groups read them, and a cache of those that were delivered in part."""

from collections import OrderedDict
from contextlib import suppress
from struct import Struct

from flotilla.codec.batch.columns import DIRECTORY, MAX_DELIVERIES, TTLS, opened_bytes, size_when_open
from flotilla.codec.batch.cut import cut_columns
from flotilla.codec.batch.matching import matching
from flotilla.codec.batch.view import BatchView
from flotilla.types.errors import CorruptionError, InvalidArgumentError
from flotilla.types.filters import MessageFilter
from flotilla.types.ids import GroupId, Offset
from flotilla.types.limits import ENTRY_BYTES_MAX, MIB

#: base_offset and count of a batch's header (codec/batch/header.py), which was checked when it was produced.
_PLACE = Struct("<Q16xI")
_DIRECTORY_AT = 64
#: Open batches of a node, all together.
CACHE_BYTES_MAX = 64 * MIB


class StoredBatch:
    """One batch of the log; its columns are opened when they are first needed."""

    __slots__ = (
        "_is_tried",
        "_view",
        "base",
        "body_bytes",
        "columns",
        "count",
        "data",
        "end",
        "max_deliveries",
        "ttl_ms",
    )

    def __init__(self, data: bytes | memoryview) -> None:
        self.data = data
        place: tuple[int, int] = _PLACE.unpack_from(data)
        self.base, self.count = place
        self.end: Offset = self.base + self.count
        directory = DIRECTORY.unpack_from(data, _DIRECTORY_AT)
        self.columns: int = directory[0]
        self.body_bytes: int = directory[3]
        #: Of all records, unless there is a column for them.
        self.ttl_ms: int = directory[5]
        self.max_deliveries: int = directory[6]
        self._view: BatchView | None = None
        self._is_tried = False

    @property
    def view(self) -> BatchView:
        """Opened and verified when first needed. Raises CorruptionError."""
        if self._view is None:
            try:
                self._view = BatchView(self.data)
            except InvalidArgumentError as error:
                raise CorruptionError(f"the batch at offset {self.base} is damaged: {error}") from error
            self._is_tried = True
        return self._view

    @property
    def opening_bytes(self) -> int:
        """What is decompressed when it is opened; 0: nothing, or that was tried."""
        return 0 if self._is_tried else opened_bytes(self.data, ENTRY_BYTES_MAX)

    def open(self) -> None:
        """On any thread. Whatever fails is met again, and raised, when the batch is used."""
        with suppress(Exception):
            self._view = BatchView(self.data)
        self._is_tried = True

    def is_read_closed(self, first: Offset, end: Offset, room_bytes: int) -> bool:
        """Whether [first, end) is delivered as it is stored, without a look at single records."""
        is_whole = end - first == self.count and len(self.data) <= room_bytes
        return is_whole and not self.ttl_ms and not self.columns & (TTLS | MAX_DELIVERIES)

    @property
    def held_bytes(self) -> int:
        """The memory of an open batch."""
        return len(self.data) + self.body_bytes

    def piece(self, first: Offset, end: Offset) -> bytes | memoryview:
        """The records [first, end) as a batch of their own."""
        if end - first == self.count:
            return self.data
        view = self.view
        return cut_columns(view.columns, view.header, first - self.base, end - first)

    def fitting(self, first: Offset, end: Offset, room_bytes: int, opened_bytes_max: int | None) -> Offset:
        """The end of what fits into `room_bytes` from `first` on, by the average record of the batch.

        A whole batch that opens to more than `opened_bytes_max` does not fit. None: there is no such limit.
        """
        if first == self.base and end == self.end and len(self.data) <= room_bytes:
            return end if opened_bytes_max is None or size_when_open(self.data) <= opened_bytes_max else first
        average_bytes = max(self.body_bytes // self.count, 1)
        return min(end, first + max(room_bytes, 0) // average_bytes)

    def alive(self, first: Offset, end: Offset, now_ms: int) -> tuple[list[tuple[Offset, Offset]], bool]:
        """Runs of [first, end) that have not expired, and whether that is all of it."""
        if not self.ttl_ms and not self.columns & TTLS:
            return [(first, end)], True
        view = self.view
        runs: list[tuple[Offset, Offset]] = []
        for offset in range(first, end):
            ttl_ms = view.ttl_ms(offset - self.base)
            if ttl_ms and view.timestamp_ms(offset - self.base) + ttl_ms <= now_ms:
                continue
            if runs and runs[-1][1] == offset:
                runs[-1] = (runs[-1][0], offset + 1)
            else:
                runs.append((offset, offset + 1))
        return runs, runs == [(first, end)]

    def limits(self, first: Offset, end: Offset) -> list[tuple[Offset, Offset, int]]:
        """Runs of [first, end) whose records have a max_deliveries of their own, with it."""
        if not self.columns & MAX_DELIVERIES:
            return [(first, end, self.max_deliveries)] if self.max_deliveries else []
        runs: list[tuple[Offset, Offset, int]] = []
        for offset in range(first, end):
            bound = self.view.max_deliveries(offset - self.base)
            if runs and runs[-1][1] == offset and runs[-1][2] == bound:
                runs[-1] = (runs[-1][0], offset + 1, bound)
            elif bound:
                runs.append((offset, offset + 1, bound))
        return runs

    def matching(self, wanted: MessageFilter, first: Offset, end: Offset) -> list[bool]:
        """Whether the filter takes the records [first, end), one by one."""
        return matching(self.view, wanted, first - self.base, end - self.base)


class BatchCache:
    """A bounded cache: of each partition the batch that was delivered in part, and the last one opened on a thread."""

    def __init__(self, bytes_max: int = CACHE_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._size_bytes = 0
        #: The most recently used last.
        self._batches: OrderedDict[tuple[GroupId, bool], StoredBatch] = OrderedDict()

    def find(self, group: GroupId, offset: Offset) -> StoredBatch | None:
        for is_aside in (True, False):
            batch = self._batches.get((group, is_aside))
            if batch is not None and batch.base <= offset < batch.end:
                return batch
        return None

    def put(self, group: GroupId, batch: StoredBatch, *, is_aside: bool = False) -> None:
        place = (group, is_aside)
        if self._batches.get(place) is batch:
            self._batches.move_to_end(place)
            return
        if not is_aside and self._batches.get((group, True)) is batch:
            self._batches.move_to_end((group, True))
            return
        self._remove(place)
        self._batches[place] = batch
        self._size_bytes += batch.held_bytes
        while self._size_bytes > self._bytes_max:
            self._size_bytes -= self._batches.popitem(last=False)[1].held_bytes

    def remove(self, group: GroupId) -> None:
        for is_aside in (False, True):
            self._remove((group, is_aside))

    def _remove(self, place: tuple[GroupId, bool]) -> None:
        batch = self._batches.pop(place, None)
        if batch is not None:
            self._size_bytes -= batch.held_bytes
