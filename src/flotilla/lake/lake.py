"""A lake: a folder with one Delta table for each topic.

    <lake>/orders/_delta_log/00000000000000000007.json
    <lake>/orders/_checksums/date=2030-01-31/<name>.parquet.json
    <lake>/orders/date=2030-01-31/<partition>-<first offset>-<token>.parquet

A folder of a table has no `=` in its own name: readers would take it for a column.
"""

from typing import Final

from flotilla.lake.delta_log import LOG_FOLDER
from flotilla.lake.store import Store
from flotilla.lake.table import TopicTable
from flotilla.types.errors import InvalidArgumentError

#: Of lakes before they were Delta tables.
OLD_FOLDER: Final = "_manifest"
OLD_SUFFIX: Final = ".json"


class Lake:
    def __init__(self, address: str) -> None:
        """Raises InvalidArgumentError for an address that is no folder, and for a lake of the old format."""
        self.store = Store(address)
        # Not the folder: `pyarrow` leaves an empty object for one on S3.
        if self.store.paths(OLD_FOLDER, suffix=OLD_SUFFIX):
            raise InvalidArgumentError(
                f"the lake {address} has the format of an older version: flotilla pipeline migrate-lake --lake "
                f"{address} takes it over"
            )

    def __reduce__(self) -> tuple[type["Lake"], tuple[str]]:
        return Lake, (self.store.address,)

    @property
    def address(self) -> str:
        return self.store.address

    def topics(self) -> list[str]:
        """The topics that have a table."""
        return [name for name in self.store.folders() if self.store.exists(f"{name}/{LOG_FOLDER}")]

    def table(self, topic: str) -> TopicTable:
        """The table of a topic, whether it exists yet or not."""
        return TopicTable(self.store.address_of(topic), topic)
