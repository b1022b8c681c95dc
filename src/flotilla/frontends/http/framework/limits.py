"""A layer around the routes that bounds every body, and all of them together, and dates every answer.

It counts a body while it is read, so a body without a Content-Length is bounded as well. A body that no route reads is
never in memory. A body takes its bytes from a budget before it is read, and gives them back when its request is
answered. A request that finds no room is refused with a time to retry after.
"""

from email.utils import formatdate
from functools import lru_cache

from flotilla.frontends.http.framework.errors import error_response, refusal
from flotilla.frontends.http.http1.asgi import App, Message, Receive, Scope, Send
from flotilla.frontends.http.http1.connection import NoRoomError
from flotilla.frontends.tcp.budget import Budgets, ByteBudget
from flotilla.machine import now_ms
from flotilla.types.errors import INVALID_ARGUMENT, OverloadedError
from flotilla.types.limits import CLIENT_FRAME_BYTES_MAX, HTTP_REQUEST_BYTES_MAX

#: Any batch fits.
BODY_BYTES_MAX = CLIENT_FRAME_BYTES_MAX
#: `Retry-After` of OVERLOADED.
_RETRY_MS = 1_000


class _TooLargeError(Exception):
    """Ends a request; is caught in this module."""


class _Share:
    """What one body has taken from the budgets."""

    __slots__ = ("_guard", "_taken", "announced_bytes", "received_bytes")

    def __init__(self, guard: "Guard", announced_bytes: int) -> None:
        self._guard = guard
        self._taken: list[tuple[ByteBudget, int]] = []
        self.announced_bytes = announced_bytes
        self.received_bytes = 0

    def begin(self) -> None:
        """Takes a body of known length as a whole. Raises OverloadedError."""
        if self.announced_bytes and not self._taken:
            self._take(self.announced_bytes)

    def count(self, size_bytes: int) -> None:
        """Takes a body of unknown length as it comes. Raises OverloadedError."""
        self.received_bytes += size_bytes
        if not self.announced_bytes and size_bytes:
            self._take(size_bytes)

    def _take(self, size_bytes: int) -> None:
        budget = self._guard.budgets.of(max(self.announced_bytes, self.received_bytes))
        if not budget.take(size_bytes):
            raise _overloaded("too many bodies are in flight at this node")
        self._taken.append((budget, size_bytes))

    def give(self) -> None:
        for budget, size_bytes in self._taken:
            budget.give(size_bytes)
        self._taken.clear()


class Guard:
    def __init__(self, app: App, body_bytes_max: int = BODY_BYTES_MAX, budgets: Budgets | None = None) -> None:
        """`budgets`: those that the endpoints of a node share."""
        self._app = app
        self._body_bytes_max = body_bytes_max
        self.budgets = budgets or Budgets(HTTP_REQUEST_BYTES_MAX)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http", "only HTTP is served, neither websockets nor a lifespan"
        share = _Share(self, _announced_bytes(scope))
        has_answered = False

        async def counted() -> Message:
            share.begin()
            message = await receive()
            share.count(len(message.get("body", b"")))
            self._check_body(share.received_bytes)
            return message

        async def dated(message: Message) -> None:
            nonlocal has_answered
            if message["type"] == "http.response.start":
                has_answered = True
                _complete(message["headers"])
            try:
                await send(message)
            except NoRoomError:
                has_answered = False
                raise _overloaded("too many answers of this node are unread") from None

        try:
            self._check_body(share.announced_bytes)
            await self._app(scope, counted, dated)
        except _TooLargeError as error:
            if not has_answered:
                # The rest of the body is not read.
                headers = {"Connection": "close"}
                response = error_response(INVALID_ARGUMENT, str(error), status=413, headers=headers)
                await response.send(dated)
        except OverloadedError as error:
            if not has_answered:
                # The rest of the body is skipped as it comes.
                await refusal(error).send(dated)
        finally:
            share.give()

    def _check_body(self, size_bytes: int) -> None:
        if size_bytes > self._body_bytes_max:
            raise _TooLargeError(f"a body has at most {self._body_bytes_max} bytes")


def _overloaded(message: str) -> OverloadedError:
    error = OverloadedError(message)
    error.retry_after_ms = _RETRY_MS
    return error


def _announced_bytes(scope: Scope) -> int:
    """The Content-Length, which the protocol below has checked; 0 without one."""
    return next((int(value) for name, value in scope["headers"] if name == b"content-length"), 0)


def _complete(headers: list[tuple[bytes, bytes]]) -> None:
    names = {name for name, _ in headers}
    headers.append((b"date", _date(now_ms() // 1000)))
    if b"cache-control" not in names:
        headers.append((b"cache-control", b"no-store"))


@lru_cache(maxsize=2)
def _date(time_s: int) -> bytes:
    """Formatted once a second."""
    return formatdate(time_s, usegmt=True).encode()
