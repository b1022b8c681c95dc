"""How a block is left: in peace with all the time that its limits give, after an interrupt soon.

Somebody who presses Ctrl-C, or cancels a task, wants the end now, and a broker that does not answer must not keep it
for half a minute. What has no answer by then is told in the log, because the interrupt itself is on its way up.
"""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from flotilla.client._core.asyncio_network import now_ms
from flotilla.client.producer._batch import Batch, count_records
from flotilla.types.errors import FlotillaError

#: So long a block that was interrupted waits for answers.
INTERRUPTED_MS_MAX: Final = 2_000

_INTERRUPTS: Final = (KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError)

_LOG = logging.getLogger(__name__)


class TimeLimit:
    """How much time is left for several things that are done one after the other."""

    def __init__(self, timeout_ms: int | None) -> None:
        """None: as much as each of them takes by itself."""
        self._deadline_ms = None if timeout_ms is None else now_ms() + timeout_ms

    @property
    def left_ms(self) -> int | None:
        return None if self._deadline_ms is None else max(self._deadline_ms - now_ms(), 0)


def limit_after(error: BaseException | None) -> int | None:
    """How long closing may take when a block is left by this; None: as long as it takes."""
    return INTERRUPTED_MS_MAX if isinstance(error, _INTERRUPTS) else None


@contextmanager
def leaving(error: BaseException | None, what: str) -> Iterator[int | None]:
    """Closes a block that is left by `error`, within the time limit that this gives.

    What went wrong first is what is told: an error of closing is raised only if the block has none of its own.
    """
    limit_ms = limit_after(error)
    try:
        yield limit_ms
    except FlotillaError as failure:
        if error is None:
            raise
        if limit_ms is not None:
            _LOG.warning("%s was interrupted: %s", what, failure)


def report_unanswered(topic: str, unsent: Sequence[Batch]) -> None:
    """Records are given up, and perhaps nobody looks at their deliveries."""
    if unsent:
        count = count_records(unsent)
        _LOG.warning("a producer of %s was closed before %d of its records had an answer", topic, count)
