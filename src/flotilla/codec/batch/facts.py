"""The facts of a batch that a partition needs, read on every replica for every batch.

They are at fixed places of the header and the directory. Only a batch with idempotency keys is opened, to read them;
few batches have any.
"""

from struct import Struct
from typing import Final

from flotilla.codec.batch.columns import COLUMNS_AT, IDEMPOTENCY_KEYS, Buffer, open_columns
from flotilla.codec.batch.header import FORMAT_COLUMNS, MAGIC, TRANSACTIONAL, VERSION, parse_header, unpack_header
from flotilla.codec.batch.view import BatchView
from flotilla.partition.batch_facts import BatchFacts
from flotilla.raft.messages import DATA, Entry
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.records import Span

#: Of the header: base_offset, length, version, format, flags, count, producer_epoch, magic, max_time_ms,
#: producer_id, producer_sequence; of the directory (`columns`): columns, priority, deliver_at_ms.
_PLACES: Final = Struct("<Q4xI4xBBxBIHH8xqQI4xHB5xq")


def facts_of(data: Buffer) -> BatchFacts | None:
    """The facts of a batch; None for the other commands of a partition. Total."""
    size_bytes = len(data)
    if size_bytes < COLUMNS_AT:
        return _facts_of_header(data)
    (
        base_offset, length, version, layout, flags, count, epoch, magic, max_time_ms, producer_id, sequence,
        columns, priority, deliver_at_ms,
    ) = _PLACES.unpack_from(data)  # fmt: skip
    if magic != MAGIC or version != VERSION or length != size_bytes or count < 1:
        return None
    if layout != FORMAT_COLUMNS:
        return BatchFacts(base_offset, count, max_time_ms, producer_id, epoch, sequence, length)
    facts = BatchFacts(base_offset, count, max_time_ms, producer_id, epoch, sequence, length, priority, deliver_at_ms)
    if flags:
        facts.is_transactional = bool(flags & TRANSACTIONAL)
    if columns & IDEMPOTENCY_KEYS:
        facts.idempotency_keys = _read_keys(data)
    return facts


def facts_of_view(view: BatchView) -> BatchFacts:
    """The facts of an opened batch, which the leader has after its check."""
    header = view.header
    columns = view.columns
    facts = BatchFacts(
        header.base_offset,
        header.count,
        header.max_time_ms,
        header.producer_id,
        header.producer_epoch,
        header.producer_sequence,
        header.length,
        columns.directory.priority,
        columns.directory.deliver_at_ms,
    )
    if columns.idempotency_keys is not None:
        facts.idempotency_keys = tuple(columns.idempotency_keys.items())
    return facts


def _facts_of_header(data: Buffer) -> BatchFacts | None:
    """The facts of a foreign batch that is shorter than a directory."""
    header = unpack_header(data)
    if header is None:
        return None
    return BatchFacts(header[0], header[8], header[12], header[13], header[9], header[14], len(data))


def _read_keys(data: Buffer) -> tuple[bytes, ...]:
    try:
        keys = open_columns(data, parse_header(data)).idempotency_keys
        return () if keys is None else tuple(keys.items())
    except InvalidArgumentError:
        # The check admits no such batch. If one is in the log all the same, it must not stop a replica.
        return ()


def span_of(entry: Entry) -> Span | None:
    """Offsets and time of an entry's batch; None: the entry is no batch."""
    if entry.kind != DATA:
        return None
    header = unpack_header(entry.data)
    return None if header is None else Span(header[0], header[8], header[12])
