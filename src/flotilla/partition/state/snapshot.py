"""The snapshot of a partition's state as bytes. Messages are not in it: they stay in the log.

Little endian. The version (u8), the counters, then the positions of groups and the fences of stream groups in the
order of names, then the table of producers: bounds, marks, producers by id with their batches in the window, and idle
producers in the order in which they will be forgotten; then the idempotency keys in the order of offsets, the index
of batches, cancelled offsets, the queue groups (`group_snapshot`), when records were stored, and transactions
(`transaction_snapshot`). Equal states give equal bytes, whatever happened before: slots of batches that have left the
window are not written.
"""

from dataclasses import dataclass
from struct import Struct
from struct import error as StructError  # noqa: N812 - a class whose name says too little alone
from typing import Final, NamedTuple

from flotilla.partition.commands.byte_reader import ByteReader, pack_count, pack_numbers
from flotilla.partition.offset_runs import RunSet
from flotilla.partition.queries import Position
from flotilla.partition.state.batch_index import BatchIndex
from flotilla.partition.state.group import GroupState
from flotilla.partition.state.group_snapshot import (
    read_index,
    read_queues,
    read_runs,
    write_index,
    write_queues,
    write_runs,
)
from flotilla.partition.state.idempotency_keys import DIGEST_BYTES, KeyTable
from flotilla.partition.state.producers import Idle, Mark, Producer, ProducerTable
from flotilla.partition.state.stored_times import StoredTimes
from flotilla.partition.state.transaction_snapshot import read_transactions, write_transactions
from flotilla.partition.state.transactions import StagedTransactions
from flotilla.types.errors import CorruptionError
from flotilla.types.ids import Index, Offset

VERSION: Final = 5

_VERSION = Struct("<B")
_COUNTERS = Struct("<QQQqQQQQ")
_POSITION = Struct("<HQQH")
_FENCE = Struct("<HQ")
_BOUNDS = Struct("<QQ")
_MARK = Struct("<QQ")
_PRODUCER = Struct("<QHQII")
_IDLE = Struct("<QHIQ")


class Counters(NamedTuple):
    applied: Index
    log_start: Offset
    next_offset: Offset
    max_time_ms: int
    batches_total: int
    bytes_total: int
    clock_ms: int
    end_offset: Offset


@dataclass(slots=True)
class Contents:
    """The state of a partition."""

    counters: Counters
    positions: dict[str, Position]
    fences: dict[str, int]
    producers: ProducerTable
    keys: KeyTable
    index: BatchIndex
    cancelled: RunSet
    queues: dict[str, GroupState]
    stored: StoredTimes
    transactions: StagedTransactions


def encode_snapshot(contents: Contents) -> bytes:
    out = bytearray(_VERSION.pack(VERSION))
    out += _COUNTERS.pack(*contents.counters)
    _write_positions(out, contents.positions)
    _write_fences(out, contents.fences)
    _write_producers(out, contents.producers)
    _write_keys(out, contents.keys)
    write_index(out, contents.index)
    write_runs(out, contents.cancelled)
    write_queues(out, contents.queues)
    out += pack_count(len(contents.stored.ends))
    out += pack_numbers(contents.stored.times_ms)
    out += pack_numbers(contents.stored.ends)
    write_transactions(out, contents.transactions)
    return bytes(out)


def _write_positions(out: bytearray, positions: dict[str, Position]) -> None:
    out += pack_count(len(positions))
    for name, position in sorted(positions.items()):
        encoded = name.encode("utf-8")
        out += _POSITION.pack(len(encoded), position.offset, position.committed_at_ms, len(position.metadata))
        out += encoded
        out += position.metadata


def _write_fences(out: bytearray, fences: dict[str, int]) -> None:
    out += pack_count(len(fences))
    for name, epoch in sorted(fences.items()):
        encoded = name.encode("utf-8")
        out += _FENCE.pack(len(encoded), epoch)
        out += encoded


def _write_producers(out: bytearray, table: ProducerTable) -> None:
    out += _BOUNDS.pack(table.entries_max, table.window_ms)
    out += pack_count(len(table.marks))
    for mark in table.marks:
        out += _MARK.pack(*mark)
    out += pack_count(len(table.producers))
    for producer_id, producer in sorted(table.producers.items()):
        head = producer.head
        ended = max(producer.epoch_start - head, 0)
        size = len(producer.offsets) - head
        out += _PRODUCER.pack(producer_id, producer.epoch, producer.next_sequence, ended, size)
        out += pack_numbers(producer.sequences[head:])
        out += pack_numbers(producer.offsets[head:])
    out += pack_count(len(table.idle))
    for producer_id, idle in table.idle.items():
        out += _IDLE.pack(producer_id, *idle)


