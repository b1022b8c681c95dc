"""The parts of a partition's snapshot that are made of runs: queue groups, sets of offsets and the index of batches.

Little endian; runs as columns of u64, reasons as places in a table of texts before them. Equal states give equal bytes.
Reading checks what the machine relies on: runs ascend and are not empty.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields
from operator import attrgetter, le, lt
from struct import Struct
from typing import Any, Final, NamedTuple

from flotilla.partition.commands.byte_reader import ByteReader, pack_count, pack_numbers, pack_text
from flotilla.partition.offset_runs import FrozenRuns, RunSet
from flotilla.partition.state.batch_index import PRIORITIES, BatchIndex
from flotilla.partition.state.endings import KINDS, End
from flotilla.partition.state.group import DeathRun, Failure, GroupState, Totals
from flotilla.types.errors import CorruptionError
from flotilla.types.ids import Offset

#: born, generation, start, floor, next_death, reserved_tat_us, endings.known_from, partition_count, first_lease,
#: used_ms; the totals in the order of their fields; counts of failures, deaths, endings, holders and reasons.
_GROUP = Struct("<10Q7Q5I")
_totals = attrgetter(*[field.name for field in fields(Totals)])
#: Items that one step of encoding or decoding handles.
_STEP: Final = 4_096


class FrozenGroup(NamedTuple):
    """A view of a queue group. Any thread may read it."""

    #: The numbers of its head, up to the counts of its tables.
    head: tuple[int, ...]
    settled: FrozenRuns[None]
    failures: FrozenRuns[Failure]
    deaths: list[DeathRun]
    endings: FrozenRuns[End]
    trimmed: FrozenRuns[None]
    holders: list[str]


def freeze_queue(queue: GroupState) -> FrozenGroup:
    numbers = (
        queue.born, queue.generation, queue.start, queue.floor, queue.next_death, queue.reserved_tat_us,
        queue.endings.known_from, queue.partition_count, queue.first_lease, queue.used_ms,
    )  # fmt: skip
    return FrozenGroup(
        (*numbers, *_totals(queue.totals)),
        queue.settled.freeze(),
        queue.failures.freeze(),
        list(queue.dying),
        queue.endings.runs.freeze(),
        queue.endings.trimmed.freeze(),
        list(queue.holders),
    )


def encode_runs(runs: FrozenRuns[Any]) -> Iterator[bytes]:
    yield pack_count(len(runs))
    yield from _encode_bounds(runs)


def _encode_bounds(runs: FrozenRuns[Any]) -> Iterator[bytes]:
    yield from map(pack_numbers, runs.firsts())
    yield from map(pack_numbers, runs.ends())


def read_runs(reader: ByteReader) -> RunSet:
    firsts, ends = reader.columns(reader.count(), 2)
    _check_ascending(firsts, ends)
    return RunSet(zip(firsts, ends, strict=True))


def _check_ascending(firsts: "array[int]", ends: "array[int]") -> None:
    for at in range(0, len(firsts), _STEP):
        stop = at + _STEP
        is_ascending = all(map(lt, firsts[at:stop], ends[at:stop])) and all(
            map(le, ends[at:stop], firsts[at + 1 : stop + 1])
        )
        if not is_ascending:
            raise CorruptionError("runs in a partition's snapshot are out of order")


def encode_queue(name: str, queue: FrozenGroup) -> Iterator[bytes]:
    reasons: dict[str, int] = {}

    def places(values: Iterable[Failure | DeathRun | End]) -> bytes:
        return pack_numbers([reasons.setdefault(value.reason, len(reasons)) for value in values])

    deaths = [queue.deaths[at : at + _STEP] for at in range(0, len(queue.deaths), _STEP)]
    # The table of reasons comes before the columns that name its places.
    tables: list[Iterable[Sequence[Failure | DeathRun | End]]] = [
        queue.failures.values(),
        deaths,
        queue.endings.values(),
    ]
    columns = [[places(values) for values in table] for table in tables]
    counts = (len(queue.failures), len(queue.deaths), len(queue.endings), len(queue.holders), len(reasons))
    yield pack_text(name) + _GROUP.pack(*queue.head, *counts)
    yield from map(pack_text, reasons)
    yield from encode_runs(queue.settled)
    yield from _encode_bounds(queue.failures)
    yield from _encode_fields(queue.failures.values, ("attempts", "not_before_ms"))
    yield from columns[0]
    yield from _encode_fields(deaths.__iter__, ("number", "first", "end", "attempts", "died_ms"))
    yield from columns[1]
    yield from _encode_bounds(queue.endings)
    yield from _encode_fields(queue.endings.values, ("kind", "attempts", "ended_ms"))
    yield from columns[2]
    yield from encode_runs(queue.trimmed)
    yield from map(pack_text, queue.holders)


def _encode_fields(values: Callable[[], Iterator[Sequence[Any]]], names: Iterable[str]) -> Iterator[bytes]:
    """Column by column."""
    for name in names:
        field = attrgetter(name)
        for step in values():
            yield pack_numbers(map(field, step))


def read_queues(reader: ByteReader) -> dict[str, GroupState]:
    """Raises IndexError, too, for a reason that is not in the table."""
    queues = {}
    for _ in range(reader.count()):
        name = reader.text()
        queues[name] = _read_queue(reader)
    return queues


def _read_queue(reader: ByteReader) -> GroupState:
    born, generation, start, floor, next_death, tat_us, known_from, *rest = reader.take(_GROUP)
    partition_count, first_lease, used_ms, *rest = rest
    *totals, failure_count, death_count, ending_count, holder_count, reason_count = rest
    queue = GroupState(start, born, partition_count, first_lease, used_ms)
    queue.generation = generation
    queue.floor = floor
    queue.next_death = next_death
    queue.reserved_tat_us = tat_us
    queue.endings.known_from = known_from
    queue.totals = Totals(*totals)
    reasons = [reader.text() for _ in range(reason_count)]
    queue.settled = read_runs(reader)
    _read_failures(reader, queue, failure_count, reasons)
    _read_deaths(reader, queue, death_count, reasons)
    _read_endings(reader, queue, ending_count, reasons)
    queue.endings.trimmed = read_runs(reader)
    queue.holders = dict.fromkeys([reader.text() for _ in range(holder_count)])
    return queue


def _read_failures(reader: ByteReader, queue: GroupState, count: int, reasons: list[str]) -> None:
    columns = reader.columns(count, 5)
    _check_ascending(*columns[:2])
    for first, end, attempts, not_before_ms, reason in zip(*columns, strict=True):
        queue.failures.set(first, end, Failure(attempts, not_before_ms, reasons[reason]))


def _read_deaths(reader: ByteReader, queue: GroupState, count: int, reasons: list[str]) -> None:
    columns = reader.columns(count, 6)
    for number, first, end, attempts, died_ms, reason in zip(*columns, strict=True):
        if first >= end:
            raise CorruptionError("deaths in a partition's snapshot are empty")
        queue.dying.append(DeathRun(number, first, end, attempts, reasons[reason], died_ms))
        queue.dying_count += end - first


def _read_endings(reader: ByteReader, queue: GroupState, count: int, reasons: list[str]) -> None:
    columns = reader.columns(count, 6)
    _check_ascending(*columns[:2])
    if not all(kind in KINDS for kind in columns[2]):
        raise CorruptionError("an ending in a partition's snapshot is of no known kind")
    for first, end, kind, attempts, ended_ms, reason in zip(*columns, strict=True):
        queue.endings.runs.set(first, end, End(kind, attempts, reasons[reason], ended_ms))


def freeze_index(index: BatchIndex) -> list[bytes]:
    """Its bytes: the columns are copied as they are."""
    pieces = []
    for firsts, ends in zip(index.plain_firsts, index.plain_ends, strict=True):
        pieces += [pack_count(len(firsts)), pack_numbers(firsts), pack_numbers(ends)]
    pieces.append(pack_count(len(index.delayed_firsts)))
    pieces += map(pack_numbers, (index.delayed_firsts, index.delayed_ends, index.delayed_times_ms))
    pieces.append(index.delayed_priorities.tobytes())
    return pieces


def read_index(reader: ByteReader, log_start: Offset, next_offset: Offset) -> BatchIndex:
    """Raises CorruptionError if the index does not cover [log_start, next_offset)."""
    index = BatchIndex()
    for priority in range(PRIORITIES):
        firsts, ends = reader.columns(reader.count(), 2)
        _check_ascending(firsts, ends)
        index.plain_firsts[priority], index.plain_ends[priority] = firsts, ends
    count = reader.count()
    index.delayed_firsts, index.delayed_ends, index.delayed_times_ms = reader.columns(count, 3)
    index.delayed_priorities = array("B", reader.bytes(count))
    _check_ascending(index.delayed_firsts, index.delayed_ends)
    if index.count != next_offset - log_start or max(index.delayed_priorities, default=0) >= PRIORITIES:
        raise CorruptionError("the index of batches in a partition's snapshot does not fit its log")
    index.reopen(next_offset)
    return index
