"""Reads of a partition's log for clients: stored batches as they are, and the offset of a time.

Only applied entries are visible. Everything here raises CorruptionError when the log cannot be read at that place.
"""

from flotilla.codec.batch.view import BatchView
from flotilla.partition.state.machine import PartitionMachine
from flotilla.replica.replica import Replica
from flotilla.types.errors import OffsetOutOfRangeError
from flotilla.types.ids import Offset
from flotilla.types.operations import Fetch, Fetched

#: One fetch returns at most this much beyond its first batch, whatever it asks for.
FETCH_BYTES_MAX = 8 * 1024 * 1024


def read_batches(replica: Replica, machine: PartitionMachine, request: Fetch) -> Fetched:
    """Batches from the one that holds the offset on. Raises OffsetOutOfRangeError."""
    if not machine.log_start <= request.offset <= machine.next_offset:
        raise OffsetOutOfRangeError(
            f"offset {request.offset} is not between {machine.log_start} and {machine.next_offset}"
        )
    batches: list[bytes | memoryview] = []
    if request.offset < machine.next_offset:
        max_bytes = min(request.max_bytes, FETCH_BYTES_MAX)
        # Batches of a transaction become visible together.
        high_index = min(machine.transactions.held_index or replica.readable_end, replica.readable_end)
        entries = replica.log.read_from_offset(request.offset, max_bytes, high_index)
        batches = [entry.data for entry in entries]
    return Fetched(batches, machine.log_start, machine.next_offset)


def find_time(replica: Replica, machine: PartitionMachine, timestamp_ms: int) -> Offset:
    """The offset of the first record of that time or later; -1: there is none."""
    found = replica.log.find_time(timestamp_ms)
    start = machine.next_offset if found is None else max(found, machine.log_start)
    if start >= machine.next_offset:
        return -1
    entry = replica.log.read_from_offset(start, 0, replica.readable_end)[0]
    batch = BatchView(entry.data, verify=False)
    times = batch.columns.timestamps
    if times is None:
        return start
    skipped = start - batch.header.base_offset
    later = (place for place, time_ms in enumerate(times[skipped:]) if time_ms >= timestamp_ms)
    # The record that made the batch young enough may have been trimmed away.
    return start + next(later, 0)
