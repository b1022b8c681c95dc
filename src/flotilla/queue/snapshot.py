"""A partition's state as bytes and back. Messages are not in it: they stay in the log.

Little endian. The version (u8), the counters, then the positions of groups in the order of names,
then the table of producers: bounds, marks, producers by id with their batches in the window, and idle
producers in the order in which they will be forgotten. Equal states give equal bytes, whatever
happened before: slots of batches that have left the window are not written.
"""

import sys
from array import array
from dataclasses import dataclass
from struct import Struct
from struct import error as StructError  # noqa: N812 - a class whose name says too little alone
from typing import Final

from flotilla.queue.producers import Idle, Mark, Producer, ProducerTable
from flotilla.queue.queries import Position
from flotilla.types.errors import CorruptionError
from flotilla.types.ids import Index, Offset

VERSION: Final = 1

_VERSION = Struct("<B")
_COUNTERS = Struct("<QQQqQQQ")
_COUNT = Struct("<I")
_POSITION = Struct("<HQQH")
_BOUNDS = Struct("<QQ")
_MARK = Struct("<QQ")
_PRODUCER = Struct("<QHQII")
_IDLE = Struct("<QHIQ")
_SLOT_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class Counters:
    applied: Index
    log_start: Offset
    next_offset: Offset
    max_time_ms: int
    batches_total: int
    bytes_total: int
    clock_ms: int


def encode_snapshot(counters: Counters, positions: dict[str, Position], producers: ProducerTable) -> bytes:
    out = bytearray(_VERSION.pack(VERSION))
    out += _COUNTERS.pack(
        counters.applied,
        counters.log_start,
        counters.next_offset,
        counters.max_time_ms,
        counters.batches_total,
        counters.bytes_total,
        counters.clock_ms,
    )
    out += _COUNT.pack(len(positions))
    for name, position in sorted(positions.items()):
        encoded = name.encode("utf-8")
        out += _POSITION.pack(len(encoded), position.offset, position.committed_at_ms, len(position.metadata))
        out += encoded
        out += position.metadata
    _write_producers(out, producers)
    return bytes(out)


def _write_producers(out: bytearray, table: ProducerTable) -> None:
    out += _BOUNDS.pack(table.entries_max, table.window_ms)
    out += _COUNT.pack(len(table.marks))
    for mark in table.marks:
        out += _MARK.pack(mark.stamp_ms, mark.end)
    out += _COUNT.pack(len(table.producers))
    for producer_id, producer in sorted(table.producers.items()):
        head = producer.head
        ended = max(producer.epoch_start - head, 0)
        size = len(producer.offsets) - head
        out += _PRODUCER.pack(producer_id, producer.epoch, producer.next_sequence, ended, size)
        out += _little_endian(producer.sequences[head:])
        out += _little_endian(producer.offsets[head:])
    out += _COUNT.pack(len(table.idle))
    for producer_id, idle in table.idle.items():
        out += _IDLE.pack(producer_id, idle.epoch, idle.next_sequence, idle.last_offset)


def decode_snapshot(data: bytes) -> tuple[Counters, dict[str, Position], ProducerTable]:
    """Raises CorruptionError."""
    reader = _Reader(data)
    try:
        (version,) = reader.take(_VERSION)
        if version != VERSION:
            raise CorruptionError(f"a partition's snapshot of version {version}, not {VERSION}")
        counters = Counters(*reader.take(_COUNTERS))
        positions = _read_positions(reader)
        producers = _read_producers(reader)
    except (StructError, UnicodeDecodeError) as error:
        raise CorruptionError("a partition's snapshot is cut short or garbled") from error
    if reader.at != len(data):
        raise CorruptionError(f"a partition's snapshot has {len(data) - reader.at} bytes too many")
    return counters, positions, producers


class _Reader:
    """Walks over the bytes; taking more than there is raises struct.error."""

    __slots__ = ("at", "data")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, layout: Struct) -> tuple[int, ...]:
        fields = layout.unpack_from(self.data, self.at)
        self.at += layout.size
        return fields

    def count(self) -> int:
        return self.take(_COUNT)[0]

    def bytes(self, size: int) -> bytes:
        start = self.at
        self.at = start + size
        if self.at > len(self.data):
            raise StructError("cut short")
        return self.data[start : self.at]


def _read_positions(reader: _Reader) -> dict[str, Position]:
    positions = {}
    for _ in range(reader.count()):
        name_bytes, offset, committed_at_ms, metadata_bytes = reader.take(_POSITION)
        name = reader.bytes(name_bytes).decode("utf-8")
        positions[name] = Position(offset, committed_at_ms, reader.bytes(metadata_bytes))
    return positions


def _read_producers(reader: _Reader) -> ProducerTable:
    entries_max, window_ms = reader.take(_BOUNDS)
    table = ProducerTable(entries_max, window_ms)
    for _ in range(reader.count()):
        stamp_ms, end = reader.take(_MARK)
        table.marks.append(Mark(stamp_ms, end))
    slots: list[tuple[Offset, Producer]] = []
    for _ in range(reader.count()):
        producer_id, epoch, next_sequence, ended, size = reader.take(_PRODUCER)
        producer = Producer(producer_id, epoch, next_sequence)
        producer.epoch_start = ended
        producer.sequences = _from_little_endian(reader.bytes(size * _SLOT_BYTES))
        producer.offsets = _from_little_endian(reader.bytes(size * _SLOT_BYTES))
        table.producers[producer_id] = producer
        slots += [(offset, producer) for offset in producer.offsets]
    # Offsets are unique, so the order of batches in the window is the order of their offsets.
    slots.sort(key=_first)
    table.ring.extend([producer for _, producer in slots])
    for _ in range(reader.count()):
        producer_id, epoch, next_sequence, last_offset = reader.take(_IDLE)
        table.idle[producer_id] = Idle(epoch, next_sequence, last_offset)
    return table


def _first(slot: tuple[Offset, Producer]) -> Offset:
    return slot[0]


def _little_endian(values: "array[int]") -> bytes:
    """Bytes of a copy: it is swapped in place where the machine writes the other way round."""
    if sys.byteorder == "big":
        values.byteswap()
    return values.tobytes()


def _from_little_endian(data: bytes) -> "array[int]":
    values = array("Q", data)
    if sys.byteorder == "big":
        values.byteswap()
    return values
