"""One HTTP/1.1 connection of a server: requests in, one after the other, answers out, within bounds of size and time.

An asyncio protocol that calls an ASGI application. `head` and `body` parse; this module schedules. A request is read
when the one before it is answered, so pipelined requests wait in a bounded buffer. An answer that is known as a whole
leaves in one write. A large answer to GET needs room among all answers that clients have not read; others cannot be
repeated, so they leave, and count. A connection is closed if its request's head or body is not complete in time, or if
its client does not read the answer in time. A request whose client has disconnected is cancelled.
"""

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final, Protocol, TypeAlias, cast

from flotilla.frontends.http.http1.asgi import App, Message
from flotilla.frontends.http.http1.body import Body
from flotilla.frontends.http.http1.head import BadRequestError, Head, parse_head

#: Time without a request, for sending a head, and without reading the answer.
IDLE_MS_MAX = 30_000
#: Time for a body, plus its size at this many bytes a second.
BODY_MS_MAX: Final = 10_000
BODY_BYTES_PER_SECOND_MIN: Final = 64 * 1024
#: Request line and headers of one request.
HEAD_BYTES_MAX: Final = 32 * 1024
#: Up to this size an answer needs no room in the budget: errors and status pages always leave.
_SMALL_BYTES_MAX: Final = 64 * 1024
#: Unparsed bytes to buffer before reading pauses.
_BUFFER_BYTES_MAX: Final = 256 * 1024

_HEAD_END: Final = b"\r\n\r\n"
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_STATUS_LINES: Final = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus if status >= 200
}


class Output(Protocol):
    """The bound on answers that clients have not read."""

    def hold(self, change: int) -> None: ...

    def has_room(self, held: int, more: int) -> bool:
        """Whether a connection that holds `held` bytes may hold `more`."""


class NoRoomError(Exception):
    """A large answer that can be asked for again found no room among the unread ones. Nothing of it has left."""


#: Media type and body of the answer to bytes that are no request, made of the reason.
Refuse: TypeAlias = Callable[[str], tuple[str, bytes]]


#: Who is at the other side of a transport; None: it did not say.
Identify: TypeAlias = Callable[[asyncio.BaseTransport], object]


def _nobody(transport: asyncio.BaseTransport) -> object:
    return None


def plain_refusal(reason: str) -> tuple[str, bytes]:
    return "text/plain", reason.encode()


def refused_answer(status: int, media_type: str, body: bytes, retry_after_s: int = 0) -> bytes:
    """The last answer on a connection."""
    headers = f"content-type: {media_type}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n"
    if retry_after_s:
        headers += f"retry-after: {retry_after_s}\r\n"
    return _STATUS_LINES[status] + headers.encode() + b"\r\n" + body


