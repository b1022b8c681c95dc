"""Errors over gRPC: the status from the error table, and the details in trailing metadata."""

from typing import Any, NoReturn, TypeAlias

import grpc

from flotilla.gateway.gateway import TIMEOUT_MS_DEFAULT
from flotilla.types.errors import FlotillaError

#: A call in flight.
Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"

#: The text travels in a header, which must be small.
_TEXT_CHARS_MAX = 1_000
#: A call with a later deadline, or none, gets an answer within this time.
_TIMEOUT_MS_MAX = 60_000


async def fail(context: Context, error: FlotillaError) -> NoReturn:
    """Ends a call with an error."""
    status = grpc.StatusCode[error.row.grpc_status]
    await context.abort(status, str(error)[:_TEXT_CHARS_MAX], trailing_metadata(error))
    raise AssertionError("abort always raises")


def trailing_metadata(error: FlotillaError) -> tuple[tuple[str, str], ...]:
    """The facts of an error for programs."""
    row = error.row
    found = [
        ("flotilla-error", row.name),
        ("flotilla-code", str(row.code)),
        ("flotilla-retryable", "true" if row.retryable else "false"),
    ]
    if error.retry_after_ms:
        found.append(("flotilla-retry-after-ms", str(error.retry_after_ms)))
    return tuple(found)


def time_left_ms(context: Context) -> int:
    """Time until the deadline of the call, within bounds."""
    # None without a deadline, unlike its type.
    seconds: float | None = context.time_remaining()
    if seconds is None:
        return TIMEOUT_MS_DEFAULT
    return max(min(int(seconds * 1000), _TIMEOUT_MS_MAX), 1)
