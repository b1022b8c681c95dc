"""Sorted, disjoint half-open ranges of indexes: the damaged entries of a log."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from flotilla.types.ids import Index


class IndexRanges:
    __slots__ = ("_ranges",)

    def __init__(self, ranges: list[tuple[Index, Index]] | None = None) -> None:
        self._ranges: list[tuple[Index, Index]] = []
        for low, high in ranges or ():
            self.add(low, high)

    def __bool__(self) -> bool:
        return bool(self._ranges)

    def as_list(self) -> list[tuple[Index, Index]]:
        return list(self._ranges)

    def at(self, index: Index) -> tuple[Index, Index] | None:
        """The range that holds `index`."""
        place = bisect_right(self._ranges, index, key=_low) - 1
        if place >= 0 and index < self._ranges[place][1]:
            return self._ranges[place]
        return None

    def next_from(self, index: Index) -> Index | None:
        """The first index at or after `index` that lies in a range."""
        if self.at(index) is not None:
            return index
        place = bisect_right(self._ranges, index, key=_low)
        return self._ranges[place][0] if place < len(self._ranges) else None

    def before(self, index: Index) -> tuple[Index, Index] | None:
        """The last range that begins before `index`."""
        place = bisect_left(self._ranges, index, key=_low) - 1
        return self._ranges[place] if place >= 0 else None

    def within(self, low: Index, high: Index) -> list[tuple[Index, Index]]:
        """The parts of [low, high) that lie in a range."""
        return [(max(first, low), min(end, high)) for first, end in self._ranges if first < high and low < end]

    def add(self, low: Index, high: Index) -> None:
        if low >= high:
            return
        merged: list[tuple[Index, Index]] = []
        for first, end in sorted([*self._ranges, (low, high)]):
            if merged and first <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(merged[-1][1], end))
            else:
                merged.append((first, end))
        self._ranges = merged

    def add_each(self, indexes: Iterable[Index]) -> None:
        """Adds single indexes."""
        runs: list[tuple[Index, Index]] = []
        for index in sorted(indexes):
            if runs and runs[-1][1] == index:
                runs[-1] = (runs[-1][0], index + 1)
            else:
                runs.append((index, index + 1))
        for low, high in runs:
            self.add(low, high)

    def remove(self, low: Index, high: Index) -> None:
        if low >= high:
            return
        kept: list[tuple[Index, Index]] = []
        for first, end in self._ranges:
            if first < min(end, low):
                kept.append((first, min(end, low)))
            if max(first, high) < end:
                kept.append((max(first, high), end))
        self._ranges = kept


def _low(pair: tuple[Index, Index]) -> Index:
    return pair[0]
