"""Rows as an archive stores them."""

from collections.abc import Sequence

import pyarrow as pa

from flotilla.lake.columns import STORED
from flotilla.lake.data_file import DataFile, write_days
from flotilla.lake.store import Store

NOON_MS = 1_700_000_000_000 - 1_700_000_000_000 % 86_400_000 + 43_200_000
DAY_MS = 86_400_000


def rows(partition: int, first: int, times_ms: Sequence[int], value: bytes = b"") -> "pa.RecordBatch":
    count = len(times_ms)
    columns = {
        "key": [b"k"] * count,
        "value": [value or b"%d" % at for at in range(first, first + count)],
        "partition": [partition] * count,
        "offset": range(first, first + count),
        "timestamp": [time * 1_000 for time in times_ms],
        "headers": [[("h", b"1")]] * count,
        "priority": [3] * count,
        "content_type": [2] * count,
    }
    return pa.RecordBatch.from_pydict(columns, schema=STORED)


def written(store: Store, partition: int, first: int, count: int, time_ms: int = NOON_MS) -> DataFile:
    """One file of a day."""
    (file,) = write_days(store, "orders", "part", [rows(partition, first, [time_ms] * count)])
    return file
