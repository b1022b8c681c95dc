"""A read with decoded values: the column `value` is a struct, and values that do not fit are kept, never lost.

They stand in the column `_corrupt_record`, or go to the topic of `badValueTopic` with their place and the reason as
headers. A read that has neither fails.

With `includeDecoded` the column `value` keeps the bytes, and the struct is in the column `decoded`, as in the table of
an archive that has a schema.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

import pyarrow as pa  # type: ignore[import-untyped]

from flotilla.client.client import Client
from flotilla.lake.columns import STORED
from flotilla.lake.decoded_columns import (
    CORRUPT,
    DECODED,
    Decoding,
    corrupt_column,
    plan_decoding,
    registered_decoder,
)
from flotilla.lake.lake import Lake
from flotilla.lake.offset_range import OffsetRange
from flotilla.lake.schema_topic import RegisteredSchema, SchemaTopic
from flotilla.lake.values.decoded import Decoded
from flotilla.lake.values.sql_types import write_type
from flotilla.lake.values.value_schema import JSON, ValueSchema
from flotilla.spark.client_cache import borrowed_client
from flotilla.spark.options import IN_TOPIC, OptionError, Options
from flotilla.types.errors import InvalidArgumentError, NotFoundError
from flotilla.types.records import Record

_VALUE: Final = "value"
_HEADERS: Final = "headers"
#: A reason is a header of a record.
_REASON_CHARACTERS_MAX: Final = 500


def with_schema(options: Options) -> Options:
    """With a version of a schema that the schema topic has, the options name that version and its format.

    Raises NotFoundError, and OptionError when the format is said to be another one.
    """
    if options.include_decoded:
        found = archived_decoding(options).registered
        return replace(options, value_schema=_pinned(found), value_format=found.schema.format)
    if not options.is_schema_in_topic:
        return options
    with borrowed_client(options.servers, options.timeout_ms, options.tls, options.log_in) as client:
        found = SchemaTopic(client).find(_reference(options))
    if options.value_format not in ("", found.schema.format):
        raise OptionError(f"schema {found.name} is {found.schema.format}, not {options.value_format}")
    return replace(options, value_schema=_pinned(found), value_format=found.schema.format)


def _pinned(found: RegisteredSchema) -> bytes:
    return IN_TOPIC + f"{found.name}@{found.version}".encode()


def is_archived_decoded(options: Options) -> bool:
    """Whether the one topic is archived with a schema."""
    (topic,) = options.topics
    return bool(Lake(options.lake).table(topic).schema())


def archived_decoding(options: Options) -> Decoding:
    """How values of the one topic are decoded as its archive does it.

    Raises OptionError when its table has no decoded columns, InvalidArgumentError when their schema is gone.
    """
    (topic,) = options.topics
    table = Lake(options.lake).table(topic)
    reference = table.schema()
    if not reference:
        raise OptionError(
            f"the table of {topic} in {options.lake} has no decoded columns: includeDecoded reads a topic that is "
            "archived with --schema"
        )
    with borrowed_client(options.servers, options.timeout_ms, options.tls, options.log_in) as client:
        try:
            found = SchemaTopic(client).find(reference)
        except NotFoundError as error:
            raise InvalidArgumentError(f"the decoded columns of {topic} cannot be read: {error}") from None
    return plan_decoding(found, table.decoded(), [])


def value_type(options: Options) -> str:
    """The type of the column `value`, as Spark writes it. Raises InvalidArgumentError, NotFoundError."""
    if options.is_schema_in_topic:
        with borrowed_client(options.servers, options.timeout_ms, options.tls, options.log_in) as client:
            return write_type(SchemaTopic(client).find(_reference(options)).schema.type())
    if options.value_format == JSON:
        # Spark knows more types than we do.
        return f"STRUCT<{options.value_schema.decode()}>"
    return write_type(_own_schema(options).type())


def _reference(options: Options) -> str:
    return options.value_schema.removeprefix(IN_TOPIC).decode()


def _own_schema(options: Options) -> ValueSchema:
    return ValueSchema(options.value_format, options.value_schema, options.value_message)


class ValueColumns:
    """Decodes the values of the batches of one range."""

    def __init__(self, options: Options, schema: pa.Schema) -> None:
        """`schema` is that of the read."""
        self._options = options
        self._schema = schema
        #: The column of structs.
        self._target = DECODED if options.include_decoded else _VALUE
        named = [field for field in schema if field.name not in (self._target, _VALUE, CORRUPT)]
        #: What is read of the log.
        self.stored = pa.schema([*named, pa.field(_VALUE, pa.binary()), *_beside(named, options)])
        if self._target not in schema.names or not pa.types.is_struct(schema.field(self._target).type):
            option = "includeDecoded" if options.include_decoded else "valueFormat"
            raise OptionError(f"with {option} the column {self._target} is a struct")

    def batches(
        self, stored: Iterator[pa.RecordBatch], wanted: OffsetRange, client: Client
    ) -> Iterator[pa.RecordBatch]:
        """Raises InvalidArgumentError for a bad value that has no place to go."""
        decode = self._decoder(client)
        for batch in stored:
            yield self._converted(batch, decode(batch), wanted, client)

    def _decoder(self, client: Client) -> Callable[[pa.RecordBatch], Decoded]:
        kind = self._schema.field(self._target).type
        if self._options.is_schema_in_topic:
            registered = SchemaTopic(client).find(_reference(self._options))
            versioned = registered_decoder(registered, kind, client)
            return lambda batch: versioned.decode(batch.column(_VALUE), batch.column(_HEADERS))
        plain = _own_schema(self._options).decoder(kind)
        return lambda batch: plain(batch.column(_VALUE).to_pylist())

    def _converted(
        self, batch: pa.RecordBatch, decoded: Decoded, wanted: OffsetRange, client: Client
    ) -> pa.RecordBatch:
        values = batch.column(_VALUE)
        column, bad = decoded
        columns = {name: batch.column(name) for name in batch.schema.names}
        columns[self._target] = column
        if bad and not self._options.bad_value_topic and CORRUPT not in self._schema.names:
            number, reason = next(iter(bad.items()))
            raise InvalidArgumentError(
                f"the value at offset {batch.column('offset')[number]} of partition {wanted.partition} of topic "
                f"{wanted.topic} is no {self._options.value_format} of valueSchema: {reason}; the column {CORRUPT} or "
                f"the option badValueTopic would take it"
            )
        columns[CORRUPT] = corrupt_column(values, bad)
        made = pa.RecordBatch.from_arrays([columns[field.name] for field in self._schema], schema=self._schema)
        if not bad or not self._options.bad_value_topic:
            return made
        self._send(batch, bad, wanted, client)
        return made.filter(pa.array([number not in bad for number in range(len(values))]))

    def _send(self, batch: pa.RecordBatch, bad: dict[int, str], wanted: OffsetRange, client: Client) -> None:
        """A task that runs again sends them again, under the same idempotency keys."""
        place = f"{wanted.topic}/{wanted.partition}"
        offsets = batch.column("offset").to_pylist()
        records = [
            Record(
                batch.column(_VALUE)[number].as_py(),
                headers=(
                    ("bad-value-topic", wanted.topic.encode()),
                    ("bad-value-partition", b"%d" % wanted.partition),
                    ("bad-value-offset", b"%d" % offsets[number]),
                    ("bad-value-reason", reason[:_REASON_CHARACTERS_MAX].encode()),
                ),
                idempotency_key=f"{place}/{offsets[number]}".encode(),
            )
            for number, reason in bad.items()
        ]
        client.produce_many(self._options.bad_value_topic, records, timeout_ms=self._options.timeout_ms)


def _beside(named: list[pa.Field], options: Options) -> list[pa.Field]:
    """What is read of the log although it is not asked for."""
    needed = [pa.field("offset", pa.int64())]
    if options.is_schema_in_topic:
        needed.append(STORED.field(_HEADERS))
    names = [field.name for field in named]
    return [field for field in needed if field.name not in names]
