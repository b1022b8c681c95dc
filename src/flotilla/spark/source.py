"""The data source `flotilla`: `spark.read`, `readStream`, `write` and `writeStream` with `format("flotilla")`.

Spark creates a source wherever it needs one, in its own processes; it holds options and nothing else.
"""

from collections.abc import MutableMapping

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from flotilla.spark.options import (
    READ,
    READ_STREAM,
    WRITE,
    WRITE_STREAM,
    OptionError,
    Options,
    check_place,
    read_options,
)
from flotilla.spark.schema import check_schema, decoded_schema_of, schema_of


class FlotillaSource(DataSource):
    def __init__(self, options: MutableMapping[str, str]) -> None:
        """Raises OptionError for an unknown option or an invalid value."""
        super().__init__(options)
        self._options = read_options(options)

    @classmethod
    def name(cls) -> str:
        return "flotilla"

    def schema(self) -> StructType | str:
        options = self._options
        is_decoded = options.has_decoded_values or options.include_decoded
        return decoded_schema_of(options) if is_decoded else schema_of(options)

    def reader(self, schema: StructType) -> DataSourceReader:
        from flotilla.spark.reader import FlotillaReader

        options = self._reading(schema, READ)
        if options.push_filters:
            from flotilla.spark.filters import FilteringReader

            return FilteringReader(options, schema)
        return FlotillaReader(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        from flotilla.spark.stream_reader import FlotillaStreamReader

        return FlotillaStreamReader(self._reading(schema, READ_STREAM), schema)

    def _reading(self, schema: StructType, place: str) -> Options:
        """The options of a read, checked."""
        check_place(self.options, self._options, place)
        check_schema(schema, self._options)
        if not (self._options.has_decoded_values or self._options.include_decoded):
            return self._options
        from flotilla.spark.catalog import check_bad_value_topic
        from flotilla.spark.value_columns import with_schema

        if self._options.bad_value_topic:
            check_bad_value_topic(self._options)
        return with_schema(self._options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from flotilla.spark.writer import FlotillaWriter

        self._check_write(schema, WRITE, is_overwrite=overwrite)
        return FlotillaWriter(self._options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's name
        from flotilla.spark.writer import FlotillaStreamWriter

        self._check_write(schema, WRITE_STREAM, is_overwrite=overwrite)
        return FlotillaStreamWriter(self._options)

    def _check_write(self, schema: StructType, place: str, *, is_overwrite: bool) -> None:
        from flotilla.spark.catalog import check_target
        from flotilla.spark.rows import check_writable

        options = self._options
        check_place(self.options, options, place)
        check_writable(schema, options)
        if is_overwrite:
            raise OptionError("a topic cannot be overwritten: use mode append")
        if options.target and "topic" not in schema.fieldNames():
            check_target(options)
