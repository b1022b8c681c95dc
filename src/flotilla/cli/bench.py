"""`flotilla bench`: is this disk good enough, and what does the journal make of it?

Every acknowledgement waits for a sync, so the disk's own time for one decides latency. The raw
probe writes and syncs as a journal does, without us; beside it stands the real journal, so that a
slow disk is not taken for a slow product. Both take turns, because a shared machine is never quiet.
"""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import quantiles
from tempfile import mkdtemp
from time import perf_counter
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from flotilla.raft.messages import DATA, Configuration, Entry
from flotilla.storage.options import StoreOptions
from flotilla.storage.posix import PosixDisk
from flotilla.storage.store import NodeStore

ROUNDS = 3
#: Size of what is appended at once, and how often a round does it; all of a round fits into one journal file.
SIZES = ((4_096, 400), (100_000, 200), (1_000_000, 40))


@dataclass(frozen=True, slots=True)
class Measurement:
    size_bytes: int
    disk_p50_us: float
    disk_p99_us: float
    journal_p50_us: float
    journal_p99_us: float


@contextmanager
def scratch(parent: Path, name: str) -> Iterator[Path]:
    """An empty folder on the measured disk, gone afterwards."""
    folder = Path(mkdtemp(prefix=f"{name}-", dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def disk_durations(parent: Path, size_bytes: int, count: int) -> list[float]:
    """Seconds for each of `count` appends, pwrite and fdatasync, into a file allocated as journals are."""
    data = os.urandom(size_bytes)
    with scratch(parent, "disk") as folder:
        disk = PosixDisk(str(folder))
        made = disk.open("probe", create=True)
        made.allocate(max(size_bytes * count, StoreOptions().journal_bytes))
        made.sync()
        made.close()
        disk.close()
        descriptor = os.open(folder / "probe", os.O_RDWR)
        durations = []
        try:
            for number in range(count):
                started = perf_counter()
                os.pwrite(descriptor, data, number * size_bytes)
                os.fdatasync(descriptor)
                durations.append(perf_counter() - started)
        finally:
            os.close(descriptor)
    return durations


def journal_durations(parent: Path, size_bytes: int, count: int) -> list[float]:
    """Seconds for each of `count` blocks of one entry: saved, written, synced and finished."""
    data = os.urandom(size_bytes)
    with scratch(parent, "journal") as folder:
        disk = PosixDisk(str(folder))
        store = NodeStore.open(disk, StoreOptions(), lambda entry: None)
        store.create_group(1, Configuration(voters=(1,)))
        commit(store)
        durations = []
        for index in range(1, count + 1):
            started = perf_counter()
            store.save(1, entries=[Entry(index, 1, DATA, data)])
            commit(store)
            durations.append(perf_counter() - started)
        store.close()
        disk.close()
    return durations


def commit(store: NodeStore) -> None:
    """Makes everything saved durable, on this thread."""
    block = store.take_block()
    assert block is not None
    store.write_block(block)
    store.finish_block(block)


def measure(folder: Path) -> Iterator[Measurement]:
    for size_bytes, count in SIZES:
        disk: list[float] = []
        journal: list[float] = []
        for _ in range(ROUNDS):
            disk += disk_durations(folder, size_bytes, count)
            journal += journal_durations(folder, size_bytes, count)
        disk_us, journal_us = ([1e6 * cut for cut in quantiles(all_s, n=100)] for all_s in (disk, journal))
        yield Measurement(size_bytes, disk_us[49], disk_us[98], journal_us[49], journal_us[98])


def bench(
    data: Annotated[Path, typer.Option(help="A folder on the disk to measure; it is left as it was.")] = Path(),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure what a synced append costs on a disk, bare and through the journal."""
    measurements = list(measure(data))
    if as_json:
        typer.echo(json.dumps([asdict(measurement) for measurement in measurements]))
        return
    table = Table()
    for column in ("append", "disk p50", "p99", "journal p50", "p99", "ratio"):
        table.add_column(column, justify="right")
    for row in measurements:
        table.add_row(
            f"{row.size_bytes:,} B",
            *(
                f"{value:,.0f} us"
                for value in (row.disk_p50_us, row.disk_p99_us, row.journal_p50_us, row.journal_p99_us)
            ),
            f"{row.journal_p50_us / row.disk_p50_us:.2f}",
        )
    Console().print(table)
