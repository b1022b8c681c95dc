"""The part of a partition's snapshot that holds its transactions.

Open transactions in the order of their first stage, each with its parts as rows of numbers, the offsets of the parts
that are stored again, and its acks; ended transactions in the order of their end; then batches that are not visible
yet. Reading raises struct.error, UnicodeDecodeError or IndexError for malformed bytes.
"""

from operator import attrgetter
from typing import Any, Final

from flotilla.partition.batch_facts import BatchFacts
from flotilla.partition.commands.byte_reader import ByteReader, pack_count, pack_numbers, pack_rows, pack_text
from flotilla.partition.commands.group_commands import AckedResult
from flotilla.partition.state.transactions import Ended, Part, StagedAcks, StagedTransactions, Staging, VisibleBatch
from flotilla.types.errors import CorruptionError

#: Of a batch that is not visible yet. Its other fields are the same for all of them.
_HELD_FIELDS: Final = (
    "base_offset",
    "count",
    "max_time_ms",
    "producer_id",
    "producer_sequence",
    "size_bytes",
    "priority",
    "deliver_at_ms",
)
_held_row = attrgetter(*_HELD_FIELDS)


def write_transactions(out: bytearray, transactions: StagedTransactions) -> None:
    out += pack_count(len(transactions.open))
    for staging in transactions.open.values():
        out += pack_text(staging.transaction_id)
        out += pack_numbers((staging.first_staged_ms, staging.timeout_ms))
        out += pack_rows(staging.parts)
        out += pack_rows([(offset,) for offset in staging.offsets])
        out += pack_count(len(staging.acks))
        for acks in staging.acks:
            out += pack_text(acks.group)
            out += pack_numbers((acks.generation,))
            out += pack_rows(acks.runs)
            out += pack_rows([(result.offset, result.ttl_ms, len(result.payload)) for result in acks.results])
            out += b"".join([result.payload for result in acks.results])
    out += pack_count(len(transactions.ended))
    for ended in transactions.ended.values():
        out += pack_text(ended.transaction_id)
        out += pack_numbers((ended.acked_count,))
        out += pack_rows(ended.batches)
    out += pack_numbers((transactions.held_index,))
    out += pack_rows([_held_row(facts) for facts in transactions.held])


def read_transactions(reader: ByteReader) -> StagedTransactions:
    """Raises CorruptionError, too."""
    transactions = StagedTransactions()
    open_ = [_read_staging(reader) for _ in range(reader.count())]
    ended = [_read_ended(reader) for _ in range(reader.count())]
    transactions.put(open_, ended)
    transactions.held_index = reader.number()
    transactions.held = [_held(row) for row in reader.rows(len(_HELD_FIELDS))]
    partial = [staging for staging in open_ if staging.offsets]
    if [len(staging.offsets) for staging in partial] != ([len(transactions.held)] if transactions.held else []):
        raise CorruptionError("a partition's snapshot holds back batches that belong to no transaction")
    return transactions


def _read_staging(reader: ByteReader) -> Staging:
    staging = Staging(reader.text(), reader.number(), reader.number())
    for row in reader.rows(len(Part._fields)):
        staging.add(Part(*row))
    staging.offsets = [offset for (offset,) in reader.rows(1)]
    for _ in range(reader.count()):
        staging.add_acks(_read_acks(reader))
    if (staging.parts or not staging.acks) and len(staging.offsets) >= len(staging.parts):
        raise CorruptionError("a partition's snapshot has a transaction that cannot be open")
    return staging


def _read_acks(reader: ByteReader) -> StagedAcks:
    group, generation = reader.text(), reader.number()
    runs = tuple([(first, end) for first, end in reader.rows(2)])
    results = [AckedResult(offset, ttl_ms, reader.bytes(size)) for offset, ttl_ms, size in list(reader.rows(3))]
    return StagedAcks(group, generation, runs, tuple(results))


def _read_ended(reader: ByteReader) -> Ended:
    transaction_id, acked_count = reader.text(), reader.number()
    return Ended(
        transaction_id, tuple([VisibleBatch(*row) for row in reader.rows(len(VisibleBatch._fields))]), acked_count
    )


def _held(row: tuple[int, ...]) -> BatchFacts:
    known: dict[str, Any] = dict(zip(_HELD_FIELDS, row, strict=True))
    return BatchFacts(**known, producer_epoch=0, is_transactional=True)
