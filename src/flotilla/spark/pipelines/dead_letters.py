"""`flotilla pipeline dead-letters`: dead letters grouped by reason, with samples.

Reads dead-letter topics and changes nothing; `redrive.py` sends letters back. The executors group reasons by
fingerprint; only groups come to the driver, never letters.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from flotilla.spark.pipelines.fingerprint import fingerprint_column, shape_column
from flotilla.spark.pipelines.plots import SERIES_MAX, bars, lines
from flotilla.spark.pipelines.report import Report
from flotilla.types.dead_letters import (
    HEADER_PREFIX,
    MAX_DELIVERIES_HEADER,
    OWN_HEADERS_HEADER,
    PREFIX,
    REDRIVEN_HEADER,
    TTL_HEADER,
    dead_letter_topic,
    summary,
)
from flotilla.types.limits import DELIVERY_COUNT_MAX, TIME_MS_MAX

#: Groups in a report; the rest is only counted.
GROUPS_MAX: Final = 100
#: Steps of the time line.
MOMENTS: Final = 60
_SAMPLE_CHARS: Final = 200


@dataclass(frozen=True, slots=True)
class Failures:
    """One group: the same reason in the same topic and group."""

    fingerprint: str
    #: The reason without its variable parts, and one original reason.
    shape: str
    sample_reason: str
    topic: str
    group: str
    count: int
    attempts_max: int
    first_died: str
    last_died: str
    #: Of the youngest letter: its place in the dead-letter topic, and the beginning of its payload.
    sample_place: str
    sample_payload: str


@dataclass(frozen=True, slots=True)
class Triage:
    letters: int
    groups: tuple[Failures, ...]
    #: Steps of time, and the letters of the largest groups in each step.
    moments: tuple[str, ...]
    series: tuple[tuple[str, tuple[float, ...]], ...]


def letters_table(
    spark: SparkSession, *, servers: str, topic: str | None = None, group: str | None = None
) -> DataFrame:
    """Every dead letter as a row with its history; of all topics and groups, or only the given ones.

    `topic`, `partition` and `offset` are its original place, `dlq`, `dlq_partition` and `dlq_offset` its present one.
    """
    reader = spark.read.format("flotilla").option("servers", servers).option("includeHeaders", "true")
    if topic is not None and group is not None:
        reader = reader.option("subscribe", dead_letter_topic(group, topic))
    else:
        reader = reader.option("subscribePattern", PREFIX.replace(".", r"\.") + ".*")
    shape = shape_column(_text("reason"))
    rows = reader.load().select(
        f.col("topic").alias("dlq"),
        f.col("partition").alias("dlq_partition"),
        f.col("offset").alias("dlq_offset"),
        _text("topic").alias("topic"),
        _number("partition").cast("int").alias("partition"),
        _number("offset").alias("offset"),
        _text("group").alias("group"),
        _text("reason").alias("reason"),
        shape.alias("shape"),
        fingerprint_column(shape).alias("fingerprint"),
        _number("attempts").cast("int").alias("attempts"),
        f.timestamp_millis(_number("first-time")).alias("produced_at"),
        f.coalesce(f.timestamp_millis(_number("died-time")), f.col("timestamp")).alias("died_at"),
        f.coalesce(_integer(REDRIVEN_HEADER), f.lit(0)).cast("int").alias("redriven"),
        "key",
        "value",
        _own_headers().alias("headers"),
        "priority",
        "content_type",
        _limit(TTL_HEADER, TIME_MS_MAX).alias("ttl_ms"),
        _limit(MAX_DELIVERIES_HEADER, DELIVERY_COUNT_MAX).cast("int").alias("max_deliveries"),
    )
    if topic is not None:
        rows = rows.where(f.col("topic") == topic)
    return rows if group is None else rows.where(f.col("group") == group)


def _header(name: str) -> Column:
    """The last header of that name, as text."""
    found = f.filter(f.col("headers"), lambda header: header["key"] == name)
    return f.try_element_at(found, f.lit(-1))["value"].cast("string")


def _text(name: str) -> Column:
    return f.coalesce(_header(HEADER_PREFIX + name), f.lit(""))


def _integer(header: str) -> Column:
    return _header(header).try_cast("long")


def _number(name: str) -> Column:
    return _integer(HEADER_PREFIX + name)


def _own_headers() -> Column:
    """They come first, and the letter says how many there are; one that was put there by hand does not."""
    count = _integer(OWN_HEADERS_HEADER)
    is_own = lambda header: ~(header["key"].startswith(HEADER_PREFIX) | (header["key"] == REDRIVEN_HEADER))  # noqa: E731
    return f.when(count >= 0, f.slice("headers", f.lit(1), count.cast("int"))).otherwise(
        f.filter(f.col("headers"), is_own)
    )


def _limit(header: str, maximum: int) -> Column:
    """A limit of the message's own; 0: none, or none that a message can have."""
    found = _integer(header)
    return f.when(found.between(0, maximum), found).otherwise(f.lit(0))


