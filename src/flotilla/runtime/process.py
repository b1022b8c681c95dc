"""Tuning of the process that a node runs in. The owner of the process calls it once.

The interpreter switches threads every 5 ms by default: a journal thread that comes back from a
sync would wait that long for a busy loop (in a prototype p99 went from 2.2 to 1.5 ms with 0.2 ms).
Objects that exist after the start stay; frozen, they are not traversed in every full collection.
A node frees tens of megabytes at once, whenever a journal file has been flushed, and soon needs them
again. Returning them to the system in between costs page faults: allocating and filling a megabyte
in that pattern took 390 us, and 150 with the memory kept.
"""

import ctypes
import gc
import sys

from flotilla.runtime.observability.process_usage import GC_PAUSE_TIMER
from flotilla.types.limits import MIB

SWITCH_INTERVAL_S = 0.0002
#: The middle generation is collected while it is small, in a few milliseconds, and the oldest hardly ever: most of a
#: node's memory is not garbage, and most garbage is young.
GC_THRESHOLDS = (10_000, 4, 1_000)
#: Free memory to keep, and the size from which an allocation is returned as soon as it is freed.
TRIM_THRESHOLD_BYTES = 128 * MIB
MMAP_THRESHOLD_BYTES = 32 * MIB

# Names of glibc's mallopt.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3


def tune_process() -> None:
    """Call it after everything has been loaded and started."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    # Only now: the collection above takes long once, and would hide all later pauses.
    GC_PAUSE_TIMER.start()
    _keep_freed_memory()


def _keep_freed_memory() -> None:
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    # Other C libraries have no mallopt; nothing but speed depends on this.
    if mallopt is not None:
        mallopt(_M_TRIM_THRESHOLD, TRIM_THRESHOLD_BYTES)
        mallopt(_M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES)
