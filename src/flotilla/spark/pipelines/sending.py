"""Rows back into topics: each once, in the order of the partition that they come from, whatever their priorities.

Rows of one partition are sent by one task, block after block of offsets, and each block is a transaction under a name
and a number that follow from where the rows come from. A block that was committed before is not committed again,
whoever did it: so a task, a job or the whole pipeline may be run again from anywhere. The sink of Spark would be
quicker, but it sorts rows by priority; here they stay as they were.
"""

import time
from collections.abc import Callable, Iterator
from hashlib import blake2b
from itertools import groupby
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from flotilla.client.client import Client
from flotilla.types.records import Record

#: Offsets of one block, and so rows that come at once. Each may need a batch of its own, which a transaction allows.
BLOCK_ROWS: Final = 5_000
#: What rows must have: where they come from, where they go (a partition, or null for that of their key), what they are.
COLUMNS: Final = (
    "from_topic",
    "from_partition",
    "from_offset",
    "topic",
    "partition",
    "key",
    "value",
    "headers",
    "timestamp",
    "priority",
    "content_type",
)
_TIMEOUT_MS: Final = 60_000


def send_rows(
    rows: DataFrame,
    *,
    servers: str,
    name: str,
    block_rows: int = BLOCK_ROWS,
    rows_per_second: float | None = None,
    partitions: int = 1,
) -> int:
    """Sends rows once under this name, and says how many there are, whether they were sent now or before.

    All rows of one block of offsets must be there, or none: a block is never sent in two parts. The rate is shared
    out among the partitions that rows come from.
    """
    places = ("from_topic", "from_partition")
    ordered = rows.select(*COLUMNS).withColumn("timestamp", f.unix_millis("timestamp"))
    ordered = ordered.repartition(max(partitions, 1), *places).sortWithinPartitions(*places, "from_offset")
    rate = None if rows_per_second is None else rows_per_second / max(partitions, 1)
    counted = ordered.mapInArrow(_sender(servers, name, block_rows, rate), "rows long")
    return sum(row["rows"] for row in counted.collect())


def _sender(servers: str, name: str, block_rows: int, rate: float | None) -> Callable[[Any], Iterator[Any]]:
    def send(batches: Any) -> Iterator[Any]:
        count = 0
        pace = _Pace(rate)
        with Client(servers, timeout_ms=_TIMEOUT_MS, name="pipeline") as client:
            for (topic, partition, block), found in groupby(_rows(batches), lambda row: _block(row, block_rows)):
                sent = _send_block(client, list(found), application_id(name, topic, partition), block)
                count += sent
                pace.wait(sent)
        yield pa.RecordBatch.from_arrays([pa.array([count], pa.int64())], names=["rows"])

    return send


def application_id(name: str, topic: str, partition: int) -> str:
    """Whose blocks are numbered: the rows of one partition, sent for one purpose."""
    digest = blake2b(topic.encode(), digest_size=8).hexdigest()
    return f"{name}/{digest}/{partition}"


def _rows(batches: Any) -> Iterator[tuple[Any, ...]]:
    for batch in batches:
        yield from zip(*(batch.column(name).to_pylist() for name in COLUMNS), strict=True)


def _block(row: tuple[Any, ...], block_rows: int) -> tuple[str, int, int]:
    topic, partition, offset = row[:3]
    return topic, partition, offset // block_rows


def _send_block(client: Client, rows: list[tuple[Any, ...]], application: str, block: int) -> int:
    txn = client.transaction()
    for (topic, partition), found in groupby(rows, lambda row: (row[3], row[4])):
        txn.stage(topic, [_record(row) for row in found], partition=partition)
    # Numbered from 1 on: 0 is where an application stands that has committed nothing.
    txn.commit(application_id=application, version=block + 1)
    return len(rows)


def _record(row: tuple[Any, ...]) -> Record:
    key, value, headers, timestamp_ms, priority, content_type = row[5:]
    pairs = tuple((each["key"], bytes(each["value"] or b"")) for each in headers or ())
    return Record(bytes(value), key, pairs, timestamp_ms, priority, content_type)


class _Pace:
    """Keeps a task from being quicker than it may be; what comes at once is a block."""

    def __init__(self, rate: float | None) -> None:
        self._rate = rate
        self._began = time.monotonic()
        self._rows = 0

    def wait(self, rows: int) -> None:
        """After so many rows more: until they are due."""
        self._rows += rows
        if self._rate is not None:
            time.sleep(max(self._began + self._rows / self._rate - time.monotonic(), 0))
