"""Deliveries from leases: runs of offsets become batches read from the log.

A lease that covers a stored batch gets its very bytes; a smaller one a piece that is cut out of it (codec/batch/cut),
and one that spans several batches is split at their borders. Expired records are set apart, and leases that do not fit
into the bytes of a poll are returned, so that the caller can release them. Facts that only a batch has are read here,
too: keys, what a filter takes and max_deliveries. Everything raises CorruptionError when the log cannot be read there,
and NotLoadedError.
"""

from collections import OrderedDict
from struct import Struct
from typing import NamedTuple

from flotilla.codec.batch.columns import DIRECTORY, MAX_DELIVERIES, TTLS
from flotilla.codec.batch.cut import cut_columns
from flotilla.codec.batch.matching import matching
from flotilla.codec.batch.view import BatchView
from flotilla.partition.leader.group_delivery import LeasedMessages
from flotilla.replica.replica import Replica
from flotilla.types.errors import CorruptionError, InvalidArgumentError, NotLoadedError
from flotilla.types.filters import MessageFilter
from flotilla.types.ids import GroupId, Offset
from flotilla.types.limits import MIB
from flotilla.types.operations.queue import Delivery
from flotilla.types.records import Headers, Record

#: base_offset and count of a batch's header (codec/batch/header.py), which was checked when it was produced.
_PLACE = Struct("<Q16xI")
_DIRECTORY_AT = 64
#: Open batches of a node, all together.
CACHE_BYTES_MAX = 64 * MIB


class StoredBatch:
    """One batch of the log; its columns are opened when they are first needed."""

    __slots__ = ("_view", "base", "body_bytes", "columns", "count", "data", "end", "max_deliveries", "ttl_ms")

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

    @property
    def view(self) -> BatchView:
        """Opened and verified when first needed. Raises CorruptionError."""
        if self._view is None:
            try:
                self._view = BatchView(self.data)
            except InvalidArgumentError as error:
                raise CorruptionError(f"the batch at offset {self.base} is damaged: {error}") from error
        return self._view

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

    def fitting(self, first: Offset, end: Offset, room_bytes: int) -> Offset:
        """The end of what fits into `room_bytes` from `first` on, by the average record of the batch."""
        if first == self.base and end == self.end and len(self.data) <= room_bytes:
            return end
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


class ReadResult(NamedTuple):
    """What was read for the leases of one poll."""

    deliveries: list[Delivery]
    #: Not read because they do not fit, or must be loaded from disk first: to be released.
    left: list[LeasedMessages]
    #: Past their time to live.
    expired: list[LeasedMessages]
    #: Runs of delivered records with a max_deliveries of their own: (first, end, max_deliveries).
    limited: list[tuple[Offset, Offset, int]]


