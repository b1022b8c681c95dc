"""Protobuf values as columns: each value is one message of a type in a descriptor set."""

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from flotilla.lake.values.decoded import Decode, Decoded, row_by_row
from flotilla.lake.values.sql_types import list_of
from flotilla.types.errors import InvalidArgumentError

_TIME: Final = pa.timestamp("us", "UTC")
_TIMESTAMP: Final = "google.protobuf.Timestamp"
_PLAIN: Final = {
    FieldDescriptor.CPPTYPE_BOOL: pa.bool_(),
    FieldDescriptor.CPPTYPE_INT32: pa.int32(),
    FieldDescriptor.CPPTYPE_INT64: pa.int64(),
    FieldDescriptor.CPPTYPE_UINT32: pa.int64(),
    FieldDescriptor.CPPTYPE_UINT64: pa.decimal128(20, 0),
    FieldDescriptor.CPPTYPE_FLOAT: pa.float32(),
    FieldDescriptor.CPPTYPE_DOUBLE: pa.float64(),
    FieldDescriptor.CPPTYPE_ENUM: pa.string(),
}


def protobuf_type(descriptors: bytes, message: str) -> pa.StructType:
    """Raises InvalidArgumentError."""
    return _struct(find_message(descriptors, message), ())


def protobuf_decoder(descriptors: bytes, message: str, kind: pa.StructType) -> Decode:
    new = GetMessageClass(find_message(descriptors, message))

    def read(value: bytes) -> Any:
        found = new()
        found.ParseFromString(value)
        return _row(found)

    def decode(values: Sequence[bytes]) -> Decoded:
        return row_by_row(read, kind, values)

    return decode


def find_message(descriptors: bytes, message: str) -> Descriptor:
    """Raises InvalidArgumentError."""
    pool = DescriptorPool()
    try:
        files = FileDescriptorSet.FromString(descriptors)
        for each in files.file:
            pool.Add(each)
        return pool.FindMessageTypeByName(message)
    except KeyError:
        names = sorted(f"{each.package}.{kind.name}".strip(".") for each in files.file for kind in each.message_type)
        raise InvalidArgumentError(f"there is no message {message!r}; there are {', '.join(names)}") from None
    except (DecodeError, TypeError) as error:
        raise InvalidArgumentError(
            f"it is no descriptor set, as `protoc --include_imports --descriptor_set_out` makes it: {error}"
        ) from None


def entry_of(field: FieldDescriptor) -> Descriptor | None:
    """The type of the entries of a map; None: the field is no map."""
    kind = field.message_type
    return kind if kind is not None and kind.GetOptions().map_entry else None


def _struct(message: Descriptor, outer: tuple[str, ...]) -> pa.StructType:
    if message.full_name in outer:
        raise InvalidArgumentError(f"{message.full_name} contains itself, and there is no column of that type")
    inner = (*outer, message.full_name)
    return pa.struct([pa.field(field.name, _type(field, inner)) for field in message.fields])


def _type(field: FieldDescriptor, outer: tuple[str, ...]) -> pa.DataType:
    entry = entry_of(field)
    if entry is not None:
        key, value = entry.fields_by_name["key"], entry.fields_by_name["value"]
        return pa.map_(_one(key, outer), _one(value, outer))
    return list_of(_one(field, outer)) if field.is_repeated else _one(field, outer)


def _one(field: FieldDescriptor, outer: tuple[str, ...]) -> pa.DataType:
    if field.message_type is not None:
        return _TIME if field.message_type.full_name == _TIMESTAMP else _struct(field.message_type, outer)
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return pa.binary() if field.type == FieldDescriptor.TYPE_BYTES else pa.string()
    return _PLAIN[field.cpp_type]


def _row(message: Any) -> dict[str, Any]:
    return {field.name: _value(message, field) for field in message.DESCRIPTOR.fields}


def _value(message: Any, field: FieldDescriptor) -> Any:
    if field.is_repeated:
        found = getattr(message, field.name)
        entry = entry_of(field)
        if entry is not None:
            values = entry.fields_by_name["value"]
            return [(key, _plain(found[key], values)) for key in found]
        return [_plain(each, field) for each in found]
    if field.has_presence and not message.HasField(field.name):
        return None
    return _plain(getattr(message, field.name), field)


def _plain(value: Any, field: FieldDescriptor) -> Any:
    if field.message_type is not None:
        # Microseconds since 1970, as Spark counts.
        return value.ToMicroseconds() if field.message_type.full_name == _TIMESTAMP else _row(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return str(value) if known is None else known.name
    return value
