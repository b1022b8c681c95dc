"""Waiting for a condition, with a limit for slow machines."""

import time
from collections.abc import Callable
from typing import Any

from flotilla.types.errors import FlotillaError

WAIT_S_MAX = 120.0


def wait_until(
    is_enough: Callable[[], bool], what: str, *, seconds: float = WAIT_S_MAX, query: Any = None, pause_s: float = 0.2
) -> None:
    """Looks until it is so. A query that has failed meanwhile raises what it failed with."""
    deadline = time.monotonic() + seconds
    error: FlotillaError | None = None
    while time.monotonic() < deadline:
        if query is not None and query.exception() is not None:
            raise query.exception()
        try:
            if is_enough():
                return
        except FlotillaError as seen:
            # The cluster may be in between.
            error = seen
        time.sleep(pause_s)
    raise AssertionError(f"waited {seconds} s for {what}" + (f"; last seen: {error}" if error else ""))
