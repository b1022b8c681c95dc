"""`flotilla pipeline replay`: sends rows of a topic again, from the archive or the log, into a topic or a shadow group.

The plan has the offsets and a name; the checkpoint keeps it. Each lot of the plan is a Spark job, and each block of
rows in it a transaction under the plan's name and the block's number. A run with the same checkpoint continues the same
plan, so every row is sent once. So does a run with the same bounds and no checkpoint, because the name derives from the
plan.

A shadow group reads the rows from its own topic, `shadow.<group>.<topic>`, so other readers do not see them.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from flotilla.client.app.environment import environment_credentials
from flotilla.client.client import Client
from flotilla.lake.archive import ReportProgress
from flotilla.lake.lake import Lake
from flotilla.lake.runs import Span
from flotilla.lake.store import Store
from flotilla.security.client_tls import tls_of_environment
from flotilla.spark.pipelines.condition import chosen_rows
from flotilla.spark.pipelines.ranges import rows_in
from flotilla.spark.pipelines.sending import BLOCK_ROWS, send_rows
from flotilla.spark.topic_read import TopicRead, topic_read
from flotilla.types.errors import InvalidArgumentError, NotFoundError

#: The original place of a row.
ORIGIN_HEADER: Final = "flotilla-replayed-from"
_PLAN: Final = "plan.json"
_PROGRESS: Final = "progress.json"
#: Blocks of each partition in one lot.
LOT_BLOCKS: Final = 40
#: With a rate, a block has the rows of this time.
_BLOCK_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    servers: str
    topic: str
    #: The target: exactly one of the two.
    into_topic: str = ""
    into_group: str = ""
    lake: str | None = None
    checkpoint: str | None = None
    #: Timestamps [since, until).
    since_ms: int | None = None
    until_ms: int | None = None
    #: Offsets [first, end) of every selected partition.
    first_offset: int | None = None
    end_offset: int | None = None
    partitions: Sequence[int] | None = None
    #: A condition of SQL; empty: all rows.
    where: str = ""
    rows_per_second: float | None = None

    @property
    def target(self) -> str:
        return self.into_topic or f"shadow.{self.into_group}.{self.topic}"


@dataclass(frozen=True, slots=True)
class Plan:
    """The rows to send, independent of the run."""

    topic: str
    target: str
    #: Partition, first offset and end.
    ranges: tuple[tuple[int, int, int], ...]
    since_ms: int | None
    until_ms: int | None
    block_rows: int
    #: The target has as many partitions, so a row keeps its partition number.
    keeps_partitions: bool
    #: A condition of SQL; empty: all rows.
    where: str = ""

    @property
    def name(self) -> str:
        """A digest of the plan; a plan without a condition has the name that it had before there were any."""
        content = asdict(self)
        if not self.where:
            del content["where"]
        text = json.dumps(content, sort_keys=True)
        return f"replay-{blake2b(text.encode(), digest_size=16).hexdigest()}"

    @property
    def lots(self) -> int:
        return max([-(-(end - self._base(first)) // self._lot_rows) for _, first, end in self.ranges], default=0)

    def lot(self, number: int) -> dict[int, Span]:
        """The offsets of one lot, by partition. It ends with a block, so that no block is split."""
        found = {}
        for partition, first, end in self.ranges:
            begin = self._base(first) + number * self._lot_rows
            span = Span(max(begin, first), min(begin + self._lot_rows, end))
            if span.first < span.end:
                found[partition] = span
        return found

    @property
    def _lot_rows(self) -> int:
        return self.block_rows * LOT_BLOCKS

    def _base(self, first: int) -> int:
        """The first offset of the block with an offset."""
        return first - first % self.block_rows


@dataclass(frozen=True, slots=True)
class Replayed:
    name: str
    target: str
    #: Of the lots of this run, including rows that an earlier run had sent.
    rows: int
    lots: int
    #: Lots of earlier runs.
    lots_before: int


def replay(spark: SparkSession, options: ReplayOptions, progress: ReportProgress = lambda _: None) -> Replayed:
    """Raises InvalidArgumentError for invalid options, NotFoundError when the topic is nowhere."""
    check_options(options)
    table = Lake(options.lake).table(options.topic) if options.lake else None
    snapshot = None if table is None else table.snapshot()
    if options.where:
        # Checked before anything is made.
        chosen_rows(rows_in(spark, _read(options, options.where), {}), options.where)
    checkpoint = Store(options.checkpoint) if options.checkpoint else None
    plan = _planned(options, {} if snapshot is None else snapshot.spans, checkpoint)
    progress(f"{plan.name}: offsets of {len(plan.ranges)} partitions into {plan.target}, in {plan.lots} lots")
    begun = _read_progress(checkpoint, plan)
    read = _read(options, plan.where)
    rows_sent = 0
    for number in range(begun, plan.lots):
        rows_sent += send_rows(
            _sent(plan, rows_in(spark, read, plan.lot(number), table, snapshot)),
            servers=options.servers,
            name=plan.name,
            block_rows=plan.block_rows,
            rows_per_second=options.rows_per_second,
            partitions=len(plan.ranges),
        )
        if checkpoint is not None:
            checkpoint.put(_PROGRESS, json.dumps({"name": plan.name, "lots": number + 1}).encode())
        progress(f"lot {number + 1} of {plan.lots}: {rows_sent:,} rows are in {plan.target}")
    return Replayed(plan.name, plan.target, rows_sent, plan.lots, begun)


def check_options(options: ReplayOptions) -> None:
    if bool(options.into_topic) == bool(options.into_group):
        raise InvalidArgumentError("give the target: a topic or a shadow group")
    if options.into_topic == options.topic:
        raise InvalidArgumentError("a topic cannot be replayed into itself: that would never end")
    if options.rows_per_second is not None and options.rows_per_second <= 0:
        raise InvalidArgumentError("the rate must be above 0")


# The plan.


def _planned(options: ReplayOptions, archived: Mapping[int, Span], checkpoint: Store | None) -> Plan:
    kept = checkpoint.read(_PLAN) if checkpoint is not None else None
    if kept is not None:
        plan = _read_plan(kept)
        if (plan.topic, plan.target) != (options.topic, options.target):
            raise InvalidArgumentError(f"the checkpoint belongs to a replay of {plan.topic} into {plan.target}")
        return plan
    plan = _new_plan(options, archived)
    if checkpoint is not None:
        checkpoint.put(_PLAN, json.dumps(asdict(plan)).encode(), is_new=True)
    return plan


def _read_plan(data: bytes) -> Plan:
    content: dict[str, Any] = json.loads(data)
    return Plan(**{**content, "ranges": tuple(tuple(each) for each in content["ranges"])})


def _new_plan(options: ReplayOptions, archived: Mapping[int, Span]) -> Plan:
    with Client(
        options.servers, name="replay", tls=tls_of_environment(), credentials=environment_credentials()
    ) as client:
        wanted = _bounds(client, options, archived)
        count = max([*wanted, *archived], default=0) + 1
        keeps_partitions = _prepare_target(client, options.target, count)
    block_rows = BLOCK_ROWS
    if options.rows_per_second is not None:
        block_rows = max(min(int(options.rows_per_second * _BLOCK_S / max(len(wanted), 1)), BLOCK_ROWS), 1)
    ranges = tuple((number, *span) for number, span in sorted(wanted.items()) if span.end > span.first)
    return Plan(
        options.topic,
        options.target,
        ranges,
        options.since_ms,
        options.until_ms,
        block_rows,
        keeps_partitions,
        options.where,
    )


def _bounds(client: Client, options: ReplayOptions, archived: Mapping[int, Span]) -> dict[int, Span]:
    """The requested offsets of each partition that exist. Raises NotFoundError when the topic is nowhere."""
    try:
        numbers = [part.number for part in client.describe_topic(options.topic).partitions]
        logs = {
            number: Span(*(client.find_offset(options.topic, number, at) for at in ("earliest", "latest")))
            for number in numbers
        }
    except NotFoundError:
        if not archived:
            raise
        logs = {}
    found = {}
    for number in sorted({*logs, *archived}):
        if options.partitions is None or number in options.partitions:
            ends = [each for each in (archived.get(number), logs.get(number)) if each is not None]
            first = max(min(each.first for each in ends), options.first_offset or 0)
            end = max(each.end for each in ends)
            found[number] = Span(first, end if options.end_offset is None else min(end, options.end_offset))
    return found


def _prepare_target(client: Client, target: str, partitions: int) -> bool:
    """Creates the topic if it does not exist. Returns whether it has as many partitions."""
    try:
        described = client.describe_topic(target)
    except NotFoundError:
        described = client.create_topic(target, partitions=partitions)
    return len(described.partitions) == partitions


def _read_progress(checkpoint: Store | None, plan: Plan) -> int:
    """The number of finished lots. Losing it costs only time."""
    data = checkpoint.read(_PROGRESS) if checkpoint is not None else None
    content = json.loads(data) if data is not None else {}
    return int(content["lots"]) if content.get("name") == plan.name else 0


# The rows.


def _read(options: ReplayOptions, where: str) -> TopicRead:
    """Decoded columns are not sent, and so are read for a condition only."""
    given = {"servers": options.servers, "includeHeaders": "true"}
    if options.lake and where:
        given["lake"] = options.lake
    return topic_read(given, options.topic)


def _sent(plan: Plan, rows: DataFrame) -> DataFrame:
    """Rows of the topic as they are sent."""
    if plan.where:
        rows = chosen_rows(rows, plan.where)
    if plan.since_ms is not None:
        rows = rows.where(f.col("timestamp") >= f.timestamp_millis(f.lit(plan.since_ms)))
    if plan.until_ms is not None:
        rows = rows.where(f.col("timestamp") < f.timestamp_millis(f.lit(plan.until_ms)))
    origin = f.concat_ws("/", f.col("topic"), f.col("partition"), f.col("offset"))
    added = f.array(f.struct(f.lit(ORIGIN_HEADER).alias("key"), f.encode(origin, "UTF-8").alias("value")))
    # A row that was replayed before keeps its first origin.
    is_marked = f.exists(f.col("headers"), lambda header: header["key"] == ORIGIN_HEADER)
    partition = f.col("partition") if plan.keeps_partitions else f.lit(None).cast("int")
    return rows.select(
        f.col("topic").alias("from_topic"),
        f.col("partition").alias("from_partition"),
        f.col("offset").alias("from_offset"),
        f.lit(plan.target).alias("topic"),
        partition.alias("partition"),
        "key",
        "value",
        f.when(is_marked, f.col("headers")).otherwise(f.concat("headers", added)).alias("headers"),
        "timestamp",
        "priority",
        "content_type",
    )
