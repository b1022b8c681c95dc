"""The sending of rows into topics: each once, in the order of their original partition, whatever their priorities.

One task sends the rows of one partition, block by block of offsets. Each block is a transaction under a name and a
number derived from the origin of its rows, so a block is committed once: a task, a job or the whole pipeline may run
again from anywhere. The sink of Spark would be faster, but it sorts rows by priority.
"""

import time
from collections.abc import Callable, Iterator
from hashlib import blake2b
from itertools import groupby
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from flotilla.client.app.environment import environment_credentials
from flotilla.client.client import Client
from flotilla.security.client_tls import tls_of_environment
from flotilla.types.records import Record

#: Offsets of one block. Each row may need its own batch, which a transaction allows.
BLOCK_ROWS: Final = 5_000
#: Origin, target (a null partition: that of the key) and content of a row.
#: A message's own limits, which few rows have; 0: none.
LIMITS: Final = ("ttl_ms", "max_deliveries")
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
    *LIMITS,
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
    """Sends rows once under this name, and returns their number, whether they were sent now or before.

    All rows of a block of offsets must be present, or none: a block is never sent in two parts. The origin partitions
    share the rate.
    """
    places = ("from_topic", "from_partition")
    for limit in LIMITS:
        if limit not in rows.columns:
            rows = rows.withColumn(limit, f.lit(0))
    ordered = rows.select(*COLUMNS).withColumn("timestamp", f.unix_millis("timestamp"))
    ordered = ordered.repartition(max(partitions, 1), *places).sortWithinPartitions(*places, "from_offset")
    rate = None if rows_per_second is None else rows_per_second / max(partitions, 1)
    counted = ordered.mapInArrow(_sender(servers, name, block_rows, rate), "rows long")
    return sum(row["rows"] for row in counted.collect())


def _sender(servers: str, name: str, block_rows: int, rate: float | None) -> Callable[[Any], Iterator[Any]]:
    def send(batches: Any) -> Iterator[Any]:
        count = 0
        pace = _Pace(rate)
        with Client(
            servers,
            timeout_ms=_TIMEOUT_MS,
            name="pipeline",
            tls=tls_of_environment(),
            credentials=environment_credentials(),
        ) as client:
            for (topic, partition, block), found in groupby(_rows(batches), lambda row: _block(row, block_rows)):
                sent = _send_block(client, list(found), application_id(name, topic, partition), block)
                count += sent
                pace.wait(sent)
        yield pa.RecordBatch.from_arrays([pa.array([count], pa.int64())], names=["rows"])

    return send


def application_id(name: str, topic: str, partition: int) -> str:
    """The application whose blocks are numbered: the rows of one partition under one name."""
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
    # From 1: an application that has committed nothing is at 0.
    txn.commit(application_id=application, version=block + 1)
    return len(rows)


def _record(row: tuple[Any, ...]) -> Record:
    key, value, headers, timestamp_ms, priority, content_type, ttl_ms, max_deliveries = row[5:]
    pairs = tuple((each["key"], bytes(each["value"] or b"")) for each in headers or ())
    return Record(
        bytes(value), key, pairs, timestamp_ms, priority, content_type, ttl_ms=ttl_ms, max_deliveries=max_deliveries
    )


class _Pace:
    """The rate limit of a task, in steps of blocks."""

    def __init__(self, rate: float | None) -> None:
        self._rate = rate
        self._began = time.monotonic()
        self._rows = 0

    def wait(self, rows: int) -> None:
        """Waits until these rows are due."""
        self._rows += rows
        if self._rate is not None:
            time.sleep(max(self._began + self._rows / self._rate - time.monotonic(), 0))
