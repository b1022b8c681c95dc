"""Probes of the disk alone, with the same bytes."""

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from time import perf_counter

from flotilla.cli.bench.probes import disk_durations


def append_rate(parent: Path, chunk_bytes: int, count: int) -> float:
    """Bytes a second when each chunk is appended with pwrite and fdatasync."""
    return chunk_bytes * count / sum(disk_durations(parent, chunk_bytes, count))


def shared_durations(parent: Path, chunk_bytes: int, count: int, writers: int) -> list[list[float]]:
    """The same by several writers at once, each with a file of its own; a list for each."""
    with ThreadPoolExecutor(writers) as pool:
        jobs = [pool.submit(disk_durations, parent, chunk_bytes, count) for _ in range(writers)]
        return [job.result() for job in jobs]


def settle() -> None:
    """Waits until the kernel has written its dirty pages, which would slow down the next measurement."""
    os.sync()


def sync_p50(parent: Path, chunk_bytes: int, count: int) -> float:
    return median(disk_durations(parent, chunk_bytes, count))


def files_under(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def drop_from_cache(folder: Path) -> None:
    """Makes the next read come from the disk."""
    for path in files_under(folder):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def read_rate(folder: Path) -> float:
    """Bytes a second at which `dd` reads all files of a folder, as the cache happens to be."""
    size_bytes = 0
    started = perf_counter()
    for path in files_under(folder):
        subprocess.run(["dd", f"if={path}", "of=/dev/null", "bs=1M", "status=none"], check=True)
        size_bytes += path.stat().st_size
    return size_bytes / (perf_counter() - started)
