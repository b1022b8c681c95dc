"""Garbage collection in Spark's Python workers, which run it after every task."""

import gc
from functools import cache

from pyspark import TaskContext


def spare_collections() -> None:
    """Exempts all objects that this process has loaded from collection. Once, and only in a worker.

    Nearly all of them belong to modules, which never become garbage, and a scan costs more than a small task: measured
    30 to 70 ms of processor time after each, while the driver writes its checkpoint on the same machine.
    """
    if TaskContext.get() is not None:
        _freeze()


@cache
def _freeze() -> None:
    gc.collect()
    gc.freeze()
