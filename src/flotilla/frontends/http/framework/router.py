"""The router: finds the operation of a request, parses and checks the request by it, and sends the answer.

A plain ASGI application: a framework on top cost more time than the task API itself. Paths without parameters are one
look-up; the others are compared segment by segment with the patterns of the same length. Every failure has the one
shape of an error.
"""

import asyncio
import re
from collections.abc import Iterable
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, unquote

from flotilla.frontends.http.framework.errors import (
    UnsupportedMediaError,
    error_response,
    fault_response,
    not_allowed,
    not_found,
    refusal,
)
from flotilla.frontends.http.framework.operation import Answer, Call, Operation
from flotilla.frontends.http.framework.response import Response, json_response
from flotilla.frontends.http.framework.schema import read_json
from flotilla.frontends.http.http1.asgi import Receive, Scope, Send
from flotilla.types.errors import INVALID_ARGUMENT, FlotillaError, InvalidArgumentError

#: In a path, what a proxy in front might read as another one: slashes, control characters, half an encoding.
_AMBIGUOUS: Final = re.compile(r"%(?:[01][0-9a-f]|7f|2f|5c|(?![0-9a-f]{2}))", re.IGNORECASE)


class _Place(NamedTuple):
    """One path with its operations."""

    #: None for a parameter, whose name is in `names`.
    segments: tuple[str | None, ...]
    names: tuple[str, ...]
    by_method: dict[str, Operation]

    def match(self, segments: list[str]) -> dict[str, str] | None:
        """The parameters; None: the path does not match."""
        values = []
        for expected, found in zip(self.segments, segments, strict=True):
            if expected is None:
                if not found:
                    return None
                values.append(found)
            elif expected != found:
                return None
        return dict(zip(self.names, values, strict=True))


class Router:
    def __init__(self, operations: Iterable[Operation]) -> None:
        self._plain: dict[str, _Place] = {}
        #: Patterns by the number of their segments.
        self._others: dict[int, list[_Place]] = {}
        for operation in operations:
            self._place(operation.path).by_method[operation.method] = operation

    def _place(self, path: str) -> _Place:
        segments = path.split("/")
        names = tuple(segment[1:-1] for segment in segments if segment.startswith("{"))
        if not names:
            return self._plain.setdefault(path, _Place(tuple(segments), (), {}))
        pattern = tuple(None if segment.startswith("{") else segment for segment in segments)
        places = self._others.setdefault(len(segments), [])
        for place in places:
            if place.segments == pattern and place.names == names:
                return place
        places.append(_Place(pattern, names, {}))
        return places[-1]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = await self._answer(scope, receive)
        await response.send(send)

    async def _answer(self, scope: Scope, receive: Receive) -> Response:
        try:
            found = self._find(scope)
            if found is None:
                return not_found(scope)
            place, parameters = found
            # A HEAD is a GET whose body the protocol below leaves out.
            method = "GET" if scope["method"] == "HEAD" else scope["method"]
            operation = place.by_method.get(method)
            if operation is None:
                return not_allowed(scope, place.by_method)
            answer = await operation.handler(await _read(operation, parameters, scope, receive))
            return json_response(answer.body, answer.status) if isinstance(answer, Answer) else answer
        except FlotillaError as error:
            return refusal(error)
        except UnsupportedMediaError as error:
            return error_response(INVALID_ARGUMENT, str(error), status=415)
        except Exception as error:
            what = f"{scope['method']} {scope['path']} failed"
            asyncio.get_running_loop().call_exception_handler({"message": what, "exception": error, "part": "request"})
            return fault_response()

    def route_of(self, scope: Scope) -> str:
        """The path of the operation, with the names of its parameters; for traces."""
        try:
            found = self._find(scope)
        except InvalidArgumentError:
            found = None
        if found is None:
            return "*"
        names = iter(found[0].names)
        return "/".join([f"{{{next(names)}}}" if part is None else part for part in found[0].segments])

    def _find(self, scope: Scope) -> tuple[_Place, dict[str, str]] | None:
        # As received: only parameters may be encoded.
        raw = scope["raw_path"].decode("ascii")
        if _AMBIGUOUS.search(raw) is not None:
            raise InvalidArgumentError("a path has no encoded slashes and control characters")
        place = self._plain.get(raw)
        if place is not None:
            return place, {}
        segments = raw.split("/")
        for other in self._others.get(len(segments), ()):
            parameters = other.match(segments)
            if parameters is not None:
                return (other, parameters) if _decode(parameters) else None
        return None


def _decode(parameters: dict[str, str]) -> bool:
    """False: they are not UTF-8. Nothing has such a name."""
    try:
        for name, value in parameters.items():
            if "%" in value:
                parameters[name] = unquote(value, errors="strict")
    except UnicodeDecodeError:
        return False
    return True


async def _read(operation: Operation, parameters: dict[str, str], scope: Scope, receive: Receive) -> Call:
    checks = operation.path_checks
    path = {name: checks[name].parse(value) for name, value in parameters.items()}
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    query = _read_query(operation, scope["query_string"])
    body = None if operation.body is None else await _read_body(operation, headers, receive)
    return Call(path, query, body, headers)


def _read_query(operation: Operation, text: bytes) -> dict[str, Any]:
    """The query's parameters. Unknown and repeated ones are refused: a mistyped name must not be ignored."""
    found: dict[str, Any] = {}
    if text:
        known = operation.query_checks
        try:
            given = parse_qsl(text.decode(), keep_blank_values=True, errors="strict", max_num_fields=100)
        except ValueError as error:
            raise InvalidArgumentError(f"the query cannot be read: {error}") from None
        for name, value in given:
            if name not in known:
                raise InvalidArgumentError(f"there is no parameter {name[:60]!r}")
            if name in found:
                raise InvalidArgumentError(f"the parameter {name} is given more than once")
            found[name] = known[name].parse(value)
    for parameter in operation.query:
        if parameter.name not in found:
            if parameter.is_required:
                raise InvalidArgumentError(f"the parameter {parameter.name} is required")
            if "default" in parameter.schema:
                found[parameter.name] = parameter.schema["default"]
    return found


async def _read_body(operation: Operation, headers: dict[str, str], receive: Receive) -> Any:
    kind = headers.get("content-type", "")
    # Also without a body: what another site makes a browser send unasked is never JSON.
    if kind.partition(";")[0].strip().lower() != operation.body_type:
        raise UnsupportedMediaError(f"the Content-Type must be {operation.body_type}, also of an empty body")
    message = await receive()
    pieces: list[bytes] = [message.get("body", b"")]
    while message.get("more_body"):
        message = await receive()
        pieces.append(message.get("body", b""))
    body = b"".join(pieces)
    check = operation.body_check
    return body if check is None else check.check(read_json(body or b"{}"))
