"""Deliveries from leases: runs of offsets become batches read from the log.

A lease that covers a stored batch gets its very bytes; a smaller one a piece that is cut out of it (codec/batch/cut),
and one that spans several batches is split at their borders. Expired records are set apart, and leases that do not fit
into the bytes of a poll are returned, so that the caller can release them. Facts that only a batch has are read here,
too: keys, what a filter takes and max_deliveries. Everything raises CorruptionError when the log cannot be read there,
and NotLoadedError.

What a poll opens of compressed batches is bounded by the turn of the loop, for all polls of the node together. Another
batch is opened on a thread, one after the other; the poll meets NotOpenedError and comes again.
"""

from collections.abc import Callable
from functools import partial

from flotilla.broker.batch_opener import BatchOpener
from flotilla.broker.ports import Outside
from flotilla.broker.queue.stored_batches import BatchCache, StoredBatch
from flotilla.broker.queue.takers import ReadResult, Room
from flotilla.codec.batch.columns import MAX_DELIVERIES
from flotilla.partition.leader.group_delivery import LeasedMessages
from flotilla.replica.replica import Replica
from flotilla.types.errors import CorruptionError, NotLoadedError
from flotilla.types.filters import MessageFilter
from flotilla.types.ids import GroupId, Offset
from flotilla.types.operations.queue import Delivery
from flotilla.types.records import Headers, Record


class NotOpenedError(NotLoadedError):
    """A compressed batch is being opened on a thread. The reader tries again then, as if it was loaded from disk."""

    def __init__(self, group: GroupId, batch: StoredBatch) -> None:
        super().__init__(group)
        self.batch = batch


class Openings:
    """Of one partition: batches that are opened on the node's thread, in the order in which they were asked for."""

    def __init__(self, opener: BatchOpener, outside: Outside, opened: Callable[[StoredBatch], None]) -> None:
        """`opened` gets each batch when it is open, before those that wait for it are called."""
        self._opener = opener
        self._outside = outside
        self._opened = opened
        #: By the batch's first offset: what is called when it is open, by name.
        self._waiting: dict[Offset, dict[str, Callable[[], None]]] = {}

    def takes(self, size_bytes: int) -> bool:
        return self._opener.takes(size_bytes)

    def begin(self, batch: StoredBatch, name: str, opened: Callable[[], None]) -> None:
        """Opens the batch, unless that is due already, and calls `opened`: of each name once."""
        is_new = batch.base not in self._waiting
        self._waiting.setdefault(batch.base, {})[name] = opened
        if is_new:
            self._opener.wait_turn(lambda: self._outside.aside(batch.open, partial(self._end, batch)))

    def _end(self, batch: StoredBatch) -> None:
        self._opener.end_turn()
        self._opened(batch)
        for opened in self._waiting.pop(batch.base).values():
            opened()


class QueueReader:
    """The log of one partition, as its queue groups need it."""

    def __init__(
        self,
        topic_id: int,
        partition: int,
        replica: Replica,
        cache: BatchCache,
        opener: BatchOpener,
        outside: Outside,
    ) -> None:
        self._topic_id = topic_id
        self._partition = partition
        self._replica = replica
        self._cache = cache
        #: Batches that are too large to be opened on the loop.
        self.openings = Openings(opener, outside, self._keep_open)
        self._is_closed = False
        #: The stored size of a record in the last batch read: an estimate of how much to read at once.
        self._average_bytes = 0

    def deliver(self, leases: list[LeasedMessages], room: Room, now_ms: int) -> ReadResult:
        """What fits of the leases. The first record of a poll fits whatever its size, unless all have expired."""
        read = ReadResult([], [], [], [])
        left = room.copy()
        ahead: list[StoredBatch] = []
        for place, lease in enumerate(leases):
            at = lease.first
            while at < lease.end:
                while ahead and ahead[-1].end <= at:
                    ahead.pop()
                try:
                    if not ahead or at < ahead[-1].base:
                        ahead = self._batches_from(at, lease.end, left.bytes)
                    batch = ahead[-1]
                    stop = min(lease.end, batch.end)
                    if not batch.is_read_closed(at, stop, left.bytes):
                        self._open(batch)
                except NotLoadedError:
                    if not read.deliveries and not read.expired:
                        raise
                    read.left.append(lease._replace(first=at))
                    read.left.extend(leases[place + 1 :])
                    return read
                at = self._add(read, lease, batch, at, stop, left, now_ms)
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
        left: Room,
        now_ms: int,
    ) -> Offset:
        """Delivers what fits of [first, end) in one batch. Returns how far that went."""
        runs, is_whole = batch.alive(first, end, now_ms)
        reached = first
        for run_first, run_end in runs:
            if not is_whole and reached < run_first:
                read.expired.append(lease._replace(first=reached, end=run_first))
                reached = run_first
            must_fit = left.is_empty
            fit = batch.fitting(run_first, run_end, left.bytes, None if must_fit else left.opened_bytes)
            if fit == run_first and must_fit:
                fit = run_first + 1
            if fit == run_first:
                return reached
            data = batch.piece(run_first, fit)
            if not must_fit and len(data) > left.bytes:
                return reached
            count = fit - run_first
            delivery = Delivery(self._partition, lease.lease_id, run_first, count, lease.attempt, data, self._topic_id)
            read.deliveries.append(delivery)
            left.add(delivery)
            if batch.max_deliveries or batch.columns & MAX_DELIVERIES:
                read.limited.extend(batch.limits(run_first, fit))
            reached = fit
            if fit < run_end:
                return reached
        if reached < end:
            read.expired.append(lease._replace(first=reached, end=end))
        return end

    # Facts of single records.

    def keys(self, first: Offset, end: Offset) -> list[bytes | None]:
        """Of the records [first, end), or of the first of them: up to a batch that is not open yet."""
        found: list[bytes | None] = []
        while first < end:
            try:
                batch = self._open(self.batch(first))
            except NotLoadedError:
                if not found:
                    raise
                break
            stop = min(end, batch.end)
            found += [batch.view.key(offset - batch.base) for offset in range(first, stop)]
            first = stop
        return found

    def matching(self, wanted: MessageFilter, first: Offset, end: Offset) -> list[bool]:
        """Whether the filter takes the records [first, end), one by one, or the first of them, as `keys`."""
        found: list[bool] = []
        while first < end:
            try:
                batch = self._open(self.batch(first))
            except NotLoadedError:
                if not found:
                    raise
                break
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

    def _open(self, batch: StoredBatch) -> StoredBatch:
        """The batch, if it is open or may be opened now. Raises NotOpenedError."""
        size_bytes = batch.opening_bytes
        if size_bytes and not self.openings.takes(size_bytes):
            raise NotOpenedError(self._replica.group, batch)
        return batch

    def _keep_open(self, batch: StoredBatch) -> None:
        if not self._is_closed:
            self._cache.put(self._replica.group, batch, is_aside=True)

    def close(self) -> None:
        self._is_closed = True
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
