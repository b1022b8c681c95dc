"""The records that tests of pipelines produce, and must find again."""

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from flotilla import Client, Record
from flotilla.lake.table import TopicTable

#: 2023-11-14T22:13:20Z: less than two hours before midnight, so that a batch easily has rows of two days.
BEGAN_MS = 1_700_000_000_000
#: What PySpark says of a pandas that is newer than it; nothing here uses pandas.
PANDAS = "ignore:PySpark does not yet fully support pandas:FutureWarning"
KEYS = (b"red", b"green", b"blue", None)


@dataclass
class Ledger:
    """Every acknowledged record of one topic, by its place."""

    topic: str
    rows: dict[tuple[int, int], bytes] = field(default_factory=dict)

    def produce(self, client: Client, count: int, *, step_ms: int = 1_000, partitions: int = 2) -> None:
        """Numbered records to all partitions in turn, each a step younger than the one before."""
        made: dict[int, list[Record]] = {number: [] for number in range(partitions)}
        for number in range(len(self.rows), len(self.rows) + count):
            record = Record(
                b"%d" % number,
                KEYS[number % len(KEYS)],
                (("number", b"%d" % number),),
                BEGAN_MS + number * step_ms,
                number % 8 if number % 10 == 0 else 0,
                2,
            )
            made[number % partitions].append(record)
        for partition, records in made.items():
            for record, receipt in zip(
                records, client.produce_many(self.topic, records, partition=partition), strict=True
            ):
                self.rows[partition, receipt.offset] = record.payload

    def write(self, path: Path, **changes: Any) -> Path:
        """As the audit takes it, one JSON object a line."""
        with path.open("w") as file:
            for (partition, offset), value in self.rows.items():
                line = {
                    "topic": self.topic,
                    "partition": partition,
                    "offset": offset,
                    "digest": hashlib.sha256(value).hexdigest(),
                    **changes,
                }
                print(json.dumps(line), file=file)
        return path

    @property
    def found(self) -> set[tuple[int, int, bytes]]:
        """As `places` finds them."""
        return {(partition, offset, value) for (partition, offset), value in self.rows.items()}

    def in_order(self) -> dict[int, list[bytes]]:
        """As `replayed` finds them: the values of each partition, by offset."""
        found: dict[int, list[bytes]] = {}
        for (partition, _), value in sorted(self.rows.items()):
            found.setdefault(partition, []).append(value)
        return found


def replayed(client: Client, topic: str) -> dict[int, list[bytes]]:
    """All values of a topic, by partition."""
    found = {}
    for part in client.describe_topic(topic).partitions:
        end = client.find_offset(topic, part.number, "latest")
        found[part.number] = [each.payload for each in client.peek(topic, part.number, max_messages=end)] if end else []
    return found


def lake_places(table: TopicTable) -> list[tuple[int, int, bytes]]:
    """As `places`, read by `deltalake` alone."""
    rows = DeltaTable(table.address).to_pyarrow_table(columns=["partition", "offset", "value"]).to_pylist()
    return [(row["partition"], row["offset"], row["value"]) for row in rows]


def places(table: Any) -> list[tuple[int, int, bytes]]:
    """Partition, offset and value of every row."""
    return [
        (row.partition, row.offset, bytes(row.value)) for row in table.select("partition", "offset", "value").collect()
    ]
