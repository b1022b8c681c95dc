"""Buckets that double."""

import pytest

from flotilla.runtime.histogram import BUCKET_COUNT, DurationHistogram


@pytest.mark.parametrize(
    ("durations_us", "fraction", "expected_us"),
    [
        ([], 0.5, 0),
        ([0], 0.5, 0),
        ([3], 0.5, 3),
        ([100] * 99 + [5000], 0.5, 128),
        ([100] * 99 + [5000], 0.99, 128),
        ([100] * 99 + [5000], 1.0, 5000),
        ([1 << 40], 0.5, 1 << (BUCKET_COUNT - 1)),
    ],
)
def test_quantiles(durations_us: list[int], fraction: float, expected_us: int) -> None:
    histogram = DurationHistogram()
    for duration_us in durations_us:
        histogram.record(duration_us)
    assert histogram.quantile_us(fraction) == expected_us
    assert histogram.count == len(durations_us) == sum(histogram.buckets)
    assert histogram.sum_us == sum(durations_us)
