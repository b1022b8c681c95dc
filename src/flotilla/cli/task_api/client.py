"""A client of the task API for commands: one connection at a time to one of several endpoints.

Uses the standard library only. An endpoint that does not answer is replaced by the next one. Every request may be
repeated: an enqueued task has an idempotency key, and a lease can be settled only once.
"""

import json
from collections.abc import Sequence
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from flotilla.security.client_tls import Tls, fresh_context, tls_of_environment
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


class Endpoint(NamedTuple):
    host: str
    port: int
    is_encrypted: bool = False


class TaskClient:
    """For one thread."""

    def __init__(self, urls: str, timeout_ms: int) -> None:
        """`urls` are separated by commas. Raises InvalidArgumentError."""
        self._endpoints = read_urls(urls)
        self._timeout_s = timeout_ms / 1000
        self._connection: HTTPConnection | None = None

    def ask(self, method: str, path: str, body: object = None, *, wait_ms: int = 0) -> Any:
        """The answer of an endpoint. Raises FlotillaError; UnavailableError if no endpoint answers."""
        error: OSError | HTTPException | None = None
        # An open connection may have been closed meanwhile, which says nothing about its endpoint.
        for _ in range(len(self._endpoints) + (self._connection is not None)):
            try:
                return self._ask(method, path, body, wait_ms)
            except FlotillaError:
                # The endpoint has answered; some of these are OSErrors, too.
                raise
            except (OSError, HTTPException) as failure:
                error = failure
                self.close()
                self._endpoints.append(self._endpoints.pop(0))
        raise UnavailableError(f"no endpoint answers: {error}") from error

    def _ask(self, method: str, path: str, body: object, wait_ms: int) -> Any:
        connection = self._connection
        if connection is None:
            connection = self._connection = _connection(self._endpoints[0])
        connection.timeout = self._timeout_s + wait_ms / 1000
        if connection.sock is not None:
            connection.sock.settimeout(connection.timeout)
        data = None if body is None else json.dumps(body).encode()
        connection.request(method, path, data, {"Content-Type": "application/json"} if data is not None else {})
        response = connection.getresponse()
        try:
            answer = json.loads(response.read())
        except ValueError:
            raise UnknownError(f"not an endpoint of Flotilla: status {response.status} and no JSON") from None
        if response.status >= 300:
            raise _error(answer)
        return answer

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _connection(endpoint: Endpoint) -> HTTPConnection:
    if not endpoint.is_encrypted:
        return HTTPConnection(endpoint.host, endpoint.port)
    context = fresh_context(tls_of_environment() or Tls()).get()
    return HTTPSConnection(endpoint.host, endpoint.port, context=context)


def read_urls(text: str) -> list[Endpoint]:
    """Raises InvalidArgumentError."""
    found: list[Endpoint] = []
    for url in filter(None, (part.strip() for part in text.split(","))):
        try:
            parts = urlsplit(url if "://" in url else f"http://{url}")
            port = parts.port or _PORT
        except ValueError:
            parts, port = urlsplit(""), 0
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/") or parts.query:
            raise InvalidArgumentError(f"{url!r} is not of the form http://host:port or https://host:port")
        found.append(Endpoint(parts.hostname, port, parts.scheme == "https"))
    if not found:
        raise InvalidArgumentError("at least one endpoint is needed, such as " + DEFAULT_HTTP)
    return found


def _error(answer: Any) -> FlotillaError:
    if not isinstance(answer, dict):
        return UnknownError("not an endpoint of Flotilla")
    error = _ERRORS.get(str(answer.get("code")), UnavailableError if answer.get("retryable") else UnknownError)
    return error(str(answer.get("message", "")))


def as_path(*segments: str) -> str:
    """A path of checked ids. Raises InvalidArgumentError."""
    for segment in segments:
        if not segment.isascii() or not segment.replace("-", "").replace(".", "").replace("_", "").isalnum():
            raise InvalidArgumentError(f"{segment!r} is not the id of a task")
    return "/" + "/".join(segments)


def query(**values: object) -> str:
    """The query of a URL; values must need no quoting."""
    given: Sequence[str] = [f"{name}={value}" for name, value in values.items() if value is not None]
    return f"?{'&'.join(given)}" if given else ""
