"""The columns of a topic as Spark sees them, and which of them one read gives out.

Types follow Spark's Kafka source where the meaning is the same. Spark tells a Python source nothing of the columns that
a query needs; whoever wants less names them, by the option `columns` or with a schema of their own.
"""

from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from flotilla.spark.options import OptionError, Options

HEADERS_TYPE: Final = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))

#: In the order in which they come. `headers` only if asked for.
COLUMNS: Final[dict[str, DataType]] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "headers": HEADERS_TYPE,
    "priority": IntegerType(),
    "content_type": IntegerType(),
}


def schema_of(options: Options) -> StructType:
    """What a read with these options gives out. Raises OptionError."""
    names = options.columns or tuple(name for name in COLUMNS if name != "headers" or options.include_headers)
    for name in names:
        if name not in COLUMNS:
            raise OptionError(f"option columns names {name!r}; there are {', '.join(COLUMNS)}")
        if name == "headers" and not options.include_headers:
            raise OptionError("option columns names 'headers', which comes only with includeHeaders=true")
    return StructType([StructField(name, COLUMNS[name]) for name in names])


def check_schema(wished: StructType) -> None:
    """A schema that a user has given: any of our columns, each of its type. Raises OptionError."""
    for field in wished.fields:
        known = COLUMNS.get(field.name)
        if known is None:
            raise OptionError(f"there is no column {field.name!r}; there are {', '.join(COLUMNS)}")
        if field.dataType.simpleString() != known.simpleString():
            raise OptionError(
                f"column {field.name} is {known.simpleString()}, not {field.dataType.simpleString()}; "
                "cast it in the query"
            )
        if not field.nullable:
            raise OptionError(f"column {field.name} is nullable")