class Connection(asyncio.Protocol):
    def __init__(
        self,
        app: App,
        connections: "dict[Connection, None]",
        idle_ms_max: int = IDLE_MS_MAX,
        refuse: Refuse = plain_refusal,
        body_ms_max: int = BODY_MS_MAX,
        identify: Identify = _nobody,
        output: Output | None = None,
    ) -> None:
        """Adds itself to `connections` when it is made, and removes itself at its end.

        `identify` says who is at the other side; that stands in the scope of every request as `peer_principal`.
        `output` bounds the unread answers of all connections; None: nothing does.
        """
        #: The address of the client, as its socket has it.
        self.peer: object = None
        self._app = app
        self._identify = identify
        #: Who is at the other side; None: it did not say.
        self.peer_principal: object = None
        self.is_encrypted = False
        #: Who made the last request, as the application found out, and what the client calls itself.
        self.caller = ""
        self.agent = ""
        #: When it was connected, and when it last began to wait for a request, by the clock of the loop.
        self.since_s = 0.0
        self.waits_since_s = 0.0
        #: A whole head has come.
        self.has_asked = False
        self._refusal = refuse
        self._connections = connections
        self._idle_s_max = idle_ms_max / 1000
        self._body_s_max = body_ms_max / 1000
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport = cast(asyncio.Transport, None)
        self._buffer = bytearray()
        self._exchange: Exchange | None = None
        #: Answers the request in flight.
        self.task: asyncio.Task[None] | None = None
        #: Fires when the next head or the body is late, and when the client has not read its answer in time.
        self._deadline: asyncio.TimerHandle | None = None
        self._stall: asyncio.TimerHandle | None = None
        #: Clear while the transport's buffer is full.
        self._may_write = asyncio.Event()
        self._may_write.set()
        self._output = output
        #: Of its answers, what it holds of that budget.
        self._unread_bytes = 0
        #: No further request is read.
        self._is_ending = False

    # Called by the loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not checked: uvloop's transports do not derive from asyncio's, though they behave like them.
        self._transport = cast(asyncio.Transport, transport)
        self.is_encrypted = transport.get_extra_info("ssl_object") is not None
        self.peer_principal = self._identify(transport)
        self.peer = transport.get_extra_info("peername")
        self.since_s = self._loop.time()
        self._connections[self] = None
        self._expect_request()

    def connection_lost(self, error: Exception | None) -> None:
        self._connections.pop(self, None)
        self._is_ending = True
        self._set_unread(0)
        _cancel(self._deadline)
        _cancel(self._stall)
        if self.task is not None:
            self.task.cancel()

    def data_received(self, data: bytes) -> None:
        if self._is_ending and self._exchange is None:
            return
        self._buffer += data
        self._read()
        if len(self._buffer) > _BUFFER_BYTES_MAX:
            self._transport.pause_reading()

    def pause_writing(self) -> None:
        self._may_write.clear()
        self._set_unread(self._transport.get_write_buffer_size())
        self._stall = self._loop.call_later(self._idle_s_max, self._transport.abort)

    def resume_writing(self) -> None:
        self._set_unread(0)
        self._may_write.set()
        _cancel(self._stall)

    def _set_unread(self, count: int) -> None:
        if self._output is not None:
            self._output.hold(count - self._unread_bytes)
        self._unread_bytes = count

    @property
    def is_write_paused(self) -> bool:
        return not self._may_write.is_set()

    # Requests.

    def _read(self) -> None:
        """Parses as much as the buffer has."""
        try:
            while not self._transport.is_closing():
                if self._exchange is not None:
                    self._exchange.read(self._buffer)
                    return
                if not self._begin():
                    return
        except BadRequestError as error:
            self._refuse(400, str(error))

    def _begin(self) -> bool:
        """True: a whole head was read, and its request started."""
        # RFC 9112, 2.2: empty lines in front of a request are skipped.
        while self._buffer.startswith(b"\r\n"):
            del self._buffer[:2]
        end = self._buffer.find(_HEAD_END, 0, HEAD_BYTES_MAX + len(_HEAD_END))
        if end < 0:
            if len(self._buffer) > HEAD_BYTES_MAX:
                self._refuse(431, f"a request line and its headers have at most {HEAD_BYTES_MAX} bytes")
            return False
        head = parse_head(bytes(self._buffer[:end]))
        del self._buffer[: end + len(_HEAD_END)]
        _cancel(self._deadline)
        if not self.agent:
            self.agent = next((value.decode("latin-1") for name, value in head.headers if name == b"user-agent"), "")
        self.has_asked = True
        self._exchange = Exchange(self, head)
        if not self._exchange.is_body_over:
            self._expect_body(self._exchange, self._loop.time(), self._body_s_max)
        self.task = self._loop.create_task(self._serve(self._exchange))
        return True

    async def _serve(self, exchange: "Exchange") -> None:
        try:
            await self._app(exchange.scope(), exchange.receive, exchange.send)
            is_whole = exchange.is_answered
        except asyncio.CancelledError:
            is_whole = False
            if not self._transport.is_closing():
                raise
        except Exception as error:
            # The answer has begun, so its status is sent: the client sees that it breaks off.
            is_whole = False
            what = f"the answer to {exchange.head.method} {exchange.head.path} broke off"
            self._loop.call_exception_handler({"message": what, "exception": error, "part": "request"})
        finally:
            self.task = None
        if not is_whole or not exchange.head.is_kept_alive:
            self._transport.close()
        elif exchange.is_body_over:
            self._finish()
        else:
            # The rest of the body is skipped, if it comes in time.
            self._expect_request()
            self.resume_reading()

    def body_ended(self) -> None:
        """The body is complete; if the request is answered already, the next one may begin."""
        if self._exchange is not None and self._exchange.is_answered and self.task is None:
            self._loop.call_soon(self._finish)

    def _finish(self) -> None:
        """The request is answered and its body complete."""
        exchange, self._exchange = self._exchange, None
        if exchange is None:
            return
        if self._is_ending or not exchange.head.is_kept_alive:
            self._transport.close()
            return
        self._expect_request()
        self._transport.resume_reading()
        self._read()

    def _expect_body(self, exchange: "Exchange", since_s: float, wait_s: float) -> None:
        self._deadline = self._loop.call_later(wait_s, self._end_if_slow, exchange, since_s)

    def _end_if_slow(self, exchange: "Exchange", since_s: float) -> None:
        if exchange is not self._exchange or exchange.is_body_over or exchange.is_answered:
            return
        allowed_s = self._body_s_max + exchange.body_bytes / BODY_BYTES_PER_SECOND_MIN
        left_s = since_s + allowed_s - self._loop.time()
        if left_s > 0:
            self._expect_body(exchange, since_s, left_s)
        else:
            self._refuse(408, "the body did not come in time")

    @property
    def is_stranger(self) -> bool:
        """It has asked for nothing yet."""
        return not self.has_asked and not self._transport.is_closing()

    def is_silent(self, silent_s: float) -> bool:
        """It has waited that long for a request, and nobody knows whose it is."""
        is_waiting = self._exchange is None and not self._transport.is_closing()
        is_known = bool(self.caller) or self.peer_principal is not None
        return is_waiting and not is_known and self._loop.time() - self.waits_since_s >= silent_s

    def _expect_request(self) -> None:
        self.waits_since_s = self._loop.time()
        _cancel(self._deadline)
        self._deadline = self._loop.call_later(self._idle_s_max, self._end_if_idle)

    def _end_if_idle(self) -> None:
        if self._exchange is None or self._exchange.is_answered:
            self._end()

    def _end(self) -> None:
        self._transport.close()
        if self._transport.get_write_buffer_size():
            # The client had time to read its answer; `close` alone would wait for it.
            self._transport.abort()

    def _refuse(self, status: int, message: str) -> None:
        """Ends the connection, with an error if no answer has begun."""
        self._is_ending = True
        self._buffer.clear()
        if self._exchange is None or not self._exchange.is_begun:
            self._transport.write(refused_answer(status, *self._refusal(message)))
        if self.task is not None:
            self.task.cancel()
        self._transport.close()

    # Called by exchanges.

    def resume_reading(self) -> None:
        self._transport.resume_reading()
        self._read()

    def has_room(self, size_bytes: int) -> bool:
        """Whether the client may leave as much unread."""
        if self._output is None or size_bytes <= _SMALL_BYTES_MAX:
            return True
        return self._output.has_room(self._unread_bytes, size_bytes)

    async def write(self, data: bytes) -> None:
        """Writes when the transport has room; drops the data if the client has disconnected."""
        if not self._may_write.is_set():
            self._set_unread(self._unread_bytes + len(data))
            await self._may_write.wait()
        if not self._transport.is_closing():
            self._transport.write(data)

    # The end.

    def shutdown(self) -> None:
        """The server closes: the request in flight is answered, and no other one begins."""
        self._is_ending = True
        if self._exchange is None:
            self._transport.close()

    def abort(self) -> None:
        self._transport.abort()


