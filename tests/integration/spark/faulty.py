"""The same sink and the same pipelines with a bad day: processes of theirs die at a named moment, once.

Imported by Spark's own processes, so it stands in a module of its own. The folder says what is to happen: a file that
is named after a moment makes the first process that gets there take the file away and die.
"""

import os
import signal
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, DataSourceStreamWriter, InputPartition, WriterCommitMessage
from pyspark.sql.types import StructType

from flotilla.spark.pipelines import sending
from flotilla.spark.pipelines.archive_source import ArchiveReader, ArchiveSource
from flotilla.spark.source import FlotillaSource
from flotilla.spark.writer import FlotillaStreamWriter
from tests.integration.spark import fault_folder

#: Moments, in their order.
IN_TASK = ("before-write", "while-writing", "after-write")
ON_DRIVER = ("before-commit", "after-commit")
IN_ARCHIVE = ("before-files", "after-files")
IN_REPLAY = ("before-block", "after-block")
IN_JOB = ("before-job", "after-job")


def die(folder: str, moment: str) -> None:
    """Ends this process, or the one whose id the file has."""
    path = Path(folder) / moment
    try:
        text = path.read_text()
        path.unlink()
    except FileNotFoundError:
        return
    for victim in text.split() or [str(os.getpid())]:
        os.kill(int(victim), signal.SIGKILL)


class FaultyWriter(FlotillaStreamWriter):
    def __init__(self, inner: Any, folder: str) -> None:
        super().__init__(inner._options)
        self._folder = folder

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        die(self._folder, "before-write")
        message = super().write(self._dying(iterator))
        die(self._folder, "after-write")
        return message

    def _dying(self, iterator: Iterator[Any]) -> Iterator[Any]:
        for at, batch in enumerate(iterator):
            yield batch
            if at:
                # What came before has been sent by now, as far as it made whole batches.
                die(self._folder, "while-writing")

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        die(self._folder, "before-commit")
        super().commit(messages, batchId)
        die(self._folder, "after-commit")


class FaultySource(FlotillaSource):
    def __init__(self, options: MutableMapping[str, str]) -> None:
        given = dict(options)
        self._folder = given.pop("folder", "")
        super().__init__(given)

    @classmethod
    def name(cls) -> str:
        return "faulty"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's name
        return FaultyWriter(super().streamWriter(schema, overwrite), self._folder)


class FaultyArchiveReader(ArchiveReader):
    """Its tasks die in the middle: when another micro-batch is done already."""

    def read(self, partition: InputPartition) -> Iterator[Any]:
        folder = os.environ[fault_folder.VARIABLE]
        if partition.value.wanted.first:
            die(folder, "before-files")
        described = list(super().read(partition))
        if partition.value.wanted.first:
            # The files exist, and the driver does not know them.
            die(folder, "after-files")
        yield from described


class FaultyArchiveSource(ArchiveSource):
    """Takes the place of the real one, under its name."""

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        inner: Any = super().streamReader(schema)
        return FaultyArchiveReader(inner._options, schema, self._lake, self._schemas)


def job_or_die(folder: str, work: Callable[[str], str], job: str) -> str:
    """In place of a job of an executor."""
    die(folder, "before-job")
    result = work(job)
    # Done, and the driver does not know it.
    die(folder, "after-job")
    return result


def send_block(folder: str, client: Any, rows: list[Any], application: str, block: int) -> int:
    """In place of what a replay does with one block."""
    if block:
        die(folder, "before-block")
    count = sending._send_block(client, rows, application, block)
    if block:
        # Committed, and the task has not reported it.
        die(folder, "after-block")
    return count
