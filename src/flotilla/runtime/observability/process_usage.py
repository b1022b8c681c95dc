"""What this process uses of its machine, where the system tells it without asking long."""

import gc
import os
import sys
from time import perf_counter_ns, process_time
from typing import Final

from flotilla.runtime.observability.histogram import DurationHistogram

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


class GcPauseTimer:
    """Times the runs of the garbage collector. There is one collector, and it never runs inside of itself."""

    __slots__ = ("_began_ns", "pauses")

    def __init__(self) -> None:
        self._began_ns = 0
        self.pauses = DurationHistogram()

    def start(self) -> None:
        """From now on; a second call changes nothing."""
        if self not in gc.callbacks:
            gc.callbacks.append(self)

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._began_ns = perf_counter_ns()
        else:
            self.pauses.record((perf_counter_ns() - self._began_ns) // 1_000)


#: Of this process. It counts nothing before it is started (`tune_process`).
GC_PAUSE_TIMER: Final = GcPauseTimer()
