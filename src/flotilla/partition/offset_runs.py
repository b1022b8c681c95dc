"""Sets and maps of offsets as runs: a million neighbours with the same value take one entry.

A run is half open, [first, end). Runs of one set or map are disjoint, ascending and never empty, and neighbours
that touch with equal values are one run: equal contents are equal runs, however they came about.

Runs lie in leaves of bounded size, each a few arrays (16 bytes a run and one reference), so that a change among a
million runs moves a few hundred numbers and not all of them. Finding a place is two bisections.

`freeze` shares the leaves with a view that never changes: a leaf that is older than the last view is copied before its
first change. So a view of a million runs costs a list of two thousand leaves.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import Final, Generic, TypeAlias, TypeVar

from flotilla.types.ids import Offset

#: [first, end).
Run: TypeAlias = tuple[Offset, Offset]

_V = TypeVar("_V")

#: A larger leaf is split: a change moves at most this many numbers of each column.
_LEAF_RUNS_MAX: Final = 512


class _Leaf(Generic[_V]):
    """Neighbouring runs in three columns of equal length, never empty between calls."""

    __slots__ = ("age", "ends", "firsts", "values")

    def __init__(self, firsts: "array[int]", ends: "array[int]", values: list[_V], age: int) -> None:
        self.firsts = firsts
        self.ends = ends
        self.values = values
        #: How many views had been taken when it was made.
        self.age = age

    def replace(self, at: int, stop: int, pieces: list[tuple[Offset, Offset, _V]]) -> None:
        """Replaces the runs [at, stop)."""
        self.firsts[at:stop] = array("Q", [piece[0] for piece in pieces])
        self.ends[at:stop] = array("Q", [piece[1] for piece in pieces])
        self.values[at:stop] = [piece[2] for piece in pieces]

    def copy(self, age: int) -> "_Leaf[_V]":
        return _Leaf(self.firsts[:], self.ends[:], self.values[:], age)

    def split(self) -> "_Leaf[_V]":
        """Takes out the upper half."""
        half = len(self.values) // 2
        upper = _Leaf(self.firsts[half:], self.ends[half:], self.values[half:], self.age)
        del self.firsts[half:]
        del self.ends[half:]
        del self.values[half:]
        return upper


class FrozenRuns(Generic[_V]):
    """Runs as they were when the view was taken, column by column. Any thread may read it."""

    __slots__ = ("leaves",)

    def __init__(self, leaves: "list[_Leaf[_V]]") -> None:
        self.leaves = leaves

    def __len__(self) -> int:
        return sum(len(leaf.values) for leaf in self.leaves)

    def firsts(self) -> "Iterator[array[int]]":
        return (leaf.firsts for leaf in self.leaves)

    def ends(self) -> "Iterator[array[int]]":
        return (leaf.ends for leaf in self.leaves)

    def values(self) -> Iterator[list[_V]]:
        return (leaf.values for leaf in self.leaves)


class _Runs(Generic[_V]):
    """Runs with values: the common part of sets and maps."""

    __slots__ = ("_age", "_leaves", "_tops", "count")

    def __init__(self) -> None:
        self._leaves: list[_Leaf[_V]] = []
        #: The end of each leaf's last run.
        self._tops: list[Offset] = []
        #: Offsets in all runs together.
        self.count = 0
        #: How many views were taken.
        self._age = 0

    def freeze(self) -> FrozenRuns[_V]:
        """A view that later changes do not reach."""
        self._age += 1
        return FrozenRuns(self._leaves[:])

    def _own(self, number: int) -> _Leaf[_V]:
        """A leaf that may be changed: one that a view has is copied first."""
        leaf = self._leaves[number]
        if leaf.age != self._age:
            leaf = self._leaves[number] = leaf.copy(self._age)
        return leaf

    def __len__(self) -> int:
        """Runs. `count` is the number of offsets."""
        return sum(len(leaf.values) for leaf in self._leaves)

    def has_runs(self, count: int) -> bool:
        """Whether there are at least this many runs; quick while there are far fewer."""
        return len(self._leaves) * _LEAF_RUNS_MAX >= count and len(self) >= count

    def __bool__(self) -> bool:
        return self.count > 0

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        assert isinstance(other, _Runs)
        return self.count == other.count and list(self._pieces(0, self.end)) == list(other._pieces(0, other.end))

    __hash__ = None  # type: ignore[assignment]

    @property
    def first(self) -> Offset:
        """The lowest offset; 0 when there is none."""
        return self._leaves[0].firsts[0] if self._leaves else 0

    @property
    def end(self) -> Offset:
        """The highest offset plus 1; 0 when there is none."""
        return self._tops[-1] if self._tops else 0

    def clear(self) -> None:
        self._leaves.clear()
        self._tops.clear()
        self.count = 0

    def _pieces(self, first: Offset, end: Offset) -> Iterator[tuple[Offset, Offset, _V]]:
        """The parts of runs inside [first, end). Nothing may change while they are iterated."""
        leaves = self._leaves
        number = bisect_right(self._tops, first)
        if number == len(leaves):
            return
        at = bisect_right(leaves[number].ends, first)
        while number < len(leaves):
            leaf = leaves[number]
            for place in range(at, len(leaf.values)):
                low = leaf.firsts[place]
                if low >= end:
                    return
                high = leaf.ends[place]
                yield (low if low > first else first), (high if high < end else end), leaf.values[place]
            number += 1
            at = 0

    def first_gap(self, first: Offset, end: Offset) -> Run | None:
        """The first run inside [first, end) that is not here; None when all of it is."""
        leaves = self._leaves
        number = bisect_right(self._tops, first)
        while number < len(leaves) and first < end:
            leaf = leaves[number]
            at = bisect_right(leaf.ends, first)
            while at < len(leaf.ends):
                low = leaf.firsts[at]
                if first < low:
                    return (first, low) if low < end else (first, end)
                first = leaf.ends[at]
                if first >= end:
                    return None
                at += 1
            number += 1
        return (first, end) if first < end else None

    def _cut(self, first: Offset, end: Offset) -> int:
        """Takes [first, end) out of all runs. Returns how many offsets that were."""
        if first == end:
            return 0
        before = self.count
        number = bisect_right(self._tops, first)
        while number < len(self._leaves):
            leaf = self._leaves[number]
            if leaf.firsts[0] >= end:
                break
            leaf = self._own(number)
            self._cut_leaf(leaf, first, end)
            if not leaf.values:
                del self._leaves[number]
                del self._tops[number]
                continue
            self._tops[number] = leaf.ends[-1]
            number = self._divide(number) if len(leaf.values) > _LEAF_RUNS_MAX else number + 1
        return before - self.count

    def _cut_leaf(self, leaf: _Leaf[_V], first: Offset, end: Offset) -> None:
        at = bisect_right(leaf.ends, first)
        stop = bisect_left(leaf.firsts, end, at)
        if at == stop:
            return
        low = leaf.firsts[at]
        high = leaf.ends[stop - 1]
        if stop - at == 1 and (low >= first or high <= end):
            # The usual case: a whole run goes, or one end of it.
            self.count -= (high if high < end else end) - (low if low > first else first)
            if low < first:
                leaf.ends[at] = first
            elif high > end:
                leaf.firsts[at] = end
            else:
                del leaf.firsts[at]
                del leaf.ends[at]
                del leaf.values[at]
            return
        self.count -= sum(leaf.ends[at:stop]) - sum(leaf.firsts[at:stop])
        kept: list[tuple[Offset, Offset, _V]] = []
        if low < first:
            kept.append((low, first, leaf.values[at]))
            self.count += first - low
        if high > end:
            kept.append((end, high, leaf.values[stop - 1]))
            self.count += high - end
        leaf.replace(at, stop, kept)

    def _divide(self, number: int) -> int:
        """Splits a leaf that is too large. Returns the number of the next leaf."""
        leaf = self._own(number)
        self._leaves.insert(number + 1, leaf.split())
        self._tops.insert(number, leaf.ends[-1])
        return number + 2

    def _put(self, first: Offset, end: Offset, value: _V) -> int:
        """Adds a run, and joins it to neighbours that touch it and are equal. Returns how much of it was there before.

        That is taken out, whatever its value; but most runs come where there is none, and those are looked for once.
        """
        number = bisect_right(self._tops, first)
        if number == len(self._leaves):
            self._put_last(first, end, value)
        else:
            leaf = self._leaves[number]
            at = bisect_right(leaf.ends, first)
            low = leaf.firsts[at]
            if low < end:
                if low == first and leaf.ends[at] == end:
                    self._set_at(number, at, value)
                    return end - first
                known = self._cut(first, end)
                self._put(first, end, value)
                return known
            self._put_at(number, at, first, end, value)
        self.count += end - first
        return 0

    def _put_at(self, number: int, at: int, first: Offset, end: Offset, value: _V) -> None:
        leaf = self._own(number)
        # The run at `at` comes after the new one; the one before it may be the last of the previous leaf.
        joins_next = leaf.firsts[at] == end and leaf.values[at] == value
        if at:
            joins_previous = leaf.ends[at - 1] == first and leaf.values[at - 1] == value
        else:
            joins_previous = (
                number > 0 and self._tops[number - 1] == first and self._leaves[number - 1].values[-1] == value
            )
        if joins_previous and joins_next:
            self._join(number, at)
        elif joins_previous and at:
            leaf.ends[at - 1] = end
        elif joins_previous:
            self._own(number - 1).ends[-1] = end
            self._tops[number - 1] = end
        elif joins_next:
            leaf.firsts[at] = first
        else:
            leaf.firsts.insert(at, first)
            leaf.ends.insert(at, end)
            leaf.values.insert(at, value)
            if len(leaf.values) > _LEAF_RUNS_MAX:
                self._divide(number)

    def _set_at(self, number: int, at: int, value: _V) -> None:
        """Changes the value of a whole run, and joins it to neighbours that are equal now."""
        leaf = self._own(number)
        if leaf.values[at] == value:
            return
        leaf.values[at] = value
        following = (number, at + 1) if at + 1 < len(leaf.values) else (number + 1, 0)
        self._join_if_equal(leaf.ends[at], value, *following)
        if at or number:
            before = leaf if at else self._leaves[number - 1]
            if before.ends[at - 1] == leaf.firsts[at] and before.values[at - 1] == value:
                self._join(number, at)

    def _join_if_equal(self, first: Offset, value: _V, number: int, at: int) -> None:
        """Joins a run to the one that ends at `first` with that value, if there is one."""
        if number < len(self._leaves):
            leaf = self._leaves[number]
            if leaf.firsts[at] == first and leaf.values[at] == value:
                self._join(number, at)

    def _put_last(self, first: Offset, end: Offset, value: _V) -> None:
        if not self._leaves:
            self._leaves.append(_Leaf(array("Q", (first,)), array("Q", (end,)), [value], self._age))
            self._tops.append(end)
            return
        leaf = self._own(len(self._leaves) - 1)
        if self._tops[-1] == first and leaf.values[-1] == value:
            leaf.ends[-1] = end
            self._tops[-1] = end
            return
        leaf.firsts.append(first)
        leaf.ends.append(end)
        leaf.values.append(value)
        self._tops[-1] = end
        if len(leaf.values) > _LEAF_RUNS_MAX:
            self._divide(len(self._leaves) - 1)

    def _join(self, number: int, at: int) -> None:
        """Joins the run at this place to the one before it, which touches it and has an equal value."""
        leaf = self._own(number)
        end = leaf.ends[at]
        del leaf.firsts[at]
        del leaf.ends[at]
        del leaf.values[at]
        if at:
            leaf.ends[at - 1] = end
            return
        self._own(number - 1).ends[-1] = end
        self._tops[number - 1] = end
        if not leaf.values:
            del self._leaves[number]
            del self._tops[number]


class RunSet(_Runs[None]):
    """A set of offsets."""

    __slots__ = ()

    def __init__(self, runs: Iterable[Run] = ()) -> None:
        super().__init__()
        for first, end in runs:
            self.add(first, end)

    def __repr__(self) -> str:
        return f"RunSet({list(self)})"

    def __iter__(self) -> Iterator[Run]:
        return self.within(0, self.end)

    def copy(self) -> "RunSet":
        """Leaf by leaf, which costs little even for many runs."""
        other = RunSet()
        other._leaves = [leaf.copy(0) for leaf in self._leaves]
        other._tops = self._tops[:]
        other.count = self.count
        return other

    def contains(self, offset: Offset) -> bool:
        number = bisect_right(self._tops, offset)
        if number == len(self._leaves):
            return False
        leaf = self._leaves[number]
        return leaf.firsts[bisect_right(leaf.ends, offset)] <= offset

    def add(self, first: Offset, end: Offset) -> int:
        """Returns how many of [first, end) were not in the set before."""
        assert 0 <= first < end
        return end - first - self._put(first, end, None)

    def discard(self, first: Offset, end: Offset) -> int:
        """Returns how many of [first, end) were in the set before."""
        assert 0 <= first <= end
        return self._cut(first, end)

    def within(self, first: Offset, end: Offset) -> Iterator[Run]:
        """The runs inside [first, end), clipped. The set may not change while they are iterated."""
        for low, high, _ in self._pieces(first, end):
            yield low, high

    def gaps(self, first: Offset, end: Offset) -> Iterator[Run]:
        """The runs inside [first, end) that are not in the set. It may not change while they are iterated."""
        for low, high, _ in self._pieces(first, end):
            if first < low:
                yield first, low
            first = high
        if first < end:
            yield first, end

    def advance(self, floor: Offset) -> Offset:
        """Returns the first offset from `floor` on that is not in the set, and drops everything below it."""
        if not self._leaves or self._leaves[0].firsts[0] > floor:
            return floor
        lowest = self._leaves[0]
        if floor <= lowest.ends[0]:
            # The usual case: it moves over the first run.
            floor = lowest.ends[0]
            lowest = self._own(0)
            self._cut_leaf(lowest, lowest.firsts[0], floor)
            if not lowest.values:
                del self._leaves[0]
                del self._tops[0]
            return floor
        number = bisect_right(self._tops, floor)
        if number < len(self._leaves):
            leaf = self._leaves[number]
            at = bisect_right(leaf.ends, floor)
            if leaf.firsts[at] <= floor:
                floor = leaf.ends[at]
        self._cut(0, floor)
        return floor


class RunMap(_Runs[_V]):
    """Offsets with a small value each, which is compared for equality."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"RunMap({list(self)})"

    def __iter__(self) -> Iterator[tuple[Offset, Offset, _V]]:
        return self._pieces(0, self.end)

    def get(self, offset: Offset) -> _V | None:
        number = bisect_right(self._tops, offset)
        if number == len(self._leaves):
            return None
        leaf = self._leaves[number]
        at = bisect_right(leaf.ends, offset)
        return leaf.values[at] if leaf.firsts[at] <= offset else None

    def set(self, first: Offset, end: Offset, value: _V) -> None:
        """Sets the value of each offset in [first, end)."""
        assert 0 <= first < end
        self._put(first, end, value)

    def remove(self, first: Offset, end: Offset) -> int:
        """Returns how many of [first, end) had a value."""
        assert 0 <= first <= end
        return self._cut(first, end)

    def within(self, first: Offset, end: Offset) -> Iterator[tuple[Offset, Offset, _V]]:
        """The pieces of runs inside [first, end). The map may not change while they are iterated."""
        return self._pieces(first, end)


def filled(known: RunMap[_V], first: Offset, end: Offset, other: _V) -> list[tuple[Offset, Offset, _V]]:
    """The values of [first, end), and `other` where there is none."""
    found: list[tuple[Offset, Offset, _V]] = []
    for low, high, value in known.within(first, end):
        if first < low:
            found.append((first, low, other))
        found.append((low, high, value))
        first = high
    if first < end:
        found.append((first, end, other))
    return found
