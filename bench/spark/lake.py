"""The archive with Spark and without, beside plain `pyarrow` that writes the same rows; the cost of its commits; and
the memory of a compaction."""

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from bench.figure import Figure, Goal, relate
from flotilla.client.bulk.stored_batches import StoredBatches
from flotilla.client.client import Client
from flotilla.lake.archive import Archived, ArchiveOptions, run_archive
from flotilla.lake.arrow import record_batches
from flotilla.lake.columns import STORED
from flotilla.lake.data_file import DataFile, write_days
from flotilla.lake.lake import Lake
from flotilla.lake.offset_range import OffsetRange
from flotilla.lake.runs import Run
from flotilla.types.limits import MIB

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AREA = "spark"
SMALL_FILES = 100
LARGE_FILES = 50_000
_ADDED_AT_ONCE = 5_000
#: As many as there are between two checkpoints of the large table.
_COMMITS = 1_000
#: Raw values of a compaction: 4 GiB.
_MERGED_FILES = 16
_MERGED_ROWS = 256
_PEAK_MIB_MAX = 600
#: Not `ru_maxrss`, which a process inherits from the one that started it.
_COMPACTION = """
import sys
from pathlib import Path
from flotilla.lake.archive import run_here
from flotilla.lake.compaction import CompactionRules, compact
from flotilla.lake.table import TopicTable
compact(TopicTable(sys.argv[1], "orders"), CompactionRules(files_min=2), run_here)
print(next(line.split()[1] for line in Path("/proc/self/status").open() if line.startswith("VmHWM")))
"""


class LakeRun:
    def __init__(self, spark: "SparkSession", servers: str, topic: str, folder: Path) -> None:
        self._spark = spark
        self._servers = servers
        self._topic = topic
        self._folder = folder

    def figures(self, client: Client, rounds: int) -> list[Figure]:
        alone, with_spark = [], []
        for number in range(rounds):
            plain = self._plain(client)
            alone.append((self._archived(f"alone-{number}", self._run_alone), plain))
            with_spark.append((self._archived(f"spark-{number}", self._run_on_spark), plain))
        plainly = "pyarrow, the same rows into Parquet, not verified"
        return [
            relate(AREA, "archive without Spark", "rows/s", pairs=alone, probe_name=plainly, goal=Goal(None)),
            relate(AREA, "archive with Spark", "rows/s", pairs=with_spark, probe_name=plainly, goal=Goal(None)),
            self._commits(),
            self._compaction(),
        ]

    def _archived(self, name: str, run: Any) -> float:
        lake = self._folder / name
        started = time.perf_counter()
        done: Archived = run(ArchiveOptions(self._servers, [self._topic], str(lake), group=name))
        rate = done.rows / (time.perf_counter() - started)
        shutil.rmtree(lake)
        return rate

    def _run_alone(self, options: ArchiveOptions) -> Archived:
        return run_archive(options)

    def _run_on_spark(self, options: ArchiveOptions) -> Archived:
        from flotilla.spark.pipelines.archive import archive
        from flotilla.spark.pipelines.session import prepare

        prepare(self._spark)
        return archive(self._spark, options, str(self._folder / f"checkpoint-{options.group}"))

    def _plain(self, client: Client) -> float:
        """Rows from the log into one file for each partition, with nothing around it."""
        started, rows = time.perf_counter(), 0
        for part in client.describe_topic(self._topic).partitions:
            first = client.find_offset(self._topic, part.number, "earliest")
            end = client.find_offset(self._topic, part.number, "latest")
            wanted = OffsetRange(self._topic, part.number, first, end)
            stored = StoredBatches(client, self._topic, part.number, first, end, timeout_ms=60_000)
            path = self._folder / f"plain-{part.number}.parquet"
            with pq.ParquetWriter(path, STORED, compression="zstd") as writer:
                for batch in record_batches(stored, wanted, STORED):
                    writer.write_batch(batch)
                    rows += batch.num_rows
            path.unlink()
        return rows / (time.perf_counter() - started)

    def _commits(self) -> Figure:
        rates = [self._commit_rate(count) for count in (LARGE_FILES, SMALL_FILES)]
        return relate(
            AREA, f"commit to a table of {LARGE_FILES:,} files", "/s", pairs=[(rates[0], rates[1])],
            probe_name=f"of {SMALL_FILES} files", goal=Goal(0.5), note="of a processor, in the mean, with checkpoints",
        )  # fmt: skip

    def _commit_rate(self, files: int) -> float:
        """Commits in a second of a processor. The files do not exist: nothing reads them."""
        folder = self._folder / f"commits-{files}"
        table = Lake(str(folder)).table("orders")
        for first in range(0, files, _ADDED_AT_ONCE):
            table.add([_file(number) for number in range(first, min(first + _ADDED_AT_ONCE, files))])
        started = time.process_time()
        for number in range(files, files + _COMMITS):
            table.add([_file(number)])
        rate = _COMMITS / (time.process_time() - started)
        shutil.rmtree(folder)
        return rate

    def _compaction(self) -> Figure:
        """Its peak of memory. Compressed the values are small, so that the files are merged into one."""
        folder = self._folder / "compaction"
        table = Lake(str(folder)).table("orders")
        for number in range(_MERGED_FILES):
            table.add(write_days(table, "orders", "part", _large_rows(number * _MERGED_ROWS)))
        command = [sys.executable, "-c", _COMPACTION, table.address]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        assert len(table.snapshot().files) == 1, "all files are merged"
        shutil.rmtree(folder)
        peak = int(done.stdout) / 1024
        return relate(
            AREA, "compaction of 4 GiB of raw values, memory at its peak", "MiB", pairs=[(peak, _PEAK_MIB_MAX)],
            probe_name="allowed", goal=Goal(1.0, at_most=True),
        )  # fmt: skip


def _large_rows(first: int) -> "Iterator[pa.RecordBatch]":
    """Rows of 1 MiB each."""
    for offset in range(first, first + _MERGED_ROWS):
        row = {
            "key": None, "value": b"x" * MIB, "partition": 0, "offset": offset, "timestamp": 1_000_000,
            "headers": [], "priority": 0, "content_type": 0,
        }  # fmt: skip
        yield pa.RecordBatch.from_pylist([row], schema=STORED)


def _file(number: int) -> DataFile:
    runs = (Run(0, number * 10, number * 10 + 10),)
    path = f"date=2030-01-{1 + number % 28:02}/{number}.parquet"
    return DataFile(path, "orders", runs, 1_000, "", 1, 2, time.time_ns() // 1_000_000)
