"""The flush of unclosed producers when the process exits.

Buffered records are sent and waited for, but not for long: the process exits in any case. Consumers are left alone,
because the application has not acknowledged the messages that it was working on.
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

#: For all producers of the process together.
EXIT_MS_MAX: Final = 5_000

_LOG = logging.getLogger(__name__)


class Sending(Protocol):
    """A producer with a background thread that sends its records."""

    topic: str

    @property
    def is_usable(self) -> bool:
        """It is open, and belongs to this process."""

    def unresolved(self) -> list[Batch]: ...

    def hurry(self) -> None: ...

    def flush(self, *, timeout_ms: int | None = None) -> None: ...


class _Open:
    """The producers of this process, by weak reference."""

    producers: ClassVar[WeakSet[Sending]] = WeakSet()
    is_watched: ClassVar[bool] = False


def flush_at_exit(producer: Sending) -> None:
    """Flushes the producer when the process exits, unless it is closed by then.

    Exit handlers run in reverse order: the ones that were registered before this run after it.
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
    # Last, because warnings may be configured to raise.
    for producer, batches in unsent.items():
        if batches:
            warn_unclosed(f"a producer of {producer.topic}", batches)


def _report(topic: str, batches: Sequence[Batch], error: Exception) -> None:
    lost = count_records([batch for batch in batches if not batch.is_done or batch.error is not None])
    if lost:
        _LOG.warning("the process exits, and %d records for %s may not be stored: %s", lost, topic, error)
    else:
        _LOG.warning("records for %s failed before the process exited: %s", topic, error)


def warn_unclosed(what: str, unsent: Iterable[Batch] = ()) -> None:
    """Warns that `what` was not closed, and how many records of `unsent` had no answer."""
    count = count_records(unsent)
    text = f"{what} was not closed" + (f" when {count} of its records had no answer" if count else "")
    warnings.warn(text, ResourceWarning, stacklevel=3)


def report_unanswered(topic: str, unsent: Sequence[Batch]) -> None:
    """Logs that a producer was closed with records in flight: the application may not look at their deliveries."""
    if unsent:
        count = count_records(unsent)
        _LOG.warning("a producer of %s was closed before %d of its records had an answer", topic, count)
