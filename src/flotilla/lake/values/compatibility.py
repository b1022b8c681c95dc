"""Rules of compatibility: which values one version of a schema can read that another one wrote.

    rule        values of         can be read with
    backward    earlier versions  the new version
    forward     the new version   earlier versions
    full        both              both
    none        nothing is checked

A log has records of every version, so all earlier versions count, not the last one alone.
"""

from collections.abc import Iterable
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from flotilla.lake.values.avro_values import parsed_avro
from flotilla.lake.values.protobuf_values import find_message
from flotilla.lake.values.sql_types import write_type
from flotilla.lake.values.value_schema import AVRO, JSON, ValueSchema

BACKWARD: Final = "backward"
FORWARD: Final = "forward"
FULL: Final = "full"
NONE: Final = "none"
RULES: Final = (BACKWARD, FORWARD, FULL, NONE)

#: What a reader's type takes beside itself.
_WIDER: Final[dict[pa.DataType, tuple[pa.DataType, ...]]] = {
    pa.int16(): (pa.int8(),),
    pa.int32(): (pa.int8(), pa.int16()),
    pa.int64(): (pa.int8(), pa.int16(), pa.int32()),
    pa.float64(): (pa.int8(), pa.int16(), pa.int32(), pa.float32()),
}
_WIDER_AVRO: Final = {
    "long": ("int",),
    "float": ("int", "long"),
    "double": ("int", "long", "float"),
    "string": ("bytes",),
    "bytes": ("string",),
}
_WIDER_PROTOBUF: Final = {
    FieldDescriptor.TYPE_INT64: (FieldDescriptor.TYPE_INT32,),
    FieldDescriptor.TYPE_UINT64: (FieldDescriptor.TYPE_UINT32,),
    FieldDescriptor.TYPE_SINT64: (FieldDescriptor.TYPE_SINT32,),
    FieldDescriptor.TYPE_BYTES: (FieldDescriptor.TYPE_STRING,),
}


def incompatibilities(new: ValueSchema, earlier: Iterable[tuple[int, ValueSchema]], rule: str) -> list[str]:
    """Why a new version breaks a rule; `earlier` are all versions, with their numbers. Empty: it does not."""
    found: list[str] = []
    for number, old in earlier:
        if rule in (BACKWARD, FULL):
            found += [f"values of version {number} cannot be read: {each}" for each in unreadable(new, old)]
        if rule in (FORWARD, FULL):
            found += [f"version {number} cannot read its values: {each}" for each in unreadable(old, new)]
    return found


def unreadable(reader: ValueSchema, writer: ValueSchema) -> list[str]:
    """Why values of one schema cannot be read with another; empty: they can."""
    if reader.format != writer.format:
        return [f"{writer.format} is no {reader.format}"]
    if reader.format == JSON:
        return _columns(reader.type(), writer.type(), "")
    if reader.format == AVRO:
        return _AvroPair().resolved(_full_names(reader), _full_names(writer), "")
    message = find_message(reader.definition, reader.message)
    return _messages(message, find_message(writer.definition, writer.message), "")


