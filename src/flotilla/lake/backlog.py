"""The backlog of a reader: records and bytes between its position and the latest offsets."""

from collections.abc import Mapping
from typing import Final

from flotilla.client.bulk.stored_batches import StoredBatches
from flotilla.client.client import Client
from flotilla.codec.batch.header import parse_header
from flotilla.lake.offset_range import Partition, Position
from flotilla.types.errors import FlotillaError

#: Partitions whose next record is measured, to estimate bytes; those with the longest backlog.
_MEASURED_MAX: Final = 8


def records_behind(position: Position, latest: Position) -> dict[Partition, int]:
    """By partition; one without a position is read from its beginning."""
    return {place: max(offset - position.get(place, 0), 0) for place, offset in latest.items()}


def bytes_behind(client: Client, position: Position, behind: Mapping[Partition, int], *, timeout_ms: int) -> int:
    """An estimate by the next batch of some partitions."""
    longest = sorted((place for place in behind if behind[place]), key=lambda place: -behind[place])[:_MEASURED_MAX]
    size_bytes = records = 0
    for topic, number in longest:
        first = position.get((topic, number), 0)
        stored = StoredBatches(client, topic, number, first, first + 1, fetch_bytes=1, timeout_ms=timeout_ms)
        try:
            header = parse_header(next(iter(stored)))
        except FlotillaError:
            # Retention was faster, or the records are in a lake.
            continue
        size_bytes += header.length
        records += header.count
    return sum(behind.values()) * size_bytes // records if records else 0
