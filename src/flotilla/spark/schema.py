"""The columns of a topic in Spark, and those of one read.

Types follow Spark's Kafka source where the meaning is the same. Spark does not pass a Python source the columns that a
query needs; the option `columns` or a schema of the user's own selects them. There, key and value may be strings.
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

#: In their order. `headers` comes only with includeHeaders.
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

#: Columns of bytes that may be read as text.
_TEXTS: Final = ("key", "value")
_NEEDS_VALUE: Final = "with valueFormat the column value is read"


def schema_of(options: Options) -> StructType:
    """The schema of a read of plain bytes with these options. Raises OptionError."""
    return StructType([StructField(name, COLUMNS[name]) for name in _names(options, ())])


def decoded_schema_of(options: Options) -> str:
    """The same with decoded values, as Spark writes it: only Spark itself can read the types. Raises OptionError."""
    from flotilla.lake.decoded_columns import CORRUPT, DECODED
    from flotilla.spark.value_columns import archived_decoding, value_type

    if options.has_decoded_values and options.columns and "value" not in options.columns:
        raise OptionError(_NEEDS_VALUE)
    types = {name: kind.simpleString() for name, kind in COLUMNS.items()} | {CORRUPT: "binary"}
    if options.include_decoded:
        types[DECODED] = archived_decoding(options).type_text
        added: tuple[str, ...] = (DECODED, CORRUPT)
    else:
        types["value"] = value_type(options)
        added = () if options.bad_value_topic else (CORRUPT,)
    return ", ".join([f"`{name}` {types[name]}" for name in _names(options, added)])


def _names(options: Options, added: tuple[str, ...]) -> tuple[str, ...]:
    names = options.columns or (*(name for name in COLUMNS if name != "headers" or options.include_headers), *added)
    for name in names:
        if name not in COLUMNS and name not in added:
            raise OptionError(f"option columns names {name!r}; there are {', '.join(COLUMNS)}")
        if name == "headers" and not options.include_headers:
            raise OptionError("option columns names 'headers', which comes only with includeHeaders=true")
    return names


def check_schema(schema: StructType, options: Options) -> None:
    """Checks a schema of the user: any of our columns, each with its type. Raises OptionError."""
    if options.has_decoded_values and "value" not in schema.fieldNames():
        raise OptionError(_NEEDS_VALUE)
    if options.include_decoded and not {"decoded", "_corrupt_record"} <= set(schema.fieldNames()):
        raise OptionError("with includeDecoded the columns decoded and _corrupt_record are read, both of them")
    decoded = "value" if options.has_decoded_values else "decoded" if options.include_decoded else ""
    for field in schema.fields:
        if decoded and field.name in (decoded, "_corrupt_record"):
            # Spark has read the types from ours, or the task says what does not fit.
            continue
        known = COLUMNS.get(field.name)
        if known is None:
            raise OptionError(f"there is no column {field.name!r}; there are {', '.join(COLUMNS)}")
        # Decoding needs the bytes.
        texts = ("key",) if options.include_decoded else _TEXTS
        is_text = field.name in texts and field.dataType == StringType()
        if field.dataType.simpleString() != known.simpleString() and not is_text:
            raise OptionError(
                f"column {field.name} is {known.simpleString()}, not {field.dataType.simpleString()}; "
                "cast it in the query"
            )
        if not field.nullable:
            raise OptionError(f"column {field.name} is nullable")
