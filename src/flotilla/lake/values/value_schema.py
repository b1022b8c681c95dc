"""The schema of values: a format, its definition, and with it the type of a column and a decoder.

The definition is columns as in SQL (JSON), a schema (Avro), or a descriptor set and the name of a message (Protobuf).
"""

from dataclasses import dataclass
from typing import Final

import pyarrow as pa  # type: ignore[import-untyped]

from flotilla.lake.values.avro_values import avro_decoder, avro_type
from flotilla.lake.values.decoded import Decode
from flotilla.lake.values.json_values import json_decoder
from flotilla.lake.values.protobuf_values import protobuf_decoder, protobuf_type
from flotilla.lake.values.sql_types import read_columns
from flotilla.types.errors import InvalidArgumentError

JSON: Final = "json"
AVRO: Final = "avro"
PROTOBUF: Final = "protobuf"
FORMATS: Final = (JSON, AVRO, PROTOBUF)


@dataclass(frozen=True, slots=True)
class ValueSchema:
    format: str
    definition: bytes
    #: The full name of the message; Protobuf only.
    message: str = ""

    def check(self) -> None:
        """Raises InvalidArgumentError for a schema that no value can be decoded with."""
        if (self.format == PROTOBUF) != bool(self.message):
            raise InvalidArgumentError("the name of a message goes with a schema of Protobuf, and with it alone")
        self.decoder(self.type())

    def type(self) -> pa.StructType:
        """Raises InvalidArgumentError."""
        if self.format == JSON:
            return read_columns(self.columns)
        if self.format == AVRO:
            return avro_type(self.definition)
        if self.format == PROTOBUF:
            return protobuf_type(self.definition, self.message)
        raise InvalidArgumentError(f"the format of a schema is one of {', '.join(FORMATS)}, not {self.format!r}")

    @property
    def columns(self) -> str:
        """The definition of values in JSON. Raises InvalidArgumentError."""
        try:
            return self.definition.decode()
        except UnicodeDecodeError:
            raise InvalidArgumentError("columns are text in UTF-8") from None

    def decoder(self, kind: pa.StructType, written_with: "ValueSchema | None" = None) -> Decode:
        """`kind` may have more fields than the schema; they are null.

        `written_with` is the schema of the values, if it is another one. Avro needs it to read them.
        """
        if self.format == JSON:
            return json_decoder(kind)
        if self.format == AVRO:
            return avro_decoder(self.definition, kind, written_with.definition if written_with else None)
        return protobuf_decoder(self.definition, self.message, kind)
