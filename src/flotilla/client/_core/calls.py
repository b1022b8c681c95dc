"""One request from submission to its result, over any number of attempts.

A call has three results: a reply, so it is done; OutcomeUnknownError, so it may be done or not; any other error, so it
is certainly not done. Whether it may be retried follows from the request's effect.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from flotilla.types.errors import (
    DeadlineError,
    FlotillaError,
    NotFoundError,
    OutcomeUnknownError,
    StorageFailedError,
    TopicGrownError,
    UnauthenticatedError,
    UnknownError,
)
from flotilla.types.ids import Index
from flotilla.types.operations.request import ONCE, READ, Effect, Reply, Request, Route

#: A broker that lags behind may not know a new topic. NOT_FOUND is believed at this attempt.
NOT_FOUND_ATTEMPTS_MAX: Final = 5

CallResult: TypeAlias = Reply | FlotillaError
#: Errors of a broker after which the request may have been carried out.
UNSURE: Final = (OutcomeUnknownError, StorageFailedError, UnknownError)


class ClientCall:
    """The state of a call. It belongs to the session once it is submitted."""

    __slots__ = (
        "answer_by_ms",
        "attempts",
        "correlation_id",
        "deadline_ms",
        "done",
        "due_ms",
        "effect",
        "is_sent",
        "is_single",
        "is_unsure",
        "last_error",
        "link",
        "metadata_index",
        "request",
        "route",
        "wait_ms",
    )

    def __init__(
        self,
        request: Request,
        deadline_ms: int,
        done: Callable[[CallResult], None],
        *,
        route: Route | None = None,
        effect: Effect | None = None,
        is_single: bool = False,
        metadata_index: Index = 0,
    ) -> None:
        """`done` is called exactly once unless the call is cancelled. A single call is attempted only once.

        `route` and `effect` override those of the request. `metadata_index` is what its broker must know, beside all
        that the client has seen.
        """
        self.request = request
        self.route = request.route if route is None else route
        self.deadline_ms = deadline_ms
        self.done = done
        self.effect = request.effect if effect is None else effect
        self.is_single = is_single
        self.metadata_index = metadata_index
        #: How long the broker may wait before it answers.
        self.wait_ms: int = getattr(request, "wait_ms", 0)
        #: The connection it is sent on or waits for; 0: none.
        self.link = 0
        #: It is in flight, under this id and until that time.
        self.is_sent = False
        self.correlation_id = 0
        self.answer_by_ms = 0
        #: From this time on the answer is due.
        self.due_ms = 0
        #: Failed attempts, and the error of the last one.
        self.attempts = 0
        self.last_error: FlotillaError | None = None
        #: An attempt may have been carried out.
        self.is_unsure = False

    def failed(self, error: FlotillaError, *, is_unsure: bool) -> None:
        """An attempt ended without a reply."""
        self.link = 0
        self.is_sent = False
        self.attempts += 1
        self.last_error = error
        if self.effect != READ and (is_unsure or isinstance(error, UNSURE)):
            self.is_unsure = True

    def may_repeat(self, error: FlotillaError) -> bool:
        """Whether another attempt is allowed and can help."""
        if self.effect == ONCE and self.is_unsure:
            return False
        if isinstance(error, NotFoundError) and not self.request.retries_not_found:
            return False
        if isinstance(error, TopicGrownError):
            # The caller has to count the partitions anew.
            return False
        return is_passing(error, self.attempts)

    def final_error(self, error: FlotillaError) -> FlotillaError:
        """The result when there is no other attempt."""
        if not self.is_unsure or isinstance(error, OutcomeUnknownError):
            return error
        return outcome_unknown(error)

    @property
    def is_perhaps_done(self) -> bool:
        """An attempt may have been carried out, or is in flight."""
        return self.is_unsure or (self.is_sent and self.effect != READ)

    def overdue(self) -> FlotillaError:
        """The result when the deadline has passed."""
        if self.is_perhaps_done:
            self.is_unsure = True
            return outcome_unknown(self.last_error)
        return deadline_passed(self.last_error)


def is_passing(error: FlotillaError, attempts: int) -> bool:
    """Whether the same request can succeed later."""
    if isinstance(error, NotFoundError | UnauthenticatedError):
        # A broker may not know a new topic or a new user yet.
        return attempts < NOT_FOUND_ATTEMPTS_MAX
    return error.retryable


def outcome_unknown(cause: FlotillaError | None) -> OutcomeUnknownError:
    error = OutcomeUnknownError(f"it may or may not have happened{_because(cause)}")
    error.__cause__ = cause
    return error


def deadline_passed(cause: FlotillaError | None) -> DeadlineError:
    error = DeadlineError(f"not done in time, and nothing has happened{_because(cause)}")
    error.__cause__ = cause
    return error


def _because(cause: FlotillaError | None) -> str:
    return "; no answer came" if cause is None else f"; the last attempt ended with {cause.code}: {cause}"