class BatchCache:
    """A bounded cache of batches that were delivered in part: one per partition, for its next lease."""

    def __init__(self, bytes_max: int = CACHE_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._size_bytes = 0
        #: The most recently used last.
        self._batches: OrderedDict[GroupId, StoredBatch] = OrderedDict()

    def find(self, group: GroupId, offset: Offset) -> StoredBatch | None:
        batch = self._batches.get(group)
        return batch if batch is not None and batch.base <= offset < batch.end else None

    def put(self, group: GroupId, batch: StoredBatch) -> None:
        if self._batches.get(group) is batch:
            self._batches.move_to_end(group)
            return
        self.remove(group)
        self._batches[group] = batch
        self._size_bytes += batch.held_bytes
        while self._size_bytes > self._bytes_max:
            self._size_bytes -= self._batches.popitem(last=False)[1].held_bytes

    def remove(self, group: GroupId) -> None:
        batch = self._batches.pop(group, None)
        if batch is not None:
            self._size_bytes -= batch.held_bytes


class QueueReader:
    """The log of one partition, as its queue groups need it."""

    def __init__(self, topic_id: int, partition: int, replica: Replica, cache: BatchCache) -> None:
        self._topic_id = topic_id
        self._partition = partition
        self._replica = replica
        self._cache = cache
        #: The stored size of a record in the last batch read: an estimate of how much to read at once.
        self._average_bytes = 0

    def deliver(
        self, leases: list[LeasedMessages], max_bytes: int, now_ms: int, *, is_first: bool = True
    ) -> ReadResult:
        """With `is_first` one record is delivered whatever its size, unless all leased ones have expired."""
        read = ReadResult([], [], [], [])
        used_bytes = 0
        ahead: list[StoredBatch] = []
        for place, lease in enumerate(leases):
            at = lease.first
            while at < lease.end:
                while ahead and ahead[-1].end <= at:
                    ahead.pop()
                if not ahead or at < ahead[-1].base:
                    try:
                        ahead = self._batches_from(at, lease.end, max_bytes - used_bytes)
                    except NotLoadedError:
                        if not read.deliveries:
                            raise
                        read.left.append(lease._replace(first=at))
                        read.left.extend(leases[place + 1 :])
                        return read
                batch = ahead[-1]
                stop = min(lease.end, batch.end)
                at, added_bytes = self._add(
                    read, lease, batch, at, stop, max_bytes - used_bytes, now_ms, is_first=is_first
                )
                used_bytes += added_bytes
                if at < batch.end:
                    self._cache.put(self._replica.group, batch)
                if at < stop:
                    read.left.append(lease._replace(first=at))
                    read.left.extend(leases[place + 1 :])
                    return read
        return read

    def _add(
        self,
        read: ReadResult,
        lease: LeasedMessages,
        batch: StoredBatch,
        first: Offset,
        end: Offset,
        room_bytes: int,
        now_ms: int,
        *,
        is_first: bool,
    ) -> tuple[Offset, int]:
        """Delivers what fits of [first, end) in one batch. Returns how far that went, and the bytes it took."""
        runs, is_whole = batch.alive(first, end, now_ms)
        taken_bytes = 0
        reached = first
        for run_first, run_end in runs:
            if not is_whole and reached < run_first:
                read.expired.append(lease._replace(first=reached, end=run_first))
                reached = run_first
            fit = batch.fitting(run_first, run_end, room_bytes - taken_bytes)
            must_fit = is_first and not read.deliveries
            if fit == run_first and must_fit:
                fit = run_first + 1
            if fit == run_first:
                return reached, taken_bytes
            data = batch.piece(run_first, fit)
            if not must_fit and taken_bytes + len(data) > room_bytes:
                return reached, taken_bytes
            count = fit - run_first
            read.deliveries.append(
                Delivery(self._partition, lease.lease_id, run_first, count, lease.attempt, data, self._topic_id)
            )
            if batch.max_deliveries or batch.columns & MAX_DELIVERIES:
                read.limited.extend(batch.limits(run_first, fit))
            taken_bytes += len(data)
            reached = fit
            if fit < run_end:
                return reached, taken_bytes
        if reached < end:
            read.expired.append(lease._replace(first=reached, end=end))
        return end, taken_bytes

    # Facts of single records.

    def keys(self, first: Offset, end: Offset) -> list[bytes | None]:
        found: list[bytes | None] = []
        while first < end:
            batch = self.batch(first)
            stop = min(end, batch.end)
            found += [batch.view.key(offset - batch.base) for offset in range(first, stop)]
            first = stop
        return found

    def matching(self, wanted: MessageFilter, first: Offset, end: Offset) -> list[bool]:
        """Whether the filter takes the records [first, end), one by one."""
        found: list[bool] = []
        while first < end:
            batch = self.batch(first)
            stop = min(end, batch.end)
            found += batch.matching(wanted, first, stop)
            first = stop
        return found

    def piece(self, offset: Offset) -> bytes | memoryview:
        """One record as a batch of its own."""
        return self.batch(offset).piece(offset, offset + 1)

    def limits(self, first: Offset, end: Offset) -> list[tuple[Offset, Offset, int]]:
        """Runs whose records have a max_deliveries of their own, with it."""
        found: list[tuple[Offset, Offset, int]] = []
        while first < end:
            batch = self.batch(first)
            stop = min(end, batch.end)
            found += batch.limits(first, stop)
            first = stop
        return found

    def time_ms(self, offset: Offset) -> int:
        batch = self.batch(offset)
        return batch.view.timestamp_ms(offset - batch.base)

    def headers(self, offset: Offset) -> Headers:
        batch = self.batch(offset)
        return batch.view.headers(offset - batch.base)

    def record(self, offset: Offset) -> Record:
        batch = self.batch(offset)
        return batch.view.record(offset - batch.base)

    # The log.

    def batch(self, offset: Offset) -> StoredBatch:
        """The batch that holds an offset that exists."""
        kept = self._cache.find(self._replica.group, offset)
        if kept is None:
            kept = self._read(offset, 0)[0]
            self._cache.put(self._replica.group, kept)
        return kept

    def _batches_from(self, offset: Offset, end: Offset, room_bytes: int) -> list[StoredBatch]:
        """Batches from the one that holds the offset on, the nearest last, and hardly more than were leased."""
        kept = self._cache.find(self._replica.group, offset)
        if kept is not None:
            return [kept]
        found = self._read(offset, min((end - offset) * self._average_bytes, max(room_bytes, 0)))
        self._average_bytes = len(found[-1].data) // found[-1].count + 1
        found.reverse()
        return found

    def close(self) -> None:
        self._cache.remove(self._replica.group)

    def _read(self, offset: Offset, max_bytes: int) -> list[StoredBatch]:
        replica = self._replica
        entries = replica.log.read_from_offset(offset, max_bytes, replica.readable_end)
        if not entries:
            raise CorruptionError(f"no batch holds offset {offset}", replica.group)
        batches = [StoredBatch(entry.data) for entry in entries]
        if not batches[0].base <= offset < batches[0].end:
            raise CorruptionError(f"the log has offset {batches[0].base} where {offset} belongs", replica.group)
        return batches
