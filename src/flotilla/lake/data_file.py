"""The writer and the verifier of one Parquet file of a lake.

Rows go from Arrow to Parquet, in tasks of Spark or in the archive's own process. Rows of a file are sorted by partition
and offset; statistics of partition, offset and timestamp let a reader skip rows. Every page has a checksum. Beside the
file, in `_checksums`, is its description: the checksum of its bytes and its runs of offsets.
"""

import json
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields
from datetime import date
from secrets import token_hex
from typing import Any, Final

import numpy
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from flotilla.lake.columns import DATE, STORED
from flotilla.lake.decoded_columns import stored_schema
from flotilla.lake.runs import Run, append_runs
from flotilla.lake.store import CheckedFile, Store
from flotilla.types.errors import CorruptionError
from flotilla.types.limits import MIB

#: A row group is written at either size.
GROUP_ROWS: Final = 131_072
GROUP_BYTES: Final = 32 * MIB
PAGE_BYTES: Final = 1 * MIB
COMPRESSION: Final = "zstd"
#: Readers of Delta ignore folders that begin with an underscore.
CHECKSUM_FOLDER: Final = "_checksums"
_MEASURED: Final = ["partition", "offset", "timestamp"]
_DELTAS: Final = {"offset": "DELTA_BINARY_PACKED", "timestamp": "DELTA_BINARY_PACKED"}
_REPEATED: Final = ["key", "partition", "priority", "content_type"]
#: Of later times too, which no calendar has.
_LAST_DAY: Final = pa.scalar(date.max, pa.date32())
_WRITTEN_ROWS: Final = 1_024
_READ_ROWS: Final = 8_192


@dataclass(frozen=True, slots=True)
class DataFile:
    """One Parquet file: rows of one topic and day, sorted by partition and offset."""

    #: Below the table.
    path: str
    topic: str
    #: Sorted, and as long as possible.
    runs: tuple[Run, ...]
    size_bytes: int
    #: BLAKE2b of the written bytes.
    checksum: str
    #: Of the records' timestamps.
    time_ms_min: int
    time_ms_max: int
    #: When it was written.
    written_ms: int
    #: The type of its column `decoded`, in SQL; empty: it has none.
    decoded: str = ""

    @property
    def rows(self) -> int:
        return sum(run.end - run.first for run in self.runs)

    @property
    def day(self) -> str:
        return self.path.partition("/")[0].removeprefix(f"{DATE}=")

    def text(self) -> str:
        """As it is stored, and as it travels between tasks and the driver."""
        values = [getattr(self, each.name) for each in fields(self)]
        return json.dumps(values if self.decoded else values[:-1])

    @classmethod
    def from_text(cls, text: str | bytes) -> "DataFile":
        """Raises CorruptionError."""
        try:
            path, topic, runs, *rest = json.loads(text)
            return cls(path, topic, tuple(Run(*run) for run in runs), *rest)
        except (ValueError, TypeError) as error:
            raise CorruptionError(f"the description of a file is damaged: {error}") from error


def description_path(path: str) -> str:
    return f"{CHECKSUM_FOLDER}/{path}.json"


def read_description(store: Store, path: str) -> DataFile:
    """What was written about a file. Raises CorruptionError when it is missing or damaged."""
    data = store.read(description_path(path))
    if data is None:
        raise CorruptionError(f"{path} has no description in {CHECKSUM_FOLDER}")
    return DataFile.from_text(data)


class FileWriter:
    """Writes one file of sorted rows; `done` describes it."""

    def __init__(self, path: str, topic: str, file: CheckedFile, row_bytes: int, decoded: str = "") -> None:
        self._path = path
        self._topic = topic
        self._file = file
        self._decoded = decoded
        self._schema = stored_schema(decoded)
        self._writer = pq.ParquetWriter(
            file,
            self._schema,
            compression=COMPRESSION,
            write_statistics=_MEASURED,
            use_dictionary=_REPEATED,
            column_encoding=_DELTAS,
            sorting_columns=[pq.SortingColumn(STORED.get_field_index(name)) for name in _MEASURED[:2]],
            write_page_checksum=True,
            # The size of a page is looked at after so many rows, and a reader has whole pages in memory.
            write_batch_size=max(min(PAGE_BYTES // row_bytes, _WRITTEN_ROWS), 1),
        )
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
            written_ms=time.time_ns() // 1_000_000,
            decoded=self._decoded,
        )

    def _flush(self) -> None:
        if not self._pending:
            return
        table = pa.Table.from_batches(self._pending, self._schema)
        self._pending, self._pending_rows, self._pending_bytes = [], 0, 0
        self._writer.write_table(table, row_group_size=max(table.num_rows, 1))
        self._runs = append_runs(self._runs, runs_of(table))
        bounds = pc.min_max(table["timestamp"].cast(pa.int64()))
        self._times_ms += [bounds[side].as_py() // 1_000 for side in ("min", "max")]


def write_days(
    store: Store, topic: str, name: str, batches: "Iterable[pa.RecordBatch]", decoded: str = ""
) -> list[DataFile]:
    """Writes rows of one topic, a file for each day of their times. An error leaves no file.

    `decoded` is the type of their column of that name, if they have it.
    """
    schema = stored_schema(decoded)
    writers: dict[date, FileWriter] = {}
    with ExitStack() as files:
        for batch in batches:
            for day, rows in _by_day(batch.select(schema.names).cast(schema)):
                writer = writers.get(day)
                if writer is None:
                    path = f"{DATE}={day.isoformat()}/{name}-{token_hex(4)}.parquet"
                    file = files.enter_context(store.writing(path))
                    writer = writers[day] = FileWriter(path, topic, file, max(rows.nbytes // rows.num_rows, 1), decoded)
                    files.callback(writer.end)
                writer.write(rows)
        for writer in writers.values():
            writer.close()
    made = [writer.done() for writer in writers.values()]
    for each in made:
        store.put(description_path(each.path), each.text().encode())
    return made


def remove_files(store: Store, paths: Iterable[str]) -> None:
    """Removes files with their descriptions, which go first: nobody looks for one whose file is gone."""
    for path in paths:
        store.remove([description_path(path), path])


def _by_day(batch: "pa.RecordBatch") -> "list[tuple[date, pa.RecordBatch]]":
    days = pc.min_element_wise(pc.cast(batch["timestamp"], pa.date32()), _LAST_DAY)
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


def verify(store: Store, file: DataFile, *, columns: Sequence[str] | None = ("partition", "offset")) -> None:
    """Reads a file back: its bytes, and the pages, rows and offsets of some columns (None: of all).

    Raises CorruptionError when it is not as written.
    """
    try:
        checksum, size_bytes = store.checksum(file.path)
        if (checksum, size_bytes) != (file.checksum, file.size_bytes):
            raise CorruptionError(f"{file.path} is not what was written: {size_bytes} bytes with checksum {checksum}")
        with store.reading(file.path) as source:
            parquet = pq.ParquetFile(source, page_checksum_verification=True)
            runs: list[Run] = []
            for batch in parquet.iter_batches(_READ_ROWS, columns=None if columns is None else list(columns)):
                runs = append_runs(runs, runs_of(batch))
            rows = parquet.metadata.num_rows
    except (OSError, pa.ArrowException) as error:
        raise CorruptionError(f"{file.path} cannot be read back: {error}") from error
    if rows != file.rows or tuple(runs) != file.runs:
        raise CorruptionError(f"{file.path} has {rows} rows at other offsets than were written")
