"""How long something took, counted in buckets that double. Plain numbers; metrics read them later.

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
        self.max_us = max(self.max_us, duration_us)

    def quantile_us(self, fraction: float) -> int:
        """The upper bound of the bucket in which that fraction of all samples is reached; 0 without samples."""
        rank = fraction * self.count
        seen = 0
        for exponent, samples in enumerate(self.buckets):
            seen += samples
            if samples and seen >= rank:
                return min(1 << exponent, self.max_us)
        return 0
