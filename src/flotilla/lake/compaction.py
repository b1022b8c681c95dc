"""The compaction of small files into large ones: the same rows, in another version of the table.

Files of one day are merged over all partitions. Each is sorted by partition and offset, and its description has its
runs, so the order of all runs is known before a row is read; rows stream from file to file in that order. The memory
depends on the size of a row group, not on that of a file. A new file is read back before a version has it.
"""

import json
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

import pyarrow.parquet as pq  # type: ignore[import-untyped]

from flotilla.lake.columns import STORED
from flotilla.lake.data_file import DataFile, read_description, remove_files, verify, write_days
from flotilla.lake.decoded_columns import as_schema, joined_types, stored_schema
from flotilla.lake.runs import Run
from flotilla.lake.store import Store
from flotilla.lake.table import TableFile, TopicTable
from flotilla.types.errors import AlreadyExistsError, CorruptionError, FlotillaError
from flotilla.types.limits import MIB

#: Runs a function for each text, perhaps on other machines; the results have no order.
RunJobs: TypeAlias = Callable[[Sequence[str], Callable[[str], str]], list[str]]

#: Rows of this size are decoded at once.
_DECODED_BYTES: Final = 4 * MIB
_DECODED_ROWS: Final = 8_192
#: From an object store, and from a disk.
_READ_BYTES: Final = 1 * MIB
#: Files that are read at the same time. More are needed only when their runs alternate.
_OPEN_MAX: Final = 8


@dataclass(frozen=True, slots=True)
class CompactionRules:
    #: Smaller files are compacted, into files of about this size.
    target_bytes: int = 128 * MIB
    #: Fewer small files of a day are left alone.
    files_min: int = 16
    #: How often a continuous archive checks.
    every_batches: int = 50


def plan_compaction(files: Sequence[TableFile], rules: CompactionRules) -> list[list[TableFile]]:
    """Lots of files to merge, each of one day. A file is in at most one lot, and a lot has two or more."""
    days: dict[str, list[TableFile]] = {}
    for file in files:
        if file.size_bytes < rules.target_bytes:
            days.setdefault(file.day, []).append(file)
    lots: list[list[TableFile]] = []
    for _, small in sorted(days.items()):
        if len(small) >= rules.files_min:
            lots += _lots(sorted(small, key=lambda file: (file.partition_min, file.offset_min)), rules)
    return lots


def _lots(files: Sequence[TableFile], rules: CompactionRules) -> list[list[TableFile]]:
    lots: list[list[TableFile]] = [[]]
    size_bytes = 0
    for file in files:
        if lots[-1] and size_bytes + file.size_bytes > rules.target_bytes:
            lots.append([])
            size_bytes = 0
        lots[-1].append(file)
        size_bytes += file.size_bytes
    return [lot for lot in lots if len(lot) > 1]


def compact(table: TopicTable, rules: CompactionRules, run_jobs: RunJobs) -> int:
    """Merges small files, and returns how many are replaced.

    Raises CorruptionError, and AlreadyExistsError when another process compacts the same files.
    """
    replaced = 0
    lots = plan_compaction(table.files_below(rules.target_bytes), rules)
    jobs = [json.dumps([file.path for file in lot]) for lot in lots]
    for text in run_jobs(jobs, _merging(table)) if jobs else []:
        old, new = ([DataFile.from_text(each) for each in side] for side in json.loads(text))
        try:
            table.replace(old, new)
        except AlreadyExistsError:
            remove_files(table, [file.path for file in new])
            raise
        replaced += len(old)
    return replaced


def _merging(table: TopicTable) -> Callable[[str], str]:
    def merge_one(text: str) -> str:
        lot = [read_description(table, path) for path in json.loads(text)]
        made = merge_files(table, table.topic, lot)
        return json.dumps([[file.text() for file in lot], [made.text()]])

    return merge_one


def merge_files(store: Store, topic: str, lot: Sequence[DataFile]) -> DataFile:
    """One file with the rows of several, read back. Raises CorruptionError."""
    with ExitStack() as opened:
        decoded = joined_types(file.decoded for file in lot)
        rows = merged_rows(store, lot, opened, stored_schema(decoded))
        made = write_days(store, topic, "compacted", rows, decoded)
    try:
        if len(made) != 1:
            raise CorruptionError(f"files of {lot[0].day} have rows of other days")
        verify(store, made[0])
    except FlotillaError:
        remove_files(store, [file.path for file in made])
        raise
    return made[0]


class Piece(NamedTuple):
    """Offsets, the number of their file in a list, and the row of the first one there."""

    run: Run
    at: int
    row: int


def merged_rows(store: Store, lot: Sequence[DataFile], opened: ExitStack, schema: Any = STORED) -> Iterator[Any]:
    """All rows by partition and offset, in batches of these columns."""
    pieces = []
    for at, file in enumerate(lot):
        row = 0
        for run in file.runs:
            pieces.append(Piece(run, at, row))
            row += run.end - run.first
    yield from pieces_in_order(store, lot, pieces, opened, schema)


def pieces_in_order(
    store: Store, files: Sequence[DataFile], pieces: Iterable[Piece], opened: ExitStack, schema: Any = STORED
) -> Iterator[Any]:
    """The rows of pieces by partition and offset, in batches. Those of one file are next to each other in it."""
    cursors: OrderedDict[int, _Cursor] = OrderedDict()
    opened.callback(lambda: _close(cursors.values()))
    for run, at, row in sorted(pieces):
        cursor = cursors.get(at)
        if cursor is None:
            if len(cursors) == _OPEN_MAX:
                cursors.popitem(last=False)[1].close()
            cursor = cursors[at] = _Cursor(store, files[at].path, row, schema)
        cursors.move_to_end(at)
        yield from cursor.take(run.end - run.first)
        if row + run.end - run.first == files[at].rows:
            cursors.pop(at).close()


def _close(cursors: "Iterable[_Cursor]") -> None:
    for cursor in cursors:
        cursor.close()


class _Cursor:
    """Rows of one file in their order, from a row on."""

    def __init__(self, store: Store, path: str, row: int, schema: Any) -> None:
        self._path = path
        self._schema = schema
        self._source = store.reading(path)
        self._parquet = pq.ParquetFile(self._source, buffer_size=_READ_BYTES, page_checksum_verification=True)
        self._batches = self._from(row)
        #: Decoded and not taken yet.
        self._rest: Any = None

    def take(self, count: int) -> Iterator[Any]:
        while count:
            batch = self._rest if self._rest is not None else next(self._batches, None)
            if batch is None:
                raise CorruptionError(f"{self._path} has fewer rows than its description")
            taken = batch.slice(0, count)
            self._rest = batch.slice(count) if batch.num_rows > count else None
            count -= taken.num_rows
            yield taken

    def close(self) -> None:
        self._parquet.close(force=True)
        self._source.close()

    def _from(self, row: int) -> Iterator[Any]:
        metadata = self._parquet.metadata
        columns = [name for name in self._schema.names if name in self._parquet.schema_arrow.names]
        for group in range(metadata.num_row_groups):
            described = metadata.row_group(group)
            if row >= described.num_rows:
                row -= described.num_rows
                continue
            row_bytes = max(described.total_byte_size // described.num_rows, 1)
            rows = max(min(_DECODED_BYTES // row_bytes, _DECODED_ROWS), 1)
            for batch in self._parquet.iter_batches(rows, row_groups=[group], columns=columns):
                skipped = min(row, batch.num_rows)
                row -= skipped
                if batch.num_rows > skipped:
                    yield as_schema(batch.slice(skipped), self._schema)
