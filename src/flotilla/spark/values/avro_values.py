"""Avro values as columns: each value is one datum of the schema, without a header."""

import json
from collections.abc import Sequence
from io import BytesIO
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]

from flotilla.spark.options import OptionError
from flotilla.spark.values.decoded import Decode, Decoded, row_by_row

_PLAIN: Final = {
    "boolean": "BOOLEAN", "int": "INT", "long": "BIGINT", "float": "FLOAT", "double": "DOUBLE",
    "bytes": "BINARY", "string": "STRING", "enum": "STRING", "fixed": "BINARY",
}  # fmt: skip
_LOGICAL: Final = {"timestamp-millis": "TIMESTAMP", "timestamp-micros": "TIMESTAMP", "date": "DATE", "uuid": "STRING"}


def avro_type(schema: bytes) -> str:
    """The type of the column, as Spark writes it. Raises OptionError."""
    found = _parsed(schema)
    if not isinstance(found, dict) or found.get("type") != "record":
        raise OptionError("valueSchema: the Avro schema of values is a record")
    return _type(found, {})


def avro_decoder(schema: bytes, kind: pa.StructType) -> Decode:
    from fastavro import parse_schema, schemaless_reader

    parsed = parse_schema(_parsed(schema))

    def read(value: bytes) -> Any:
        stream = BytesIO(value)
        found = schemaless_reader(stream, parsed, None)
        if stream.tell() != len(value):
            raise ValueError(f"{len(value) - stream.tell()} bytes follow the datum")
        # A value that does not fit its column is found here, for this row alone.
        pa.scalar(found, kind)
        return found

    def decode(values: Sequence[bytes]) -> Decoded:
        return row_by_row(read, kind, values)

    return decode


def _parsed(schema: bytes) -> Any:
    try:
        return json.loads(schema)
    except ValueError as error:
        raise OptionError(f"valueSchema is neither a file nor an Avro schema: {error}") from None


def _type(schema: Any, named: dict[str, Any]) -> str:
    if isinstance(schema, list):
        kinds = [each for each in schema if each != "null"]
        if len(kinds) != 1:
            raise OptionError("valueSchema: a union has one type beside null")
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
        return f"DECIMAL({schema['precision']}, {schema.get('scale', 0)})"
    if logical in _LOGICAL:
        return _LOGICAL[logical]
    if kind in ("enum", "fixed"):
        named[schema["name"]] = schema
    if kind == "record":
        # A record inside of itself has no end, and no type in Spark.
        inner = {**named, schema["name"]: {"type": "itself"}}
        fields = [f"`{field['name']}`: {_type(field['type'], inner)}" for field in schema["fields"]]
        named.update({name: each for name, each in inner.items() if name != schema["name"]})
        named[schema["name"]] = schema
        return f"STRUCT<{', '.join(fields)}>"
    if kind == "array":
        return f"ARRAY<{_type(schema['items'], named)}>"
    if kind == "map":
        return f"MAP<STRING, {_type(schema['values'], named)}>"
    if kind not in _PLAIN:
        raise OptionError(f"valueSchema: there is no column of the Avro type {kind!r}")
    return _PLAIN[kind]
