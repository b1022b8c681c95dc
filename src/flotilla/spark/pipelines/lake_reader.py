"""The rows of a table in the lake as a DataFrame, by the list of files in one version, with no jar.

Spark reads the files itself where it has a file system for the address. Otherwise, as for `s3://` in a Spark from PyPI,
tasks read them with Arrow.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from flotilla.lake.decoded_columns import as_schema
from flotilla.lake.store import Store
from flotilla.lake.table import TableFile, TopicTable

_BATCH_ROWS: Final = 8_192


def lake_rows(spark: SparkSession, table: TopicTable, files: Sequence[TableFile], columns: StructType) -> DataFrame:
    """All rows of the given files, with these columns; others in the folder do not count."""
    stored = StructType([field for field in columns.fields if field.name != "topic"])
    if has_file_system(spark, table):
        rows = spark.read.schema(stored).parquet(*[table.address_of(file.path) for file in files])
    else:
        rows = _read_by_tasks(spark, table, [file.path for file in files], stored)
    return rows.withColumn("topic", functions.lit(table.topic)).select(*columns.fieldNames())


def stored_rows(spark: SparkSession, store: Store, paths: Sequence[str]) -> DataFrame:
    """All rows of Parquet files with the same columns, one file at least; read by tasks, whatever Spark can read."""
    with store.reading(paths[0]) as source:
        columns = from_arrow_schema(pq.read_schema(source))
    return _read_by_tasks(spark, store, paths, columns)


def _read_by_tasks(spark: SparkSession, store: Store, paths: Sequence[str], columns: StructType) -> DataFrame:
    named = spark.createDataFrame([(path,) for path in paths], "path string").repartition(len(paths), "path")
    return named.mapInArrow(_reading(store, to_arrow_schema(columns, timezone="UTC")), columns)


def has_file_system(spark: SparkSession, store: Store) -> bool:
    """Whether Spark itself can read and write there."""
    if store.is_local:
        return True
    try:
        context = spark.sparkContext
        assert context._jvm is not None
        context._jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(
            store.address.partition(":")[0], context._jsc.hadoopConfiguration()
        )
    except Exception:
        # Whatever is missing, Arrow does without.
        return False
    return True


def _reading(store: Store, schema: pa.Schema) -> Callable[[Any], Iterator[Any]]:
    """A function for tasks that turns paths into rows."""

    def read(batches: Any) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for path in batch["path"].to_pylist():
                with store.reading(path) as source:
                    file = pq.ParquetFile(source)
                    names = [name for name in schema.names if name in file.schema_arrow.names]
                    for found in file.iter_batches(_BATCH_ROWS, columns=names):
                        yield as_schema(found, schema)

    return read
