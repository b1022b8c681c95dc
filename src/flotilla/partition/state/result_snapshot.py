"""The results of acked messages in a partition's snapshot.

Little endian. The names of the groups that have any; for each of them how much is known of results that are not kept;
then the kept results in the order in which they came, each (group, offset, ttl_ms, until_ms, size, bytes).
"""

from collections.abc import Iterator
from itertools import islice
from struct import Struct
from typing import Final, NamedTuple

from flotilla.partition.commands.byte_reader import ByteReader, pack_count, pack_numbers, pack_text
from flotilla.partition.offset_runs import FrozenRuns
from flotilla.partition.state.group_snapshot import encode_runs, read_runs
from flotilla.partition.state.results import Result, ResultTable, Unkept
from flotilla.types.errors import CorruptionError
from flotilla.types.ids import Offset

_RESULT = Struct("<IQQQI")
#: Results that one step of encoding handles.
_STEP: Final = 1_024


class FrozenResults(NamedTuple):
    """A view of a table of results. Any thread may read it."""

    kept: dict[tuple[str, Offset], Result]
    #: By group.
    unkept: dict[str, tuple[Offset, FrozenRuns[None]]]


def freeze_results(table: ResultTable) -> FrozenResults:
    unkept = {name: (known.known_from, known.runs.freeze()) for name, known in table.unkept.items()}
    return FrozenResults(dict(table.kept), unkept)


def encode_results(frozen: FrozenResults) -> Iterator[bytes]:
    names = sorted({group for group, _ in frozen.kept} | frozen.unkept.keys())
    places = {name: place for place, name in enumerate(names)}
    yield pack_count(len(names)) + b"".join(map(pack_text, names))
    yield pack_count(len(frozen.unkept))
    for name, (known_from, runs) in sorted(frozen.unkept.items()):
        yield pack_numbers((places[name], known_from))
        yield from encode_runs(runs)
    yield pack_count(len(frozen.kept))
    remaining = iter(frozen.kept.items())
    while step := list(islice(remaining, _STEP)):
        yield b"".join(
            [
                _RESULT.pack(places[group], offset, result.ttl_ms, result.until_ms, len(result.payload))
                + result.payload
                for (group, offset), result in step
            ]
        )


def read_results(reader: ByteReader) -> ResultTable:
    """Raises IndexError, too, for a group that is not in the table of names."""
    table = ResultTable()
    names = [reader.text() for _ in range(reader.count())]
    for _ in range(reader.count()):
        place, known_from = reader.numbers(2)
        unkept = table.unkept[names[place]] = Unkept()
        unkept.known_from = known_from
        unkept.runs = read_runs(reader)
    for _ in range(reader.count()):
        place, offset, ttl_ms, until_ms, size = reader.take(_RESULT)
        if (names[place], offset) in table.kept:
            raise CorruptionError("a result is twice in a partition's snapshot")
        table.restore(names[place], offset, Result(reader.bytes(size), ttl_ms, until_ms))
    return table
