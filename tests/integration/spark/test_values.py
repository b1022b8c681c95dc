"""Values as columns, in Spark: each value is in the table, or stands where bad ones go."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from flotilla import Client
from flotilla.lake.archive import ArchiveOptions
from flotilla.lake.schema_topic import SchemaTopic
from flotilla.lake.values.value_schema import ValueSchema
from flotilla.spark.pipelines.archive import archive
from flotilla.spark.pipelines.session import prepare
from tests.integration.spark.pipeline_ledger import PANDAS
from tests.integration.spark.tables import drain, read, read_stream
from tests.unit.lake.values.test_decoders import AVRO, descriptors

Topic = Callable[..., str]
FIELDS = "id BIGINT, items ARRAY<STRUCT<name: STRING, price: DECIMAL(10, 2)>>, day DATE"


@pytest.fixture
def orders(client: Client, topic: Topic) -> str:
    name = topic(partitions=2)
    for number in range(100):
        row = {"id": number, "items": [{"name": f"n{number}", "price": 1.5}], "day": "2026-05-04"}
        value = b"no json" if number % 10 == 0 else json.dumps(row).encode()
        client.produce(name, value, partition=number % 2)
    return name


def test_json_and_a_column_for_what_does_not_fit(spark: Any, servers: str, orders: str) -> None:
    table = read(spark, servers, subscribe=orders, valueFormat="json", valueSchema=FIELDS)
    assert table.schema["value"].dataType.simpleString() == (
        "struct<id:bigint,items:array<struct<name:string,price:decimal(10,2)>>,day:date>"
    )
    good = table.where("_corrupt_record IS NULL").selectExpr("sum(value.id)", "max(value.items[0].price)").collect()[0]
    assert (good[0], str(good[1])) == (sum(n for n in range(100) if n % 10), "1.50")
    bad = table.where("_corrupt_record IS NOT NULL").collect()
    assert [(row.value, bytes(row._corrupt_record)) for row in bad] == [(None, b"no json")] * 10


def test_a_stream_with_a_topic_for_what_does_not_fit(
    spark: Any, client: Client, servers: str, topic: Topic, orders: str, tmp_path: Path
) -> None:
    bad, copy = topic(partitions=1), topic(partitions=1)
    options = {"valueFormat": "json", "valueSchema": FIELDS, "badValueTopic": bad, "startingOffsets": "earliest"}
    rows = read_stream(spark, servers, subscribe=orders, **options).selectExpr("cast(value.id as string) as value")
    drain(rows, servers, tmp_path / "checkpoint", topic=copy)
    with client.reader(copy, offset="earliest") as reader:
        found = [message.text for message in reader.poll(1_000)]
    assert sorted(map(int, found)) == [n for n in range(100) if n % 10]
    with client.reader(bad, offset="earliest") as reader:
        letters = reader.poll(1_000)
    assert {message.payload for message in letters} == {b"no json"}
    places = {(message.header("bad-value-partition"), message.header("bad-value-offset")) for message in letters}
    assert places == {(b"0", b"%d" % offset) for offset in range(0, 50, 5)}
    assert all(message.header("bad-value-reason") for message in letters)


def test_a_bad_value_without_a_place_fails_the_read(spark: Any, servers: str, orders: str) -> None:
    options = {"valueFormat": "json", "valueSchema": FIELDS, "columns": "value"}
    with pytest.raises(Exception, match=r"(?s)the value at offset \d+ of partition 0 .* is no json of valueSchema"):
        read(spark, servers, subscribe=orders, **options).collect()


@pytest.mark.filterwarnings(PANDAS)
def test_schemas_of_the_schema_topic_in_a_read_and_in_an_archive(
    spark: Any, client: Client, servers: str, orders: str, tmp_path: Path
) -> None:
    schemas = SchemaTopic(client)
    schemas.register(orders, ValueSchema("json", b"id BIGINT"))
    schemas.register(orders, ValueSchema("json", FIELDS.encode()))
    first = read(spark, servers, subscribe=orders, valueSchema=f"topic:{orders}@1")
    assert first.schema["value"].dataType.simpleString() == "struct<id:bigint>"
    newest = read(spark, servers, subscribe=orders, valueSchema=f"topic:{orders}")
    counted = newest.selectExpr("count(value.items)", "count(_corrupt_record)", "sum(value.id)").first()
    total = sum(n for n in range(100) if n % 10)
    assert tuple(counted) == (90, 10, total)
    with pytest.raises(Exception, match=r"(?s)there is no schema 'nothing'"):
        read(spark, servers, subscribe=orders, valueSchema="topic:nothing")

    prepare(spark)
    said = ArchiveOptions(servers, [orders], str(tmp_path / "lake"), schemas={orders: f"{orders}@1"})
    assert archive(spark, said, str(tmp_path / "checkpoint")).rows == 100
    table = DeltaTable(str(tmp_path / "lake" / orders)).to_pyarrow_table(columns=["decoded", "_corrupt_record"])
    assert table["_corrupt_record"].null_count == 90
    assert sum(row["id"] for row in table["decoded"].to_pylist() if row) == total


def test_schemas_of_files(spark: Any, servers: str, tmp_path: Path) -> None:
    (tmp_path / "order.avsc").write_text(json.dumps(AVRO))
    avro = read(spark, servers, subscribe="t", valueFormat="avro", valueSchema=str(tmp_path / "order.avsc"))
    assert avro.schema["value"].dataType["items"].dataType.simpleString() == "array<struct<count:int>>"
    (tmp_path / "shop.desc").write_bytes(descriptors())
    options = {"valueSchema": str(tmp_path / "shop.desc"), "valueMessage": "shop.Order"}
    protobuf = read(spark, servers, subscribe="t", valueFormat="protobuf", **options)
    assert protobuf.schema["value"].dataType.simpleString() == (
        "struct<id:decimal(20,0),tags:array<string>,at:timestamp,state:string,counts:map<string,int>>"
    )
    with pytest.raises(Exception, match=r"(?s)no message 'shop\.Nothing'"):
        read(spark, servers, subscribe="t", valueFormat="protobuf", **{**options, "valueMessage": "shop.Nothing"})
