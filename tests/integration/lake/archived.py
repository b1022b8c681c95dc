"""Records that tests of the archive produce, and find again with readers that know nothing of Flotilla."""

from deltalake import DeltaTable

from flotilla import Client, Record
from flotilla.lake.lake import Lake

#: 2023-11-14T22:13:20Z: less than two hours before midnight, so that rows are of two days.
BEGAN_MS = 1_700_000_000_000


def produce(client: Client, topic: str, count: int, *, first: int = 0, step_ms: int = 20_000) -> None:
    """Numbered records to two partitions in turn, each a step younger than the one before."""
    for partition in (0, 1):
        numbers = range(first + partition, first + count, 2)
        records = [Record(b"%d" % number, b"k", (), BEGAN_MS + number * step_ms, 0, 2) for number in numbers]
        client.produce_many(topic, records, partition=partition)


def stored(lake: str, topic: str) -> list[tuple[int, int, bytes]]:
    """Partition, offset and value of every row, sorted."""
    rows = DeltaTable(Lake(lake).table(topic).address).to_pyarrow_table(columns=["partition", "offset", "value"])
    return sorted(tuple(row.values()) for row in rows.to_pylist())


def expected(count: int) -> list[tuple[int, int, bytes]]:
    """All rows that `produce` made, starting with number 0."""
    return sorted((number % 2, number // 2, b"%d" % number) for number in range(count))
