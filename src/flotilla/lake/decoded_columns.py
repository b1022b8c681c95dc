"""Columns that an archive stores beside the raw value: `decoded`, a struct by a registered schema, and
`_corrupt_record`, which has the bytes of values that do not fit.

The type of `decoded` grows with the versions of the schema: fields are added, and none is removed or changes its type.
So every file of a table has some of the fields of its newest version, and readers see null for the others.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

import pyarrow as pa  # type: ignore[import-untyped]

from flotilla.client.client import Client
from flotilla.lake.columns import STORED
from flotilla.lake.schema_topic import VERSION_HEADER, RegisteredSchema, SchemaTopic
from flotilla.lake.values.sql_types import merged_type, read_columns, write_type
from flotilla.lake.values.value_schema import ValueSchema
from flotilla.lake.values.versions import VersionedDecoder
from flotilla.types.errors import InvalidArgumentError

DECODED: Final = "decoded"
#: As Spark's own readers call it.
CORRUPT: Final = "_corrupt_record"
#: What Delta does not take in the name of a column.
_REFUSED: Final = frozenset(" ,;{}()\n\t=")


class DecodedTable(Protocol):
    """The table of a topic."""

    def decoded(self) -> str:
        """The type of its column `decoded`, in SQL; empty: it has none."""
        ...


@dataclass(frozen=True, slots=True)
class Decoding:
    """What the tasks of a batch need to decode values."""

    registered: RegisteredSchema
    #: The type of the column, in SQL: the fields of the table and those of the schema.
    type_text: str

    def batches(self, rows: Iterable[pa.RecordBatch], client: Client) -> Iterator[pa.RecordBatch]:
        """The rows with both columns."""
        decoder = registered_decoder(self.registered, read_type(self.type_text), client)
        for batch in rows:
            values = batch.column("value")
            column, bad = decoder.decode(values, batch.column("headers"))
            yield batch.append_column(DECODED, column).append_column(CORRUPT, corrupt_column(values, bad))


def corrupt_column(values: pa.Array, bad: dict[int, str]) -> pa.Array:
    """The values of bad rows; null in the others."""
    if not bad:
        return pa.nulls(len(values), pa.binary())
    return pa.array([values[number].as_py() if number in bad else None for number in range(len(values))], pa.binary())


def registered_decoder(registered: RegisteredSchema, kind: pa.StructType, client: Client) -> VersionedDecoder:
    """Looks up versions of values in the schema topic when the first value of one comes."""
    schemas = SchemaTopic(client)

    def find(version: int) -> ValueSchema:
        return schemas.find(f"{registered.name}@{version}").schema

    return VersionedDecoder(registered.schema, kind, VERSION_HEADER, find)


def plan_decoding(registered: RegisteredSchema, present: str, kept: list[str]) -> Decoding:
    """How values are decoded with a schema into a table with this type of the column; empty: it has none yet.

    Fields of the table keep their types, and values that do not fit them are bad; `kept` says which fields that are.
    Raises InvalidArgumentError for a schema that a Delta table cannot have.
    """
    kind = registered.schema.type()
    _check_names(kind)
    merged = merged_type(read_type(present), kind, kept) if present else kind
    return Decoding(registered, write_type(merged))


class Decodings:
    """How an archive decodes its topics: with the newest version of each schema, or with a named one."""

    def __init__(self, client: Client, references: Mapping[str, str], progress: Callable[[str], None]) -> None:
        self._references = references
        self._schemas = SchemaTopic(client)
        self._progress = progress
        #: Each is reported once.
        self._reported: set[str] = set()

    def of(self, tables: Mapping[str, DecodedTable]) -> dict[str, Decoding]:
        """Of the next batch, by topic. Raises NotFoundError for a schema that is not registered."""
        found: dict[str, Decoding] = {}
        for topic, reference in self._references.items():
            if topic in tables:
                kept: list[str] = []
                found[topic] = plan_decoding(self._schemas.find(reference), tables[topic].decoded(), kept)
                for each in kept:
                    if each not in self._reported:
                        self._reported.add(each)
                        self._progress(f"in the table of {topic} {each}: values that do not fit are in {CORRUPT}")
        return found


def read_type(text: str) -> pa.StructType:
    """The type of the column; it was written by `write_type`."""
    return read_columns(f"x {text}").field(0).type


def stored_schema(type_text: str) -> pa.Schema:
    """Of a file; empty: without decoded columns."""
    if not type_text:
        return STORED
    return STORED.append(pa.field(DECODED, read_type(type_text))).append(pa.field(CORRUPT, pa.binary()))


def joined_types(texts: Iterable[str]) -> str:
    """The type that has the fields of all; empty: there is none. Raises InvalidArgumentError when two differ."""
    joined: pa.DataType = None
    kept: list[str] = []
    for text in dict.fromkeys(filter(None, texts)):
        joined = read_type(text) if joined is None else merged_type(joined, read_type(text), kept)
    if kept:
        raise InvalidArgumentError(f"decoded columns do not fit: {kept[0]}")
    return "" if joined is None else write_type(joined)


def as_schema(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The same rows; columns and fields that they lack are null."""
    columns = [
        _as_type(batch.column(field.name), field.type)
        if field.name in batch.schema.names
        else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _as_type(column: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        return column.cast(kind)
    except pa.ArrowTypeError:
        return rebuilt(column, kind)


def rebuilt(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """A cast that is slow, for Arrow before version 20, which adds no fields to a struct."""
    return pa.array(column.to_pylist(), kind)


def _check_names(kind: pa.DataType) -> None:
    if pa.types.is_struct(kind):
        for field in kind:
            if _REFUSED & set(field.name):
                raise InvalidArgumentError(f"a Delta table has no column {field.name!r}: it has a refused character")
            _check_names(field.type)
    elif pa.types.is_list(kind):
        _check_names(kind.value_type)
    elif pa.types.is_map(kind):
        _check_names(kind.key_type)
        _check_names(kind.item_type)
