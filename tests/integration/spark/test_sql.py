"""Topics in SQL, and the names that Spark itself passes to a source or sink."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from flotilla import Client
from tests.integration.spark.tables import drain, read_stream, values, write

Topic = Callable[..., str]


@pytest.fixture
def sql(spark: Any) -> Iterator[Callable[[str], list[Any]]]:
    yield lambda text: spark.sql(text).collect()
    spark.sql("DROP VIEW IF EXISTS orders")
    spark.sql("DROP TABLE IF EXISTS stored")


def test_a_view_of_text_is_read_and_inserted_into(sql: Any, spark: Any, servers: str, topic: Topic) -> None:
    name = topic()
    sql(
        f"CREATE TEMPORARY VIEW orders (key STRING, value STRING) USING flotilla "
        f"OPTIONS (servers '{servers}', subscribe '{name}')"
    )
    sql("INSERT INTO orders SELECT concat('k', id), concat('größe ', id) FROM range(3)")
    sql("INSERT INTO orders (value) VALUES ('alone')")
    rows = {(row.key, row.value) for row in sql("SELECT key, value FROM orders")}
    assert rows == {("k0", "größe 0"), ("k1", "größe 1"), ("k2", "größe 2"), (None, "alone")}


def test_a_table_gets_its_options_in_the_query(sql: Any, client: Client, servers: str, topic: Topic) -> None:
    name = topic()
    client.produce_many(name, [b"1", b"2"])
    options = f"(servers '{servers}', subscribe '{name}')"
    sql(f"CREATE TABLE stored USING flotilla OPTIONS {options}")
    assert sql(f"SELECT count(*) AS rows FROM stored WITH {options}")[0].rows == 2
    with pytest.raises(Exception, match=r"(?s)needs them in the query: SELECT \.\.\. FROM it WITH"):
        sql("SELECT count(*) FROM stored")


def test_a_streaming_write_has_a_name(spark: Any, client: Client, servers: str, topic: Topic, tmp_path: Path) -> None:
    name, copy = topic(), topic()
    client.produce_many(name, [b"1", b"2"])
    rows = read_stream(spark, servers, subscribe=name, startingOffsets="earliest").select("key", "value")
    query = drain(rows, servers, tmp_path / "checkpoint", name="copies", topic=copy)
    assert query.name == "copies"
    assert values(spark, servers, copy) == ["1", "2"]


def test_a_stream_becomes_a_table(
    sql: Any, spark: Any, client: Client, servers: str, topic: Topic, tmp_path: Path
) -> None:
    name = topic()
    client.produce_many(name, [b"1", b"2"])
    rows = read_stream(spark, servers, subscribe=name, startingOffsets="earliest").selectExpr("string(value) AS value")
    drain(rows, servers, tmp_path / "checkpoint", into="parquet", table="stored")
    assert sorted(row.value for row in sql("SELECT value FROM stored")) == ["1", "2"]


def test_a_missing_topic_of_a_write_is_named_before_a_job(spark: Any, servers: str) -> None:
    with pytest.raises(Exception, match=r"(?s)in _check_write.*there is no topic 'nowhere' to write to"):
        write(spark.range(1).selectExpr("'x' as value"), servers, topic="nowhere")


def test_bytes_that_are_no_text_are_named(sql: Any, client: Client, servers: str, topic: Topic) -> None:
    name = topic(partitions=1)
    client.produce_many(name, [b"text", b"\xff"])
    sql(f"CREATE TEMPORARY VIEW orders (value STRING) USING flotilla OPTIONS (servers '{servers}', subscribe '{name}')")
    with pytest.raises(Exception, match=r"(?s)a value between offsets 0 and 1 .* is no UTF-8 text"):
        sql("SELECT value FROM orders")
