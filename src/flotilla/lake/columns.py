"""The columns of a table in the lake, as Arrow types: those of the Spark source without `topic`, which is the table."""

from typing import Final

import pyarrow as pa  # type: ignore[import-untyped]

_HEADER: Final = pa.struct([("key", pa.string()), ("value", pa.binary())])
#: In the order of a file. Lists name their items as Parquet does.
STORED: Final = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("headers", pa.list_(pa.field("element", _HEADER))),
        ("priority", pa.int32()),
        ("content_type", pa.int32()),
    ]
)
#: The day of a record's own time, in UTC: in the names of folders, not in files.
DATE: Final = "date"
TABLE: Final = STORED.append(pa.field(DATE, pa.date32()))
