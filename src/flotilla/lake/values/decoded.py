"""Decoded values of one batch: a column, and the rows that could not be decoded with the reason of each."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa  # type: ignore[import-untyped]


class Decoded(NamedTuple):
    #: Null where a row is bad.
    column: pa.Array
    #: Reasons by row.
    bad: dict[int, str]


#: Decodes the values of some rows.
Decode: TypeAlias = Callable[[Sequence[bytes]], Decoded]


def row_by_row(read: Callable[[bytes], Any], kind: pa.DataType, values: Sequence[bytes]) -> Decoded:
    """For formats that are decoded one value at a time. `read` may raise anything for bytes that do not fit."""
    rows: list[Any] = []
    bad: dict[int, str] = {}
    for number, value in enumerate(values):
        try:
            rows.append(read(value))
        except Exception as error:
            bad[number] = f"{type(error).__name__}: {error}"
            rows.append(None)
    return Decoded(pa.array(rows, kind), bad)
