"""What a filter takes of a batch: as the filter itself says of each record, however the headers lie."""

from hypothesis import given
from hypothesis import strategies as st

from flotilla.codec.batch.matching import matching
from flotilla.codec.batch.records import encode_batch
from flotilla.codec.batch.view import BatchView
from flotilla.types.filters import MessageFilter, checked_filter
from flotilla.types.records import Headers, Record
from flotilla.types.tasks import TASK_TYPE_HEADER

NAMES = st.sampled_from(["a", "b", "ab", TASK_TYPE_HEADER])
VALUES = st.sampled_from([b"", b"x", b"y", b"xy", b"\xff"])
HEADERS = st.lists(st.tuples(NAMES, VALUES), max_size=3).map(tuple)
FILTERS = st.builds(
    checked_filter, st.lists(st.sampled_from(["", "x", "xy", "\ufffd"]), max_size=2), st.lists(st.tuples(NAMES, VALUES))
)


@given(st.lists(HEADERS, min_size=1, max_size=6), FILTERS, st.data())
def test_a_batch_is_as_its_records(headers: list[Headers], wanted: MessageFilter, data: st.DataObject) -> None:
    view = BatchView(encode_batch([Record(b"", headers=each) for each in headers]))
    first = data.draw(st.integers(0, len(headers) - 1))
    end = data.draw(st.integers(first + 1, len(headers)))
    assert matching(view, wanted, first, end) == [wanted.matches(each) for each in headers[first:end]]


def test_the_first_type_counts_and_any_header_of_a_name() -> None:
    headers = ((TASK_TYPE_HEADER, b"a"), (TASK_TYPE_HEADER, b"b"), ("n", b"1"), ("n", b"2"))
    assert MessageFilter(("a",)).matches(headers)
    assert not MessageFilter(("b",)).matches(headers)
    assert MessageFilter(headers=(("n", b"1"), ("n", b"2"))).matches(headers)
    assert not MessageFilter(headers=(("n", b"12"),)).matches(headers)


def test_equal_filters_are_equal() -> None:
    assert checked_filter(["b", "a", "b"], {"y": "1", "x": b"2"}) == checked_filter(
        ["a", "b"], [("x", "2"), ("y", b"1")]
    )
