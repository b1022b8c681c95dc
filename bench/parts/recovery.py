"""Opening a store after a crash, against `dd` of the same files.

The worst case is everything still in the journal: every byte is read, checked and kept in memory until
maintenance, behind the open store, has written it into segments. The usual one is flushed: segments have
an index, and only what is behind the last flush is read whole. Opening writes a checkpoint, so every
round opens a fresh copy.
"""

import os
import shutil
from pathlib import Path
from time import perf_counter

from bench.figure import Figure, Goal, compare
from bench.options import BenchOptions
from bench.parts.disk import drop_from_cache, files_under, read_rate, settle
from bench.parts.journal import opened
from flotilla.cli.bench.journal_probe import commit
from flotilla.cli.bench.probes import scratch
from flotilla.raft.messages import DATA, Configuration, Entry

AREA = "recovery"
BLOCK_BYTES = 1_000_000


def fill(folder: Path, *, total_bytes: int, entry_bytes: int, is_flushed: bool) -> None:
    """A log of one group, written in blocks of a megabyte."""
    data = os.urandom(entry_bytes)
    per_block = BLOCK_BYTES // entry_bytes
    with opened(folder) as store:
        store.create_group(1, Configuration(voters=(1,)))
        commit(store)
        for number in range(total_bytes // BLOCK_BYTES):
            first = number * per_block + 1
            store.save(1, entries=[Entry(first + place, 1, DATA, data) for place in range(per_block)])
            commit(store)
            while is_flushed and (job := store.plan_maintenance()) is not None:
                job.run()
                store.finish_maintenance(job)


def open_rate(folder: Path) -> float:
    size_bytes = sum(path.stat().st_size for path in files_under(folder))
    started = perf_counter()
    with opened(folder):
        return size_bytes / (perf_counter() - started)


#: Entry size, whether flushed, and megabytes in a full run. A journal keeps no more than a few files of 64 MB
#: before they are flushed, so that case is smaller.
CASES = ((100_000, True, 1000), (1_000, True, 300), (100_000, False, 200), (1_000, False, 100))


def measure(options: BenchOptions) -> list[Figure]:
    figures = []
    for entry_bytes, is_flushed, megabytes in CASES:
        size_mb = options.pick(quick=megabytes // 4, full=megabytes)
        # Small entries are reported, without a goal: they cost by their number, not by their bytes.
        goal = Goal(0.5 if entry_bytes >= 100_000 else None)
        where = "flushed" if is_flushed else "all in the journal"
        with scratch(options.folder, "recovery") as folder:
            fill(folder / "made", total_bytes=size_mb * 1_000_000, entry_bytes=entry_bytes, is_flushed=is_flushed)
            for is_cold in (False, True):
                name = f"{size_mb} MB, entries of {entry_bytes // 1000} KB, {where}"
                figures.append(_compare(options, folder, name, goal, is_cold=is_cold))
    return figures


def _compare(options: BenchOptions, folder: Path, name: str, goal: Goal, *, is_cold: bool) -> Figure:
    made, copy = folder / "made", folder / "copy"

    def subject() -> float:
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(made, copy)
        settle()
        if is_cold:
            drop_from_cache(copy)
        return open_rate(copy)

    def probe() -> float:
        if is_cold:
            drop_from_cache(made)
        return read_rate(made)

    return compare(
        AREA,
        f"{name}, {'from disk' if is_cold else 'cached'}",
        "B/s",
        subject=subject,
        probe=probe,
        probe_name="dd",
        goal=goal,
        rounds=options.pick(quick=1, full=3),
    )
