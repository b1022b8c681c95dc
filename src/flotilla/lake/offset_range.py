"""Ranges of offsets: the work of one task, the split of a partition, and the share of each partition in a limit.

Pure functions of offsets. A range is half open, [first, end).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

#: Topic and number.
Partition = tuple[str, int]
#: For each partition the offset to read next.
Position = dict[Partition, int]


@dataclass(frozen=True)
class OffsetRange:
    """The work of one task."""

    topic: str
    partition: int
    first: int
    end: int

    def __len__(self) -> int:
        return max(self.end - self.first, 0)

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition} [{self.first}, {self.end})"


def split(ranges: Iterable[OffsetRange], *, count_min: int | None, records_max: int) -> list[OffsetRange]:
    """The same records in ranges of at most `records_max`, and in at least `count_min` if there are enough records.

    Pieces of one range differ by one record at most.
    """
    whole = [each for each in ranges if len(each)]
    total = sum(map(len, whole))
    pieces: list[OffsetRange] = []
    for each in whole:
        count = -(-len(each) // records_max)
        if count_min is not None and len(whole) < count_min:
            # Rounded up, so that the sum reaches `count_min`.
            count = max(count, -(-len(each) * count_min // total))
        pieces.extend(_cut(each, min(count, len(each))))
    return pieces


def _cut(whole: OffsetRange, count: int) -> list[OffsetRange]:
    borders = [whole.first + len(whole) * step // count for step in range(count + 1)]
    return [OffsetRange(whole.topic, whole.partition, first, end) for first, end in pairwise(borders)]


def limit_records(start: Position, end: Position, records_max: int) -> Position:
    """An end at most `records_max` records ahead, with a share for each partition in proportion to its backlog.

    Every partition with a backlog gets at least one record, as far as the limit goes, so that none starves.
    """
    sizes = {place: offset - start.get(place, 0) for place, offset in end.items() if offset > start.get(place, 0)}
    if sum(sizes.values()) <= records_max:
        return dict(end)
    largest_first = sorted(sizes, key=lambda place: (-sizes[place], place))
    shares = dict.fromkeys(largest_first[:records_max], 1)
    rest = records_max - len(shares)
    rest_total = sum(sizes.values()) - len(sizes)
    if rest:
        for place in shares:
            shares[place] += (sizes[place] - 1) * rest // rest_total
    left = records_max - sum(shares.values())
    for place in largest_first[:left]:
        # Rounding took less than one record from each, so each has one more.
        shares[place] += 1
    return {place: offset - sizes.get(place, 0) + shares.get(place, 0) for place, offset in end.items()}


def limit_bytes(start: Position, end: Position, bytes_max: int, record_bytes: Mapping[Partition, int]) -> Position:
    """An end about `bytes_max` ahead, with at least one record of each partition that has a backlog."""
    sizes = {place: max(offset - start.get(place, 0), 0) for place, offset in end.items()}
    total_bytes = sum(size * record_bytes.get(place, 1) for place, size in sizes.items())
    if total_bytes <= bytes_max:
        return dict(end)
    return {
        place: min(start.get(place, 0) + max(size * bytes_max // total_bytes, min(size, 1)), end[place])
        for place, size in sizes.items()
    }


def to_json(position: Position) -> dict[str, dict[str, int]]:
    """A position as Spark stores it in a checkpoint."""
    found: dict[str, dict[str, int]] = {}
    for (topic, number), offset in sorted(position.items()):
        found.setdefault(topic, {})[str(number)] = offset
    return found


def from_json(table: Mapping[str, Any]) -> Position:
    """Names that begin with @ are no topics: Spark's checkpoints have some."""
    return {
        (topic, int(number)): offset
        for topic, numbers in table.items()
        if not topic.startswith("@")
        for number, offset in numbers.items()
    }
