"""CPU, memory, open files, disk and garbage collections of this process, where the system reports them cheaply."""

import gc
import os
import shutil
import sys
from time import perf_counter_ns, process_time
from typing import Final

from flotilla.runtime.observability import metrics
from flotilla.runtime.observability.histogram import DurationHistogram
from flotilla.runtime.observability.metrics import Exposition

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE") if sys.platform != "win32" else 0


def cpu_seconds() -> float:
    """User and system time, of all threads."""
    return process_time()


def resident_bytes() -> int | None:
    """Memory in use; None where there is no /proc."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * _PAGE_BYTES
    except OSError:
        return None


def open_file_count() -> int | None:
    """Files and sockets; None where there is no /proc."""
    try:
        return len(os.listdir("/proc/self/fd"))
    except OSError:
        return None


def disk_room(folder: str) -> tuple[int, int]:
    """Free and total bytes of the file system of a folder; zeros where there is no such folder."""
    try:
        room = shutil.disk_usage(folder)
    except OSError:
        return 0, 0
    return room.free, room.total


def add_usage(out: Exposition) -> None:
    """Processor time, memory and open files."""
    out.add(metrics.PROCESS_CPU_SECONDS, cpu_seconds())
    for metric, value in (
        (metrics.PROCESS_RESIDENT_BYTES, resident_bytes()),
        (metrics.PROCESS_OPEN_FILES, open_file_count()),
    ):
        if value is not None:
            out.add(metric, value)


class GcPauseTimer:
    """Times the runs of the garbage collector. There is one collector, and it does not nest."""

    __slots__ = ("_began_ns", "pauses")

    def __init__(self) -> None:
        self._began_ns = 0
        self.pauses = DurationHistogram()

    def start(self) -> None:
        """Starts the timing; a second call has no effect."""
        if self not in gc.callbacks:
            gc.callbacks.append(self)

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._began_ns = perf_counter_ns()
        else:
            self.pauses.record((perf_counter_ns() - self._began_ns) // 1_000)


#: The timer of this process. `tune_process` starts it.
GC_PAUSE_TIMER: Final = GcPauseTimer()
