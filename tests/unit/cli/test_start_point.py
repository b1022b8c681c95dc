"""Start points as users write them."""

import pytest

from flotilla.cli.terminal.message_formats import moment
from flotilla.cli.terminal.start_point import StartPoint, read_start_point
from flotilla.types.errors import InvalidArgumentError

NOW_MS = 1_700_000_000_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("earliest", StartPoint(offset="earliest")),
        ("latest", StartPoint(offset="latest")),
        ("0", StartPoint(offset=0)),
        ("990", StartPoint(offset=990)),
        ("10m", StartPoint(timestamp_ms=NOW_MS - 600_000)),
        ("100000d", StartPoint(timestamp_ms=0)),
        ("999999999999999999", StartPoint(offset=999_999_999_999_999_999)),
        ("1901-01-01T00:00:00Z", StartPoint(timestamp_ms=0)),
        ("1970-01-01T00:00:05Z", StartPoint(timestamp_ms=5_000)),
        ("1970-01-01T02:00:00.500+02:00", StartPoint(timestamp_ms=500)),
    ],
)
def test_places(text, expected):
    assert read_start_point(text, NOW_MS) == expected


def test_a_time_that_was_printed_is_understood():
    assert read_start_point(moment(NOW_MS + 123), NOW_MS).timestamp_ms == NOW_MS + 123


@pytest.mark.parametrize(
    "text", ["", "junk", "-1", "5 parsecs", "2023-13-01", "\uff11", "9" * 20, "0001-01-01T00:00:00+14:00"]
)
def test_anything_else_is_refused_with_what_is_possible(text):
    with pytest.raises(InvalidArgumentError, match="earliest, latest, an offset"):
        read_start_point(text, NOW_MS)
