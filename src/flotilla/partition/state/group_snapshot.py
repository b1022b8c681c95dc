"""The parts of a partition's snapshot that are made of runs: queue groups, sets of offsets and the index of batches.

Little endian; runs as columns of u64, reasons as places in a table of texts before them. Equal states give equal bytes.
Reading checks what the machine relies on: runs ascend and are not empty.
"""

from array import array
from dataclasses import astuple
from operator import le, lt
from struct import Struct

from flotilla.partition.commands.byte_reader import ByteReader, pack_columns, pack_count, pack_numbers, pack_text
from flotilla.partition.offset_runs import RunSet
from flotilla.partition.state.batch_index import PRIORITIES, BatchIndex
from flotilla.partition.state.endings import KINDS, End
from flotilla.partition.state.group import DeathRun, Failure, GroupState, Totals
from flotilla.types.errors import CorruptionError
from flotilla.types.ids import Offset

#: born, generation, start, floor, next_death, reserved_tat_us, endings.known_from; the totals in the order of their
#: fields; counts of failures, deaths, endings and reasons.
_GROUP = Struct("<7Q7Q4I")


def write_runs(out: bytearray, runs: RunSet) -> None:
    out += pack_count(len(runs))
    out += pack_columns(runs)


def read_runs(reader: ByteReader) -> RunSet:
    firsts, ends = reader.columns(reader.count(), 2)
    _check_ascending(firsts, ends)
    return RunSet(zip(firsts, ends, strict=True))


def _check_ascending(firsts: "array[int]", ends: "array[int]") -> None:
    if not all(map(lt, firsts, ends)) or not all(map(le, ends, firsts[1:])):
        raise CorruptionError("runs in a partition's snapshot are out of order")


def write_queues(out: bytearray, queues: dict[str, GroupState]) -> None:
    out += pack_count(len(queues))
    for name, queue in sorted(queues.items()):
        out += pack_text(name)
        _write_queue(out, queue)


def _write_queue(out: bytearray, queue: GroupState) -> None:
    reasons: dict[str, int] = {}

    def place(reason: str) -> int:
        return reasons.setdefault(reason, len(reasons))

    failures = [
        (first, end, known.attempts, known.not_before_ms, place(known.reason)) for first, end, known in queue.failures
    ]
    deaths = [(run.number, run.first, run.end, run.attempts, run.died_ms, place(run.reason)) for run in queue.dying]
    endings = [
        (first, end, how.kind, how.attempts, how.ended_ms, place(how.reason)) for first, end, how in queue.endings.runs
    ]
    out += _GROUP.pack(
        queue.born, queue.generation, queue.start, queue.floor, queue.next_death, queue.reserved_tat_us,
        queue.endings.known_from, *astuple(queue.totals), len(failures), len(deaths), len(endings), len(reasons),
    )  # fmt: skip
    for reason in reasons:
        out += pack_text(reason)
    write_runs(out, queue.settled)
    for table in (failures, deaths, endings):
        out += pack_columns(table)


def read_queues(reader: ByteReader) -> dict[str, GroupState]:
    """Raises IndexError, too, for a reason that is not in the table."""
    queues = {}
    for _ in range(reader.count()):
        name = reader.text()
        queues[name] = _read_queue(reader)
    return queues


def _read_queue(reader: ByteReader) -> GroupState:
    born, generation, start, floor, next_death, reserved_tat_us, known_from, *rest = reader.take(_GROUP)
    *totals, failure_count, death_count, ending_count, reason_count = rest
    queue = GroupState(start, born)
    queue.generation = generation
    queue.floor = floor
    queue.next_death = next_death
    queue.reserved_tat_us = reserved_tat_us
    queue.endings.known_from = known_from
    queue.totals = Totals(*totals)
    reasons = [reader.text() for _ in range(reason_count)]
    queue.settled = read_runs(reader)
    _read_failures(reader, queue, failure_count, reasons)
    _read_deaths(reader, queue, death_count, reasons)
    _read_endings(reader, queue, ending_count, reasons)
    return queue


def _read_failures(reader: ByteReader, queue: GroupState, count: int, reasons: list[str]) -> None:
    columns = reader.columns(count, 5)
    _check_ascending(*columns[:2])
    for first, end, attempts, not_before_ms, reason in zip(*columns, strict=True):
        queue.failures.set(first, end, Failure(attempts, not_before_ms, reasons[reason]))


def _read_deaths(reader: ByteReader, queue: GroupState, count: int, reasons: list[str]) -> None:
    columns = reader.columns(count, 6)
    if not all(map(lt, *columns[1:3])):
        raise CorruptionError("deaths in a partition's snapshot are empty")
    for number, first, end, attempts, died_ms, reason in zip(*columns, strict=True):
        queue.dying.append(DeathRun(number, first, end, attempts, reasons[reason], died_ms))


def _read_endings(reader: ByteReader, queue: GroupState, count: int, reasons: list[str]) -> None:
    columns = reader.columns(count, 6)
    _check_ascending(*columns[:2])
    if not all(kind in KINDS for kind in columns[2]):
        raise CorruptionError("an ending in a partition's snapshot is of no known kind")
    for first, end, kind, attempts, ended_ms, reason in zip(*columns, strict=True):
        queue.endings.runs.set(first, end, End(kind, attempts, reasons[reason], ended_ms))


def write_index(out: bytearray, index: BatchIndex) -> None:
    for firsts, ends in zip(index.plain_firsts, index.plain_ends, strict=True):
        out += pack_count(len(firsts))
        out += pack_numbers(firsts)
        out += pack_numbers(ends)
    out += pack_count(len(index.delayed_firsts))
    out += pack_numbers(index.delayed_firsts)
    out += pack_numbers(index.delayed_ends)
    out += pack_numbers(index.delayed_times_ms)
    out += index.delayed_priorities.tobytes()


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
