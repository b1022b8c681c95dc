"""`flotilla pipeline rollup`: statistics of topics by window, as Parquet, as messages and as an HTML page.

A streaming query with a watermark: a window is written once, when no more of its records are expected; later records
are dropped. RocksDB keeps the state on disk. Each micro-batch writes its windows as one folder of Parquet under its
number and, with a target topic, as one transaction under the query's id and that number, so repetitions change nothing.

Latency is the record's timestamp minus the start of the event in a header, in milliseconds since 1970. Without a
header it is the time of the micro-batch minus the record's timestamp: the age of records when they are read, which is
meaningless for old records.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC
from functools import partial
from pathlib import Path
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from flotilla.lake.archive import ReportProgress
from flotilla.lake.store import Store
from flotilla.spark.pipelines.plots import bars, lines
from flotilla.spark.pipelines.report import Report
from flotilla.spark.pipelines.streaming_run import RunOptions, run_query

WINDOWS: Final = "windows"
_QUANTILES: Final = (0.5, 0.95, 0.99)
_NAMES: Final = ("p50", "p95", "p99")
#: The youngest windows of each topic on a page.
WINDOWS_SHOWN: Final = 240
_TOPICS_SHOWN: Final = 12


@dataclass(frozen=True, slots=True)
class RollupOptions:
    servers: str
    topics: Sequence[str]
    #: The folder for Parquet.
    out: str
    run: RunOptions
    window: str = "1 minute"
    #: How late a record may arrive.
    late: str = "1 minute"
    into_topic: str = ""
    latency_header: str = ""
    top_keys: int = 5
    #: The start of a query without a checkpoint.
    starting: str = "earliest"


@dataclass(frozen=True, slots=True)
class RolledUp:
    #: Totals of all runs.
    windows: int
    rows: int
    size_bytes: int


def rollup(spark: SparkSession, options: RollupOptions, progress: ReportProgress = lambda _: None) -> RolledUp:
    reader = spark.readStream.format("flotilla").option("servers", options.servers)
    reader = reader.option("subscribe", ",".join(options.topics)).option("startingOffsets", options.starting)
    if options.latency_header:
        reader = reader.option("includeHeaders", "true")
    writer = (
        windows_of(reader.load(), options)
        .writeStream.outputMode("append")
        .foreachBatch(partial(_take, options))
        .queryName(f"rollup {', '.join(options.topics)}")
    )
    run_query(writer, options.run, progress)
    return totals(spark, options.out)


def windows_of(rows: DataFrame, options: RollupOptions) -> DataFrame:
    """One row for each topic and window, with counts, sizes, latencies and the most frequent keys."""
    size = f.octet_length("value") + f.coalesce(f.octet_length("key"), f.lit(0))
    measured = rows.select(
        "topic", "timestamp", size.alias("size"), _key_text().alias("key"), _latency_ms(options).alias("latency_ms")
    )
    window = f.window("timestamp", options.window)
    quantiles = f.array(*map(f.lit, _QUANTILES))
    grouped = measured.withWatermark("timestamp", options.late).groupBy(window.alias("window"), "topic")
    return grouped.agg(
        f.count("*").alias("rows"),
        f.sum("size").alias("size_bytes"),
        f.percentile_approx("size", quantiles).alias("sizes"),
        f.percentile_approx("latency_ms", quantiles).alias("latencies"),
        f.expr(f"approx_top_k(key, {int(options.top_keys)}) FILTER (WHERE key IS NOT NULL)").alias("top_keys"),
    ).select(
        "topic",
        f.col("window.start").alias("begins"),
        f.col("window.end").alias("ends"),
        "rows",
        "size_bytes",
        *[f.col("sizes")[at].alias(f"size_{name}_bytes") for at, name in enumerate(_NAMES)],
        *[f.col("latencies")[at].alias(f"latency_{name}_ms") for at, name in enumerate(_NAMES)],
        "top_keys",
    )


def _key_text() -> Column:
    """A key as text if it is UTF-8, else in hexadecimal."""
    text = f.col("key").cast("string")
    return f.when(f.is_valid_utf8(text), text).otherwise(f.hex("key"))


def _latency_ms(options: RollupOptions) -> Column:
    time_ms = f.unix_millis("timestamp")
    if not options.latency_header:
        return f.unix_millis(f.current_timestamp()) - time_ms
    found = f.filter(f.col("headers"), lambda header: header["key"] == options.latency_header)
    return time_ms - f.try_element_at(found, f.lit(1))["value"].cast("string").try_cast("long")


def _take(options: RollupOptions, windows: DataFrame, batch_id: int) -> None:
    """Writes one micro-batch, perhaps for the second time."""
    spark = windows.sparkSession
    query_id = spark.sparkContext.getLocalProperty("sql.streaming.queryId")
    assert query_id is not None, "a micro-batch belongs to a query"
    path = Store(options.out).address_of(f"{WINDOWS}/query={query_id}/batch={batch_id:012}")
    windows.write.mode("overwrite").parquet(path)
    if options.into_topic:
        written = spark.read.schema(windows.schema).parquet(path)
        key = f.concat_ws("/", "topic", f.unix_millis("begins"))
        rows = written.select(
            f.lit(options.into_topic).alias("topic"),
            f.encode(key, "UTF-8").alias("key"),
            f.encode(f.to_json(f.struct(*written.columns)), "UTF-8").alias("value"),
        )
        sink = rows.write.format("flotilla").option("servers", options.servers)
        # From 1: an application that has committed nothing is at 0.
        sink = sink.option("applicationId", f"rollup-{query_id}").option("version", str(batch_id + 1))
        sink.mode("append").save()


def all_windows(spark: SparkSession, out: str) -> DataFrame:
    return spark.read.parquet(Store(out).address_of(WINDOWS))


def totals(spark: SparkSession, out: str) -> RolledUp:
    store = Store(out)
    if not list(store.paths(WINDOWS, suffix=".parquet")):
        return RolledUp(0, 0, 0)
    found = all_windows(spark, out).agg(
        f.count("*").alias("windows"),
        f.coalesce(f.sum("rows"), f.lit(0)).alias("rows"),
        f.coalesce(f.sum("size_bytes"), f.lit(0)).alias("size_bytes"),
    ).first()  # fmt: skip
    assert found is not None
    return RolledUp(found.windows, found["rows"], found.size_bytes)


# The page.


def write_report(spark: SparkSession, options: RollupOptions, path: Path) -> Path:
    """A page of the youngest windows, one row for each topic and window."""
    done = totals(spark, options.out)
    report = Report("Topics over time", f"windows of {options.window}, of {', '.join(options.topics)}")
    report.numbers(list(asdict(done).items()))
    if done.windows:
        newest = f.row_number().over(Window.partitionBy("topic").orderBy(f.desc("begins")))
        kept = all_windows(spark, options.out).withColumn("age", newest).where(f.col("age") <= WINDOWS_SHOWN)
        by_topic: dict[str, list[Any]] = {}
        for row in kept.orderBy("topic", "begins").collect():
            by_topic.setdefault(row.topic, []).append(row)
        busiest = sorted(by_topic, key=lambda topic: (-sum(row["rows"] for row in by_topic[topic]), topic))
        for topic in busiest[:_TOPICS_SHOWN]:
            _add_topic(report, topic, by_topic[topic], options)
    return report.write(path)


def _add_topic(report: Report, topic: str, rows: Sequence[Any], options: RollupOptions) -> None:
    moments = [row.begins.astimezone(UTC).strftime("%Y-%m-%d %H:%M") for row in rows]
    report.heading(f"{topic}: messages in a window")
    report.picture(lines(moments, [("messages", [float(row["rows"]) for row in rows])]))
    report.heading(f"{topic}: sizes in bytes")
    report.picture(lines(moments, [(name, [_float(row[f"size_{name}_bytes"]) for row in rows]) for name in _NAMES]))
    report.heading(f"{topic}: latency in milliseconds")
    report.text(
        f"The record's own time minus the header {options.latency_header}."
        if options.latency_header
        else "The time of the micro-batch minus the record's own time: the age of records when they were read."
    )
    report.picture(lines(moments, [(name, [_float(row[f"latency_{name}_ms"]) for row in rows]) for name in _NAMES]))
    counts: dict[str, int] = {}
    for row in rows:
        for each in row.top_keys or ():
            counts[each["item"]] = counts.get(each["item"], 0) + each["count"]
    if counts:
        report.heading(f"{topic}: most frequent keys")
        ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[: 2 * options.top_keys]
        report.picture(bars([(name, float(count)) for name, count in ordered]))


def _float(value: Any) -> float | None:
    return None if value is None else float(value)
