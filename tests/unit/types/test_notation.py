"""Durations and sizes: every number can be written and read again, and nothing is guessed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flotilla.types.notation import (
    DURATION_UNITS,
    SIZE_UNITS,
    format_duration,
    format_size,
    parse_duration,
    parse_size,
)

numbers = st.integers(0, 10**15)


@given(numbers, st.sampled_from(list(DURATION_UNITS.values())))
def test_durations_round_trip(count, unit):
    assert parse_duration(format_duration(count * unit)) == count * unit


@given(numbers, st.sampled_from(list(SIZE_UNITS.values())))
def test_sizes_round_trip(count, unit):
    assert parse_size(format_size(count * unit)) == count * unit


DURATIONS = [("0ms", 0), ("100ms", 100), ("1s", 1_000), ("1500ms", 1_500), ("5m", 300_000), ("2h", 7_200_000)]
SIZES = [("0B", 0), ("1000B", 1_000), ("64KiB", 65_536), ("64MiB", 67_108_864), ("3GiB", 3 << 30), ("1TiB", 1 << 40)]


@pytest.mark.parametrize(("text", "value"), [*DURATIONS, ("1d", 86_400_000)])
def test_durations(text, value):
    assert parse_duration(text) == value
    assert format_duration(value) == text


@pytest.mark.parametrize(("text", "value"), SIZES)
def test_sizes(text, value):
    assert parse_size(text) == value
    assert format_size(value) == text


@pytest.mark.parametrize(("text", "value"), [("60s", 60_000), ("1000", 1_000), ("30 s", 30_000), ("007ms", 7)])
def test_durations_may_be_written_in_other_ways(text, value):
    assert parse_duration(text) == value


BAD = [
    "",
    " ",
    "s",
    "-1s",
    "+1s",
    "1.5s",
    "1e3",
    "1_000",
    " 1s",
    "1s ",
    "1  s",
    "1x",
    "1s1s",
    "1\ns",
    "\u0661s",
    "9" * 19,
]


@pytest.mark.parametrize("text", [*BAD, "1S", "1sec", "1KiB"])
def test_bad_durations_are_refused(text):
    with pytest.raises(ValueError):
        parse_duration(text)


@pytest.mark.parametrize("text", [*BAD, "1MB", "1mib", "1K", "1ms"])
def test_bad_sizes_are_refused(text):
    with pytest.raises(ValueError):
        parse_size(text)
