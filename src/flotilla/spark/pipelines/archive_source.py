"""The data source `flotilla_archive`: a stream of topics whose tasks write Parquet, and whose rows describe the files.

It plans, limits and reads like `flotilla`, but a task writes its records directly into the lake, from Arrow to Parquet,
and returns one row for each file. Passing every record through the JVM takes three to five times as long. A repeated
task writes new files; no manifest lists those of the other attempt.
"""

import json
from collections.abc import Iterator, MutableMapping
from typing import Final

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StringType, StructField, StructType

from flotilla.spark.lake.data_file import write_days
from flotilla.spark.lake.lake import Lake
from flotilla.spark.lake.manifest import DataFile
from flotilla.spark.offset_range import OffsetRange
from flotilla.spark.options import READ_STREAM, OptionError, Options, check_place, read_options
from flotilla.spark.reader import read_range
from flotilla.spark.schema import schema_of
from flotilla.spark.stream_reader import FlotillaStreamReader

NAME: Final = "flotilla_archive"
_LAKE: Final = "lake"
#: One file, in the form of `file_text`.
_SCHEMA: Final = StructType([StructField("file", StringType())])


class ArchiveSource(DataSource):
    def __init__(self, options: MutableMapping[str, str]) -> None:
        """Takes the options of `flotilla`, and `lake`. Raises OptionError."""
        super().__init__(options)
        given = {name: value for name, value in options.items() if name.lower() != _LAKE}
        lakes = [value for name, value in options.items() if name.lower() == _LAKE]
        if not lakes:
            raise OptionError("the option lake is missing: the folder for files")
        self._lake = lakes[0]
        self._given = {**given, "includeheaders": "true"}
        self._options = read_options(self._given)

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        return _SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        check_place(self._given, self._options, READ_STREAM)
        return ArchiveReader(self._options, schema, self._lake)


class ArchiveReader(FlotillaStreamReader):
    def __init__(self, options: Options, schema: StructType, lake: str) -> None:
        super().__init__(options, schema)
        self._lake_address = lake

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        assert isinstance(partition, OffsetRange)
        rows = read_range(partition, self._options, schema_of(self._options))
        name = f"{partition.partition:05}-{partition.first:020}"
        files = write_days(Lake(self._lake_address), partition.topic, name, rows)
        texts = pa.array([file_text(file) for file in files], pa.string())
        yield pa.RecordBatch.from_arrays([texts], names=["file"])


def file_text(file: DataFile) -> str:
    """A file's description as it travels between tasks and the driver."""
    return json.dumps(file.row())


def read_file_text(text: str) -> DataFile:
    return DataFile.from_row(json.loads(text))
