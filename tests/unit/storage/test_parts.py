"""The small parts a log is made of, each against something simpler."""

from bisect import bisect_right
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flotilla.raft.messages import DATA, Entry
from flotilla.storage.damage.ranges import IndexRanges
from flotilla.storage.in_memory.tail import Tail
from flotilla.storage.in_memory.term_runs import TermRuns
from flotilla.storage.segment_index import NO_OFFSET, SparseIndex, decode_index
from flotilla.types.records import Span

_PAIRS = st.tuples(st.booleans(), st.integers(0, 30), st.integers(0, 30))


@given(st.lists(_PAIRS, max_size=12))
def test_ranges_are_a_set_of_indexes(changes: list[tuple[bool, int, int]]) -> None:
    ranges = IndexRanges()
    model: set[int] = set()
    for is_added, low, high in changes:
        if is_added:
            ranges.add(low, high)
            model |= set(range(low, high))
        else:
            ranges.remove(low, high)
            model -= set(range(low, high))
    held = ranges.as_list()
    assert {index for low, high in held for index in range(low, high)} == model
    assert all(low < high for low, high in held)
    assert all(first[1] < second[0] for first, second in pairwise(held))
    assert bool(ranges) == bool(model)
    for index in range(32):
        assert (ranges.at(index) is not None) == (index in model)
        assert ranges.next_from(index) == min((known for known in model if known >= index), default=None)
        left = ranges.within(index, index + 5)
        assert {known for low, high in left for known in range(low, high)} == model & set(range(index, index + 5))
        assert all(low < high for low, high in left)


@given(st.lists(st.integers(0, 2), min_size=1, max_size=30), st.data())
def test_runs_answer_like_a_list_of_terms(steps: list[int], data: st.DataObject) -> None:
    runs = TermRuns(10, 4)
    terms = [4]
    for step in steps:
        terms.append(terms[-1] + step)
        runs.append(10 + len(terms) - 1, terms[-1])
    base = data.draw(st.integers(10, 10 + len(steps)))
    end = data.draw(st.integers(base + 1, 11 + len(steps)))
    runs.truncate(end)
    runs.move_base(base)
    assert [runs.term(index) for index in range(base, end)] == terms[base - 10 : end - 10]
    assert runs.copy().runs() == runs.runs()
    assert runs.runs()[0] == (base, terms[base - 10])
    assert runs.last_term == terms[end - 11]


def test_terms_never_fall() -> None:
    runs = TermRuns(0, 3)
    with pytest.raises(AssertionError):
        runs.append(1, 2)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 40)), max_size=30), st.integers(0, 30), st.integers(0, 30))
def test_a_tail_finds_offsets_and_times(batches: list[tuple[int, int]], dropped: int, kept: int) -> None:
    tail = Tail(5)
    spans: list[Span | None] = []
    offset = 100
    for number, (count, time) in enumerate(batches):
        spans.append(Span(offset, count, time) if count else None)
        tail.append(Entry(5 + number, 1, DATA, b"xx"), b"", spans[-1])
        offset += count
    tail.truncate(5 + kept)
    spans = spans[:kept]
    tail.drop_through(4 + min(dropped, len(spans)))
    first = 5 + min(dropped, len(spans))
    spans = spans[first - 5 :]
    assert (tail.first_index, tail.last_index, tail.size_bytes) == (first, first + len(spans) - 1, 2 * len(spans))
    assert [tail.span(at) for at in range(len(spans))] == spans
    known = [(first + at, span) for at, span in enumerate(spans) if span is not None]
    if known:
        assert tail.first_offset() == known[0][1].base_offset
        for wanted in range(known[0][1].base_offset, offset + 2):
            holder = [index for index, span in known if span.base_offset + span.count > wanted]
            assert tail.from_offset(wanted) == (holder[0] if holder else tail.last_index + 1)
    else:
        assert tail.first_offset() == NO_OFFSET
    for time in range(42):
        holder = [index for index, span in known if span.timestamp_ms >= time]
        assert tail.from_time(time) <= (holder[0] if holder else tail.last_index + 1)


@given(st.lists(st.tuples(st.integers(1, 300), st.integers(0, 3), st.integers(0, 40)), min_size=1, max_size=40))
def test_an_index_points_at_or_before_the_target(frames: list[tuple[int, int, int]]) -> None:
    index = SparseIndex(7)
    position, offset = 0, 50
    starts: list[int] = []
    known: list[tuple[int, int, int]] = []
    for number, (size, count, time) in enumerate(frames, 7):
        starts.append(position)
        index.add(position=position, end_position=position + size, index=number, interval_bytes=200)
        if count:
            index.add_records(offset, count, time)
            known.append((number, offset + count, time))
        position, offset = position + size, offset + count
    decoded = decode_index(index.encode(3), 3, 7)
    assert decoded is not None
    for used in (index, index.copy(), decoded):
        assert (used.last_index, used.end_position) == (6 + len(frames), position)
        for wanted in range(7, 7 + len(frames)):
            found, at = used.before_index(wanted)
            assert found <= wanted
            assert at == starts[found - 7]
            assert starts[wanted - 7] - at < 200 + 300
        for wanted in range(50, offset):
            assert used.before_offset(wanted) <= next(number for number, end, _ in known if end > wanted)
        for time in range(41):
            assert used.before_time(time) <= next((number for number, _, at in known if at >= time), 7 + len(frames))
    assert bisect_right(index.indexes, 0) == 0


@given(st.data())
def test_a_damaged_index_file_is_no_index(data: st.DataObject) -> None:
    index = SparseIndex(1)
    for number in range(1, 9):
        index.add(position=number * 100 - 100, end_position=number * 100, index=number, interval_bytes=100)
    content = bytearray(index.encode(3))
    bit = data.draw(st.integers(0, len(content) * 8 - 1))
    content[bit // 8] ^= 1 << bit % 8
    assert decode_index(bytes(content), 3, 1) is None
    assert decode_index(index.encode(3), 4, 1) is None
    assert decode_index(index.encode(3), 3, 2) is None
    assert decode_index(index.encode(3)[:-1], 3, 1) is None
