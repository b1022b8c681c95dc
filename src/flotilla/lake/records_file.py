"""Records of a topic in one Parquet file, with the columns of the lake."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from flotilla.client.reader.message import Message
from flotilla.lake.columns import STORED
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.records import Record

#: Of a row group, which is in memory as a whole.
_ROWS_MAX: Final = 4_096
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def write_records(path: Path, messages: Iterable[Message]) -> None:
    left = iter(messages)
    with pq.ParquetWriter(path, STORED, compression="zstd", write_page_checksum=True) as writer:
        while rows := [_row(message) for message in islice(left, _ROWS_MAX)]:
            writer.write_batch(pa.RecordBatch.from_pylist(rows, STORED))


def _row(message: Message) -> dict[str, Any]:
    return {
        "key": message.key,
        "value": message.payload,
        "partition": message.partition,
        "offset": message.offset,
        "timestamp": message.timestamp_ms * 1_000,
        "headers": [{"key": name, "value": value} for name, value in message.headers],
        "priority": message.priority,
        "content_type": message.content_type,
    }


def read_records(path: Path) -> Iterator[tuple[Record, int]]:
    """Records with their partitions. Raises InvalidArgumentError."""
    try:
        file = pq.ParquetFile(path, page_checksum_verification=True)
    except (OSError, pa.ArrowInvalid) as error:
        raise InvalidArgumentError(f"{path}: {error}") from None
    with file:
        if not {"value", "partition"} <= set(file.schema_arrow.names):
            raise InvalidArgumentError(f"{path} has no columns `value` and `partition`")
        for batch in file.iter_batches(_ROWS_MAX):
            for row in batch.to_pylist():
                yield _record(row), row["partition"]


def _record(row: dict[str, Any]) -> Record:
    headers = tuple((each["key"], each["value"]) for each in row.get("headers") or ())
    time: datetime | None = row.get("timestamp")
    time_ms = 0 if time is None else (time - _EPOCH) // timedelta(milliseconds=1)
    numbers = row.get("priority") or 0, row.get("content_type") or 0
    return Record(row["value"], row.get("key"), headers, time_ms, *numbers)
