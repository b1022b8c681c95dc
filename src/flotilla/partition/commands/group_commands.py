"""The commands of queue groups: one value type per command, and the bodies of the long ones.

Runs are half open. Commands say what happened, not what follows: attempts and deaths are counted where the command is
applied, so that no two leaders can count differently.

The body of SettleRuns is the groups one after the other (the head of the command has their count), each

    u64 generation; u32 counts of acked, expired, dropped, failed, dead and reasons; the name; the reasons;
    acked, expired and dropped: (first, end); failed: (first, end, not_before_ms, reason); dead: (first, end, reason)

with texts as u16 length and UTF-8, runs as rows of u64, and a reason as its place among the reasons. If messages have
results, these follow the groups: their u32 count, (group, offset, ttl_ms, size) each as rows of u64 with the group as
its place, and their bytes.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import chain
from struct import Struct
from struct import error as StructError  # noqa: N812 - a class whose name says too little alone
from sys import intern
from typing import NamedTuple

from flotilla.partition.commands.byte_reader import ByteReader, pack_numbers, pack_rows, pack_text
from flotilla.partition.offset_runs import Run
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.ids import Index, Offset


class FailedRun(NamedTuple):
    """An attempt of each of these messages failed, and they will be retried."""

    first: Offset
    end: Offset
    not_before_ms: int
    reason: str


class DeadRun(NamedTuple):
    """The last attempt of each of these messages failed, or they were rejected."""

    first: Offset
    end: Offset
    reason: str


class AckedResult(NamedTuple):
    """The result of an acked message."""

    offset: Offset
    #: How long it is kept; 0: it is not.
    ttl_ms: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class GroupSettlement:
    """Outcomes of messages of one group. Messages that are settled already are skipped when it is applied."""

    group: str
    acked: tuple[Run, ...] = ()
    #: Outlived by their time to live.
    expired: tuple[Run, ...] = ()
    failed: tuple[FailedRun, ...] = ()
    dead: tuple[DeadRun, ...] = ()
    #: Like dead, in a group that has no dead letters.
    dropped: tuple[Run, ...] = ()
    #: GroupState.generation when the messages were leased. After a reset the settlement is ignored: its messages may
    #: have to be delivered again. 0: any generation.
    generation: Index = 0
    #: Of messages in `acked`. A message that is settled already keeps what it has.
    results: tuple[AckedResult, ...] = ()


@dataclass(frozen=True, slots=True)
class SettleRuns:
    """The outboxes of all groups of a partition."""

    now_ms: int
    groups: tuple[GroupSettlement, ...]


@dataclass(frozen=True, slots=True)
class OpenGroup:
    """Creates a queue group at an offset, or at the log's start if that is later. An existing group stays as it is."""

    group: str
    offset: Offset
    now_ms: int
    #: How many partitions the topic had, as far as the leader knew: those from this number on are younger.
    partition_count: int = 0
    #: Lower lease ids are of an earlier life of the name.
    first_lease: int = 0


@dataclass(frozen=True, slots=True)
class ResetGroup:
    """Starts a queue group again at another offset: it forgets failures and settled messages."""

    group: str
    offset: Offset
    now_ms: int
    #: Lower lease ids are of before the reset.
    first_lease: int = 0


@dataclass(frozen=True, slots=True)
class BuryDeaths:
    """Deaths with numbers from `first_number` to below `below_number` are in the dead-letter topic."""

    group: str
    below_number: int
    now_ms: int
    first_number: int = 0


@dataclass(frozen=True, slots=True)
class ReserveTokens:
    """Reserves tokens of the group's rate limit up to this theoretical arrival time.

    The time may also go back, when the limit was raised.
    """

    group: str
    tat_us: int
    now_ms: int


@dataclass(frozen=True, slots=True)
class CancelRecords:
    """Settles these messages as cancelled in all groups that have not settled them."""

    offsets: tuple[Offset, ...]
    now_ms: int


@dataclass(frozen=True, slots=True)
class DeliverNow:
    """Ends the wait of these messages: for their time of delivery, and for the next attempt in that queue group."""

    offsets: tuple[Offset, ...]
    now_ms: int
    #: Empty: retries stay as they are.
    group: str = ""


_GROUP = Struct("<Q6I")


