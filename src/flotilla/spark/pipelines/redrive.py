"""The redrive of dead letters: exactly those of a condition, each once.

A run first writes the letters to send into its checkpoint, as a list that never changes. It sends them under the list's
name, so that each is sent once, and then cancels them in their dead-letter topic, so that `flotilla dlq` lists them no
more. The next run with the same checkpoint first finishes the list of a run that died. Letters that were redriven or
purged meanwhile are not listed.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from secrets import token_hex
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from flotilla.client.admin.dead_letters import REDRIVEN_MAX
from flotilla.client.app.environment import environment_credentials
from flotilla.client.client import Client
from flotilla.lake.archive import ReportProgress
from flotilla.lake.store import Store
from flotilla.security.client_tls import tls_of_environment
from flotilla.spark.pipelines.lake_reader import has_file_system, stored_rows
from flotilla.spark.pipelines.sending import BLOCK_ROWS, LIMITS, send_rows
from flotilla.types.dead_letters import REDRIVE_GROUP, REDRIVEN_HEADER
from flotilla.types.errors import InvalidArgumentError, NotFoundError
from flotilla.types.limits import RECORD_HEADER_BYTES_MAX, RECORD_HEADER_COUNT_MAX

_LISTS: Final = "lists"
_DONE: Final = "done.json"
_NAMED: Final = "named.json"
_PLACE: Final = ("dlq", "dlq_partition", "dlq_offset")
#: Of the header that counts redrives.
_COUNTED_BYTES_MAX: Final = 64
#: Delivery states of an unsettled letter.
_UNSETTLED_STATES: Final = ("delayed", "ready", "blocked", "leased", "retrying")


@dataclass(frozen=True, slots=True)
class RedriveOptions:
    servers: str
    checkpoint: str
    rows_per_second: float | None = None
    #: Includes letters that were redriven too often.
    is_forced: bool = False


@dataclass(frozen=True, slots=True)
class Redriven:
    #: Letters of this run, and of earlier runs that this one finished.
    sent: int
    finished: int


def redrive(
    spark: SparkSession, letters: DataFrame, options: RedriveOptions, progress: ReportProgress = lambda _: None
) -> Redriven:
    """Sends letters of `dead_letters.letters_table` back. Raises InvalidArgumentError."""
    checkpoint = Store(options.checkpoint)
    finished = sum(_finish(spark, checkpoint, name, options, progress) for name in _unfinished(checkpoint))
    name = _make_list(spark, letters, checkpoint, options)
    return Redriven(_finish(spark, checkpoint, name, options, progress) if name else 0, finished)


def _unfinished(checkpoint: Store) -> list[str]:
    named = (path.split("/")[1] for path in checkpoint.paths(_LISTS, suffix=_NAMED))
    return [name for name in named if checkpoint.read(f"{_LISTS}/{name}/{_DONE}") is None]


# The list.


def _make_list(spark: SparkSession, letters: DataFrame, checkpoint: Store, options: RedriveOptions) -> str:
    """Writes the list of letters to send. Returns its name; empty: there are none."""
    if not options.is_forced:
        letters = letters.where(f.col("redriven") < REDRIVEN_MAX)
    for before in {path.split("/")[1]: None for path in checkpoint.paths(_LISTS, suffix=_NAMED)}:
        letters = letters.join(_listed(spark, checkpoint, before), list(_PLACE), "left_anti")
    _open_groups(letters, options.servers)
    unsettled = letters.mapInArrow(_asking(options.servers), letters.schema)
    name = f"redrive-{token_hex(12)}"
    folder = f"{_LISTS}/{name}"
    files = unsettled.mapInArrow(_writing(checkpoint, f"{folder}/letters"), "path string, letters long").collect()
    if not files:
        return ""
    # From here on the list is final. Files of tasks that were killed are not in it.
    named = _named(sum(file.letters for file in files), [file.path for file in files], options)
    checkpoint.put(f"{folder}/{_NAMED}", json.dumps(named).encode(), is_new=True)
    return name


def _named(count: int, files: list[str], options: RedriveOptions) -> dict[str, Any]:
    """The description of a list. It fixes the size of blocks, because a block must be the same in every run."""
    rate = options.rows_per_second
    block_rows = BLOCK_ROWS if rate is None else max(min(int(rate), BLOCK_ROWS), 1)
    return {"letters": count, "block_rows": block_rows, "files": files}


def _writing(checkpoint: Store, folder: str) -> Callable[[Any], Iterator[Any]]:
    """A function for tasks that writes letters into a file of its own, and returns its path and their number."""

    def write(batches: Any) -> Iterator[Any]:
        some = next((batch for batch in batches if batch.num_rows), None)
        if some is None:
            return
        path, count = f"{folder}/{token_hex(12)}.parquet", 0
        with checkpoint.writing(path) as file, pq.ParquetWriter(file, some.schema) as writer:
            for batch in chain([some], batches):
                writer.write_batch(batch)
                count += batch.num_rows
        yield pa.RecordBatch.from_arrays([pa.array([path]), pa.array([count])], names=["path", "letters"])

    return write


def _listed(spark: SparkSession, checkpoint: Store, name: str) -> DataFrame:
    """The letters of a list. Raises InvalidArgumentError."""
    files = json.loads(checkpoint.read(f"{_LISTS}/{name}/{_NAMED}") or b"").get("files")
    if files is not None:
        return stored_rows(spark, checkpoint, files)
    # Spark has written lists of an older version.
    if not has_file_system(spark, checkpoint):
        raise InvalidArgumentError(f"Spark has no file system for the lists in {checkpoint.address}")
    return spark.read.parquet(checkpoint.address_of(f"{_LISTS}/{name}/letters"))


def _open_groups(letters: DataFrame, servers: str) -> None:
    """Opens the redriving group, so that it can be asked what it has settled."""
    topics = [row.dlq for row in letters.select("dlq").distinct().collect()]
    with Client(servers, name="redrive", tls=tls_of_environment(), credentials=environment_credentials()) as client:
        for topic in topics:
            with client.queue(topic, group=REDRIVE_GROUP) as consumer:
                consumer.poll(1, wait_ms=0)


def _asking(servers: str) -> Callable[[Any], Iterator[Any]]:
    """A function for tasks that drops settled letters."""

    def ask(batches: Any) -> Iterator[Any]:
        with Client(servers, name="redrive", tls=tls_of_environment(), credentials=environment_credentials()) as client:
            for batch in batches:
                flags = [_is_unsettled(client, *place) for place in _places(batch)]
                yield batch.filter(pa.array(flags, pa.bool_()))

    return ask


def _places(batch: Any) -> Iterator[tuple[str, int, int]]:
    return zip(*(batch[name].to_pylist() for name in _PLACE), strict=True)


def _is_unsettled(client: Client, topic: str, partition: int, offset: int) -> bool:
    try:
        return client.explain(topic, REDRIVE_GROUP, partition, offset, history=False).state in _UNSETTLED_STATES
    except NotFoundError:
        # The group has never polled this partition, and so settled nothing.
        return True


# Sending.


def _finish(
    spark: SparkSession, checkpoint: Store, name: str, options: RedriveOptions, progress: ReportProgress
) -> int:
    """Sends the unsent letters of a list, and marks it as done."""
    made = json.loads(checkpoint.read(f"{_LISTS}/{name}/{_NAMED}") or b"")
    letters = _listed(spark, checkpoint, name)
    partitions = letters.select("dlq", "dlq_partition").distinct().count()
    sent = send_rows(
        _as_sent(letters),
        servers=options.servers,
        name=name,
        block_rows=made["block_rows"],
        rows_per_second=options.rows_per_second,
        partitions=partitions,
    )
    progress(f"{sent:,} letters are redriven")
    places = letters.select(*_PLACE)
    places.mapInArrow(_cancelling(options.servers), places.schema).write.format("noop").mode("overwrite").save()
    checkpoint.put(f"{_LISTS}/{name}/{_DONE}", json.dumps({"letters": sent}).encode())
    return sent


def _as_sent(letters: DataFrame) -> DataFrame:
    times = f.encode((f.col("redriven") + 1).cast("string"), "UTF-8")
    counted = f.array(f.struct(f.lit(REDRIVEN_HEADER).alias("key"), times.alias("value")))
    return letters.select(
        f.col("dlq").alias("from_topic"),
        f.col("dlq_partition").alias("from_partition"),
        f.col("dlq_offset").alias("from_offset"),
        "topic",
        f.lit(None).cast("int").alias("partition"),
        "key",
        "value",
        f.when(_has_room(), f.concat("headers", counted)).otherwise(f.col("headers")).alias("headers"),
        f.current_timestamp().alias("timestamp"),
        "priority",
        "content_type",
        # A list of an older version has none.
        *(name for name in LIMITS if name in letters.columns),
    )


def _has_room() -> Column:
    """Whether one more header fits: a letter that the broker refuses would stop all others of its list."""
    lengths = f.transform("headers", lambda header: f.octet_length(header["key"]) + f.octet_length(header["value"]))
    total = f.aggregate(lengths, f.lit(0), lambda before, length: before + length)
    return (f.size("headers") < RECORD_HEADER_COUNT_MAX) & (total < RECORD_HEADER_BYTES_MAX - _COUNTED_BYTES_MAX)


def _cancelling(servers: str) -> Callable[[Any], Iterator[Any]]:
    """A function for tasks that cancels letters. Idempotent."""

    def cancel(batches: Any) -> Iterator[Any]:
        with Client(servers, name="redrive", tls=tls_of_environment(), credentials=environment_credentials()) as client:
            for batch in batches:
                for topic, partition, offset in _places(batch):
                    with suppress(NotFoundError):
                        client.cancel(topic, partition, offset=offset)
                yield batch

    return cancel
