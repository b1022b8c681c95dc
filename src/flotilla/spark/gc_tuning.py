"""What Python's collector of cycles looks at in a process of Spark's, where it is run after every task."""

import gc
from functools import cache

from pyspark import TaskContext


def spare_collections() -> None:
    """Has the collector pass over all that this process has loaded by now. Once, and only in a process of tasks.

    What there is to look at are modules, and looking costs more than a small task: measured 30 to 70 ms of processor
    time after each, while the driver writes its checkpoint on the same machine. Modules never become garbage.
    """
    if TaskContext.get() is not None:
        _freeze()


@cache
def _freeze() -> None:
    gc.collect()
    gc.freeze()