def encode_settlements(groups: Iterable[GroupSettlement]) -> bytes:
    out = bytearray()
    results: list[tuple[int, AckedResult]] = []
    for place, settlement in enumerate(groups):
        reasons: dict[str, int] = {}
        failed = [
            (run.first, run.end, run.not_before_ms, reasons.setdefault(run.reason, len(reasons)))
            for run in settlement.failed
        ]
        dead = [(run.first, run.end, reasons.setdefault(run.reason, len(reasons))) for run in settlement.dead]
        out += _GROUP.pack(
            settlement.generation,
            len(settlement.acked),
            len(settlement.expired),
            len(settlement.dropped),
            len(failed),
            len(dead),
            len(reasons),
        )
        out += pack_text(settlement.group)
        for reason in reasons:
            out += pack_text(reason)
        rows = chain(settlement.acked, settlement.expired, settlement.dropped, failed, dead)
        out += pack_numbers(chain.from_iterable(rows))
        results += [(place, result) for result in settlement.results]
    if results:
        out += pack_rows([(place, offset, ttl_ms, len(payload)) for place, (offset, ttl_ms, payload) in results])
        out += b"".join([result.payload for _, result in results])
    return bytes(out)


def decode_settlements(data: bytes, count: int) -> tuple[GroupSettlement, ...]:
    """Raises InvalidArgumentError."""
    reader = ByteReader(data)
    # A group takes more than a byte: a false count is refused before any work.
    if count > len(data):
        raise InvalidArgumentError(f"a settlement has no room for {count} groups")
    try:
        groups = tuple([_read_settlement(reader) for _ in range(count)])
        if reader.left_bytes:
            groups = _with_results(reader, groups)
    except (StructError, UnicodeDecodeError, IndexError) as error:
        raise InvalidArgumentError("a settlement is cut short or garbled") from error
    if reader.left_bytes:
        raise InvalidArgumentError(f"a settlement has {reader.left_bytes} bytes too many")
    return groups


def _read_settlement(reader: ByteReader) -> GroupSettlement:
    generation, acked, expired, dropped, failed, dead, reason_count = reader.take(_GROUP)
    name = reader.text()
    # One string for equal reasons of all commands: the state keeps them for long.
    reasons = [intern(reader.text()) for _ in range(reason_count)]
    return GroupSettlement(
        group=name,
        acked=_read_runs(reader, acked),
        expired=_read_runs(reader, expired),
        dropped=_read_runs(reader, dropped),
        failed=_read_failed(reader, failed, reasons),
        dead=_read_dead(reader, dead, reasons),
        generation=generation,
    )


def _with_results(reader: ByteReader, groups: tuple[GroupSettlement, ...]) -> tuple[GroupSettlement, ...]:
    found: list[list[AckedResult]] = [[] for _ in groups]
    for place, offset, ttl_ms, size in reader.rows(4):
        found[place].append(AckedResult(offset, ttl_ms, reader.bytes(size)))
    return tuple([replace(group, results=tuple(results)) for group, results in zip(groups, found, strict=True)])


def _read_runs(reader: ByteReader, count: int) -> tuple[Run, ...]:
    numbers = reader.numbers(2 * count)
    return tuple(zip(numbers[::2], numbers[1::2], strict=True))


def _read_failed(reader: ByteReader, count: int, reasons: list[str]) -> tuple[FailedRun, ...]:
    numbers = reader.numbers(4 * count)
    rows = zip(numbers[::4], numbers[1::4], numbers[2::4], numbers[3::4], strict=True)
    return tuple([FailedRun(first, end, not_before_ms, reasons[reason]) for first, end, not_before_ms, reason in rows])


def _read_dead(reader: ByteReader, count: int, reasons: list[str]) -> tuple[DeadRun, ...]:
    numbers = reader.numbers(3 * count)
    rows = zip(numbers[::3], numbers[1::3], numbers[2::3], strict=True)
    return tuple([DeadRun(first, end, reasons[reason]) for first, end, reason in rows])


def encode_offsets(offsets: Iterable[Offset]) -> bytes:
    """The body of CancelRecords and DeliverNow: u64 each."""
    return pack_numbers(offsets)


def decode_offsets(data: bytes, count: int) -> tuple[Offset, ...]:
    """Raises InvalidArgumentError."""
    if len(data) != 8 * count:
        raise InvalidArgumentError(f"{len(data)} bytes are not {count} offsets")
    return tuple(ByteReader(data).numbers(count))
