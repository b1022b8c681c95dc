"""The task API as commands use it: one connection at a time to one of several doors, with what Python brings along.

A door that does not answer is left for the next one. Everything here may be repeated: what is enqueued has an
idempotency key, and the end of a lease is refused by name the second time.
"""

import json
from collections.abc import Sequence
from http.client import HTTPConnection, HTTPException
from typing import Any, Final
from urllib.parse import urlsplit

from flotilla.types.errors import (
    ALL_ERRORS,
    FlotillaError,
    InvalidArgumentError,
    NotLeaderError,
    UnavailableError,
    UnknownError,
)

DEFAULT_HTTP: Final = "http://127.0.0.1:7680"
_PORT: Final = 7680
_ERRORS: Final = {error.row.name: error for error in ALL_ERRORS if error is not NotLeaderError}


class TaskClient:
    """For one thread."""

    def __init__(self, urls: str, timeout_ms: int) -> None:
        """`urls` are separated by commas. Raises InvalidArgumentError."""
        self._doors = read_urls(urls)
        self._timeout_s = timeout_ms / 1000
        self._connection: HTTPConnection | None = None

    def ask(self, method: str, path: str, body: object = None, *, wait_ms: int = 0) -> Any:
        """What a door answers. Raises FlotillaError; UnavailableError if none of them does."""
        error: OSError | HTTPException | None = None
        # A connection that was kept may be closed by now, which says nothing about its door.
        for _ in range(len(self._doors) + (self._connection is not None)):
            try:
                return self._ask(method, path, body, wait_ms)
            except FlotillaError:
                # The endpoint has answered; some of these are OSErrors, too.
                raise
            except (OSError, HTTPException) as failure:
                error = failure
                self.close()
                self._doors.append(self._doors.pop(0))
        raise UnavailableError(f"no door answers: {error}") from error

    def _ask(self, method: str, path: str, body: object, wait_ms: int) -> Any:
        connection = self._connection
        if connection is None:
            host, port = self._doors[0]
            connection = self._connection = HTTPConnection(host, port)
        connection.timeout = self._timeout_s + wait_ms / 1000
        if connection.sock is not None:
            connection.sock.settimeout(connection.timeout)
        data = None if body is None else json.dumps(body).encode()
        connection.request(method, path, data, {"Content-Type": "application/json"} if data is not None else {})
        response = connection.getresponse()
        try:
            answer = json.loads(response.read())
        except ValueError:
            raise UnknownError(f"this is no door of Flotilla: status {response.status} and no JSON") from None
        if response.status >= 300:
            raise _error(answer)
        return answer

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def read_urls(text: str) -> list[tuple[str, int]]:
    """Hosts and ports. Raises InvalidArgumentError."""
    found: list[tuple[str, int]] = []
    for url in filter(None, (part.strip() for part in text.split(","))):
        try:
            parts = urlsplit(url if "://" in url else f"http://{url}")
            port = parts.port or _PORT
        except ValueError:
            parts, port = urlsplit(""), 0
        if parts.scheme != "http" or not parts.hostname or parts.path.strip("/") or parts.query:
            raise InvalidArgumentError(f"{url!r} is not of the form http://host:port")
        found.append((parts.hostname, port))
    if not found:
        raise InvalidArgumentError("at least one door is needed, such as " + DEFAULT_HTTP)
    return found


def _error(answer: Any) -> FlotillaError:
    if not isinstance(answer, dict):
        return UnknownError("this is no door of Flotilla")
    error = _ERRORS.get(str(answer.get("code")), UnavailableError if answer.get("retryable") else UnknownError)
    return error(str(answer.get("message", "")))


def as_path(*segments: str) -> str:
    """A path of ids that were typed by hand."""
    for segment in segments:
        if not segment.isascii() or not segment.replace("-", "").replace(".", "").replace("_", "").isalnum():
            raise InvalidArgumentError(f"{segment!r} is no id of a task")
    return "/" + "/".join(segments)


def query(**values: object) -> str:
    """The part of an address behind the path; values need no quoting."""
    given: Sequence[str] = [f"{name}={value}" for name, value in values.items() if value is not None]
    return f"?{'&'.join(given)}" if given else ""
