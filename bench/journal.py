"""The journal: what group commit adds to the disk's own time.

One block after the other is saved, taken, written and finished on one thread, as the driver and its
journal thread do between them, without the hop between threads. The data fits into one journal
file, so nothing rolls; `sustained` runs long enough to roll and to flush segments behind.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from time import perf_counter

from bench.disk import append_rate
from bench.figure import Figure, Goal, compare
from bench.options import BenchOptions
from flotilla.cli.journal_probe import commit
from flotilla.cli.probes import scratch
from flotilla.raft.messages import DATA, Configuration, Entry
from flotilla.replica.ports import Job
from flotilla.storage.options import StoreOptions
from flotilla.storage.posix import PosixDisk
from flotilla.storage.store import NodeStore

BATCH_BYTES = 100_000
AREA = "journal"


@contextmanager
def opened(folder: Path) -> Iterator[NodeStore]:
    disk = PosixDisk(str(folder))
    store = NodeStore.open(disk, StoreOptions(), lambda entry: None)
    try:
        yield store
    finally:
        store.close()
        disk.close()


def journal_rate(parent: Path, *, batches_per_block: int, blocks: int, groups: int, batch_bytes: int) -> float:
    """Bytes of entries a second, when each block holds that many batches, spread over the groups."""
    data = os.urandom(batch_bytes)
    with scratch(parent, "journal") as folder, opened(folder) as store:
        for group in range(1, groups + 1):
            store.create_group(group, Configuration(voters=(1,)))
        commit(store)
        per_group = batches_per_block // groups
        started = perf_counter()
        for number in range(blocks):
            first = number * per_group + 1
            for group in range(1, groups + 1):
                store.save(group, entries=[Entry(first + place, 1, DATA, data) for place in range(per_group)])
            commit(store)
        elapsed = perf_counter() - started
    return blocks * batches_per_block * batch_bytes / elapsed


def sustained_rate(parent: Path, *, total_bytes: int, batches_per_block: int) -> float:
    """The same for one group over many journal files, with segments flushed on a second thread."""
    data = os.urandom(BATCH_BYTES)
    with scratch(parent, "journal") as folder, opened(folder) as store:
        store.create_group(1, Configuration(voters=(1,)))
        commit(store)
        thread: Thread | None = None
        job: Job | None = None
        index = 0
        started = perf_counter()
        while index * BATCH_BYTES < total_bytes:
            store.save(1, entries=[Entry(index + place, 1, DATA, data) for place in range(1, batches_per_block + 1)])
            index += batches_per_block
            commit(store)
            if thread is not None and not thread.is_alive():
                assert job is not None
                store.finish_maintenance(job)
                thread = None
            if thread is None and (job := store.plan_maintenance()) is not None:
                thread = Thread(target=job.run)
                thread.start()
        elapsed = perf_counter() - started
        if thread is not None:
            thread.join()
    return index * BATCH_BYTES / elapsed


def measure(options: BenchOptions) -> list[Figure]:
    folder = options.folder
    figures = [_group_commit(options, batches=1), _group_commit(options, batches=10)]
    figures.append(_many_groups(options))
    total_bytes = options.pick(quick=100, full=600) * 1_000_000
    figures.append(
        compare(
            AREA,
            "sustained over many files, segments behind",
            "B/s",
            subject=lambda: sustained_rate(folder, total_bytes=total_bytes, batches_per_block=10),
            probe=lambda: append_rate(folder, 10 * BATCH_BYTES, total_bytes // (10 * BATCH_BYTES)),
            probe_name="pwrite + fdatasync",
            goal=Goal(None),
            rounds=max(1, options.rounds // 2),
            note="the segments write every byte a second time",
        )
    )
    return figures


def _group_commit(options: BenchOptions, batches: int) -> Figure:
    blocks = options.pick(quick=100, full=480) // batches
    return compare(
        AREA,
        f"group commit, {batches} x 100 KB a block",
        "B/s",
        subject=lambda: journal_rate(
            options.folder, batches_per_block=batches, blocks=blocks, groups=1, batch_bytes=BATCH_BYTES
        ),
        probe=lambda: append_rate(options.folder, batches * BATCH_BYTES, blocks),
        probe_name="pwrite + fdatasync",
        goal=Goal(0.8),
        rounds=options.rounds,
    )


def _many_groups(options: BenchOptions) -> Figure:
    def block_us(groups: int) -> float:
        blocks = options.pick(quick=30, full=150)
        rate = journal_rate(options.folder, batches_per_block=100, blocks=blocks, groups=groups, batch_bytes=1000)
        return 100_000 / rate * 1e6

    return compare(
        AREA,
        "100 entries of 1 KB in 100 groups, per block",
        "us",
        subject=lambda: block_us(100),
        probe=lambda: block_us(1),
        probe_name="the same in one group",
        goal=Goal(2.0, at_most=True),
        rounds=options.rounds,
    )
