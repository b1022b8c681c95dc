"""Sources to compare with: the fastest that Spark takes rows from Python, and the plainest.

Spark's own processes import them, so they have a module of their own.
"""

import os
from collections.abc import Iterator, MutableMapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from flotilla.client.bulk.stored_batches import StoredBatches
from flotilla.client.client import Client
from flotilla.client.reader.message import messages_of
from flotilla.codec.batch.view import BatchView
from flotilla.spark.options import Options
from flotilla.spark.schema import schema_of

BATCH_ROWS = 16_384
VALUE_BYTES = 100
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class PremadeSource(DataSource):
    """Arrow batches that are already in memory: no network, nothing to decode. Nothing in Python is faster."""

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

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        return PremadeStreamReader(schema, self.rows, self.tasks)


class PremadeReader(DataSourceReader):
    def __init__(self, schema: StructType, rows: int, tasks: int) -> None:
        self._schema = schema
        self._rows = rows
        self._tasks = tasks

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(self._rows // self._tasks) for _ in range(self._tasks)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return premade_batches(self._schema, partition.value)


class PremadeStreamReader(DataSourceStreamReader):
    """The same number of rows in every micro-batch, for ever."""

    def __init__(self, schema: StructType, rows: int, tasks: int) -> None:
        self._schema = schema
        self._rows = rows
        self._tasks = tasks
        self._count = 0

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        return {"count": 0}

    def latestOffset(self) -> dict[str, int]:  # type: ignore[override]  # noqa: N802 - Spark's name
        self._count += 1
        return {"count": self._count}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        self._count = end["count"]
        return [InputPartition(self._rows // self._tasks) for _ in range(self._tasks)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return premade_batches(self._schema, partition.value)


def premade_batches(schema: StructType, rows: int) -> Iterator[pa.RecordBatch]:
    size = min(rows, BATCH_ROWS)
    arrow_schema = to_arrow_schema(schema, timezone="UTC")
    values = {
        "key": pa.nulls(size, pa.binary()),
        "value": pa.array([os.urandom(VALUE_BYTES)] * size, pa.binary()),
        "topic": pa.array(["bench"] * size),
        "partition": pa.array([0] * size, pa.int32()),
        "offset": pa.array(range(size), pa.int64()),
        "timestamp": pa.array([0] * size, pa.int64()).cast(arrow_schema.field("timestamp").type),
        "priority": pa.array([0] * size, pa.int32()),
        "content_type": pa.array([0] * size, pa.int32()),
    }
    batch = pa.RecordBatch.from_arrays([values[name] for name in arrow_schema.names], schema=arrow_schema)
    while rows > 0:
        yield batch.slice(0, min(rows, size))
        rows -= size


class ConstantSource(PremadeSource):
    """One tuple, repeated: Spark's own cost of a row from Python, with nothing to read or decode."""

    @classmethod
    def name(cls) -> str:
        return "constant"

    def reader(self, schema: StructType) -> DataSourceReader:
        return ConstantReader(schema, self.rows, self.tasks)


class ConstantReader(PremadeReader):
    def read(self, partition: InputPartition) -> Iterator[Any]:
        row = (None, os.urandom(VALUE_BYTES), "bench", 0, 0, datetime.now(UTC), 0, 0)
        for _ in range(partition.value):
            yield row


class TupleSource(DataSource):
    """A plain reader: the records of a topic as messages, and each message as a tuple."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self.servers = options["servers"]
        self.topic = options["topic"]

    @classmethod
    def name(cls) -> str:
        return "tuples"

    def schema(self) -> StructType:
        return schema_of(Options())

    def reader(self, schema: StructType) -> DataSourceReader:
        return TupleReader(self.servers, self.topic)


class TupleReader(DataSourceReader):
    def __init__(self, servers: str, topic: str) -> None:
        self._servers = servers
        self._topic = topic

    def partitions(self) -> list[InputPartition]:
        with Client(self._servers) as client:
            numbers = range(len(client.describe_topic(self._topic).partitions))
            return [InputPartition((number, client.find_offset(self._topic, number, "latest"))) for number in numbers]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        number, end = partition.value
        with Client(self._servers) as client:
            for stored in StoredBatches(client, self._topic, number, 0, end):
                for each in messages_of(self._topic, number, BatchView(stored)):
                    moment = _EPOCH + timedelta(milliseconds=each.timestamp_ms)
                    yield (
                        each.key,
                        each.payload,
                        each.topic,
                        each.partition,
                        each.offset,
                        moment,
                        each.priority,
                        each.content_type,
                    )
