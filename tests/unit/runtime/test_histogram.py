"""Buckets that double."""

import pytest

from flotilla.runtime.observability.histogram import BUCKET_COUNT, DurationHistogram


@pytest.mark.parametrize(("duration_us", "bucket"), [(0, 0), (1, 1), (3, 2), (128, 8), (1 << 40, BUCKET_COUNT - 1)])
def test_each_bucket_is_twice_as_wide_as_the_last(duration_us: int, bucket: int) -> None:
    histogram = DurationHistogram()
    histogram.record(duration_us)
    assert [place for place, count in enumerate(histogram.buckets) if count] == [bucket]
    assert histogram.max_us == duration_us


def test_counts_and_sums() -> None:
    durations_us = [3, 100, 100, 5000]
    histogram = DurationHistogram()
    for duration_us in durations_us:
        histogram.record(duration_us)
    assert histogram.count == len(durations_us) == sum(histogram.buckets)
    assert histogram.sum_us == sum(durations_us)
