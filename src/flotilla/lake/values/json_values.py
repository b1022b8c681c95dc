"""JSON values as columns, parsed by Arrow: many rows at once, and halves of them where one does not fit.

Every row is wrapped in an object with its number, so that no bad row can pass for two, or shift those behind it.
"""

import re
from collections.abc import Sequence
from typing import Final

import pyarrow as pa  # type: ignore[import-untyped]
from pyarrow.json import ParseOptions, ReadOptions, read_json  # type: ignore[import-untyped]

from flotilla.lake.values.decoded import Decode, Decoded, check_floats
from flotilla.types.errors import InvalidArgumentError

_MARGIN_BYTES: Final = 64
#: What `{"id": 1}, "n": 7` has, which would end the row's own object early and add to it.
_MAY_BE_MORE: Final = re.compile(rb'\}\s*,\s*"').search


def json_decoder(kind: pa.StructType) -> Decode:
    """Raises InvalidArgumentError for a type that JSON is not read as."""
    parsed = _parsed_type(kind)

    def decode(values: Sequence[bytes]) -> Decoded:
        bad: dict[int, str] = {}
        pieces = _pieces(values, 0, parsed, kind, bad)
        return Decoded(pa.concat_arrays(pieces) if pieces else pa.array([], kind), bad)

    return decode


def _pieces(
    values: Sequence[bytes], first: int, parsed: pa.DataType, kind: pa.DataType, bad: dict[int, str]
) -> list[pa.Array]:
    if not values:
        return []
    try:
        return [_parse(values, parsed, kind)]
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, ValueError) as error:
        if len(values) == 1:
            bad[first] = str(error)
            return [pa.nulls(1, kind)]
    half = len(values) // 2
    left = _pieces(values[:half], first, parsed, kind, bad)
    return left + _pieces(values[half:], first + half, parsed, kind, bad)


def _parse(values: Sequence[bytes], parsed: pa.DataType, kind: pa.DataType) -> pa.Array:
    """Raises ValueError or ArrowInvalid if any row does not fit."""
    body = b"".join([_wrapped(number, value) for number, value in enumerate(values)])
    table = read_json(
        pa.BufferReader(body),
        # One block: a row must not be longer than it.
        ReadOptions(use_threads=False, block_size=len(body) + _MARGIN_BYTES),
        ParseOptions(
            explicit_schema=pa.schema([("row", pa.int64()), ("value", parsed)]),
            newlines_in_values=True,
            unexpected_field_behavior="ignore",
        ),
    )
    if table.column("row").to_pylist() != list(range(len(values))):
        raise ValueError("it is no JSON object")
    found = table.column("value").combine_chunks()
    if found.null_count:
        raise ValueError("it is null, and no JSON object")
    found.validate(full=True)
    column = found.cast(kind)
    check_floats(found, column)
    return column


def _wrapped(number: int, value: bytes) -> bytes:
    if _MAY_BE_MORE(value) is None:
        return b'{"row":%d,"value":%b}\n' % (number, value)
    # What follows an object in an object is no syntax in a list; that it costs half as much again is measured.
    return b'{"row":%d,"value":%b,"again":[%b]}\n' % (number, value, value)


def _parsed_type(kind: pa.DataType) -> pa.DataType:
    """The type in which Arrow's parser gets it; the cast does the rest."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _parsed_type(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(_parsed_type(kind.value_type))
    if pa.types.is_date(kind):
        return pa.string()
    if kind == pa.float32():
        return pa.float64()
    if pa.types.is_map(kind) or pa.types.is_binary(kind):
        raise InvalidArgumentError(f"JSON is not read as {kind}; name the fields, or read a string")
    return kind
