"""Decoded values of one batch: a column, and the rows that could not be decoded with the reason of each."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]


class Decoded(NamedTuple):
    #: Null where a row is bad.
    column: pa.Array
    #: Reasons by row.
    bad: dict[int, str]


#: Decodes the values of some rows.
Decode: TypeAlias = Callable[[Sequence[bytes]], Decoded]


def row_by_row(read: Callable[[bytes], Any], kind: pa.DataType, values: Sequence[bytes]) -> Decoded:
    """For formats that are decoded one value at a time. `read` may raise anything for bytes that do not fit.

    A value that can be read need not fit its column, which may be older than the schema: it is a bad one, too.
    """
    rows: list[Any] = []
    bad: dict[int, str] = {}
    for number, value in enumerate(values):
        try:
            rows.append(read(value))
        except MemoryError:
            raise
        except Exception as error:
            bad[number] = _reason(error)
            rows.append(None)
    exact = with_doubles(kind)
    try:
        return Decoded(_column(rows, kind, exact), bad)
    except MemoryError:
        raise
    except Exception:
        for number, row in enumerate(rows):
            try:
                _column([row], kind, exact)
            except Exception as error:
                bad[number] = _reason(error)
                rows[number] = None
    return Decoded(pa.array(rows, kind), bad)


def _column(rows: Sequence[Any], kind: pa.DataType, exact: pa.DataType) -> pa.Array:
    """Raises anything if a row does not fit."""
    found = pa.array(rows, kind)
    if kind != exact:
        check_floats(pa.array(rows, exact), found)
    return found


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def with_doubles(kind: pa.DataType) -> pa.DataType:
    """The type with DOUBLE in place of FLOAT."""
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(with_doubles(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(with_doubles(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, kind.item_field.with_type(with_doubles(kind.item_type)))
    return pa.float64() if kind == pa.float32() else kind


def check_floats(exact: pa.Array, found: pa.Array) -> None:
    """Raises ValueError if a number that was finite is not so in a FLOAT: Arrow converts it to infinity silently."""
    if _infinities(exact) != _infinities(found):
        raise ValueError("a number is too large for FLOAT")


def _infinities(column: pa.Array) -> int:
    kind = column.type
    if pa.types.is_struct(kind):
        return sum(_infinities(part) for part in column.flatten())
    if pa.types.is_list(kind):
        return _infinities(column.flatten())
    if pa.types.is_map(kind):
        return _infinities(column.keys) + _infinities(column.items)
    if not pa.types.is_floating(kind):
        return 0
    return pc.sum(pc.is_inf(column)).as_py() or 0