# Triage.


def triage(letters: DataFrame) -> Triage:
    """Groups letters by reason."""
    kept = letters.select(
        "dlq", "dlq_partition", "dlq_offset", "topic", "group", "reason", "shape", "fingerprint", "attempts", "died_at",
        f.substring("value", 1, _SAMPLE_CHARS).alias("payload"),
    ).persist()  # fmt: skip
    try:
        found = kept.agg(
            f.count("*").alias("n"), f.min("died_at").alias("first"), f.max("died_at").alias("last")
        ).first()
        assert found is not None
        if not found.n:
            return Triage(0, (), (), ())
        groups = _groups(kept)
        moments, series = _over_time(kept, groups, found["first"], found["last"])
        return Triage(found.n, groups, moments, series)
    finally:
        kept.unpersist()


def _groups(letters: DataFrame) -> tuple[Failures, ...]:
    place = f.concat_ws("/", "dlq", "dlq_partition", "dlq_offset")
    grouped = (
        letters.groupBy("fingerprint", "shape", "topic", "group")
        .agg(
            f.count("*").alias("n"),
            f.max("attempts").alias("attempts"),
            f.min("died_at").alias("first"),
            f.max("died_at").alias("last"),
            f.max_by(f.struct("reason", place.alias("place"), "payload"), "died_at").alias("sample"),
        )
        .orderBy(f.desc("n"), "fingerprint", "topic", "group")
        .limit(GROUPS_MAX)
    )
    return tuple(
        Failures(
            fingerprint=row.fingerprint,
            shape=row["shape"],
            sample_reason=row["sample"]["reason"],
            topic=row.topic,
            group=row.group,
            count=row.n,
            attempts_max=row.attempts or 0,
            first_died=_moment(row["first"]),
            last_died=_moment(row["last"]),
            sample_place=row["sample"]["place"],
            sample_payload=bytes(row["sample"]["payload"]).decode("utf-8", "backslashreplace"),
        )
        for row in grouped.collect()
    )


def _over_time(
    letters: DataFrame, groups: Sequence[Failures], first: datetime, last: datetime
) -> tuple[tuple[str, ...], tuple[tuple[str, tuple[float, ...]], ...]]:
    begin_s, span_s = first.timestamp(), max((last - first).total_seconds(), 1.0)
    step_s = span_s / MOMENTS
    step = f.least(f.floor((f.col("died_at").cast("double") - begin_s) / step_s), f.lit(MOMENTS - 1))
    names = list(dict.fromkeys(each.fingerprint for each in groups))[:SERIES_MAX]
    counted = letters.where(f.col("fingerprint").isin(names)).groupBy("fingerprint", step.alias("step")).count()
    table = {name: [0.0] * MOMENTS for name in names}
    for row in counted.collect():
        table[row.fingerprint][int(row.step)] = float(row["count"])
    moments = tuple(_moment(datetime.fromtimestamp(begin_s + at * step_s, UTC)) for at in range(MOMENTS))
    shapes = {each.fingerprint: each.shape for each in reversed(groups)}
    return moments, tuple((f"{name}  {shapes[name]}", tuple(values)) for name, values in table.items())


def _moment(moment: datetime) -> str:
    """A time in UTC; Spark returns local times."""
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def write_report(found: Triage, path: Path) -> Path:
    report = Report("Dead letters", f"{found.letters:,} letters in {len(found.groups):,} groups of failures")
    report.numbers(
        [
            ("dead letters", found.letters),
            ("groups of failures", len(found.groups)),
            ("topics", len({each.topic for each in found.groups})),
            ("consumer groups", len({each.group for each in found.groups})),
        ]
    )
    if found.groups:
        report.heading("Most frequent reasons")
        report.picture(bars([(f"{each.shape} ({each.topic})", each.count) for each in found.groups[:12]]))
        report.heading("When they died")
        report.picture(lines(found.moments, found.series))
        report.heading("Groups, with a sample of each")
        report.table(
            ("fingerprint", "letters", "topic", "group", "attempts", "first", "last", "reason", "sample"),
            [
                (
                    each.fingerprint, each.count, each.topic, each.group, each.attempts_max, each.first_died,
                    each.last_died, summary(each.sample_reason), f"{each.sample_place}: {each.sample_payload}",
                )
                for each in found.groups
            ],
        )  # fmt: skip
        report.text(
            "A fingerprint names a reason without its numbers, ids and quoted texts; "
            "--where \"fingerprint = '…'\" chooses its letters."
        )
    return report.write(path)
