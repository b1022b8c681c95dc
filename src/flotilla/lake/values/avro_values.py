"""Avro values as columns: each value is one datum of the schema, without a header."""

import json
from collections.abc import Sequence
from io import BytesIO
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]

from flotilla.lake.values.decoded import Decode, Decoded, row_by_row
from flotilla.lake.values.sql_types import list_of
from flotilla.types.errors import InvalidArgumentError

_PLAIN: Final = {
    "boolean": pa.bool_(), "int": pa.int32(), "long": pa.int64(), "float": pa.float32(), "double": pa.float64(),
    "bytes": pa.binary(), "string": pa.string(), "enum": pa.string(), "fixed": pa.binary(),
}  # fmt: skip
_TIME: Final = pa.timestamp("us", "UTC")
_LOGICAL: Final = {"timestamp-millis": _TIME, "timestamp-micros": _TIME, "date": pa.date32(), "uuid": pa.string()}


def avro_type(schema: bytes) -> pa.StructType:
    """Raises InvalidArgumentError."""
    found = parsed_avro(schema)
    return _type(found, {})


def avro_decoder(schema: bytes, kind: pa.StructType, written_with: bytes | None = None) -> Decode:
    """`written_with` is the schema of the values, if it is another one: they are resolved by Avro's rules."""
    from fastavro import parse_schema, schemaless_reader

    wanted = parse_schema(parsed_avro(schema))
    written = wanted if written_with is None else parse_schema(parsed_avro(written_with))
    resolved = None if written_with is None else wanted

    def read(value: bytes) -> Any:
        stream = BytesIO(value)
        found = schemaless_reader(stream, written, resolved)
        if stream.tell() != len(value):
            raise ValueError(f"{len(value) - stream.tell()} bytes follow the datum")
        return found

    def decode(values: Sequence[bytes]) -> Decoded:
        return row_by_row(read, kind, values)

    return decode


def parsed_avro(schema: bytes) -> Any:
    """The schema of a record. Raises InvalidArgumentError."""
    from fastavro import parse_schema
    from fastavro.schema import SchemaParseException, UnknownType

    try:
        found = json.loads(schema)
        parse_schema(found)
    except (ValueError, SchemaParseException, UnknownType, KeyError, TypeError, AttributeError) as error:
        raise InvalidArgumentError(f"it is neither a file nor an Avro schema: {error}") from None
    if not isinstance(found, dict) or found.get("type") != "record":
        raise InvalidArgumentError("the Avro schema of values is a record")
    return found


def _type(schema: Any, named: dict[str, Any]) -> pa.DataType:
    if isinstance(schema, list):
        kinds = [each for each in schema if each != "null"]
        if len(kinds) != 1:
            raise InvalidArgumentError("a union has one type beside null")
        return _type(kinds[0], named)
    if isinstance(schema, str):
        if schema in named:
            return _type(named[schema], named)
        schema = {"type": schema}
    kind = schema["type"]
    if isinstance(kind, dict | list):
        return _type(kind, named)
    logical = schema.get("logicalType")
    if logical == "decimal":
        return pa.decimal128(schema["precision"], schema.get("scale", 0))
    if logical in _LOGICAL:
        return _LOGICAL[logical]
    if kind in ("enum", "fixed"):
        named[schema["name"]] = schema
    if kind == "record":
        # A record inside of itself has no end, and no type.
        inner = {**named, schema["name"]: {"type": "itself"}}
        fields = [pa.field(field["name"], _type(field["type"], inner)) for field in schema["fields"]]
        named.update({name: each for name, each in inner.items() if name != schema["name"]})
        named[schema["name"]] = schema
        return pa.struct(fields)
    if kind == "array":
        return list_of(_type(schema["items"], named))
    if kind == "map":
        return pa.map_(pa.string(), _type(schema["values"], named))
    if kind not in _PLAIN:
        raise InvalidArgumentError(f"there is no column of the Avro type {kind!r}")
    return _PLAIN[kind]
