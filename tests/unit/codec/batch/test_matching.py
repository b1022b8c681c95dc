"""What a filter takes of a batch: as the filter itself says of each record, however the headers lie."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flotilla.codec.batch.matching import matching
from flotilla.codec.batch.records import encode_batch
from flotilla.codec.batch.view import BatchView
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.filters import MessageFilter, checked_filter
from flotilla.types.limits import FILTER_TEXT_BYTES_MAX
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


RECORDS = (
    Record(b'{"City": "M\xc3\x9cNCHEN"}', b"k1", (("region", b"eu"),)),
    Record(b"\xff other", b"k2"),
    Record(b"third", None, (("region", b"us"),)),
    Record(b"fourth", b""),
)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (checked_filter((), (), b"k2"), [1]),
        (checked_filter((), (), b""), [3]),
        (checked_filter((), (), b"k"), []),
        (checked_filter((), (), None, "münchen"), [0]),
        (checked_filter((), (), None, "OTHER"), [1]),
        (checked_filter((), (), None, "K1"), [0]),
        (checked_filter((), (), None, "region=u"), [2]),
        (checked_filter((), (), None, "o"), [0, 1, 2, 3]),
        (checked_filter((), {"region": "eu"}, b"k1", "city"), [0]),
        (checked_filter((), {"region": "us"}, None, "city"), []),
    ],
)
def test_a_key_and_a_text_are_searched_for(wanted: MessageFilter, expected: list[int]) -> None:
    view = BatchView(encode_batch(RECORDS))
    found = matching(view, wanted, 0, 4)
    assert [place for place, is_match in enumerate(found) if is_match] == expected
    assert matching(view, wanted, 1, 3) == found[1:3]


def test_a_batch_without_keys_has_none_that_matches() -> None:
    assert matching(BatchView(encode_batch([Record(b"x")])), checked_filter((), (), b""), 0, 1) == [False]


def test_a_text_that_is_too_long_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="text in a filter"):
        checked_filter((), (), None, "x" * (FILTER_TEXT_BYTES_MAX + 1))


def test_equal_filters_are_equal() -> None:
    assert checked_filter(["b", "a", "b"], {"y": "1", "x": b"2"}) == checked_filter(
        ["a", "b"], [("x", "2"), ("y", b"1")]
    )
