"""When the loop writes a block itself: it is small, and the disk is fast and idle."""

import pytest

from flotilla.runtime.inline_writes import BLOCK_BYTES_MAX, QUICK_US_MAX, InlineWrites


def after(*durations_us: int) -> tuple[InlineWrites, int]:
    """One that has seen these writes, back to back, and the time at which the last one ended."""
    inline_writes = InlineWrites()
    now_us = 1_000_000
    for duration_us in durations_us:
        inline_writes.note(now_us, now_us + duration_us)
        now_us += duration_us
    return inline_writes, now_us


US = QUICK_US_MAX // 2
QUICK = (US,) * 60


@pytest.mark.parametrize(
    ("durations_us", "size_bytes", "rested_us", "allows"),
    [
        (QUICK, BLOCK_BYTES_MAX, US, True),
        (QUICK, BLOCK_BYTES_MAX + 1, US, False),
        (QUICK, 512, US - 1, False),
        # What a disk is like has to be known first.
        ((), 512, 10**9, False),
        (QUICK[:10], 512, 10**9, False),
        ((QUICK_US_MAX + 10,) * 200, 512, 10**9, False),
        # One that takes longer does not matter, however long it took; several do, for a while.
        ((*QUICK, 3 * US), 512, 10**9, True),
        ((*QUICK, 10**7), 512, 10**9, True),
        ((*QUICK, 10**7, 10**7), 512, 10**9, False),
        ((*QUICK, 10**7, 10**7, *QUICK[:2]), 512, 10**9, False),
        ((*QUICK, 10**7, 10**7, *QUICK[:20]), 512, 10**9, True),
    ],
)
def test_allows(durations_us: tuple[int, ...], size_bytes: int, rested_us: int, allows: bool) -> None:
    inline_writes, ended_us = after(*durations_us)
    assert inline_writes.allows(size_bytes, ended_us + rested_us) is allows
