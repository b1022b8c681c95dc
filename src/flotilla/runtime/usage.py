"""What this process uses of its machine, where the system tells it without asking long."""

import os
import sys
from time import process_time

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
