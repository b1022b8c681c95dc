"""Values of every format as columns: what fits is there, what does not is named, and nothing moves to another row."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("fastavro", reason="the extra lake")

import fastavro
import pyarrow as pa
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.timestamp_pb2 import DESCRIPTOR as TIMESTAMP_FILE

from flotilla.lake.values.avro_values import avro_decoder, avro_type
from flotilla.lake.values.json_values import json_decoder
from flotilla.lake.values.protobuf_values import protobuf_decoder, protobuf_type
from flotilla.lake.values.sql_types import write_type
from flotilla.types.errors import InvalidArgumentError

ORDER = pa.struct([("id", pa.int64()), ("name", pa.string())])


def test_json_with_a_type_of_each_kind():
    kind = pa.struct(
        [
            ("flag", pa.bool_()),
            ("small", pa.int32()),
            ("price", pa.decimal128(10, 2)),
            ("at", pa.timestamp("us", "UTC")),
            ("day", pa.date32()),
            ("tags", pa.list_(pa.string())),
            ("inner", pa.struct([("days", pa.list_(pa.date32()))])),
        ]
    )
    text = (
        b'{"flag": true, "small": 7, "price": 1.50, "at": "2026-05-04T12:00:00Z", "day": "2026-05-04",\n'
        b' "tags": ["a"], "inner": {"days": ["2026-05-05"]}, "unknown": [1, {}]}'
    )
    column, bad = json_decoder(kind)([text, b"{}"])
    assert bad == {}
    assert column.to_pylist() == [
        {
            "flag": True,
            "small": 7,
            "price": Decimal("1.50"),
            "at": datetime(2026, 5, 4, 12, tzinfo=UTC),
            "day": date(2026, 5, 4),
            "tags": ["a"],
            "inner": {"days": [date(2026, 5, 5)]},
        },
        dict.fromkeys(kind.names),
    ]


@pytest.mark.parametrize(
    "value",
    [
        *(b"", b"null", b"[1]", b"1", b"{", b'{"id": "1"}', b'{"id": 1.5}', b'{"id": 1, "id": 2}', b'{"name": "\xff"}'),
        *(b'{"id": 1}{"id": 2}', b'{"id": 1}}\n{"row": 1, "value": {"id": 2}', b"{'id': 1}"),
        *(b'{"id": 99999999999999999999}', b'{"id": 1}, "n": 7', b'{"id": 1} ,\n"n": {"m": {}}'),
    ],
)  # fmt: skip
def test_json_that_does_not_fit_is_one_bad_row(value):
    column, bad = json_decoder(ORDER)([b'{"id": 1}', value, b'{"id": 3}'])
    assert list(bad) == [1]
    assert bad[1]
    assert column.to_pylist() == [{"id": 1, "name": None}, None, {"id": 3, "name": None}]


def test_json_numbers_that_are_too_large_for_a_float():
    kind = pa.struct([("f", pa.float32()), ("many", pa.list_(pa.struct([("f", pa.float32())])))])
    column, bad = json_decoder(kind)([b'{"f": 1.5}', b'{"f": 1e39}', b'{"many": [{"f": -1e39}]}', b'{"f": -Infinity}'])
    assert sorted(bad) == [1, 2]
    assert "too large for FLOAT" in bad[1]
    assert column.field("f").to_pylist() == [1.5, None, None, float("-inf")]


ROWS = st.lists(
    st.fixed_dictionaries({"id": st.integers(-(2**63), 2**63 - 1), "name": st.text(max_size=3)}).map(
        lambda row: json.dumps(row, ensure_ascii=False).encode("utf-8", "surrogatepass")
    )
    | st.binary(max_size=8)
    | st.sampled_from([b'{"id": 1}{"id": 2}', b"", b" ", b"{}"]),
    max_size=12,
)


@given(ROWS)
def test_json_rows_stay_in_their_place(rows):
    def fits(value):
        try:
            found = json.loads(value)
        except ValueError:
            return None
        return {"id": found.get("id"), "name": found.get("name")} if isinstance(found, dict) else None

    column, bad = json_decoder(ORDER)(rows)
    for number, value in enumerate(rows):
        if number in bad:
            assert column[number].as_py() is None
        else:
            assert column[number].as_py() == fits(value)
    good = [number for number, value in enumerate(rows) if value.startswith(b'{"id": ') and fits(value)]
    assert not [number for number in good if number in bad]


def test_types_that_json_is_not_read_as():
    for kind in (pa.map_(pa.string(), pa.int64()), pa.binary()):
        with pytest.raises(InvalidArgumentError, match="JSON is not read as"):
            json_decoder(pa.struct([("x", pa.list_(kind))]))


AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"]},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
        {"name": "before", "type": ["null", "State"]},
        {"name": "items", "type": {"type": "array", "items": {"type": "record", "name": "Item", "fields": [
            {"name": "count", "type": "int"}]}}},
        {"name": "notes", "type": {"type": "map", "values": "string"}},
    ],
}  # fmt: skip


def avro(row):
    written = BytesIO()
    fastavro.schemaless_writer(written, fastavro.parse_schema(AVRO), row)
    return written.getvalue()


def test_avro():
    schema = json.dumps(AVRO).encode()
    assert write_type(avro_type(schema)) == (
        "STRUCT<`id`: BIGINT, `name`: STRING, `price`: DECIMAL(10, 2), `at`: TIMESTAMP, `day`: DATE, `state`: STRING, "
        "`before`: STRING, `items`: ARRAY<STRUCT<`count`: INT>>, `notes`: MAP<STRING, STRING>>"
    )
    kind = pa.struct(
        [
            *(("id", pa.int64()), ("name", pa.string()), ("price", pa.decimal128(10, 2))),
            *(("at", pa.timestamp("us", "UTC")), ("day", pa.date32()), ("state", pa.string()), ("before", pa.string())),
            ("items", pa.list_(pa.struct([("count", pa.int32())]))),
            ("notes", pa.map_(pa.string(), pa.string())),
        ]
    )
    row = {
        "id": 1,
        "name": None,
        "price": Decimal("1.50"),
        "at": datetime(2026, 5, 4, 12, tzinfo=UTC),
        "day": date(2026, 5, 4),
        "state": "PAID",
        "before": "NEW",
        "items": [{"count": 2}],
        "notes": {"a": "b"},
    }
    column, bad = avro_decoder(schema, kind)([avro(row), b"", avro(row) + b"x", avro(row)[:-1]])
    assert sorted(bad) == [1, 2, 3]
    assert column.to_pylist() == [{**row, "notes": [("a", "b")]}, None, None, None]


def test_avro_that_was_widened_after_its_column_was_made():
    fields = [
        {"name": "id", "type": "long"},
        {"name": "f", "type": {"type": "map", "values": "double"}},
        {"name": "text", "type": "bytes"},
    ]
    schema = {"type": "record", "name": "R", "fields": fields}
    kind = pa.struct([("id", pa.int32()), ("f", pa.map_(pa.string(), pa.float32())), ("text", pa.string())])

    def written(number, float_number, text=b"x"):
        stream = BytesIO()
        row = {"id": number, "f": {"k": float_number}, "text": text}
        fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), row)
        return stream.getvalue()

    values = [written(1, 1.5), written(2**40, 1), written(3, 1e39), written(4, float("inf")), written(5, 1, b"\xff")]
    column, bad = avro_decoder(json.dumps(schema).encode(), kind)(values)
    assert sorted(bad) == [1, 2, 4]
    assert "too large for FLOAT" in bad[2]
    good = {number: {"id": number + 1, "f": [("k", float_number)], "text": "x"} for number, float_number in
            ((0, 1.5), (3, float("inf")))}  # fmt: skip
    assert column.to_pylist() == [good.get(number) for number in range(5)]


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (b"id INT", "neither a file nor an Avro schema"),
        (b'{"type": "string"}', "is a record"),
        (b'{"type": "record", "name": "R", "fields": [{"name": "x", "type": ["int", "string"]}]}', "one type beside"),
        (b'{"type": "record", "name": "R", "fields": [{"name": "x", "type": ["null", "R"]}]}', "no column of"),
    ],
)
def test_avro_schemas_without_columns(schema, words):
    with pytest.raises(InvalidArgumentError, match=words):
        avro_type(schema)


def descriptors():
    file = FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3", dependency=[TIMESTAMP_FILE.name])
    order = file.message_type.add(name="Order")
    kinds = FieldDescriptorProto
    order.field.add(name="id", number=1, type=kinds.TYPE_UINT64, label=kinds.LABEL_OPTIONAL)
    order.field.add(name="tags", number=2, type=kinds.TYPE_STRING, label=kinds.LABEL_REPEATED)
    order.field.add(
        name="at", number=3, type=kinds.TYPE_MESSAGE, label=kinds.LABEL_OPTIONAL, type_name=".google.protobuf.Timestamp"
    )
    order.field.add(name="state", number=4, type=kinds.TYPE_ENUM, label=kinds.LABEL_OPTIONAL, type_name=".shop.State")
    entry = order.nested_type.add(name="CountsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL)
    entry.field.add(name="value", number=2, type=kinds.TYPE_INT32, label=kinds.LABEL_OPTIONAL)
    order.field.add(
        name="counts",
        number=5,
        type=kinds.TYPE_MESSAGE,
        label=kinds.LABEL_REPEATED,
        type_name=".shop.Order.CountsEntry",
    )
    state = file.enum_type.add(name="State")
    state.value.add(name="NEW", number=0)
    state.value.add(name="PAID", number=1)
    loop = file.message_type.add(name="Loop")
    loop.field.add(name="next", number=1, type=kinds.TYPE_MESSAGE, label=kinds.LABEL_OPTIONAL, type_name=".shop.Loop")
    timestamp = FileDescriptorProto.FromString(TIMESTAMP_FILE.serialized_pb)
    return FileDescriptorSet(file=[timestamp, file]).SerializeToString()


def test_protobuf():
    found = descriptors()
    assert write_type(protobuf_type(found, "shop.Order")) == (
        "STRUCT<`id`: DECIMAL(20, 0), `tags`: ARRAY<STRING>, `at`: TIMESTAMP, `state`: STRING, "
        "`counts`: MAP<STRING, INT>>"
    )
    pool = DescriptorPool()
    for each in FileDescriptorSet.FromString(found).file:
        pool.Add(each)
    order = GetMessageClass(pool.FindMessageTypeByName("shop.Order"))(
        id=2**64 - 1, tags=["a"], state=1, counts={"n": 3}
    )
    order.at.FromMicroseconds(1_500_000)
    kind = pa.struct(
        [
            *(("id", pa.decimal128(20, 0)), ("tags", pa.list_(pa.string())), ("at", pa.timestamp("us", "UTC"))),
            *(("state", pa.string()), ("counts", pa.map_(pa.string(), pa.int32()))),
        ]
    )
    column, bad = protobuf_decoder(found, "shop.Order", kind)([order.SerializeToString(), b"\xff", b""])
    assert list(bad) == [1]
    at = datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC)
    assert column.to_pylist() == [
        {"id": Decimal(2**64 - 1), "tags": ["a"], "at": at, "state": "PAID", "counts": [("n", 3)]},
        None,
        {"id": Decimal(0), "tags": [], "at": None, "state": "NEW", "counts": []},
    ]


def test_protobuf_that_was_widened_after_its_column_was_made():
    file = FileDescriptorProto(name="wide.proto", package="wide", syntax="proto3")
    message = file.message_type.add(name="Wide")
    kinds = FieldDescriptorProto
    message.field.add(name="id", number=1, type=kinds.TYPE_INT64, label=kinds.LABEL_OPTIONAL)
    message.field.add(name="n", number=2, type=kinds.TYPE_UINT64, label=kinds.LABEL_OPTIONAL)
    found = FileDescriptorSet(file=[file]).SerializeToString()
    pool = DescriptorPool()
    pool.Add(file)
    wide = GetMessageClass(pool.FindMessageTypeByName("wide.Wide"))
    kind = pa.struct([("id", pa.int32()), ("n", pa.int64())])
    values = [wide(id=1).SerializeToString(), wide(id=2**40).SerializeToString(), wide(n=2**63).SerializeToString()]
    column, bad = protobuf_decoder(found, "wide.Wide", kind)([*values, b"\xff"])
    assert sorted(bad) == [1, 2, 3]
    assert column.to_pylist() == [{"id": 1, "n": 0}, None, None, None]


def test_protobuf_schemas_without_columns():
    with pytest.raises(
        InvalidArgumentError, match=r"no message 'shop\.Nothing'; there are google.protobuf.Timestamp, shop.Loop"
    ):
        protobuf_type(descriptors(), "shop.Nothing")
    with pytest.raises(InvalidArgumentError, match="contains itself"):
        protobuf_type(descriptors(), "shop.Loop")
    with pytest.raises(InvalidArgumentError, match="is no descriptor set"):
        protobuf_type(b"\xff", "shop.Order")
