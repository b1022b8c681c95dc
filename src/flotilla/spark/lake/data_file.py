"""The writer and the verifier of one Parquet file of a lake.

Runs in Python tasks: rows go from Arrow to Parquet without the JVM. Rows of a file are sorted by partition and offset;
statistics of partition, offset and timestamp let a reader skip rows. The folder names the topic.
"""

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from datetime import date
from secrets import token_hex
from typing import Any, Final

import numpy
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from flotilla.spark.lake.lake import Lake
from flotilla.spark.lake.manifest import DataFile, Run
from flotilla.spark.lake.store import CheckedFile
from flotilla.types.errors import CorruptionError
from flotilla.types.limits import MIB

#: In the order of a file.
STORED_COLUMNS: Final = ("key", "value", "partition", "offset", "timestamp", "headers", "priority", "content_type")
#: A row group is written at either size.
GROUP_ROWS: Final = 131_072
GROUP_BYTES: Final = 64 * MIB
COMPRESSION: Final = "zstd"
_MEASURED: Final = ["partition", "offset", "timestamp"]
_DELTAS: Final = {"offset": "DELTA_BINARY_PACKED", "timestamp": "DELTA_BINARY_PACKED"}
_REPEATED: Final = ["key", "partition", "priority", "content_type"]


def folder_of(topic: str, day: date) -> str:
    return f"topic={topic}/date={day.isoformat()}"


class FileWriter:
    """Writes one file of sorted rows; `done` describes it."""

    def __init__(self, path: str, topic: str, file: CheckedFile, schema: "pa.Schema") -> None:
        self._path = path
        self._topic = topic
        self._file = file
        self._writer = pq.ParquetWriter(
            file,
            schema,
            compression=COMPRESSION,
            write_statistics=_MEASURED,
            use_dictionary=_REPEATED,
            column_encoding=_DELTAS,
            sorting_columns=[pq.SortingColumn(schema.get_field_index(name)) for name in _MEASURED[:2]],
        )
        self._schema = schema
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = self._pending_bytes = 0
        self._runs: list[Run] = []
        self._times_ms: list[int] = []

    def write(self, batch: "pa.RecordBatch") -> None:
        if not batch.num_rows:
            return
        self._pending.append(batch)
        self._pending_rows += batch.num_rows
        self._pending_bytes += batch.nbytes
        if self._pending_rows >= GROUP_ROWS or self._pending_bytes >= GROUP_BYTES:
            self._flush()

    def close(self) -> None:
        self._flush()
        self._writer.close()

    def end(self) -> None:
        """Also after an error: a Parquet writer must be closed before its file is."""
        self._writer.close()

    def done(self) -> DataFile:
        """The description of the file, after `close`."""
        return DataFile(
            path=self._path,
            topic=self._topic,
            runs=tuple(self._runs),
            size_bytes=self._file.size_bytes,
            checksum=self._file.checksum,
            time_ms_min=min(self._times_ms),
            time_ms_max=max(self._times_ms),
        )

    def _flush(self) -> None:
        if not self._pending:
            return
        table = pa.Table.from_batches(self._pending, self._schema)
        self._pending, self._pending_rows, self._pending_bytes = [], 0, 0
        self._writer.write_table(table, row_group_size=max(table.num_rows, 1))
        self._runs = _appended(self._runs, runs_of(table))
        bounds = pc.min_max(table["timestamp"].cast(pa.int64()))
        self._times_ms += [bounds[side].as_py() // 1_000 for side in ("min", "max")]


def write_days(lake: Lake, topic: str, name: str, batches: "Iterable[pa.RecordBatch]") -> list[DataFile]:
    """Writes rows of one topic, a file for each day of their times. An error leaves no file."""
    writers: dict[date, FileWriter] = {}
    with ExitStack() as files:
        for batch in batches:
            batch = batch.select([each for each in STORED_COLUMNS if each in batch.schema.names])
            for day, rows in _by_day(batch):
                writer = writers.get(day)
                if writer is None:
                    path = f"{folder_of(topic, day)}/{name}-{token_hex(4)}.parquet"
                    file = files.enter_context(lake.writing(path))
                    writer = writers[day] = FileWriter(path, topic, file, rows.schema)
                    files.callback(writer.end)
                writer.write(rows)
        for writer in writers.values():
            writer.close()
    return [writer.done() for writer in writers.values()]


def _by_day(batch: "pa.RecordBatch") -> "list[tuple[date, pa.RecordBatch]]":
    days = pc.cast(batch["timestamp"], pa.date32())
    first, last = (pc.min_max(days)[side].as_py() for side in ("min", "max"))
    if first == last:
        return [(first, batch)] if batch.num_rows else []
    chosen = sorted(each.as_py() for each in pc.unique(days))
    return [(day, batch.filter(pc.equal(days, pa.scalar(day, pa.date32())))) for day in chosen]


def runs_of(table: Any) -> list[Run]:
    """The runs of offsets of rows that are sorted by partition and offset."""
    partitions = _numbers(table["partition"])
    offsets = _numbers(table["offset"])
    if not len(offsets):
        return []
    breaks = (numpy.diff(offsets) != 1) | (numpy.diff(partitions) != 0)
    starts = numpy.concatenate(([0], numpy.flatnonzero(breaks) + 1))
    ends = numpy.concatenate((starts[1:], [len(offsets)]))
    return [
        Run(int(partitions[at]), int(offsets[at]), int(offsets[end - 1]) + 1)
        for at, end in zip(starts.tolist(), ends.tolist(), strict=True)
    ]


def _numbers(column: Any) -> Any:
    return column.to_numpy() if isinstance(column, pa.ChunkedArray) else column.to_numpy(zero_copy_only=False)


def _appended(runs: list[Run], more: Sequence[Run]) -> list[Run]:
    """Appends runs, and joins the first with the last one if they are adjacent."""
    if runs and more and runs[-1].partition == more[0].partition and runs[-1].end == more[0].first:
        return [*runs[:-1], runs[-1]._replace(end=more[0].end), *more[1:]]
    return [*runs, *more]


def verify(lake: Lake, file: DataFile) -> None:
    """Reads a file back: its bytes, rows and offsets. Raises CorruptionError when it is not as written."""
    try:
        checksum, size_bytes = lake.checksum(file.path)
        if (checksum, size_bytes) != (file.checksum, file.size_bytes):
            raise CorruptionError(f"{file.path} is not what was written: {size_bytes} bytes with checksum {checksum}")
        with lake.reading(file.path) as source:
            parquet = pq.ParquetFile(source)
            runs: list[Run] = []
            for batch in parquet.iter_batches(GROUP_ROWS, columns=["partition", "offset"]):
                runs = _appended(runs, runs_of(batch))
            rows = parquet.metadata.num_rows
    except (OSError, pa.ArrowException) as error:
        raise CorruptionError(f"{file.path} cannot be read back: {error}") from error
    if rows != file.rows or tuple(runs) != file.runs:
        raise CorruptionError(f"{file.path} has {rows} rows at other offsets than were written")
