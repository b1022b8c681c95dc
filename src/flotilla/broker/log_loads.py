"""Requests that need a part of a log that is not in memory: they wait until it was loaded from disk.

A method that raises NotLoadedError has answered nothing and changed nothing, so it is called again after the load. A
request that has waited for LOAD_MS_MAX is refused: its disk is slow or does not answer, and another replica may be
quicker.
"""

from collections.abc import Callable

from flotilla.broker.ports import Cancel, Consensus, Outside
from flotilla.types.errors import FlotillaError, NotLoadedError, UnavailableError
from flotilla.types.limits import LOAD_MS_MAX


def too_slow() -> UnavailableError:
    return UnavailableError(f"the disk has not returned this part of the log within {LOAD_MS_MAX} ms")


class LogLoads:
    def __init__(self, consensus: Consensus, outside: Outside) -> None:
        self._consensus = consensus
        self._outside = outside

    def run(self, attempt: Callable[[], Cancel | None], failed: Callable[[FlotillaError], None]) -> Cancel | None:
        """Calls `attempt`, again after each load that it needs. `failed` gets any error."""
        try:
            return attempt()
        except NotLoadedError as missing:
            return self.wait(missing, attempt, failed)
        except FlotillaError as error:
            failed(error)
            return None

    def wait(
        self,
        missing: NotLoadedError,
        attempt: Callable[[], Cancel | None],
        failed: Callable[[FlotillaError], None],
    ) -> Cancel:
        """Calls `attempt` after the load that it needs, and after each further one. `failed` gets any error."""
        return _Waiting(self._consensus, self._outside, attempt, failed, missing).cancel


class _Waiting:
    """One request between two attempts."""

    __slots__ = ("_attempt", "_cancel", "_consensus", "_failed", "_is_over", "_stop_timer")

    def __init__(
        self,
        consensus: Consensus,
        outside: Outside,
        attempt: Callable[[], Cancel | None],
        failed: Callable[[FlotillaError], None],
        missing: NotLoadedError,
    ) -> None:
        self._consensus = consensus
        self._attempt = attempt
        self._failed = failed
        self._is_over = False
        #: Of what the last attempt began.
        self._cancel: Cancel | None = None
        self._stop_timer = outside.later(LOAD_MS_MAX, lambda: self._end(too_slow()))
        consensus.when_loaded(missing.group, self._loaded)

    def cancel(self) -> None:
        self._end(None)
        if self._cancel is not None:
            self._cancel()

    def _loaded(self, error: FlotillaError | None) -> None:
        if self._is_over:
            return
        if error is not None:
            self._end(error)
            return
        try:
            self._cancel = self._attempt()
            self._end(None)
        except NotLoadedError as missing:
            self._consensus.when_loaded(missing.group, self._loaded)
        except FlotillaError as failure:
            self._end(failure)

    def _end(self, error: FlotillaError | None) -> None:
        if self._is_over:
            return
        self._is_over = True
        self._stop_timer()
        if error is not None:
            self._failed(error)
