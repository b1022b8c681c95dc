"""The decoding of values that were written with several versions of a schema.

A record may name the version of its value in a header. Avro needs it: a datum has no names of its fields. Values of the
other formats, and those without the header, are read with the chosen version.
"""

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from flotilla.lake.values.decoded import Decode, Decoded
from flotilla.lake.values.value_schema import AVRO, ValueSchema
from flotilla.types.errors import FlotillaError


class VersionedDecoder:
    def __init__(
        self, chosen: ValueSchema, kind: pa.StructType, header: str, find: Callable[[int], ValueSchema]
    ) -> None:
        """`header` has the number of a version, and `find` its schema; it raises FlotillaError."""
        self._chosen = chosen
        self._kind = kind
        self._header = header
        self._find = find
        self._plain = chosen.decoder(kind)
        self._by_version: dict[bytes, Decode] = {}

    def decode(self, values: pa.Array, headers: pa.Array) -> Decoded:
        named = _named(headers, self._header) if self._chosen.format == AVRO else {}
        if not named:
            return self._plain(values.to_pylist())
        rows: dict[bytes | None, list[int]] = {}
        for number in range(len(values)):
            rows.setdefault(named.get(number), []).append(number)
        pieces, places = [], []
        bad: dict[int, str] = {}
        for version, numbers in rows.items():
            taken = values.take(pa.array(numbers)).to_pylist()
            found = self._decoder(version)(taken)
            pieces.append(found.column)
            places += numbers
            bad |= {numbers[at]: reason for at, reason in found.bad.items()}
        order = pc.sort_indices(pa.array(places))
        return Decoded(pa.concat_arrays(pieces).take(order), bad)

    def _decoder(self, version: bytes | None) -> Decode:
        if version is None:
            return self._plain
        if version not in self._by_version:
            self._by_version[version] = self._made(version)
        return self._by_version[version]

    def _made(self, version: bytes) -> Decode:
        try:
            written = self._find(int(version))
            return self._chosen.decoder(self._kind, written)
        except (FlotillaError, ValueError) as error:
            reason = f"version {version!r} of its schema is not there: {error}"
            return lambda values: _all_bad(values, self._kind, reason)


def _all_bad(values: Sequence[bytes], kind: pa.DataType, reason: str) -> Decoded:
    return Decoded(pa.nulls(len(values), kind), dict.fromkeys(range(len(values)), reason))


def _named(headers: pa.Array, name: str) -> dict[int, bytes]:
    """The value of that header by row, for rows that have it; the last one counts."""
    pairs: Any = headers.flatten()
    is_it = pc.equal(pairs.field("key"), name)
    rows = pc.list_parent_indices(headers).filter(is_it).to_pylist()
    return dict(zip(rows, pairs.field("value").filter(is_it).to_pylist(), strict=True))