def _write_keys(out: bytearray, table: KeyTable) -> None:
    out += pack_count(len(table))
    out += b"".join(table.order)
    out += pack_numbers([table.offsets[digest] for digest in table.order])


def decode_snapshot(data: bytes) -> Contents:
    """Raises CorruptionError."""
    reader = ByteReader(data)
    try:
        (version,) = reader.take(_VERSION)
        if version != VERSION:
            raise CorruptionError(f"a partition's snapshot of version {version}, not {VERSION}")
        contents = _read_contents(reader)
    except (StructError, UnicodeDecodeError, IndexError, AssertionError) as error:
        raise CorruptionError("a partition's snapshot is cut short or garbled") from error
    if reader.left_bytes:
        raise CorruptionError(f"a partition's snapshot has {reader.left_bytes} bytes too many")
    return contents


def _read_contents(reader: ByteReader) -> Contents:
    counters = Counters(*reader.take(_COUNTERS))
    positions = _read_positions(reader)
    fences = _read_fences(reader)
    producers = _read_producers(reader)
    return Contents(
        counters=counters,
        positions=positions,
        fences=fences,
        producers=producers,
        keys=_read_keys(reader, producers.entries_max),
        index=read_index(reader, counters.log_start, counters.next_offset),
        cancelled=read_runs(reader),
        queues=read_queues(reader),
        stored=_read_stored(reader),
        transactions=_read_transactions(reader, counters),
    )


def _read_transactions(reader: ByteReader, counters: Counters) -> StagedTransactions:
    transactions = read_transactions(reader)
    if counters.end_offset != counters.next_offset + sum([facts.count for facts in transactions.held]):
        raise CorruptionError("a partition's snapshot holds back other offsets than it says")
    return transactions


def _read_stored(reader: ByteReader) -> StoredTimes:
    stored = StoredTimes()
    stored.times_ms, stored.ends = reader.columns(reader.count(), 2)
    return stored


def _read_positions(reader: ByteReader) -> dict[str, Position]:
    positions = {}
    for _ in range(reader.count()):
        name_bytes, offset, committed_at_ms, metadata_bytes = reader.take(_POSITION)
        name = reader.bytes(name_bytes).decode("utf-8")
        positions[name] = Position(offset, committed_at_ms, reader.bytes(metadata_bytes))
    return positions


def _read_fences(reader: ByteReader) -> dict[str, int]:
    fences = {}
    for _ in range(reader.count()):
        name_bytes, epoch = reader.take(_FENCE)
        fences[reader.bytes(name_bytes).decode("utf-8")] = epoch
    return fences


def _read_producers(reader: ByteReader) -> ProducerTable:
    entries_max, window_ms = reader.take(_BOUNDS)
    table = ProducerTable(entries_max, window_ms)
    for _ in range(reader.count()):
        table.marks.append(Mark(*reader.take(_MARK)))
    slots: list[tuple[Offset, Producer]] = []
    for _ in range(reader.count()):
        producer_id, epoch, next_sequence, ended, size = reader.take(_PRODUCER)
        producer = Producer(producer_id, epoch, next_sequence)
        producer.epoch_start = ended
        producer.sequences, producer.offsets = reader.columns(size, 2)
        table.producers[producer_id] = producer
        slots += [(offset, producer) for offset in producer.offsets]
    # Offsets are unique, so the order of batches in the window is the order of their offsets.
    slots.sort(key=_first)
    table.ring.extend([producer for _, producer in slots])
    for _ in range(reader.count()):
        producer_id, *idle = reader.take(_IDLE)
        table.idle[producer_id] = Idle(*idle)
    return table


def _read_keys(reader: ByteReader, entries_max: int) -> KeyTable:
    table = KeyTable(entries_max)
    count = reader.count()
    digests = reader.bytes(count * DIGEST_BYTES)
    table.order.extend([digests[at : at + DIGEST_BYTES] for at in range(0, len(digests), DIGEST_BYTES)])
    table.offsets = dict(zip(table.order, reader.numbers(count), strict=True))
    if len(table.offsets) != count:
        raise CorruptionError("an idempotency key is twice in a partition's snapshot")
    return table


def _first(slot: tuple[Offset, Producer]) -> Offset:
    return slot[0]
