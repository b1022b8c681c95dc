"""The journal: the cost of group commit beside the disk's own time.

One block after the other is saved, taken, written and finished on one thread, as the driver and its
journal thread do between them, without the hop between threads. The data fits into one journal
file, so nothing rolls; `sustained` runs long enough to roll and to flush segments behind.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from threading import Thread
from time import perf_counter

from bench.figure import Figure, Goal, compare, relate
from bench.options import BenchOptions
from bench.parts.disk import append_rate
from flotilla.cli.bench.journal_probe import commit
from flotilla.cli.bench.probes import scratch
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


def block_medians(parent: Path, *, groups: tuple[int, int], blocks: int) -> tuple[float, float]:
    """Median seconds for a block of 100 entries of 1 KB, spread over that many groups: of two stores alternately.

    Block by block, because whatever else this machine does meanwhile must hit both alike.
    """
    data = os.urandom(1000)
    durations: dict[int, list[float]] = {count: [] for count in groups}
    with ExitStack() as stack:
        stores: dict[int, NodeStore] = {}
        for count in groups:
            store = stores[count] = stack.enter_context(opened(stack.enter_context(scratch(parent, "journal"))))
            for group in range(1, count + 1):
                store.create_group(group, Configuration(voters=(1,)))
            commit(store)
        for number in range(blocks):
            for count, store in stores.items():
                per_group = 100 // count
                first = number * per_group + 1
                started = perf_counter()
                for group in range(1, count + 1):
                    store.save(group, entries=[Entry(first + place, 1, DATA, data) for place in range(per_group)])
                commit(store)
                durations[count].append(perf_counter() - started)
    return median(durations[groups[0]]), median(durations[groups[1]])


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
    blocks = options.pick(quick=60, full=200)
    medians = [block_medians(options.folder, groups=(100, 1), blocks=blocks) for _ in range(options.rounds)]
    return relate(
        AREA,
        "100 entries of 1 KB in 100 groups, per block",
        "us",
        pairs=[(many * 1e6, one * 1e6) for many, one in medians],
        probe_name="the same in one group",
        goal=Goal(2.0, at_most=True),
    )
