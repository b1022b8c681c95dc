"""How a topic is read by its name: the options of the source, and the columns.

With a lake, a topic that is archived with a schema has its decoded columns, unless `includeDecoded` says otherwise.
"""

from collections.abc import Mapping
from typing import NamedTuple

from pyspark.sql.types import StructType

from flotilla.spark.options import read_options
from flotilla.spark.schema import decoded_schema_of, schema_of
from flotilla.spark.value_columns import is_archived_decoded


class TopicRead(NamedTuple):
    options: dict[str, str]
    #: With their types, as Spark writes them.
    columns: str

    def schema(self) -> StructType:
        """In a process that has a session: only Spark itself can read all types."""
        found = StructType.fromDDL(self.columns)
        assert isinstance(found, StructType)
        return found


def topic_read(given: Mapping[str, str], topic: str) -> TopicRead:
    """Raises OptionError, and InvalidArgumentError when the schema of decoded columns is gone."""
    own = {**given, "subscribe": topic}
    options = read_options(own)
    if options.lake and not options.has_decoded_values and "includedecoded" not in map(str.lower, own):
        own["includeDecoded"] = str(is_archived_decoded(options)).lower()
        options = read_options(own)
    if options.has_decoded_values or options.include_decoded:
        return TopicRead(own, decoded_schema_of(options))
    plain = schema_of(options).fields
    return TopicRead(own, ", ".join(f"`{each.name}` {each.dataType.simpleString()}" for each in plain))
