"""Readers that know nothing of Flotilla count the same rows, also while an archive and a compaction run."""

from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread

import duckdb
import polars
import pytest
from deltalake import DeltaTable

from flotilla import Client
from flotilla.lake.archive import ArchiveOptions, run_archive
from flotilla.lake.compaction import CompactionRules
from flotilla.lake.lake import Lake
from flotilla.testing import LocalBroker
from tests.integration.lake.archived import produce

#: Rows, and distinct places, of a table: as many if no row is doubled.
Counts = tuple[int, int]
BATCHES = 12
BATCH_ROWS = 50
LOOK_S_MAX = 60


def by_polars(address: str) -> Counts:
    rows = polars.scan_delta(address).select("partition", "offset").collect()
    return len(rows), len(rows.unique())


def by_duckdb(address: str) -> Counts:
    """Over Arrow: its own extension for Delta has to be downloaded."""
    rows = DeltaTable(address).to_pyarrow_dataset()
    assert rows.schema.names, "DuckDB finds the name in this function"
    ((count, distinct),) = duckdb.sql('SELECT count(*), count(DISTINCT ("partition", "offset")) FROM rows').fetchall()
    return count, distinct


def by_pandas(address: str) -> Counts:
    rows = DeltaTable(address).to_pandas(columns=["partition", "offset"])
    return len(rows), len(rows.drop_duplicates())


READERS = [by_polars, by_duckdb, by_pandas]


@pytest.mark.parametrize(("store", "batches"), [("disk", BATCHES), ("s3", 2)])
def test_all_readers_count_the_same(
    broker: LocalBroker,
    client: Client,
    topic: Callable[..., str],
    store: str,
    batches: int,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    name = topic()
    lake = str(tmp_path / "lake") if store == "disk" else f"{request.getfixturevalue('object_store')}/readers"
    row_count = batches * BATCH_ROWS
    produce(client, name, row_count, step_ms=600_000 // batches)
    said = ArchiveOptions(broker.address, [name], lake, batch_rows=BATCH_ROWS, compaction=CompactionRules(files_min=2))
    assert run_archive(said).compacted > 0
    address = Lake(lake).table(name).address
    wanted = (row_count, row_count)
    assert {reader.__name__: reader(address) for reader in READERS} == {each.__name__: wanted for each in READERS}
    # A reader needs only the days that it asks for, and skips files by their offsets.
    late = polars.scan_delta(address).filter(polars.col("date") == polars.date(2023, 11, 15)).collect()
    assert 0 < len(late) < row_count
    assert set(late["value"].to_list()) <= {b"%d" % number for number in range(row_count)}


def test_no_row_is_missing_or_doubled_while_it_is_written(
    broker: LocalBroker, client: Client, topic: Callable[..., str], lake: str
) -> None:
    name, is_over, has_looked = topic(), Event(), Event()
    batches = 4 if "://" in lake else BATCHES
    rules = CompactionRules(files_min=4, every_batches=2)
    steps = iter(range(1, batches))
    first = ArchiveOptions(broker.address, [name], lake)
    produce(client, name, BATCH_ROWS)
    run_archive(first)

    def more(_: float) -> None:
        step = next(steps, None)
        if step is None:
            raise KeyboardInterrupt
        # Every reader has begun and ended since the last batch.
        for _ in range(2):
            has_looked.clear()
            assert has_looked.wait(LOOK_S_MAX)
        produce(client, name, BATCH_ROWS, first=step * BATCH_ROWS)

    def write() -> None:
        said = ArchiveOptions(broker.address, [name], lake, compaction=rules, is_once=False)
        try:
            run_archive(said, wait=more)
        finally:
            is_over.set()

    writer = Thread(target=write)
    writer.start()
    address = Lake(lake).table(name).address
    seen = []
    while not is_over.is_set():
        for reader in READERS:
            rows, distinct = reader(address)
            assert rows == distinct
            assert rows % BATCH_ROWS == 0, "a version has whole batches"
            seen.append(rows)
        has_looked.set()
    writer.join()
    assert seen == sorted(seen)
    assert set(seen) >= {step * BATCH_ROWS for step in range(1, batches)}, "every batch was seen when it came"
    assert by_polars(address) == (batches * BATCH_ROWS, batches * BATCH_ROWS)
    assert DeltaTable(address).version() > batches, "files were compacted in between"
