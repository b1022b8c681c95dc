"""Tables and streams into topics."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from flotilla import Client
from flotilla.client.producer.partitioner import partition_of
from tests.integration.spark.tables import drain, read, read_stream, values, write

Topic = Callable[..., str]


def test_every_column_that_can_be_written(spark: Any, client: Client, servers: str, topic: Topic) -> None:
    name, other = topic(partitions=3), topic(partitions=1)
    later = datetime.now(UTC).replace(microsecond=0) + timedelta(days=100)
    made = datetime(2026, 5, 4, 12, 0, 0, 1_000, tzinfo=UTC)
    rows = [
        (b"k", "one", None, 2, [("h", b"1"), ("i", None)], 3, later, made, 2),
        (None, "two", other, None, [], 0, None, made, None),
        (b"k", "three", name, None, None, None, None, made, 200),
    ]
    schema = (
        "key binary, value string, topic string, partition int, headers array<struct<key:string,value:binary>>, "
        "priority int, deliver_at timestamp, timestamp timestamp, content_type int"
    )

    write(spark.createDataFrame(rows, schema).coalesce(1), servers, topic=name)

    table = read(spark, servers, subscribe=f"{name},{other}", includeHeaders="true")
    found = {
        row.value.decode(): (row.key, row.topic, [tuple(pair) for pair in row.headers], row.priority, row.content_type)
        for row in table.collect()
    }
    assert found == {
        "one": (b"k", name, [("h", b"1"), ("i", b"")], 3, 2),
        "two": (None, other, [], 0, 0),
        "three": (b"k", name, [], 0, 200),
    }
    places = {row.value.decode(): row.partition for row in table.collect()}
    assert places["one"] == 2
    # The partition of a key is the same one that a client chooses.
    assert places["three"] == partition_of(b"k", 3)
    assert {row.timestamp.replace(tzinfo=UTC) for row in table.collect()} == {made}
    # What is to be delivered later is not, though everything else is.
    with client.queue(name, group="workers", start="earliest") as consumer:
        assert [message.payload for message in consumer.poll(10, wait_ms=5_000)] == [b"three"]


@pytest.mark.parametrize(
    ("guarantee", "compression"), [("transactional", "none"), ("idempotent", "lz4"), ("atLeastOnce", "zstd")]
)
def test_rows_arrive_once_and_in_order(
    spark: Any, servers: str, topic: Topic, guarantee: str, compression: str
) -> None:
    name = topic(partitions=2)
    rows = spark.range(0, 20_000, 1, 3).selectExpr(
        "cast(id % 5 as string) as key", "lpad(cast(id as string), 100, '0') as value"
    )

    write(rows, servers, topic=name, deliveryGuarantee=guarantee, compression=compression, batchBytes="64KiB")

    table = read(spark, servers, subscribe=name)
    assert table.selectExpr("count(*)", "count(distinct value)").collect() == [(20_000, 20_000)]
    # Rows of one task keep their order: 0 to 6665 are the first one's.
    first = table.where("value < lpad('6666', 100, '0') and key = '3'").orderBy("offset").collect()
    assert [row.value for row in first] == sorted(row.value for row in first)


def test_rows_without_a_key_are_spread(spark: Any, servers: str, topic: Topic) -> None:
    name = topic(partitions=2)
    write(spark.range(0, 50_000, 1, 2).selectExpr("cast(id as string) as value"), servers, topic=name)
    counts = read(spark, servers, subscribe=name).groupBy("partition").count().collect()
    assert len(counts) == 2
    assert min(row["count"] for row in counts) >= 10_000


def test_a_write_under_a_version_is_done_once(spark: Any, servers: str, topic: Topic) -> None:
    name = topic()
    rows = spark.range(0, 1_000, 1, 2).selectExpr("cast(id as string) as value")
    for version in (0, 0, 1, 0):
        write(rows, servers, topic=name, applicationId=f"job-{name}", version=version)
    assert read(spark, servers, subscribe=name).count() == 2_000


def test_an_invalid_row_stores_nothing(spark: Any, servers: str, topic: Topic) -> None:
    name = topic(partitions=2)
    rows = spark.range(0, 1_000, 1, 2).selectExpr("cast(id as string) as value", "if(id = 900, 7, 0) as partition")
    with pytest.raises(Exception, match="has no partition 7"):
        write(rows, servers, topic=name)
    assert values(spark, servers, name) == []


def test_an_epoch_that_is_run_again_differently_is_seen_once(
    spark: Any, client: Client, servers: str, topic: Topic, tmp_path: Path
) -> None:
    """The driver died after the brokers had the micro-batch and before Spark noted that it was done."""
    name, copy = topic(partitions=2), topic(partitions=2)
    checkpoint = tmp_path / "checkpoint"
    client.produce_many(name, [b"%d" % number for number in range(1_000)])

    def run(tasks: int) -> None:
        rows = read_stream(spark, servers, subscribe=name, startingOffsets="earliest", minPartitions=tasks)
        drain(rows.select("value"), servers, checkpoint, topic=copy)

    run(2)
    for path in (checkpoint / "commits").glob("*0*"):
        path.unlink()
    run(5)
    client.produce(name, b"more")
    run(3)
    assert values(spark, servers, copy) == sorted([*(str(number) for number in range(1_000)), "more"])
