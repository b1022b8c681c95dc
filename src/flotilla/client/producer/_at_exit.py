"""What producers still hold when a process ends and nobody has closed them.

It is sent then, and waited for, but not for long: the process ends in any case. Consumers are left as they are,
because nobody has said that what they had in hand was done.
"""

import atexit
import logging
import warnings
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import ClassVar, Final, Protocol
from weakref import WeakSet

from flotilla.client._core.closing import TimeLimit
from flotilla.client.producer._batch import Batch, count_records
from flotilla.types.errors import ConnectionClosedError, FlotillaError

#: For all producers of a process together.
EXIT_MS_MAX: Final = 5_000

_LOG = logging.getLogger(__name__)


class Sending(Protocol):
    """A producer whose records leave by themselves, if the process lives."""

    topic: str

    @property
    def is_usable(self) -> bool:
        """Neither closed nor another process's."""

    def unresolved(self) -> list[Batch]: ...

    def hurry(self) -> None: ...

    def flush(self, *, timeout_ms: int | None = None) -> None: ...


class _Open:
    """The producers that were made and may still exist. Nothing is kept by that."""

    producers: ClassVar[WeakSet[Sending]] = WeakSet()
    is_watched: ClassVar[bool] = False


def flush_at_exit(producer: Sending) -> None:
    """Has it flushed when the process ends, unless it is closed by then.

    What is set up before this is taken down after it.
    """
    _Open.producers.add(producer)
    if not _Open.is_watched:
        _Open.is_watched = True
        atexit.register(_at_exit)


def _at_exit() -> None:
    unsent: dict[Sending, list[Batch]] = {}
    for producer in list(_Open.producers):
        if producer.is_usable:
            unsent[producer] = producer.unresolved()
            with suppress(ConnectionClosedError):
                producer.hurry()
    limit = TimeLimit(EXIT_MS_MAX)
    for producer, batches in unsent.items():
        try:
            producer.flush(timeout_ms=limit.left_ms)
        except (FlotillaError, TimeoutError) as error:
            _report(producer.topic, batches, error)
    # Last, because a warning may be an error.
    for producer, batches in unsent.items():
        if batches:
            warn_unclosed(f"a producer of {producer.topic}", batches)


def _report(topic: str, batches: Sequence[Batch], error: Exception) -> None:
    lost = count_records([batch for batch in batches if not batch.is_done or batch.error is not None])
    if lost:
        _LOG.warning("the process ends, and %d records for %s may not be stored: %s", lost, topic, error)
    else:
        _LOG.warning("records for %s failed before the process ended: %s", topic, error)


def warn_unclosed(what: str, unsent: Iterable[Batch] = ()) -> None:
    """Somebody forgot to close it, when these were still to be sent."""
    count = count_records(unsent)
    text = f"{what} was not closed" + (f" when {count} of its records had no answer" if count else "")
    warnings.warn(text, ResourceWarning, stacklevel=3)
