"""The log and the lake as one table: no gap and no duplicate, wherever the log begins."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flotilla import Client
from flotilla.lake.archive import ArchiveOptions
from flotilla.spark.pipelines.archive import archive
from flotilla.spark.pipelines.query import flotilla_table, named_topics, query
from flotilla.spark.pipelines.session import prepare
from flotilla.spark.schema import COLUMNS
from flotilla.types.errors import NotFoundError
from tests.integration.spark.pipeline_ledger import PANDAS, Ledger, places

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings(PANDAS)]

WAIT_S_MAX = 60.0


def test_a_table_is_whole_whatever_is_archived_or_trimmed(
    spark: Any, client: Client, servers: str, topic: Callable[..., str], tmp_path: Path
) -> None:
    prepare(spark)
    name, lake = topic(), str(tmp_path / "lake")
    ledger = Ledger(name)
    ledger.produce(client, 600)
    assert sorted(places(flotilla_table(spark, name, servers=servers))) == sorted(ledger.found)
    # A lake that has nothing of the topic changes nothing.
    assert flotilla_table(spark, name, servers=servers, lake=lake).count() == 600

    archive(spark, ArchiveOptions(servers, [name], lake), str(tmp_path / "checkpoint"))
    ledger.produce(client, 300)
    table = flotilla_table(spark, name, servers=servers, lake=lake)
    assert sorted(places(table)) == sorted(ledger.found)
    assert table.columns == list(COLUMNS)
    (found,) = [place for place, value in ledger.rows.items() if value == b"10"]
    row = table.where(f"partition = {found[0]} AND offset = {found[1]}").first()
    assert (row.topic, bytes(row.value), row.priority, row.content_type) == (name, b"10", 2, 2)
    assert [(each.key, bytes(each.value)) for each in row.headers] == [("number", b"10")]

    # Retention goes up to the seam, and the table is as it was.
    client.alter_topic(name, retention_messages=1)
    deadline = time.monotonic() + WAIT_S_MAX
    while client.find_offset(name, 0, "earliest") < 300:
        assert time.monotonic() < deadline, "retention does not follow the hold"
        time.sleep(0.05)
    sql = f"""
        WITH orders AS (SELECT 1 AS one)
        SELECT topic, count(*) AS n, sum(CAST(CAST(value AS string) AS long)) AS total, min(offset) AS low
        FROM flotilla.`{name}` -- and not flotilla.nothing, nor 'flotilla.text'
        WHERE timestamp >= timestamp_millis(1700000000000) GROUP BY 1"""
    assert [tuple(each) for each in query(spark, sql, servers=servers, lake=lake).collect()] == [
        (name, 900, sum(range(900)), 0)
    ]


def test_an_unknown_topic_is_not_found(spark: Any, servers: str, tmp_path: Path) -> None:
    for lake in (None, str(tmp_path / "lake")):
        with pytest.raises(NotFoundError):
            flotilla_table(spark, "no-such-topic", servers=servers, lake=lake)


@pytest.mark.parametrize(
    ("sql", "topics"),
    [
        ("SELECT * FROM flotilla.orders", ["orders"]),
        ("select * from Flotilla . orders o join flotilla.`dlq.a-b.c` d", ["orders", "dlq.a-b.c"]),
        ("SELECT flotilla.orders.key FROM flotilla.orders", ["orders"]),
        ("SELECT * FROM flotilla.`odd``name`", ["odd`name"]),
        ("SELECT 1", []),
        ("SELECT * FROM myflotilla.orders", []),
    ],
)
def test_names_in_a_query(sql: str, topics: list[str]) -> None:
    assert named_topics(sql) == topics
