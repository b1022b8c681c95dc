"""The part of a partition's snapshot that holds its transactions.

Open ones in the order of their first stage, each with its parts as rows of numbers, the offsets of those that are
stored again, and its acks; those that have ended in the order of their end; then what is held back from readers.
Reading raises struct.error, UnicodeDecodeError or IndexError for what was cut short or garbled.
"""

from collections.abc import Iterable
from itertools import chain
from typing import Final

from flotilla.partition.batch_facts import BatchFacts
from flotilla.partition.commands.byte_reader import ByteReader, pack_count, pack_numbers, pack_text
from flotilla.partition.state.transactions import Ended, Part, Shown, StagedAcks, StagedTransactions, Staging
from flotilla.types.errors import CorruptionError

_PART_NUMBERS: Final = len(Part._fields)
_SHOWN_NUMBERS: Final = len(Shown._fields)
_HELD_NUMBERS: Final = 8


def write_transactions(out: bytearray, transactions: StagedTransactions) -> None:
    out += pack_count(len(transactions.open))
    for staging in transactions.open.values():
        out += pack_text(staging.transaction_id)
        out += pack_numbers((staging.first_staged_ms,))
        _write_rows(out, staging.parts)
        _write_rows(out, [(offset,) for offset in staging.offsets])
        out += pack_count(len(staging.acks))
        for acks in staging.acks:
            out += pack_text(acks.group)
            out += pack_numbers((acks.generation,))
            _write_rows(out, acks.runs)
    out += pack_count(len(transactions.ended))
    for ended in transactions.ended.values():
        out += pack_text(ended.transaction_id)
        out += pack_numbers((ended.acked_count,))
        _write_rows(out, ended.batches)
    out += pack_numbers((transactions.held_index,))
    _write_rows(out, [_held_row(facts) for facts in transactions.held])


def _write_rows(out: bytearray, rows: Iterable[tuple[int, ...]]) -> None:
    rows = list(rows)
    out += pack_count(len(rows))
    out += pack_numbers(chain.from_iterable(rows))


def _held_row(facts: BatchFacts) -> tuple[int, ...]:
    return (
        facts.base_offset,
        facts.count,
        facts.max_time_ms,
        facts.producer_id,
        facts.producer_sequence,
        facts.size_bytes,
        facts.priority,
        facts.deliver_at_ms,
    )


def read_transactions(reader: ByteReader) -> StagedTransactions:
    """Raises CorruptionError, too."""
    transactions = StagedTransactions()
    open_ = [_read_staging(reader) for _ in range(reader.count())]
    ended = [_read_ended(reader) for _ in range(reader.count())]
    transactions.put(open_, ended)
    transactions.held_index = reader.numbers(1)[0]
    transactions.held = [_held(row) for row in _read_rows(reader, _HELD_NUMBERS)]
    partial = [staging for staging in open_ if staging.offsets]
    if [len(staging.offsets) for staging in partial] != ([len(transactions.held)] if transactions.held else []):
        raise CorruptionError("a partition's snapshot holds back what belongs to no transaction")
    return transactions


def _read_staging(reader: ByteReader) -> Staging:
    staging = Staging(reader.text(), reader.numbers(1)[0])
    for row in _read_rows(reader, _PART_NUMBERS):
        staging.add(Part(*row))
    staging.offsets = [row[0] for row in _read_rows(reader, 1)]
    for _ in range(reader.count()):
        staging.add_acks(_read_acks(reader))
    if (staging.parts or not staging.acks) and len(staging.offsets) >= len(staging.parts):
        raise CorruptionError("a partition's snapshot has a transaction that cannot be open")
    return staging


def _read_acks(reader: ByteReader) -> StagedAcks:
    group, generation = reader.text(), reader.numbers(1)[0]
    return StagedAcks(group, generation, tuple([(first, end) for first, end in _read_rows(reader, 2)]))


def _read_ended(reader: ByteReader) -> Ended:
    transaction_id, acked_count = reader.text(), reader.numbers(1)[0]
    return Ended(transaction_id, tuple([Shown(*row) for row in _read_rows(reader, _SHOWN_NUMBERS)]), acked_count)


def _read_rows(reader: ByteReader, width: int) -> list[tuple[int, ...]]:
    numbers = reader.numbers(reader.count() * width)
    return list(zip(*[numbers[at::width] for at in range(width)], strict=True))


def _held(row: tuple[int, ...]) -> BatchFacts:
    base_offset, count, max_time_ms, producer_id, sequence, size_bytes, priority, deliver_at_ms = row
    return BatchFacts(
        base_offset, count, max_time_ms, producer_id, 0, sequence, size_bytes, priority, deliver_at_ms, (), True
    )
