"""Topics as tables."""

import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from flotilla import Client
from flotilla.types.records import Record
from tests.integration.spark.tables import read

Topic = Callable[..., str]

#: An hour ago: what is older than a week, retention may remove at any moment.
BASE_MS = int(time.time() // 3600 - 1) * 3_600_000


def test_every_column_of_every_record(spark: Any, client: Client, servers: str, topic: Topic) -> None:
    name = topic(partitions=1)
    client.produce_many(
        name,
        [
            Record(b"a", b"k", (("h", b"1"), ("h", b"2")), BASE_MS + 1_000, 3, 2),
            Record(b"b", None, (), BASE_MS + 2_001, 3, 0),
            Record(b"", b"", (("x", b""),), BASE_MS + 3_000, 3, 200),
        ],
    )
    client.produce(name, b"d", timestamp_ms=BASE_MS + 4_000)

    rows = read(spark, servers, subscribe=name, includeHeaders="true").orderBy("offset").collect()

    found = [(*row[:6], [tuple(pair) for pair in row.headers], *row[7:]) for row in rows]
    assert found == [
        (b"k", b"a", name, 0, 0, _time(1_000), [("h", b"1"), ("h", b"2")], 3, 2),
        (None, b"b", name, 0, 1, _time(2_001), [], 3, 0),
        (b"", b"", name, 0, 2, _time(3_000), [("x", b"")], 3, 200),
        (None, b"d", name, 0, 3, _time(4_000), [], 0, 0),
    ]


def _time(ms: int) -> datetime:
    """As Spark hands it out: without a zone, which is the session's."""
    return datetime(1970, 1, 1) + timedelta(milliseconds=BASE_MS + ms)  # noqa: DTZ001 - Spark's own form


def _iso(ms: int) -> str:
    return _time(ms).isoformat() + "Z"


def test_batches_of_any_size_and_compression(spark: Any, client: Client, servers: str, topic: Topic) -> None:
    name = topic(partitions=3)
    for partition, compression in enumerate(("none", "lz4", "zstd")):
        with client.producer(name, compression=compression, batch_records=700) as producer:
            for number in range(5_000):
                producer.send(b"%d" % number, timestamp_ms=BASE_MS + number, partition=partition)
            producer.flush()

    rows = read(spark, servers, subscribe=name, columns="partition,value,offset").orderBy("partition", "offset")

    found = [tuple(row) for row in rows.collect()]
    assert found == [(partition, b"%d" % number, number) for partition in range(3) for number in range(5_000)]


def test_a_partition_is_split_among_tasks(spark: Any, client: Client, servers: str, topic: Topic) -> None:
    name = topic(partitions=2)
    client.produce_many(name, [b"%d" % number for number in range(1_000)], partition=0)
    client.produce_many(name, [b"%d" % number for number in range(100)], partition=1)

    table = read(spark, servers, subscribe=name, minPartitions=8)

    assert table.rdd.getNumPartitions() >= 8
    assert table.groupBy("partition").count().orderBy("partition").collect() == [(0, 1_000), (1, 100)]
    assert read(spark, servers, subscribe=name, maxRecordsPerPartition=300).rdd.getNumPartitions() == 5


def test_a_range_by_offsets(spark: Any, client: Client, servers: str, topic: Topic) -> None:
    name = topic(partitions=2)
    for partition in (0, 1):
        client.produce_many(name, [b"%d" % number for number in range(10)], partition=partition)

    table = read(
        spark,
        servers,
        subscribe=name,
        startingOffsets=f'{{"{name}": {{"0": 7, "1": -2}}}}',
        endingOffsets=f'{{"{name}": {{"0": -1, "1": 2}}}}',
    )

    rows = table.select("partition", "offset").orderBy("partition", "offset").collect()
    assert [tuple(row) for row in rows] == [(0, 7), (0, 8), (0, 9), (1, 0), (1, 1)]


def test_a_range_by_time(spark: Any, client: Client, servers: str, topic: Topic) -> None:
    name = topic(partitions=1)
    client.produce_many(name, [Record(b"x", timestamp_ms=BASE_MS + 1_000 * number) for number in range(10)])

    table = read(spark, servers, subscribe=name, startingTimestamp=BASE_MS + 2_500, endingTimestamp=_iso(6_000))

    assert [row.offset for row in table.orderBy("offset").collect()] == [3, 4, 5]
    assert read(spark, servers, subscribe=name, startingTimestamp=BASE_MS + 99_000).count() == 0


def test_topics_by_pattern(spark: Any, client: Client, servers: str, topic: Topic) -> None:
    names = [topic(), topic(), topic()]
    for name in names:
        client.produce(name, name.encode())

    table = read(spark, servers, subscribePattern=f"{names[0]}|{names[2]}")

    assert sorted(row.topic for row in table.collect()) == sorted([names[0], names[2]])


def test_partitions_by_number(spark: Any, client: Client, servers: str, topic: Topic) -> None:
    name = topic(partitions=3)
    for partition in range(3):
        client.produce_many(name, [b"x"] * 10, partition=partition)

    table = read(spark, servers, assign=f'{{"{name}": [2, 0]}}', startingOffsets=f'{{"{name}": {{"2": 7}}}}')

    assert table.rdd.getNumPartitions() == 2
    assert table.groupBy("partition").count().orderBy("partition").collect() == [(0, 10), (2, 3)]


def test_a_schema_of_ones_own_narrows_it(spark: Any, client: Client, servers: str, topic: Topic) -> None:
    name = topic(partitions=1)
    client.produce(name, b"x", key=b"k")
    reader = spark.read.format("flotilla").schema("offset long, key binary")

    rows = reader.option("servers", servers).option("subscribe", name).load().collect()

    assert [tuple(row) for row in rows] == [(0, b"k")]


def test_filters_decide_what_is_fetched(spark: Any, client: Client, servers: str, topic: Topic) -> None:
    name = topic(partitions=3)
    for partition in range(3):
        # The clocks of producers differ: times go back and forth.
        records = [Record(b"x", timestamp_ms=BASE_MS + 1_000 * (number ^ 1)) for number in range(100)]
        client.produce_many(name, records, partition=partition)
    plain = read(spark, servers, subscribe=name)
    places = ("partition", "offset")

    def pushed() -> Any:
        # For one query each: Spark plans a table of a Python source once, with the filters that it saw last.
        return read(spark, servers, subscribe=name, pushFilters="true")

    for condition in (
        "partition = 1 and offset >= 40",
        "partition in (0, 2) and offset < 3",
        f"timestamp >= timestamp'{_iso(90_000)}' and timestamp < timestamp'{_iso(95_000)}'",
        f"timestamp = timestamp'{_iso(50_000)}'",
        "offset > 97 or partition = 0",
        "partition = 7",
    ):
        wanted = plain.where(condition).select(*places).orderBy(*places).collect()
        assert pushed().where(condition).select(*places).orderBy(*places).collect() == wanted, condition
    # One task for the one partition that is left of three.
    assert pushed().where("partition = 1").rdd.getNumPartitions() == 1
    assert plain.where("partition = 1").rdd.getNumPartitions() == 3


def test_one_table_for_several_queries(spark: Any, client: Client, servers: str, topic: Topic) -> None:
    """Spark keeps one plan for a table and hands it to all queries over it, filters of the last one included.

    So filters are not taken unless asked for, whatever the session's setting; and a query that asks loads a table for
    each place in which it stands.
    """
    name = topic(partitions=3)
    for partition in range(3):
        client.produce_many(name, [b"x"] * 10, partition=partition)
    assert spark.conf.get("spark.sql.python.filterPushdown.enabled") == "true"

    table = read(spark, servers, subscribe=name)
    assert table.where("partition = 0").count() == 10
    assert table.where("partition = 1 and offset < 3").count() == 3
    assert table.count() == 30
    assert table.where("partition = 0").union(table.where("partition = 1")).count() == 20

    filtered = read(spark, servers, subscribe=name, pushFilters="true")
    found = [filtered.where(f"partition = {number}").select("partition").collect() for number in (0, 1, 0)]
    assert found == [[(number,)] * 10 for number in (0, 1, 0)]
    other = read(spark, servers, subscribe=name, pushFilters="true")
    assert filtered.where("partition = 0").union(other.where("partition = 1")).count() == 20


def test_an_empty_topic(spark: Any, servers: str, topic: Topic) -> None:
    assert read(spark, servers, subscribe=topic()).collect() == []


def test_a_view_in_sql(spark: Any, client: Client, servers: str, topic: Topic) -> None:
    name = topic(partitions=1)
    client.produce_many(name, [b"1", b"2", b"3"])
    spark.sql(f"CREATE TEMPORARY VIEW t USING flotilla OPTIONS (servers '{servers}', subscribe '{name}')")
    try:
        rows = spark.sql("SELECT sum(cast(cast(value AS string) AS int)) AS total FROM t").collect()
    finally:
        spark.sql("DROP VIEW t")
    assert rows[0].total == 6


def test_a_missing_topic_or_offset_is_named(spark: Any, client: Client, servers: str, topic: Topic) -> None:
    name = topic(partitions=1)
    client.produce(name, b"x")
    for options, words in (
        ({"subscribe": "nowhere"}, "there is no topic 'nowhere'"),
        ({"assign": f'{{"{name}": [0, 1]}}'}, "there is no partition 1 of topic"),
        ({"subscribe": name, "endingOffsets": f'{{"{name}": {{"0": 5}}}}'}, "names offset 5 of partition 0"),
        ({"subscribe": name, "startingOffsets": f'{{"{name}": {{"4": 0}}}}'}, "names partition 4"),
        ({"subscribe": name, "startingOffsets": f'{{"{name}": {{"0": 2}}}}'}, "names offset 2 of partition 0"),
    ):
        with pytest.raises(Exception, match="(?s)" + words):
            read(spark, servers, **options).collect()
