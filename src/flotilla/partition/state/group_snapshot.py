"""Queue groups, runs and the index of batches as bytes and back: the parts of a partition's snapshot made of runs.

Little endian; runs as columns of u64, reasons as places in a table of texts in front of them. Equal states give equal
bytes. What is read back is checked as far as the rest of the machine relies on it: runs ascend and are not empty.
"""

from array import array
from collections.abc import Iterable
from operator import le, lt
from struct import Struct

from flotilla.partition.commands.byte_reader import ByteReader, pack_count, pack_numbers, pack_text
from flotilla.partition.offset_runs import Run, RunSet
from flotilla.partition.state.batch_index import PRIORITIES, BatchIndex
from flotilla.partition.state.endings import KINDS, End
from flotilla.partition.state.group import DeathRun, Failure, GroupState, Totals
from flotilla.types.errors import CorruptionError
from flotilla.types.ids import Offset

#: born, generation, start, floor, next_death, reserved_tat_us, from where ends are known; the totals in the order of
#: their fields; failures, deaths, ends and reasons.
_GROUP = Struct("<7Q7Q4I")


def write_runs(out: bytearray, runs: RunSet) -> None:
    out += pack_count(len(runs))
    out += pack_numbers([first for first, _ in runs])
    out += pack_numbers([end for _, end in runs])


def read_runs(reader: ByteReader) -> RunSet:
    return RunSet(_read_spans(reader))


def _read_spans(reader: ByteReader) -> list[Run]:
    count = reader.count()
    firsts = reader.numbers(count)
    ends = reader.numbers(count)
    _check_ascending(firsts, ends)
    return list(zip(firsts, ends, strict=True))


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
    failures = list(queue.failures)
    endings = list(queue.endings.runs)
    columns: list[Iterable[int]] = [
        [first for first, _, _ in failures],
        [end for _, end, _ in failures],
        [failure.attempts for _, _, failure in failures],
        [failure.not_before_ms for _, _, failure in failures],
        [reasons.setdefault(failure.reason, len(reasons)) for _, _, failure in failures],
        [run.number for run in queue.dying],
        [run.first for run in queue.dying],
        [run.end for run in queue.dying],
        [run.attempts for run in queue.dying],
        [run.died_ms for run in queue.dying],
        [reasons.setdefault(run.reason, len(reasons)) for run in queue.dying],
        [first for first, _, _ in endings],
        [end for _, end, _ in endings],
        [how.kind for _, _, how in endings],
        [how.attempts for _, _, how in endings],
        [how.ended_ms for _, _, how in endings],
        [reasons.setdefault(how.reason, len(reasons)) for _, _, how in endings],
    ]
    totals = queue.totals
    out += _GROUP.pack(
        queue.born, queue.generation, queue.start, queue.floor, queue.next_death, queue.reserved_tat_us,
        queue.endings.known_from,
        totals.acked, totals.failed, totals.expired, totals.dead, totals.dropped, totals.cancelled, totals.trimmed,
        len(failures), len(queue.dying), len(endings), len(reasons),
    )  # fmt: skip
    for reason in reasons:
        out += pack_text(reason)
    write_runs(out, queue.settled)
    for column in columns:
        out += pack_numbers(column)


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
    firsts, ends, attempts, not_before_ms, places = [reader.numbers(count) for _ in range(5)]
    _check_ascending(firsts, ends)
    for row in range(count):
        failure = Failure(attempts[row], not_before_ms[row], reasons[places[row]])
        queue.failures.set(firsts[row], ends[row], failure)


def _read_deaths(reader: ByteReader, queue: GroupState, count: int, reasons: list[str]) -> None:
    numbers, firsts, ends, attempts, died_ms, places = [reader.numbers(count) for _ in range(6)]
    if not all(map(lt, firsts, ends)):
        raise CorruptionError("deaths in a partition's snapshot are empty")
    for row in range(count):
        queue.dying.append(
            DeathRun(numbers[row], firsts[row], ends[row], attempts[row], reasons[places[row]], died_ms[row])
        )


def _read_endings(reader: ByteReader, queue: GroupState, count: int, reasons: list[str]) -> None:
    firsts, ends, kinds, attempts, ended_ms, places = [reader.numbers(count) for _ in range(6)]
    _check_ascending(firsts, ends)
    if not all(kind in KINDS for kind in kinds):
        raise CorruptionError("an end in a partition's snapshot is of no known kind")
    for row in range(count):
        how = End(kinds[row], attempts[row], reasons[places[row]], ended_ms[row])
        queue.endings.runs.set(firsts[row], ends[row], how)


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
    """Of a log that reaches from log_start to next_offset: the index must cover as much."""
    index = BatchIndex()
    for priority in range(PRIORITIES):
        count = reader.count()
        index.plain_firsts[priority] = reader.numbers(count)
        index.plain_ends[priority] = reader.numbers(count)
        _check_ascending(index.plain_firsts[priority], index.plain_ends[priority])
    count = reader.count()
    index.delayed_firsts = reader.numbers(count)
    index.delayed_ends = reader.numbers(count)
    index.delayed_times_ms = reader.numbers(count)
    index.delayed_priorities = array("B", reader.bytes(count))
    _check_ascending(index.delayed_firsts, index.delayed_ends)
    if index.count != next_offset - log_start or max(index.delayed_priorities, default=0) >= PRIORITIES:
        raise CorruptionError("the index of batches in a partition's snapshot does not fit its log")
    index.reopen(next_offset)
    return index
