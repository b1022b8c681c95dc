"""Which versions of a schema can read which values: the rules of each format."""

import json
from io import BytesIO
from typing import Any

import pytest

pytest.importorskip("fastavro", reason="the extra lake")

import fastavro
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet

from flotilla.lake.values.compatibility import incompatibilities, unreadable
from flotilla.lake.values.value_schema import ValueSchema


def columns(text: str) -> ValueSchema:
    return ValueSchema("json", text.encode())


def record(*fields: Any, **inside: Any) -> ValueSchema:
    listed = [{"name": name, "type": kind, **more} for name, kind, *rest in fields for more in [dict(*rest)]]
    return ValueSchema(
        "avro", json.dumps({"type": "record", "name": "shop.Order", "fields": listed, **inside}).encode()
    )


def message(*fields: tuple[str, int, int], repeated: str = "") -> ValueSchema:
    file = FileDescriptorProto(name="shop.proto", package="shop", syntax="proto2")
    made = file.message_type.add(name="Order")
    for name, number, kind in fields:
        label = FieldDescriptorProto.LABEL_REPEATED if name == repeated else FieldDescriptorProto.LABEL_OPTIONAL
        if name == "must":
            label = FieldDescriptorProto.LABEL_REQUIRED
        made.field.add(name=name, number=number, type=kind, label=label)  # type: ignore[arg-type]
    return ValueSchema("protobuf", FileDescriptorSet(file=[file]).SerializeToString(), "shop.Order")


INT32, INT64 = FieldDescriptorProto.TYPE_INT32, FieldDescriptorProto.TYPE_INT64
TEXT, BYTES = FieldDescriptorProto.TYPE_STRING, FieldDescriptorProto.TYPE_BYTES
STATES = {"type": "enum", "name": "State", "symbols": ["NEW"]}
MORE_STATES = {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}
ITEM = {"type": "record", "name": "Item", "fields": [{"name": "n", "type": "int"}]}
OTHER_ITEM = {"type": "record", "name": "Item", "fields": [{"name": "n", "type": "string"}]}

#: The reader, the writer, and a part of the reason; empty: it can read.
PAIRS = [
    (columns("id BIGINT, name STRING"), columns("id INT, old DATE"), ""),
    (columns("id INT"), columns("id BIGINT"), "id is BIGINT, and is read as INT"),
    (columns("x ARRAY<STRUCT<a: INT>>"), columns("x ARRAY<STRUCT<a: DATE>>"), "x.a is DATE"),
    (columns("x DOUBLE"), columns("x INT"), ""),
    (columns("x DECIMAL(12, 3)"), columns("x DECIMAL(10, 2)"), ""),
    (columns("x DECIMAL(12, 1)"), columns("x DECIMAL(10, 2)"), "x is DECIMAL"),
    (columns("id INT"), record(("id", "int")), "avro is no json"),
    (record(("id", "long")), record(("id", "int"), ("gone", "string")), ""),
    (record(("id", "int")), record(("id", "long")), "id is long, and is read as int"),
    (record(("id", "int"), ("new", "int", {"default": 0})), record(("id", "int")), ""),
    (record(("id", "int"), ("new", "int")), record(("id", "int")), "new is missing, and has no default"),
    (record(("new", "int", {"aliases": ["old"]})), record(("old", "int")), ""),
    (record(("id", ["null", "long"])), record(("id", "int")), ""),
    (record(("id", "int")), record(("id", ["null", "int"])), "id is null, and is read as int"),
    (record(("id", ["null", "string"])), record(("id", "int")), "id may be int"),
    (record(("s", MORE_STATES)), record(("s", STATES)), ""),
    (record(("s", STATES)), record(("s", MORE_STATES)), "s may be PAID"),
    (record(("s", {**STATES, "default": "NEW"})), record(("s", MORE_STATES)), ""),
    (record(("x", {"type": "array", "items": ITEM})), record(("x", {"type": "array", "items": ITEM})), ""),
    (record(("x", ITEM), ("y", "Item")), record(("x", OTHER_ITEM), ("y", "Item")), "x.n is string"),
    (record(("x", {"type": "map", "values": "int"})), record(("x", {"type": "map", "values": "long"})), "x is long"),
    (record(("x", {"type": "fixed", "name": "F", "size": 2})), record(("x", {"type": "fixed", "name": "F", "size": 3})),
     "another size"),
    (record(("t", {"type": "long", "logicalType": "timestamp-millis"})), record(("t", "long")), "another logical type"),
    (record(("id", "int"), name="shop.Bill"), record(("id", "int")), "is called shop.Order"),
    (message(("id", 1, INT64)), message(("id", 1, INT32), ("gone", 2, TEXT)), ""),
    (message(("id", 1, INT32)), message(("id", 1, INT64)), "id has another type"),
    (message(("id", 1, BYTES)), message(("id", 1, TEXT)), ""),
    (message(("new", 1, INT32)), message(("old", 1, INT32)), "number 1 is old, and is read as new"),
    (message(("id", 1, INT32), repeated="id"), message(("id", 1, INT32)), "id is repeated in one of them alone"),
    (message(("id", 1, INT32), ("must", 2, INT32)), message(("id", 1, INT32)), "must is missing, and is required"),
]  # fmt: skip


@pytest.mark.parametrize(("reader", "writer", "reason"), PAIRS)
def test_what_can_be_read(reader: ValueSchema, writer: ValueSchema, reason: str) -> None:
    for each in (reader, writer):
        each.check()
    found = unreadable(reader, writer)
    assert reason in "; ".join(found)
    assert bool(found) == bool(reason)


@pytest.mark.parametrize(("reader", "writer"), [pair[:2] for pair in PAIRS if pair[0].format == "avro" and not pair[2]])
def test_what_the_rules_allow_is_read(reader: ValueSchema, writer: ValueSchema) -> None:
    values = {"int": 5, "long": 2**40, "string": "text", "null": None}

    def sample(kind: Any) -> Any:
        if isinstance(kind, str):
            return values[kind]
        if kind["type"] == "record":
            return {field["name"]: sample(field["type"]) for field in kind["fields"]}
        return kind["symbols"][-1] if kind["type"] == "enum" else [sample(kind["items"])]

    written = json.loads(writer.definition)
    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(written), sample(written))
    _, bad = reader.decoder(reader.type(), writer)([stream.getvalue()])
    assert bad == {}


def test_the_rules() -> None:
    old, new = columns("id INT, gone DATE"), columns("id BIGINT, more DATE")
    assert incompatibilities(new, [(1, old)], "backward") == []
    assert incompatibilities(new, [(1, old)], "none") == []
    for rule in ("forward", "full"):
        assert incompatibilities(new, [(1, old)], rule) == [
            "version 1 cannot read its values: id is BIGINT, and is read as INT"
        ]
    # Every earlier version counts.
    assert incompatibilities(columns("x DATE"), [(1, columns("x INT")), (2, columns("y INT"))], "backward") == [
        "values of version 1 cannot be read: x is INT, and is read as DATE"
    ]