class Exchange:
    """One request and its answer, for an ASGI application."""

    __slots__ = (
        "_body",
        "_connection",
        "_is_chunked",
        "_news",
        "_received",
        "_start",
        "body_bytes",
        "head",
        "is_answered",
        "is_begun",
    )

    def __init__(self, connection: Connection, head: Head) -> None:
        self._connection = connection
        self.head = head
        self._body = Body(head.body_bytes)
        self._received = bytearray()
        #: Received of the body.
        self.body_bytes = 0
        #: Set when more of the body has come.
        self._news: asyncio.Event | None = None
        #: The head of the answer, which leaves with the first bytes of its body.
        self._start = b""
        self._is_chunked = False
        self.is_begun = False
        self.is_answered = False

    def scope(self) -> dict[str, Any]:
        head = self.head
        return {
            "type": "http",
            "scheme": "https" if self._connection.is_encrypted else "http",
            "peer_principal": self._connection.peer_principal,
            "method": head.method,
            "path": head.path,
            "raw_path": head.raw_path,
            "query_string": head.query,
            "headers": head.headers,
            "client": self._connection.peer,
            "connection": self._connection,
        }

    # The body.

    @property
    def is_body_over(self) -> bool:
        return self._body.is_over

    def read(self, buffer: bytearray) -> None:
        """Takes body bytes, unless the application is behind. Raises BadRequestError."""
        if self.is_body_over or (len(self._received) > _BUFFER_BYTES_MAX and not self.is_answered):
            return
        piece = self._body.take(buffer)
        self.body_bytes += len(piece)
        if not self.is_answered:
            # The body of an answered request is skipped.
            self._received += piece
        if self._news is not None and (piece or self._body.is_over):
            self._news.set()
        if self._body.is_over:
            self._connection.body_ended()

    def _is_short(self) -> bool:
        """More of the body must come first."""
        return not self._received and not self._body.is_over

    async def receive(self) -> Message:
        """A piece of the body. After its end, waits until the request is cancelled."""
        if self._is_short() and self.head.expects_continue and not self.is_begun:
            self.head.expects_continue = False
            await self._connection.write(_CONTINUE)
        while self._is_short():
            self._news = asyncio.Event()
            # The buffer may have more of it.
            self._connection.resume_reading()
            await self._news.wait()
        piece = bytes(self._received)
        self._received.clear()
        return {"type": "http.request", "body": piece, "more_body": not self._body.is_over}

    # The answer.

    async def send(self, message: Message) -> None:
        """Raises NoRoomError before anything of the answer has left: then another one may begin."""
        if message["type"] == "http.response.start":
            self._begin(message)
            return
        body: bytes = message.get("body", b"")
        is_last = not message.get("more_body", False)
        data = b"" if self.head.method == "HEAD" else self._framed(body, is_last=is_last)
        if not self.is_begun and self.head.method == "GET" and not self._connection.has_room(len(data)):
            raise NoRoomError
        start, self._start = self._start, b""
        self.is_begun = True
        if is_last:
            self.is_answered = True
            self._received.clear()
        if start or data:
            await self._connection.write(start + data)

    def _begin(self, message: Message) -> None:
        self._is_chunked = False
        names = set()
        parts = [_STATUS_LINES[message["status"]]]
        for name, value in message["headers"]:
            names.add(name)
            parts += (name, b": ", value, b"\r\n")
            if name == b"connection" and value == b"close":
                self.head.is_kept_alive = False
        if b"content-length" not in names:
            if self.head.is_old:
                self.head.is_kept_alive = False
            else:
                self._is_chunked = True
                parts.append(b"transfer-encoding: chunked\r\n")
        if not self.head.is_kept_alive and b"connection" not in names:
            parts.append(b"connection: close\r\n")
        parts.append(b"\r\n")
        self._start = b"".join(parts)

    def _framed(self, body: bytes, *, is_last: bool) -> bytes:
        if not self._is_chunked:
            return body
        chunk = b"%x\r\n%s\r\n" % (len(body), body) if body else b""
        return chunk + b"0\r\n\r\n" if is_last else chunk


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
