"""Garbage collection during a run: rare, because nearly everything that a run makes lives until its end.

Dead processes keep all they had, so collections would look at more and more and find little. What a run leaves behind
is collected when it is over.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

#: The first bounds the garbage of code that leaves much of it: a few collections in a run of a minute.
_THRESHOLDS: Final = (200_000, 10, 1_000)


@contextmanager
def rare_collections() -> Iterator[None]:
    """Around a function that makes a simulation and does not return it."""
    before = gc.get_threshold()
    gc.set_threshold(*_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        # What is older than the run is left alone.
        gc.collect(1)
