"""Dead letters back to where they came from: exactly those of a condition, each once.

A run first writes down which letters it will send, whole, into its checkpoint; that list never changes. Then it sends
them under the list's name, by which each comes once; then it cancels them in their dead-letter topic, so that
`flotilla dlq` shows them no more. A run that died is finished by the next one with the same checkpoint, before that
looks for more. Letters that somebody else has dealt with meanwhile are left out when the list is made.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from secrets import token_hex
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from flotilla.client.admin.dead_letter import REDRIVEN_HEADER
from flotilla.client.admin.dead_letters import REDRIVEN_MAX
from flotilla.client.client import Client
from flotilla.spark.lake.store import Store
from flotilla.spark.pipelines.sending import BLOCK_ROWS, send_rows
from flotilla.spark.pipelines.streaming_run import Tell
from flotilla.types.dead_letters import REDRIVE_GROUP
from flotilla.types.errors import NotFoundError

_LISTS: Final = "lists"
_DONE: Final = "done.json"
_NAMED: Final = "named.json"
#: Of a letter that nobody has dealt with; the names are those of the delivery states.
_OPEN_STATES: Final = ("delayed", "ready", "blocked", "leased", "retrying")


@dataclass(frozen=True, slots=True)
class RedriveOptions:
    servers: str
    checkpoint: str
    rows_per_second: float | None = None
    #: Also letters that were sent again too often already.
    is_forced: bool = False


@dataclass(frozen=True, slots=True)
class Redriven:
    #: Sent by this run, and what a run before it had left to do.
    sent: int
    finished: int


def redrive(spark: SparkSession, letters: DataFrame, options: RedriveOptions, tell: Tell = lambda _: None) -> Redriven:
    """Sends letters back, as `dead_letters.letters_table` has them."""
    checkpoint = Store(options.checkpoint)
    finished = sum(_finish(spark, checkpoint, name, options, tell) for name in _unfinished(checkpoint))
    name = _make_list(spark, letters, checkpoint, options)
    return Redriven(_finish(spark, checkpoint, name, options, tell) if name else 0, finished)


def _unfinished(checkpoint: Store) -> list[str]:
    named = (path.split("/")[1] for path in checkpoint.list(_LISTS, suffix=_NAMED))
    return [name for name in named if checkpoint.read(f"{_LISTS}/{name}/{_DONE}") is None]


# The list.


def _make_list(spark: SparkSession, letters: DataFrame, checkpoint: Store, options: RedriveOptions) -> str:
    """Writes down what will be sent; its name, or none if that is nothing."""
    if not options.is_forced:
        letters = letters.where(f.col("redriven") < REDRIVEN_MAX)
    for before in {path.split("/")[1]: None for path in checkpoint.list(_LISTS, suffix=_NAMED)}:
        listed = spark.read.parquet(checkpoint.address_of(f"{_LISTS}/{before}/letters"))
        letters = letters.join(listed, ["dlq", "dlq_partition", "dlq_offset"], "left_anti")
    _open_groups(letters, options.servers)
    still_open = letters.mapInArrow(_asking(options.servers), letters.schema)
    name = f"redrive-{token_hex(12)}"
    folder = f"{_LISTS}/{name}"
    still_open.write.parquet(checkpoint.address_of(f"{folder}/letters"))
    count = spark.read.parquet(checkpoint.address_of(f"{folder}/letters")).count()
    if not count:
        return ""
    # From here on the list stands, whatever happens.
    checkpoint.put(f"{folder}/{_NAMED}", json.dumps(_named(count, options)).encode(), is_new=True)
    return name


def _named(count: int, options: RedriveOptions) -> dict[str, int]:
    """What stands for a list. How it is cut into blocks stays as it is, or a block would be another one later."""
    rate = options.rows_per_second
    return {"letters": count, "block_rows": BLOCK_ROWS if rate is None else max(min(int(rate), BLOCK_ROWS), 1)}


def _open_groups(letters: DataFrame, servers: str) -> None:
    """The group that redrives must be there in order to be asked what it has settled."""
    topics = [row.dlq for row in letters.select("dlq").distinct().collect()]
    with Client(servers, name="redrive") as client:
        for topic in topics:
            with client.queue(topic, group=REDRIVE_GROUP) as consumer:
                consumer.poll(1, wait_ms=0)


def _asking(servers: str) -> Callable[[Any], Iterator[Any]]:
    """In tasks: leaves out what was dealt with already, by whomever."""

    def ask(batches: Any) -> Iterator[Any]:
        with Client(servers, name="redrive") as client:
            for batch in batches:
                names = ("dlq", "dlq_partition", "dlq_offset")
                places = zip(*(batch[name].to_pylist() for name in names), strict=True)
                yield batch.filter(_mask([_is_open(client, *place) for place in places]))

    return ask


def _mask(flags: list[bool]) -> Any:
    return pa.array(flags, pa.bool_())


def _is_open(client: Client, topic: str, partition: int, offset: int) -> bool:
    try:
        return client.explain(topic, REDRIVE_GROUP, partition, offset, history=False).state in _OPEN_STATES
    except NotFoundError:
        # A partition that the group has never polled has settled nothing.
        return True


# Sending.


def _finish(spark: SparkSession, checkpoint: Store, name: str, options: RedriveOptions, tell: Tell) -> int:
    """Sends everything of a list that is not sent yet, and notes that it is done."""
    made = json.loads(checkpoint.read(f"{_LISTS}/{name}/{_NAMED}") or b"")
    letters = spark.read.parquet(checkpoint.address_of(f"{_LISTS}/{name}/letters"))
    partitions = letters.select("dlq", "dlq_partition").distinct().count()
    sent = send_rows(
        _as_sent(letters),
        servers=options.servers,
        name=name,
        block_rows=made["block_rows"],
        rows_per_second=options.rows_per_second,
        partitions=partitions,
    )
    tell(f"{sent:,} letters are back where they came from")
    places = letters.select("dlq", "dlq_partition", "dlq_offset")
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
        f.concat("headers", counted).alias("headers"),
        f.current_timestamp().alias("timestamp"),
        "priority",
        "content_type",
    )


def _cancelling(servers: str) -> Callable[[Any], Iterator[Any]]:
    """In tasks: nobody will be shown these again. What is cancelled stays so, so doing it twice changes nothing."""

    def cancel(batches: Any) -> Iterator[Any]:
        with Client(servers, name="redrive") as client:
            for batch in batches:
                names = ("dlq", "dlq_partition", "dlq_offset")
                for topic, partition, offset in zip(*(batch[name].to_pylist() for name in names), strict=True):
                    with suppress(NotFoundError):
                        client.cancel(topic, partition, offset=offset)
                yield batch

    return cancel
