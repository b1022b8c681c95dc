"""Values as columns, in Spark: each value is in the table, or stands where bad ones go."""

import json
from collections.abc import Callable
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

import flotilla.spark
from flotilla import Client
from flotilla.lake.archive import ArchiveOptions, run_archive
from flotilla.lake.schema_topic import VERSION_HEADER, SchemaTopic
from flotilla.lake.values.value_schema import ValueSchema
from flotilla.spark import flotilla_stream
from flotilla.spark.pipelines.archive import archive
from flotilla.spark.pipelines.query import flotilla_table
from flotilla.spark.pipelines.replay import ReplayOptions, replay
from flotilla.spark.pipelines.session import prepare
from flotilla.spark.schema import COLUMNS
from flotilla.types.errors import InvalidArgumentError
from tests.integration.spark.pipeline_ledger import PANDAS
from tests.integration.spark.tables import drain, read, read_stream, values
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


def test_a_missing_topic_for_bad_values_is_named_before_a_job(spark: Any, servers: str, orders: str) -> None:
    options = {"valueFormat": "json", "valueSchema": FIELDS, "badValueTopic": "nowhere"}
    with pytest.raises(Exception, match=r"(?s)in _reading.*there is no topic 'nowhere' for values that do not fit"):
        read(spark, servers, subscribe=orders, **options).collect()


def protobuf_order() -> Any:
    """The class of messages that `descriptors` describes."""
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(descriptors()).file:
        pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


def avro_bytes(schema: ValueSchema, row: dict[str, Any]) -> bytes:
    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(json.loads(schema.definition)), row)
    return stream.getvalue()


def avro_versions(client: Client, name: str) -> list[ValueSchema]:
    """Two versions in the schema topic; the second one has one more field."""
    number = {"name": "id", "type": "long"}
    fields = [[number], [{"name": "note", "type": "string", "default": "none"}, number]]
    made = [
        ValueSchema("avro", json.dumps({"type": "record", "name": "Order", "fields": each}).encode()) for each in fields
    ]
    for each in made:
        SchemaTopic(client).register(name, each)
    return made


def test_avro_and_protobuf_of_the_schema_topic(
    spark: Any, client: Client, servers: str, topic: Topic, tmp_path: Path
) -> None:
    """As a table and as a stream, with values of several versions and values that do not fit."""
    avro, protobuf = topic(partitions=1), topic(partitions=1)
    first, second = avro_versions(client, avro)
    for value, version in [
        (avro_bytes(first, {"id": 1}), b"1"),
        (avro_bytes(second, {"id": 2, "note": "x"}), b"2"),
        (avro_bytes(second, {"id": 3, "note": "y"}), None),
        (b"\xff", b"2"),
        (avro_bytes(first, {"id": 5}), b"9"),
    ]:
        client.produce(avro, value, partition=0, headers={} if version is None else {VERSION_HEADER: version})
    SchemaTopic(client).register(protobuf, ValueSchema("protobuf", descriptors(), "shop.Order"))
    message = protobuf_order()
    for value in (message(id=2**64 - 1, tags=["a"]).SerializeToString(), b"\xff", message(id=7).SerializeToString()):
        client.produce(protobuf, value, partition=0)

    table = read(spark, servers, subscribe=avro, valueSchema=f"topic:{avro}").orderBy("offset")
    assert [(row.value and tuple(row.value), row._corrupt_record) for row in table.collect()] == [
        (("none", 1), None),
        (("x", 2), None),
        (("y", 3), None),
        (None, b"\xff"),
        (None, avro_bytes(first, {"id": 5})),
    ]
    table = read(spark, servers, subscribe=protobuf, valueSchema=f"topic:{protobuf}").orderBy("offset")
    rows = table.selectExpr("value.id", "value.tags", "_corrupt_record").collect()
    assert [(row.id and int(row.id), row.tags, row._corrupt_record) for row in rows] == [
        (2**64 - 1, ["a"], None),
        (None, None, b"\xff"),
        (7, [], None),
    ]

    bad, copy = topic(partitions=1), topic(partitions=1)
    for name in (avro, protobuf):
        options = {"valueSchema": f"topic:{name}", "badValueTopic": bad, "startingOffsets": "earliest"}
        stream = read_stream(spark, servers, subscribe=name, **options).selectExpr("string(value.id) AS value")
        drain(stream, servers, tmp_path / name, topic=copy)
    assert values(spark, servers, copy) == sorted(["1", "2", "3", str(2**64 - 1), "7"])
    letters = client.peek(bad, 0, max_messages=10)
    assert [(each.header("bad-value-topic"), each.header("bad-value-offset")) for each in letters] == [
        (avro.encode(), b"3"),
        (avro.encode(), b"4"),
        (protobuf.encode(), b"1"),
    ]


