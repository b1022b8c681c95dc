"""`flotilla pipeline audit`: compares a ledger of acknowledged records with the log, the lake and consumers.

A ledger has one line for each acknowledged record: topic, partition, offset, and the SHA-256 of its payload as
`digest`; with `producer` and `sequence`, order is checked too. It is compared with the whole log and lake and, if
given, with a ledger of handled records. Spark joins them; the driver gets the number of each finding, and the findings
go into files.

| finding | meaning |
| --- | --- |
| missing | acknowledged, and neither in the log nor in the lake at its place |
| doubled | stored at more places than it was acknowledged, or at one place twice |
| different | the log and the lake differ at one place |
| reordered | stored after a later record of the same producer |
| hole | missing offsets between existing ones |
| unconsumed | acknowledged, and not in the ledger of consumers |
| consumed_again | handled more than once; at-least-once allows it, so it is no fault |
| consumed_late | handled after a later record of the same partition by the same consumer |
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Final

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as f
from pyspark.sql.types import StructField, StructType

from flotilla.client.app.environment import environment_credentials
from flotilla.client.client import Client
from flotilla.lake.lake import Lake
from flotilla.lake.store import Store
from flotilla.security.client_tls import tls_of_environment
from flotilla.spark.pipelines.lake_reader import lake_rows
from flotilla.spark.schema import COLUMNS
from flotilla.types.errors import InvalidArgumentError, NotFoundError

#: Findings that fail an audit.
FAULTS: Final = ("missing", "doubled", "different", "reordered", "hole", "unconsumed", "consumed_late")
#: Findings that do not.
NOTES: Final = ("consumed_again",)
FINDINGS: Final = "findings"
_PLACE: Final = ("topic", "partition", "offset")
_LEDGER: Final = "topic string, partition int, offset long, digest string, producer string, sequence long"
_CONSUMED: Final = "topic string, partition int, offset long, consumer string, position long"


@dataclass(frozen=True, slots=True)
class AuditOptions:
    servers: str
    ledger: str
    #: The folder for findings.
    out: str
    lake: str | None = None
    consumed: str | None = None


@dataclass(frozen=True, slots=True)
class Audited:
    acknowledged: int
    #: Records in the log, and in the lake.
    in_log: int
    in_lake: int
    counts: dict[str, int] = field(default_factory=dict)

    @property
    def is_good(self) -> bool:
        return not any(self.counts[name] for name in FAULTS)


def audit(spark: SparkSession, options: AuditOptions) -> Audited:
    """Raises InvalidArgumentError for a ledger that cannot be read."""
    ledger = read_ledger(spark, options.ledger, _LEDGER)
    topics = [row.topic for row in ledger.select("topic").distinct().collect()]
    stored = stored_places(spark, options, topics).persist()
    ledger = ledger.persist()
    try:
        consumed = read_ledger(spark, options.consumed, _CONSUMED) if options.consumed else None
        found = findings(ledger, stored, consumed)
        path = Store(options.out).address_of(FINDINGS)
        found.write.mode("overwrite").partitionBy("finding").json(path)
        counts = dict.fromkeys((*FAULTS, *NOTES), 0) | _counted(spark, options.out)
        places = {row.home: row["count"] for row in stored.groupBy("home").count().collect()}
        return Audited(ledger.count(), places.get("log", 0), places.get("lake", 0), counts)
    finally:
        ledger.unpersist()
        stored.unpersist()


def read_ledger(spark: SparkSession, path: str, schema: str) -> DataFrame:
    """Reads Parquet, or one JSON object a line. Missing columns are null. Raises InvalidArgumentError."""
    reader = spark.read.schema(schema)
    address = Store(path).address
    try:
        found = reader.parquet(address) if path.rstrip("/").endswith(".parquet") else reader.json(address)
        damaged = found.where("topic IS NULL OR partition IS NULL OR offset IS NULL").limit(1).count()
    except AnalysisException as error:
        raise InvalidArgumentError(f"the ledger {path} cannot be read: {str(error).splitlines()[0]}") from None
    if damaged:
        raise InvalidArgumentError(f"the ledger {path} has lines without topic, partition and offset")
    return found


def stored_places(spark: SparkSession, options: AuditOptions, topics: Sequence[str]) -> DataFrame:
    """One row for every record of these topics, in the log and in the lake, with its digest."""
    digest = f.sha2("value", 256).alias("digest")
    parts = [spark.createDataFrame([], "topic string, partition int, offset long, digest string, home string")]
    existing = _existing(options.servers, topics)
    if existing:
        log = spark.read.format("flotilla").option("servers", options.servers).option("subscribe", ",".join(existing))
        log = log.option("columns", ",".join((*_PLACE, "value")))
        parts.append(log.load().select(*_PLACE, digest, f.lit("log").alias("home")))
    if options.lake is not None:
        for topic in topics:
            table = Lake(options.lake).table(topic)
            files = table.snapshot().files
            if files:
                rows = lake_rows(spark, table, files, _columns(*_PLACE, "value"))
                parts.append(rows.select(*_PLACE, digest, f.lit("lake").alias("home")))
    return reduce(lambda left, right: left.unionByName(right), parts)


def _columns(*names: str) -> StructType:
    return StructType([StructField(name, COLUMNS[name]) for name in names])


def _existing(servers: str, topics: Sequence[str]) -> list[str]:
    found = []
    with Client(servers, name="audit", tls=tls_of_environment(), credentials=environment_credentials()) as client:
        for topic in topics:
            try:
                client.describe_topic(topic)
            except NotFoundError:
                continue
            found.append(topic)
    return found


def findings(ledger: DataFrame, stored: DataFrame, consumed: DataFrame | None = None) -> DataFrame:
    """All findings as rows: finding, topic, partition, offset, digest, detail."""
    parts = [
        _missing(ledger, stored),
        _doubled(ledger, stored),
        _doubled_places(stored),
        _different(stored),
        _reordered(ledger),
        _holes(stored),
    ]
    if consumed is not None:
        parts += [_unconsumed(ledger, consumed), _consumed_again(consumed), _consumed_late(consumed)]
    return reduce(lambda left, right: left.unionByName(right), parts)


def _finding(rows: DataFrame, finding: str, detail: str = "''") -> DataFrame:
    digest = f.col("digest") if "digest" in rows.columns else f.lit(None).cast("string").alias("digest")
    return rows.select(f.lit(finding).alias("finding"), *_PLACE, digest, f.expr(f"CAST({detail} AS string) AS detail"))


def _missing(ledger: DataFrame, stored: DataFrame) -> DataFrame:
    """A place with other content counts as missing; without a digest any content is fine."""
    there = stored.select(*_PLACE, f.col("digest").alias("found")).distinct()
    joined = ledger.join(there, list(_PLACE), "left")
    kept = f.max(
        f.coalesce(
            f.col("found").isNotNull() & (f.col("digest").isNull() | (f.col("digest") == f.col("found"))), f.lit(False)
        )
    )
    by_place = joined.groupBy(*_PLACE, "digest").agg(kept.alias("is_kept"), f.max("found").alias("found"))
    lost = by_place.where(~f.col("is_kept"))
    return _finding(lost, "missing", "IF(found IS NULL, 'nothing is there', concat('there is ', found))")


def _doubled(ledger: DataFrame, stored: DataFrame) -> DataFrame:
    """By content: stored at more places of its topic than it was acknowledged."""
    acknowledged = ledger.where("digest IS NOT NULL").groupBy("topic", "digest").agg(
        f.countDistinct("partition", "offset").alias("acknowledged")
    )  # fmt: skip
    places = stored.select(*_PLACE, "digest").distinct()
    counted = places.groupBy("topic", "digest").agg(f.count("*").alias("stored"))
    more = counted.join(acknowledged, ["topic", "digest"]).where("stored > acknowledged")
    detail = "concat('stored ', stored, ' times, acknowledged ', acknowledged, ' times')"
    extra = places.join(more, ["topic", "digest"]).join(ledger.select(*_PLACE), list(_PLACE), "left_anti")
    return _finding(extra, "doubled", detail)


def _doubled_places(stored: DataFrame) -> DataFrame:
    """The log or the lake has one offset twice."""
    counted = stored.groupBy(*_PLACE, "home").agg(f.count("*").alias("n"), f.max("digest").alias("digest"))
    return _finding(counted.where("n > 1"), "doubled", "concat('the ', home, ' has it ', n, ' times')")


def _different(stored: DataFrame) -> DataFrame:
    counted = stored.groupBy(*_PLACE).agg(
        f.countDistinct("digest").alias("n"), f.min("digest").alias("digest"), f.max("digest").alias("other")
    )  # fmt: skip
    return _finding(counted.where("n > 1"), "different", "concat('and ', other)")


def _reordered(ledger: DataFrame) -> DataFrame:
    before = Window.partitionBy("topic", "partition", "producer").orderBy("offset").rowsBetween(
        Window.unboundedPreceding, -1
    )  # fmt: skip
    numbered = ledger.where("producer IS NOT NULL AND sequence IS NOT NULL")
    late = numbered.withColumn("highest", f.max("sequence").over(before)).where("highest > sequence")
    detail = "concat('sequence ', sequence, ' of ', producer, ' is stored after ', highest)"
    return _finding(late, "reordered", detail)


def _holes(stored: DataFrame) -> DataFrame:
    order = Window.partitionBy("topic", "partition").orderBy("offset")
    places = stored.select(*_PLACE).distinct().withColumn("before", f.lag("offset").over(order))
    gaps = (
        places.where("offset > before + 1")
        .withColumn("end", f.col("offset"))
        .withColumn("offset", f.expr("before + 1"))
    )
    return _finding(gaps, "hole", "concat('offsets up to ', end - 1)")


def _unconsumed(ledger: DataFrame, consumed: DataFrame) -> DataFrame:
    return _finding(ledger.join(consumed.select(*_PLACE), list(_PLACE), "left_anti"), "unconsumed")


def _consumed_again(consumed: DataFrame) -> DataFrame:
    counted = consumed.groupBy(*_PLACE).count().where("count > 1")
    return _finding(counted, "consumed_again", "concat(count, ' times')")


def _consumed_late(consumed: DataFrame) -> DataFrame:
    """Only for ledgers with the order in which a consumer handled records."""
    before = Window.partitionBy("topic", "partition", "consumer").orderBy("position").rowsBetween(
        Window.unboundedPreceding, -1
    )  # fmt: skip
    ordered = consumed.where("position IS NOT NULL")
    late = ordered.withColumn("highest", f.max("offset").over(before)).where("highest > offset")
    return _finding(late, "consumed_late", "concat('after ', highest)")


def _counted(spark: SparkSession, out: str) -> dict[str, int]:
    """Counts the written findings, so that counts and files agree."""
    if not list(Store(out).paths(FINDINGS, suffix=".json")):
        return {}
    schema = "topic string, partition int, offset long, digest string, detail string, finding string"
    written = spark.read.schema(schema).json(Store(out).address_of(FINDINGS))
    return {row.finding: row["count"] for row in written.groupBy("finding").count().collect()}
