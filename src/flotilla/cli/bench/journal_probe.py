"""The cost of a synced append, in the journal and on the bare disk.

Every acknowledgement waits for a sync, so the disk decides the latency. The two alternate, because a shared machine is
never quiet.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles
from time import perf_counter

from flotilla.cli.bench.probes import disk_durations, scratch
from flotilla.raft.messages import DATA, Configuration, Entry
from flotilla.storage.options import StoreOptions
from flotilla.storage.posix import PosixDisk
from flotilla.storage.store import NodeStore

ROUNDS = 3
#: Size and number of appends in a round; a round fits into one journal file.
SIZES = ((4_096, 400), (100_000, 200), (1_000_000, 40))


@dataclass(frozen=True, slots=True)
class Append:
    size_bytes: int
    disk_p50_us: float
    disk_p99_us: float
    journal_p50_us: float
    journal_p99_us: float


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
    """Makes saved entries durable, on this thread."""
    block = store.take_block()
    assert block is not None
    store.write_block(block)
    store.finish_block(block)


def measure_appends(folder: Path) -> Iterator[Append]:
    for size_bytes, count in SIZES:
        disk: list[float] = []
        journal: list[float] = []
        for _ in range(ROUNDS):
            disk += disk_durations(folder, size_bytes, count)
            journal += journal_durations(folder, size_bytes, count)
        disk_us, journal_us = ([1e6 * cut for cut in quantiles(all_s, n=100)] for all_s in (disk, journal))
        yield Append(size_bytes, disk_us[49], disk_us[98], journal_us[49], journal_us[98])
