"""A read with decoded values: the column `value` is a struct, and values that do not fit are kept, never lost.

They stand in the column `_corrupt_record`, or go to the topic of `badValueTopic` with their place and the reason as
headers. A read that has neither fails.
"""

from collections.abc import Iterator
from typing import Final

import pyarrow as pa  # type: ignore[import-untyped]

from flotilla.client.client import Client
from flotilla.lake.offset_range import OffsetRange
from flotilla.spark.options import AVRO, JSON, OptionError, Options
from flotilla.spark.values.avro_values import avro_decoder, avro_type
from flotilla.spark.values.decoded import Decode
from flotilla.spark.values.json_values import json_decoder
from flotilla.spark.values.protobuf_values import protobuf_decoder, protobuf_type
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.records import Record

#: As Spark's own readers call it.
CORRUPT: Final = "_corrupt_record"
_VALUE: Final = "value"
#: A reason is a header of a record.
_REASON_CHARACTERS_MAX: Final = 500


def value_type(options: Options) -> str:
    """The type of the column `value`, as Spark writes it. Raises OptionError."""
    if options.value_format == JSON:
        return f"STRUCT<{options.value_schema.decode()}>"
    if options.value_format == AVRO:
        return avro_type(options.value_schema)
    return protobuf_type(options.value_schema, options.value_message)


class ValueColumns:
    """Decodes the values of the batches of one range."""

    def __init__(self, options: Options, schema: pa.Schema) -> None:
        """`schema` is that of the read."""
        self._options = options
        self._schema = schema
        named = [field for field in schema if field.name not in (_VALUE, CORRUPT)]
        #: What is read of the log.
        self.stored = pa.schema([*named, pa.field(_VALUE, pa.binary()), *_offset_beside(named)])
        self._decode = _decoder(options, schema)

    def batches(
        self, stored: Iterator[pa.RecordBatch], wanted: OffsetRange, client: Client
    ) -> Iterator[pa.RecordBatch]:
        """Raises InvalidArgumentError for a bad value that has no place to go."""
        for batch in stored:
            yield self._converted(batch, wanted, client)

    def _converted(self, batch: pa.RecordBatch, wanted: OffsetRange, client: Client) -> pa.RecordBatch:
        values = batch.column(_VALUE)
        column, bad = self._decode(values.to_pylist())
        columns = {name: batch.column(name) for name in batch.schema.names}
        columns[_VALUE] = column
        if bad and not self._options.bad_value_topic and CORRUPT not in self._schema.names:
            number, reason = next(iter(bad.items()))
            raise InvalidArgumentError(
                f"the value at offset {batch.column('offset')[number]} of partition {wanted.partition} of topic "
                f"{wanted.topic} is no {self._options.value_format} of valueSchema: {reason}; the column {CORRUPT} or "
                f"the option badValueTopic would take it"
            )
        columns[CORRUPT] = pa.array(
            [values[number].as_py() if number in bad else None for number in range(len(values))], pa.binary()
        )
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


def _offset_beside(named: list[pa.Field]) -> list[pa.Field]:
    return [] if any(field.name == "offset" for field in named) else [pa.field("offset", pa.int64())]


def _decoder(options: Options, schema: pa.Schema) -> Decode:
    kind = schema.field(_VALUE).type if _VALUE in schema.names else None
    if kind is None or not pa.types.is_struct(kind):
        raise OptionError("with valueFormat the column value is a struct")
    if options.value_format == JSON:
        return json_decoder(kind)
    if options.value_format == AVRO:
        return avro_decoder(options.value_schema, kind)
    return protobuf_decoder(options.value_schema, options.value_message, kind)
