"""The data source `flotilla_archive`: a stream of topics whose tasks write Parquet, and whose rows describe the files.

It plans, limits and reads like `flotilla`, but a task writes its records directly into the lake, from Arrow to Parquet,
and returns one row for each file. Passing every record through the JVM takes three to five times as long. A repeated
task writes new files; those of the other attempt are in no version of the table.

A micro-batch begins where the tables end, whatever Spark's checkpoint says; the checkpoint only decides where it ends.
So one that is repeated after its commit writes nothing, and an archive takes over from any other.
"""

import json
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any, Final, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StringType, StructField, StructType

from flotilla.lake.archive import write_range
from flotilla.lake.decoded_columns import Decoding, Decodings
from flotilla.lake.lake import Lake
from flotilla.lake.offset_range import OffsetRange, from_json
from flotilla.lake.table import TopicTable
from flotilla.spark.client_cache import borrowed_client
from flotilla.spark.options import READ_STREAM, OptionError, Options, check_place, read_options
from flotilla.spark.reader import read_range, tasks_of
from flotilla.spark.schema import schema_of
from flotilla.spark.stream_reader import FlotillaStreamReader

NAME: Final = "flotilla_archive"
#: Its own options.
_LAKE: Final = "lake"
_SCHEMAS: Final = "schemas"
#: One file, in the form of `DataFile.text`.
_SCHEMA: Final = StructType([StructField("file", StringType())])


class ArchiveSource(DataSource):
    def __init__(self, options: MutableMapping[str, str]) -> None:
        """Takes the options of `flotilla`, `lake`, and `schemas` by topic in JSON. Raises OptionError."""
        super().__init__(options)
        given = {name.lower(): value for name, value in options.items()}
        self._lake = given.pop(_LAKE, "")
        if not self._lake:
            raise OptionError("the option lake is missing: the folder for files")
        self._schemas: dict[str, str] = json.loads(given.pop(_SCHEMAS, "{}"))
        self._given = {**given, "includeheaders": "true"}
        self._options = read_options(self._given)

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        return _SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        check_place(self._given, self._options, READ_STREAM)
        return ArchiveReader(self._options, schema, self._lake, self._schemas)


class ArchiveTask(NamedTuple):
    wanted: OffsetRange
    decoding: Decoding | None


class ArchiveReader(FlotillaStreamReader):
    def __init__(self, options: Options, schema: StructType, lake: str, schemas: Mapping[str, str]) -> None:
        super().__init__(options, schema)
        self._lake_address = lake
        self._schemas = schemas
        #: In the driver's process only. A table that was read once is followed, not read again.
        self._tables: dict[str, TopicTable] = {}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        ends = from_json(end)
        for topic, _ in ends:
            if topic not in self._tables:
                self._tables[topic] = Lake(self._lake_address).table(topic)
        spans = {
            (topic, number): span for topic, table in self._tables.items() for number, span in table.spans().items()
        }
        new = [place for place in ends if place not in spans]
        begun = {place: span.end for place, span in spans.items()} | self._opened().earliest(new)
        tasks = tasks_of(self._opened(), begun, ends, self._options)
        # The driver of the pipeline says which fields keep their types.
        decodings = Decodings(self._opened().client, self._schemas, lambda _: None).of(self._tables)
        return [InputPartition(ArchiveTask(task.value, decodings.get(task.value.topic))) for task in tasks]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        if partition.value is None:
            return
        wanted, decoding = partition.value
        options = self._options
        rows = read_range(wanted, options, schema_of(options))
        table = Lake(self._lake_address).table(wanted.topic)
        files = write_range(table, wanted, rows if decoding is None else _decoded(rows, decoding, options), decoding)
        texts = pa.array([file.text() for file in files], pa.string())
        yield pa.RecordBatch.from_arrays([texts], names=["file"])


def _decoded(rows: "Iterator[pa.RecordBatch]", decoding: Decoding, options: Options) -> "Iterator[pa.RecordBatch]":
    with borrowed_client(options.servers, options.timeout_ms, options.tls, options.log_in) as client:
        yield from decoding.batches(rows, client)