@pytest.mark.filterwarnings(PANDAS)
def test_decoded_columns_of_lake_and_log_are_one(
    spark: Any,
    client: Client,
    servers: str,
    orders: str,
    topic: Topic,
    tmp_path: Path,
) -> None:
    lake, total = str(tmp_path / "lake"), sum(n for n in range(100) if n % 10)
    schemas = SchemaTopic(client)
    schemas.register(orders, ValueSchema("json", b"id BIGINT"))
    prepare(spark)
    said = ArchiveOptions(servers, [orders], lake, schemas={orders: orders})
    assert archive(spark, said, str(tmp_path / "archive")).rows == 100
    # The next version has more fields, and only the log has rows of it.
    schemas.register(orders, ValueSchema("json", FIELDS.encode()))
    client.produce(orders, b'{"id": 1000, "items": [{"name": "n", "price": 2}]}', partition=0)
    client.produce(orders, b"no json", partition=1)
    first = read(spark, servers, subscribe=orders, valueSchema=f"topic:{orders}@1")
    assert first.schema["value"].dataType.simpleString() == "struct<id:bigint>"
    with pytest.raises(Exception, match=r"(?s)there is no schema 'nothing'"):
        read(spark, servers, subscribe=orders, valueSchema="topic:nothing")

    def check(table: Any) -> None:
        assert table.columns == [*COLUMNS, "decoded", "_corrupt_record"]
        assert table.schema["decoded"].dataType.simpleString() == (
            "struct<id:bigint,items:array<struct<name:string,price:decimal(10,2)>>,day:date>"
        )
        found = table.selectExpr(
            "count(*)",
            "sum(decoded.id)",
            "count(decoded)",
            "count(decoded.items)",
            "count(_corrupt_record)",
            "count_if(_corrupt_record = value)",
            "count(DISTINCT partition, offset)",
        ).first()
        assert tuple(found) == (102, total + 1000, 91, 1, 11, 11, 102)

    choice = {"lake": lake, "subscribePattern": orders}
    check(spark.table(flotilla.spark.attach(spark, servers, **choice)[orders]))
    check(flotilla_table(spark, orders, servers=servers, lake=lake))
    # A session whose views are in Spark's own catalog.
    names = flotilla.spark.attach(spark, servers, schema="attached", **choice)
    assert names[orders] == f"`attached`.`{orders.replace('-', '_')}`"
    check(spark.table(names[orders]))

    copy = topic(partitions=1)
    stream = flotilla_stream(spark, orders, servers=servers, lake=lake, includeDecoded=True)
    late = stream.where("decoded.id > 98").selectExpr("string(decoded.id) AS value")
    drain(late, servers, tmp_path / "copy", topic=copy)
    assert values(spark, servers, copy) == ["1000", "99"]
    options = ReplayOptions(servers, orders, into_topic=topic(partitions=1), lake=lake, where="decoded.id >= 98")
    assert replay(spark, options).rows == 3
    assert sorted(json.loads(text)["id"] for text in values(spark, servers, options.target)) == [98, 99, 1000]
    with pytest.raises(InvalidArgumentError, match=r"is no condition: .*colour"):
        replay(spark, replace(options, into_topic="nowhere", where="colour = 'red'"))

    assert run_archive(said).rows == 2
    check(spark.table(names[orders]))
    plain = flotilla.spark.attach(spark, servers, **choice, includeDecoded=False)
    assert spark.table(plain[orders]).columns == list(COLUMNS)
    with pytest.raises(Exception, match=r"(?s)has no decoded columns"):
        read(spark, servers, subscribe=copy, lake=lake, includeDecoded=True)


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
