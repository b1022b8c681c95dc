"""The data source refuses what cannot be read or written, before it asks a broker."""

import pytest

pytest.importorskip("pyspark", reason="the spark extra")

from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from flotilla.spark.options import OptionError
from flotilla.spark.schema import schema_of
from flotilla.spark.source import FlotillaSource


def columns(**types):
    return StructType([StructField(name, kind) for name, kind in types.items()])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "one of the options subscribe, subscribePattern and assign"),
        ({"subscribe": "t", "minPartitions": "many"}, "option minPartitions takes 1 to 1000000, not 'many'"),
        ({"subscribe": "t", "maxOffsetsPerTrigger": "5"}, "option maxOffsetsPerTrigger is not for read"),
        ({"subscribe": "t", "columns": "value,size"}, "option columns names 'size'"),
        ({"subscribe": "t", "columns": "headers"}, "comes only with includeHeaders=true"),
    ],
)
def test_a_bad_option_of_a_read(options, words):
    def plan():
        source = FlotillaSource(options)
        source.reader(source.schema())

    with pytest.raises(OptionError, match=words):
        plan()


@pytest.mark.parametrize(
    ("schema", "options", "words"),
    [
        (columns(size=LongType()), {}, "there is no column 'size'"),
        (columns(offset=StringType()), {}, "column offset is bigint, not string"),
        (StructType([StructField("key", BinaryType(), nullable=False)]), {}, "column key is nullable"),
        (columns(key=BinaryType()), {"valueFormat": "json", "valueSchema": "id INT"}, "the column value is read"),
        (columns(decoded=columns(id=LongType())), {"lake": "l", "includeDecoded": "true"}, "both of them"),
    ],
)
def test_a_schema_that_cannot_be_read(schema, options, words):
    with pytest.raises(OptionError, match=words):
        FlotillaSource({"subscribe": "t", **options}).reader(schema)


@pytest.mark.parametrize(
    ("schema", "options", "words"),
    [
        (columns(value=LongType()), {"topic": "t"}, "column value is bigint; it must be binary or string"),
        (columns(value=StringType()), {}, "the option topic or a column topic must name"),
        (columns(key=StringType()), {"topic": "t"}, "there is no column value"),
        (columns(value=StringType()), {"topic": "t", "deliveryGuarantee": "twice"}, "transactional, idempotent or"),
        (columns(value=StringType()), {"topic": "t", "version": "1"}, "go together"),
    ],
)
def test_a_bad_write(schema, options, words):
    with pytest.raises(OptionError, match=words):
        FlotillaSource(options).writer(schema, overwrite=False)


def test_a_topic_is_not_overwritten():
    with pytest.raises(OptionError, match="a topic cannot be overwritten"):
        FlotillaSource({"topic": "t"}).writer(columns(value=StringType()), overwrite=True)


def test_columns_of_a_read():
    source = FlotillaSource({"subscribe": "t", "columns": "value,offset"})
    assert source.schema() == schema_of(source._options)
    assert source.schema().fieldNames() == ["value", "offset"]
