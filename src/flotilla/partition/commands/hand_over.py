"""The last word of a leader that gives up its leadership as planned: the leases that its members hold.

It changes nothing in the state. The next leader takes the leases over if this is the last entry before its own term:
then nobody has leased anything since. All times are relative to the command, because clocks of nodes differ.

The body is the groups one after the other (the head of the command has their count), each

    u64 generation; u32 count of leases; the name; the leases: u64 id, u64 age_ms; the member; u32 count of runs;
    runs: (first, end, left_ms)

with texts as u16 length and UTF-8, and rows of u64.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from struct import Struct
from struct import error as StructError  # noqa: N812 - a class whose name says too little alone
from typing import Final, NamedTuple

from flotilla.partition.commands.byte_reader import ByteReader, pack_rows, pack_text
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.ids import Index, Offset

#: Runs of leases in one command. A leader that has more hands nothing over: its members present their leases.
HANDED_RUNS_MAX: Final = 8_192


class HeldRun(NamedTuple):
    """[first, end) for `left_ms` more."""

    first: Offset
    end: Offset
    left_ms: int


class HeldLease(NamedTuple):
    lease_id: int
    member: str
    #: Since it was given.
    age_ms: int
    runs: tuple[HeldRun, ...]


class HeldGroup(NamedTuple):
    """The leases of one group."""

    group: str
    #: GroupState.generation when they were given.
    generation: Index
    leases: tuple[HeldLease, ...]


@dataclass(frozen=True, slots=True)
class HandOver:
    """All live leases of a partition. Groups without leases are left out."""

    now_ms: int
    groups: tuple[HeldGroup, ...] = ()
    #: Leadership stayed where it was: an earlier hand-over counts no more, and neither does this.
    is_void: bool = False


_GROUP = Struct("<QI")
_LEASE = Struct("<QQ")


def encode_held(groups: Iterable[HeldGroup]) -> bytes:
    out = bytearray()
    for name, generation, leases in groups:
        out += _GROUP.pack(generation, len(leases)) + pack_text(name)
        for lease_id, member, age_ms, runs in leases:
            out += _LEASE.pack(lease_id, age_ms) + pack_text(member) + pack_rows(runs)
    return bytes(out)


def decode_held(data: bytes, count: int) -> tuple[HeldGroup, ...]:
    """Raises InvalidArgumentError."""
    reader = ByteReader(data)
    # A group takes more than a byte: a false count is refused before any work.
    if count > len(data):
        raise InvalidArgumentError(f"a hand-over has no room for {count} groups")
    try:
        groups = tuple([_read_group(reader) for _ in range(count)])
    except (StructError, UnicodeDecodeError) as error:
        raise InvalidArgumentError("a hand-over is cut short or garbled") from error
    if reader.left_bytes:
        raise InvalidArgumentError(f"a hand-over has {reader.left_bytes} bytes too many")
    return groups


def _read_group(reader: ByteReader) -> HeldGroup:
    generation, count = reader.take(_GROUP)
    name = reader.text()
    if count > reader.left_bytes:
        raise StructError("cut short")
    return HeldGroup(name, generation, tuple([_read_lease(reader) for _ in range(count)]))


def _read_lease(reader: ByteReader) -> HeldLease:
    lease_id, age_ms = reader.take(_LEASE)
    member = reader.text()
    return HeldLease(lease_id, member, age_ms, tuple([HeldRun(*row) for row in reader.rows(3)]))
