"""The snapshot of a partition's state as bytes. Messages are not in it: they stay in the log.

Little endian. The version (u8), the counters, then the positions of groups and the fences of stream groups in the
order of names, those of deleted groups in the order of deletion, from layout 7 on the ends of groups (`group_ends`),
then the table of producers: bounds, marks, producers by id with their batches in the window, and idle producers in the
order in which they will be forgotten; then the idempotency keys by bucket, the index of batches, cancelled offsets, the
queue groups (`group_snapshot`), when records were stored, transactions (`transaction_snapshot`), and the results of
acked messages (`result_snapshot`). Equal states give equal bytes, whatever happened before: slots of batches that have
left the window are not written. A state without ends has layout 6, which programs before `GROUP_ENDS_STORED` read.

Encoding has two steps, because a state of a million items takes seconds. `freeze` takes a view of the state, in a few
milliseconds, which later changes do not reach. `encode` makes the bytes of it piece by piece, on any thread: no step of
it takes long, so a thread that does it lets others run.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from heapq import merge
from itertools import islice, repeat
from struct import Struct
from struct import error as StructError  # noqa: N812 - a class whose name says too little alone
from typing import Final, NamedTuple, TypeVar

from flotilla.partition.commands.byte_reader import ByteReader, pack_count, pack_numbers
from flotilla.partition.offset_runs import FrozenRuns, RunSet
from flotilla.partition.queries import Position
from flotilla.partition.state.batch_index import BatchIndex
from flotilla.partition.state.group import GroupState
from flotilla.partition.state.group_ends import GroupEnds
from flotilla.partition.state.group_snapshot import (
    FrozenGroup,
    encode_queue,
    encode_runs,
    freeze_index,
    freeze_queue,
    read_index,
    read_queues,
    read_runs,
)
from flotilla.partition.state.idempotency_keys import STEP, FrozenKeys, KeyTable
from flotilla.partition.state.producers import FrozenProducers, Idle, Mark, Producer, ProducerTable
from flotilla.partition.state.result_snapshot import FrozenResults, encode_results, freeze_results, read_results
from flotilla.partition.state.results import ResultTable
from flotilla.partition.state.stored_times import StoredTimes
from flotilla.partition.state.transaction_snapshot import read_transactions, write_transactions
from flotilla.partition.state.transactions import StagedTransactions
from flotilla.types.errors import CorruptionError
from flotilla.types.ids import Index, Offset
from flotilla.types.snapshot_data import SnapshotData

VERSION: Final = 7
#: Without the ends of groups.
FIRST_LAYOUT: Final = 6

#: Items that one step of encoding or decoding handles.
_STEP: Final = 4_096
#: Batches of one producer that are worth a row of their own when the window is put in order.
_LONG: Final = 64

_T = TypeVar("_T")
_V = TypeVar("_V", bound="int | tuple[int, int]")

_VERSION = Struct("<B")
_COUNTERS = Struct("<QQQqQQQQ")
_POSITION = Struct("<HQQH")
_FENCE = Struct("<HQ")
_FLOOR = Struct("<Q")
_BOUNDS = Struct("<QQQ")
_MARK = Struct("<QQQ")
_KEYS = Struct("<QQQ")
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
    ended_fences: dict[str, int]
    ends: GroupEnds
    producers: ProducerTable
    keys: KeyTable
    index: BatchIndex
    cancelled: RunSet
    queues: dict[str, GroupState]
    stored: StoredTimes
    transactions: StagedTransactions
    results: ResultTable


@dataclass(frozen=True, slots=True)
class FrozenContents:
    """A view of a state. Any thread may read it."""

    counters: Counters
    positions: dict[str, Position]
    fences: dict[str, int]
    ended_fences: dict[str, int]
    ends: GroupEnds
    producers: FrozenProducers
    keys: FrozenKeys
    #: These change as a whole or are small: their bytes.
    index: list[bytes]
    cancelled: FrozenRuns[None]
    queues: dict[str, FrozenGroup]
    stored: bytes
    transactions: bytes
    results: FrozenResults


def freeze(contents: Contents) -> FrozenContents:
    stored = pack_count(len(contents.stored.ends))
    stored += pack_numbers(contents.stored.times_ms) + pack_numbers(contents.stored.ends)
    transactions = bytearray()
    write_transactions(transactions, contents.transactions)
    return FrozenContents(
        counters=contents.counters,
        positions=contents.positions.copy(),
        fences=contents.fences.copy(),
        ended_fences=contents.ended_fences.copy(),
        ends=contents.ends.copy(),
        producers=contents.producers.freeze(),
        keys=contents.keys.freeze(),
        index=freeze_index(contents.index),
        cancelled=contents.cancelled.freeze(),
        queues={name: freeze_queue(queue) for name, queue in sorted(contents.queues.items())},
        stored=stored,
        transactions=bytes(transactions),
        results=freeze_results(contents.results),
    )


def encode(frozen: FrozenContents) -> Iterator[bytes]:
    """The bytes of the snapshot, in pieces."""
    yield _VERSION.pack(VERSION if frozen.ends else FIRST_LAYOUT) + _COUNTERS.pack(*frozen.counters)
    yield from _encode_positions(frozen.positions)
    yield from _encode_fences(sorted(frozen.fences.items()))
    yield from _encode_fences(frozen.ended_fences.items())
    if frozen.ends:
        yield from _encode_fences(frozen.ends.by_name.items())
        yield _FLOOR.pack(frozen.ends.floor)
    yield from _encode_producers(frozen.producers)
    yield from _encode_keys(frozen.keys)
    yield from frozen.index
    yield from encode_runs(frozen.cancelled)
    yield pack_count(len(frozen.queues))
    for name, queue in frozen.queues.items():
        yield from encode_queue(name, queue)
    yield frozen.stored
    yield frozen.transactions
    yield from encode_results(frozen.results)


def _encode_positions(positions: dict[str, Position]) -> Iterator[bytes]:
    yield pack_count(len(positions))
    for name, position in sorted(positions.items()):
        encoded = name.encode("utf-8")
        yield _POSITION.pack(len(encoded), position.offset, position.committed_at_ms, len(position.metadata))
        yield encoded + position.metadata


def _encode_fences(fences: Collection[tuple[str, int]]) -> Iterator[bytes]:
    yield pack_count(len(fences))
    for name, epoch in fences:
        encoded = name.encode("utf-8")
        yield _FENCE.pack(len(encoded), epoch) + encoded


def _encode_producers(table: FrozenProducers) -> Iterator[bytes]:
    yield _BOUNDS.pack(table.entries_max, table.window_ms, table.old_end) + pack_count(len(table.marks))
    for mark in table.marks:
        yield _MARK.pack(*mark)
    yield pack_count(len(table.producers))
    for producer_id in _sorted(table.producers):
        producer = table.producers[producer_id]
        head = producer.head
        ended = max(producer.epoch_start - head, 0)
        size = len(producer.offsets) - head
        yield _PRODUCER.pack(producer_id, producer.epoch, producer.next_sequence, ended, size)
        yield pack_numbers(producer.sequences[head:]) + pack_numbers(producer.offsets[head:])
    yield pack_count(len(table.idle))
    for producer_id, idle in table.idle.items():
        yield _IDLE.pack(producer_id, *idle)


def _encode_keys(keys: FrozenKeys) -> Iterator[bytes]:
    yield _KEYS.pack(keys.floor, keys.recorded, keys.forgotten) + pack_count(len(keys.buckets))
    for buckets in keys.steps():
        yield pack_numbers([len(bucket) for bucket in buckets]) + b"".join(buckets)


def _steps(items: Iterable[_T]) -> Iterator[list[_T]]:
    """The items in lists that are handled in one step."""
    remaining = iter(items)
    while step := list(islice(remaining, _STEP)):
        yield step


def _sorted(items: Iterable[_V]) -> Iterator[_V]:
    """In order, and without a step that takes long: also the memory of the items is freed one by one."""
    return merge(*[_drained(sorted(step, reverse=True)) for step in _steps(items)])


def _drained(items: list[_V]) -> Iterator[_V]:
    while items:
        yield items.pop()


def decode_snapshot(data: SnapshotData) -> Contents:
    """Raises CorruptionError."""
    reader = ByteReader(data)
    try:
        (version,) = reader.take(_VERSION)
        if not FIRST_LAYOUT <= version <= VERSION:
            raise CorruptionError(f"a partition's snapshot of version {version}, not {FIRST_LAYOUT} to {VERSION}")
        contents = _read_contents(reader, version)
    except (StructError, UnicodeDecodeError, IndexError, AssertionError) as error:
        raise CorruptionError("a partition's snapshot is cut short or garbled") from error
    if reader.left_bytes:
        raise CorruptionError(f"a partition's snapshot has {reader.left_bytes} bytes too many")
    return contents


def _read_contents(reader: ByteReader, version: int) -> Contents:
    counters = Counters(*reader.take(_COUNTERS))
    positions = _read_positions(reader)
    fences, ended_fences = _read_fences(reader), _read_fences(reader)
    ends = _read_ends(reader) if version > FIRST_LAYOUT else GroupEnds()
    producers = _read_producers(reader)
    return Contents(
        counters=counters,
        positions=positions,
        fences=fences,
        ended_fences=ended_fences,
        ends=ends,
        producers=producers,
        keys=_read_keys(reader, producers.entries_max),
        index=read_index(reader, counters.log_start, counters.next_offset),
        cancelled=read_runs(reader),
        queues=read_queues(reader),
        stored=_read_stored(reader),
        transactions=_read_transactions(reader, counters),
        results=read_results(reader),
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


def _read_ends(reader: ByteReader) -> GroupEnds:
    ends = GroupEnds()
    ends.by_name = _read_fences(reader)
    (ends.floor,) = reader.take(_FLOOR)
    assert ends, "without ends the layout is an earlier one"
    return ends


def _read_producers(reader: ByteReader) -> ProducerTable:
    entries_max, window_ms, old_end = reader.take(_BOUNDS)
    table = ProducerTable(entries_max, window_ms)
    table.old_end = old_end
    for _ in range(reader.count()):
        table.marks.append(Mark(*reader.take(_MARK)))
    slots: list[tuple[Offset, int]] = []
    rows: list[Iterator[tuple[Offset, int]]] = []
    for _ in range(reader.count()):
        producer_id, epoch, next_sequence, ended, size = reader.take(_PRODUCER)
        producer = Producer(producer_id, epoch, next_sequence)
        producer.epoch_start = ended
        producer.sequences, producer.offsets = reader.columns(size, 2)
        table.producers[producer_id] = producer
        if size < _LONG:
            slots += [(offset, producer_id) for offset in producer.offsets]
        else:
            # In order already: a window of millions of batches needs no copy.
            rows.append(zip(producer.offsets, repeat(producer_id)))
    # The order of batches in the window is the order of their offsets.
    ordered = merge(_sorted(slots), *rows)
    del slots
    for _, producer_id in ordered:
        table.ring.append(producer_id)
    for _ in range(reader.count()):
        producer_id, *idle = reader.take(_IDLE)
        table.idle[producer_id] = Idle(*idle)
    return table


def _read_keys(reader: ByteReader, entries_max: int) -> KeyTable:
    floor, recorded, forgotten = reader.take(_KEYS)
    count = reader.count()
    assert count > 0, "there is always a bucket"
    assert forgotten <= recorded, "more keys are forgotten than there were"
    buckets: list[bytes] = []
    while len(buckets) < count:
        sizes = reader.numbers(min(STEP, count - len(buckets)))
        buckets += [reader.bytes(size) for size in sizes]
    table = KeyTable.restored(entries_max, FrozenKeys(floor, recorded, forgotten, buckets))
    if table.size_bytes() != sum([len(bucket) for bucket in buckets]):
        raise CorruptionError("a partition's snapshot has another number of idempotency keys than it says")
    return table
