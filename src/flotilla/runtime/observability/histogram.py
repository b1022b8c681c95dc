"""A histogram of durations, in buckets that double. Plain numbers; metrics read them later.

One thread records; any thread may read, and at worst misses the newest sample.
"""

#: Bucket n counts durations below 2**n microseconds; the last one everything longer (over half a minute).
BUCKET_COUNT = 26


class DurationHistogram:
    __slots__ = ("buckets", "count", "max_us", "sum_us")

    def __init__(self) -> None:
        self.buckets = [0] * BUCKET_COUNT
        self.count = 0
        self.sum_us = 0
        self.max_us = 0

    def record(self, duration_us: int) -> None:
        self.buckets[min(duration_us.bit_length(), BUCKET_COUNT - 1)] += 1
        self.count += 1
        self.sum_us += duration_us
        if duration_us > self.max_us:
            self.max_us = duration_us
