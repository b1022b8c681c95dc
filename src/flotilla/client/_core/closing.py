"""Close timeouts of `with` blocks: the full limit normally, 2 s after an interrupt.

After Ctrl-C or a cancelled task, a broker that does not answer must not delay the end for half a minute. An error of
closing is logged then, because the interrupt is the exception that propagates.
"""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from flotilla.client._duration import Duration, milliseconds
from flotilla.machine import steady_ms
from flotilla.types.errors import FlotillaError

#: The user wants the end now; an answer that is in flight takes less.
INTERRUPTED_MS_MAX: Final = 2_000

_INTERRUPTS: Final = (KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError)

_LOG = logging.getLogger(__name__)


class TimeLimit:
    """The time left of a limit that several steps share."""

    def __init__(self, timeout_ms: Duration | None) -> None:
        """None: no shared limit, each step has its own."""
        self._deadline_ms = None if timeout_ms is None else steady_ms() + milliseconds(timeout_ms)

    @property
    def left_ms(self) -> int | None:
        return None if self._deadline_ms is None else max(self._deadline_ms - steady_ms(), 0)

    @property
    def left_seconds(self) -> float | None:
        left_ms = self.left_ms
        return None if left_ms is None else left_ms / 1000


def limit_after(error: BaseException | None) -> int | None:
    """How long closing may take when a block is left by `error`; None: no limit of its own."""
    return INTERRUPTED_MS_MAX if isinstance(error, _INTERRUPTS) else None


@contextmanager
def leaving(error: BaseException | None, what: str) -> Iterator[int | None]:
    """Wraps the closing of a block that is left by `error`, and yields its time limit.

    The first error wins: an error of closing is raised only if the block raised none.
    """
    limit_ms = limit_after(error)
    try:
        yield limit_ms
    except FlotillaError as failure:
        if error is None:
            raise
        if limit_ms is not None:
            _LOG.warning("%s was interrupted: %s", what, failure)