def _inside(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


# JSON: every field may be missing, and unknown ones are left out.


def _columns(reader: pa.DataType, writer: pa.DataType, place: str) -> list[str]:
    if pa.types.is_struct(reader) and pa.types.is_struct(writer):
        known = {field.name: field.type for field in writer}
        pairs = [(field.type, known[field.name], _inside(place, field.name)) for field in reader if field.name in known]
        return [each for pair in pairs for each in _columns(*pair)]
    if pa.types.is_list(reader) and pa.types.is_list(writer):
        return _columns(reader.value_type, writer.value_type, place)
    if reader == writer or writer in _WIDER.get(reader, ()) or _is_wider_decimal(reader, writer):
        return []
    return [f"{place} is {write_type(writer)}, and is read as {write_type(reader)}"]


def _is_wider_decimal(reader: pa.DataType, writer: pa.DataType) -> bool:
    if not (pa.types.is_decimal(reader) and pa.types.is_decimal(writer)):
        return False
    return bool(reader.scale >= writer.scale and reader.precision - reader.scale >= writer.precision - writer.scale)


# Avro: the resolution of schemas, as its specification has it.


def _full_names(schema: ValueSchema) -> Any:
    from fastavro import parse_schema

    return parse_schema(parsed_avro(schema.definition))


class _AvroPair:
    """The comparison of two schemas, with the named types of both. No record contains itself."""

    def __init__(self) -> None:
        self._named: tuple[dict[str, Any], dict[str, Any]] = ({}, {})

    def resolved(self, reader: Any, writer: Any, place: str) -> list[str]:
        reader, writer = self._looked_up(reader, 0), self._looked_up(writer, 1)
        if isinstance(writer, list):
            return [each for kind in writer for each in self.resolved(reader, kind, place)]
        if isinstance(reader, list):
            tries = [self.resolved(kind, writer, place) for kind in reader]
            return [] if [] in tries else [f"{place} may be {_kind(writer)}, which the reader does not know"]
        kinds = (_kind(reader), _kind(writer))
        if kinds[0] != kinds[1]:
            is_wider = kinds[1] in _WIDER_AVRO.get(kinds[0], ())
            return [] if is_wider else [f"{place} is {kinds[1]}, and is read as {kinds[0]}"]
        if reader.get("logicalType") != writer.get("logicalType"):
            return [f"{place} has another logical type"]
        if kinds[0] == "record":
            return self._records(reader, writer, place)
        if kinds[0] == "enum":
            unknown = sorted(set(writer["symbols"]) - set(reader["symbols"]))
            return [] if not unknown or "default" in reader else [f"{place} may be {unknown[0]}, which is unknown"]
        if kinds[0] in ("array", "map"):
            part = "items" if kinds[0] == "array" else "values"
            return self.resolved(reader[part], writer[part], place)
        same = all(reader.get(each) == writer.get(each) for each in ("size", "precision", "scale"))
        return [] if same else [f"{place} has another size, precision or scale"]

    def _records(self, reader: Any, writer: Any, place: str) -> list[str]:
        if reader["name"].rpartition(".")[2] != writer["name"].rpartition(".")[2]:
            return [f"{place or 'the record'} is called {writer['name']}, and is read as {reader['name']}"]
        written = {field["name"]: field for field in writer["fields"]}
        found: list[str] = []
        for field in reader["fields"]:
            names = [field["name"], *field.get("aliases", ())]
            other = next((written[name] for name in names if name in written), None)
            inside = _inside(place, field["name"])
            if other is not None:
                found += self.resolved(field["type"], other["type"], inside)
            elif "default" not in field:
                found.append(f"{inside} is missing, and has no default")
        return found

    def _looked_up(self, schema: Any, side: int) -> Any:
        """A type as a list or an object; names stand for what they were given to."""
        if isinstance(schema, str):
            return self._named[side].get(schema, {"type": schema})
        if isinstance(schema, dict):
            if isinstance(schema["type"], dict | list):
                return self._looked_up(schema["type"], side)
            if "name" in schema and schema["type"] in ("record", "enum", "fixed"):
                self._named[side][schema["name"]] = schema
        return schema


def _kind(schema: Any) -> str:
    return str(schema["type"])


# Protobuf: numbers name the fields on the wire, and names name the columns.


def _messages(reader: Descriptor, writer: Descriptor, place: str) -> list[str]:
    """No message contains itself."""
    found: list[str] = []
    written = writer.fields_by_number
    for field in reader.fields:
        inside = _inside(place, field.name)
        other = written.get(field.number)
        if other is None:
            if field.is_required:
                found.append(f"{inside} is missing, and is required")
        elif other.name != field.name:
            found.append(f"number {field.number} is {_inside(place, other.name)}, and is read as {inside}")
        elif field.is_repeated != other.is_repeated:
            found.append(f"{inside} is repeated in one of them alone")
        elif field.message_type is not None and other.message_type is not None:
            found += _messages(field.message_type, other.message_type, inside)
        elif field.type != other.type and other.type not in _WIDER_PROTOBUF.get(field.type, ()):
            found.append(f"{inside} has another type")
    return found
