"""The compaction of small files into large ones: the same rows, another version of the manifest.

Files of one topic and day are joined over all partitions, sorted by partition and offset. New files are read back
before a manifest lists them; old ones stay for a grace period, for readers of older versions.
"""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from flotilla.spark.lake.data_file import verify, write_days
from flotilla.spark.lake.lake import Lake
from flotilla.spark.lake.manifest import DataFile, Manifest
from flotilla.spark.pipelines.archive_source import file_text, read_file_text
from flotilla.spark.pipelines.executor_jobs import run_executor_jobs
from flotilla.types.errors import CorruptionError
from flotilla.types.limits import MIB

_HOUR_MS: Final = 3_600_000


@dataclass(frozen=True, slots=True)
class CompactionRules:
    #: Smaller files are compacted, into files of about this size.
    target_bytes: int = 128 * MIB
    #: Fewer small files of a topic and day are left alone.
    files_min: int = 16
    #: How long a replaced file stays.
    grace_ms: int = _HOUR_MS
    #: How often a continuous archive checks.
    every_batches: int = 50


def plan_compaction(files: Sequence[DataFile], rules: CompactionRules) -> list[list[DataFile]]:
    """Lots of files to join, each of one topic and day. A file is in at most one lot, and a lot has two or more."""
    folders: dict[str, list[DataFile]] = {}
    for file in files:
        if file.size_bytes < rules.target_bytes:
            folders.setdefault(file.folder, []).append(file)
    lots: list[list[DataFile]] = []
    for _, small in sorted(folders.items()):
        if len(small) >= rules.files_min:
            lots += _lots(sorted(small, key=lambda file: (file.runs[0].partition, file.runs[0].first)), rules)
    return lots


def _lots(files: Sequence[DataFile], rules: CompactionRules) -> list[list[DataFile]]:
    lots: list[list[DataFile]] = [[]]
    size_bytes = 0
    for file in files:
        if lots[-1] and size_bytes + file.size_bytes > rules.target_bytes:
            lots.append([])
            size_bytes = 0
        lots[-1].append(file)
        size_bytes += file.size_bytes
    return [lot for lot in lots if len(lot) > 1]


def compact(spark: SparkSession, lake: Lake, manifest: Manifest, rules: CompactionRules) -> Manifest:
    """The next manifest; the same one if there is nothing to compact. Raises CorruptionError."""
    lots = plan_compaction(manifest.files, rules)
    if not lots:
        return manifest
    jobs = [json.dumps([file_text(file) for file in lot]) for lot in lots]
    made = [read_file_text(text) for text in run_executor_jobs(spark, jobs, _joiner(lake))]
    old = [file for lot in lots for file in lot]
    following = manifest.compacted(old, made, time.time_ns() // 1_000_000)
    lake.commit(following)
    return following


def _joiner(lake: Lake) -> Callable[[str], str]:
    def join_one(text: str) -> str:
        return file_text(join_files(lake, [read_file_text(each) for each in json.loads(text)]))

    return join_one


def join_files(lake: Lake, lot: Sequence[DataFile]) -> DataFile:
    """One file with the rows of several, read back. Raises CorruptionError."""
    assert len({file.folder for file in lot}) == 1, "a file has one topic and day"
    made = write_days(lake, lot[0].topic, "compacted", _sorted_rows(lake, lot))
    if len(made) != 1:
        raise CorruptionError(f"files in {lot[0].folder} have rows of other days")
    verify(lake, made[0])
    return made[0]


def _sorted_rows(lake: Lake, lot: Sequence[DataFile]) -> Iterator[Any]:
    """All rows by partition and offset. A lot has about the size of one file, so it fits into memory."""
    tables = []
    for file in lot:
        with lake.reading(file.path) as source:
            tables.append(pq.read_table(source))
    rows = pa.concat_tables(tables).sort_by([("partition", "ascending"), ("offset", "ascending")])
    yield from rows.combine_chunks().to_batches(max_chunksize=65_536)
