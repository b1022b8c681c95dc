"""The one shape of an error over HTTP, whatever went wrong: {"code", "message", "retryable"}.

Codes and statuses come from the table of errors. Where HTTP is more particular than the table (a method that
a path does not have, a body that is too large) the status is HTTP's and the code the table's nearest.
"""

import asyncio
from collections.abc import Mapping

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from flotilla.types.errors import INVALID_ARGUMENT, NOT_FOUND, UNKNOWN, ErrorCode, FlotillaError

#: How much of a path an error repeats.
_PATH_CHARS_MAX = 200
_ROWS = {404: NOT_FOUND}


def error_response(
    row: ErrorCode, message: str, *, status: int = 0, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """`status` is the row's own unless given."""
    body = {"code": row.name, "message": message, "retryable": row.retryable}
    return JSONResponse(body, status or row.http_status, headers)


async def on_flotilla_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, FlotillaError)
    headers = {"Retry-After": str(-(-error.retry_after_ms // 1000))} if error.retry_after_ms else None
    return error_response(error.row, str(error), headers=headers)


async def on_http_error(request: Request, error: Exception) -> Response:
    """What the router refuses: no such path, no such method."""
    assert isinstance(error, HTTPException)
    row = _ROWS.get(error.status_code, INVALID_ARGUMENT)
    message = f"{error.detail}: {request.method} {request.url.path[:_PATH_CHARS_MAX]}"
    return error_response(row, message, status=error.status_code, headers=error.headers)


async def on_fault(request: Request, error: Exception) -> Response:
    """The program is wrong: reported here, and the client learns no more than that."""
    message = f"{request.method} {request.url.path} failed"
    asyncio.get_running_loop().call_exception_handler({"message": message, "exception": error})
    return error_response(UNKNOWN, "an internal error; the node's log has more")
