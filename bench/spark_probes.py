"""Sources to stand beside ours: the most that Spark takes from Python, and the plainest way to give it rows.

Imported by Spark's own processes, so they stand in a module of their own.
"""

import os
from collections.abc import Iterator, MutableMapping
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from flotilla.spark.options import Options
from flotilla.spark.schema import schema_of

BATCH_ROWS = 16_384
VALUE_BYTES = 100


class PremadeSource(DataSource):
    """Arrow batches that are there already: no network, nothing to decode. Nothing in Python is quicker."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self.rows = int(options["rows"])
        self.tasks = int(options["tasks"])

    @classmethod
    def name(cls) -> str:
        return "premade"

    def schema(self) -> StructType:
        return schema_of(Options())

    def reader(self, schema: StructType) -> DataSourceReader:
        return PremadeReader(schema, self.rows, self.tasks)


class PremadeReader(DataSourceReader):
    def __init__(self, schema: StructType, rows: int, tasks: int) -> None:
        self._schema = schema
        self._rows = rows
        self._tasks = tasks

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(self._rows // self._tasks) for _ in range(self._tasks)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        schema = to_arrow_schema(self._schema, timezone="UTC")
        values = {
            "key": pa.nulls(BATCH_ROWS, pa.binary()),
            "value": pa.array([os.urandom(VALUE_BYTES)] * BATCH_ROWS, pa.binary()),
            "topic": pa.array(["bench"] * BATCH_ROWS),
            "partition": pa.array([0] * BATCH_ROWS, pa.int32()),
            "offset": pa.array(range(BATCH_ROWS), pa.int64()),
            "timestamp": pa.array([0] * BATCH_ROWS, pa.int64()).cast(schema.field("timestamp").type),
            "priority": pa.array([0] * BATCH_ROWS, pa.int32()),
            "content_type": pa.array([0] * BATCH_ROWS, pa.int32()),
        }
        batch = pa.RecordBatch.from_arrays([values[name] for name in schema.names], schema=schema)
        left = partition.value
        while left > 0:
            yield batch.slice(0, min(left, BATCH_ROWS))
            left -= BATCH_ROWS


class TupleSource(PremadeSource):
    """The same rows as Python tuples, made one by one."""

    @classmethod
    def name(cls) -> str:
        return "tuples"

    def reader(self, schema: StructType) -> DataSourceReader:
        return TupleReader(schema, self.rows, self.tasks)


class TupleReader(PremadeReader):
    def read(self, partition: InputPartition) -> Iterator[Any]:
        from datetime import UTC, datetime

        value = os.urandom(VALUE_BYTES)
        moment = datetime.now(UTC)
        for offset in range(partition.value):
            yield (None, value, "bench", 0, offset, moment, 0, 0)
