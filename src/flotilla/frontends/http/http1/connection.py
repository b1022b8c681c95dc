"""One HTTP/1.1 connection: requests in, one after the other, answers out, within bounds of size and time.

A protocol of asyncio with an ASGI application behind it. Heads and bodies are parsed elsewhere (`head`, `body`); here
is who waits for what. A request is read when the one before it has been answered, so what a client sends ahead waits
in a bounded buffer. An answer that is known whole leaves in one write. A connection that has not sent a whole head in
time is closed, whatever it does meanwhile; so is one that does not read its answer, and one too many. A request whose
client has gone away is cancelled: nobody waits on behalf of nobody.
"""

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final, TypeAlias, cast

from flotilla.frontends.http.http1.asgi import App, Message
from flotilla.frontends.http.http1.body import Body
from flotilla.frontends.http.http1.head import BadRequestError, Head, parse_head

#: Clients of HTTP that are connected to one node.
CONNECTION_COUNT_MAX = 1_024
#: How long a connection may be without a request, or be sending the head of one, or not read its answer.
IDLE_MS_MAX = 30_000
#: Request line and headers of one request.
HEAD_BYTES_MAX: Final = 32 * 1024
#: What may wait to be understood; then nothing more is read for the moment.
_BUFFER_BYTES_MAX: Final = 256 * 1024

_HEAD_END: Final = b"\r\n\r\n"
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_STATUS_LINES: Final = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus if status >= 200
}


#: Media type and body of the answer to bytes that are no request, made of the reason.
Refuse: TypeAlias = Callable[[str], tuple[str, bytes]]


def plain_refusal(reason: str) -> tuple[str, bytes]:
    return "text/plain", reason.encode()


class Connection(asyncio.Protocol):
    def __init__(
        self,
        app: App,
        connections: "set[Connection]",
        idle_ms_max: int = IDLE_MS_MAX,
        refuse: Refuse = plain_refusal,
    ) -> None:
        """Enters `connections` when it is made, and leaves them when it is gone."""
        self._app = app
        self._refusal = refuse
        self._connections = connections
        self._idle_s_max = idle_ms_max / 1000
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport = cast(asyncio.Transport, None)
        self._buffer = bytearray()
        self._exchange: Exchange | None = None
        #: What works on the request under way.
        self.task: asyncio.Task[None] | None = None
        #: When the next request must be here, and until when the client must read what waits for it.
        self._deadline: asyncio.TimerHandle | None = None
        self._stall: asyncio.TimerHandle | None = None
        #: Clear while the client does not read.
        self._may_write = asyncio.Event()
        self._may_write.set()
        #: No request is taken any more.
        self._is_ending = False

    # What the loop tells.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not checked: uvloop's transports do not derive from asyncio's, though they behave like them.
        self._transport = cast(asyncio.Transport, transport)
        self._connections.add(self)
        if len(self._connections) > CONNECTION_COUNT_MAX:
            self._transport.abort()
        else:
            self._expect_request()

    def connection_lost(self, error: Exception | None) -> None:
        self._connections.discard(self)
        self._is_ending = True
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
        self._stall = self._loop.call_later(self._idle_s_max, self._transport.abort)

    def resume_writing(self) -> None:
        self._may_write.set()
        _cancel(self._stall)

    @property
    def is_write_paused(self) -> bool:
        return not self._may_write.is_set()

    # Requests.

    def _read(self) -> None:
        """Gets as far as the buffer reaches."""
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
        """Whether a whole head was there."""
        # Empty lines in front of a request are tolerated, as the standard asks for.
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
        self._exchange = Exchange(self, head)
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
            # In the middle of an answer, or it would be one: all that can be said is that it ends here.
            is_whole = False
            what = f"the answer to {exchange.head.method} {exchange.head.path} broke off"
            self._loop.call_exception_handler({"message": what, "exception": error})
        finally:
            self.task = None
        if not is_whole or not exchange.head.is_kept_alive:
            self._transport.close()
        elif exchange.is_body_over:
            self._finish()
        else:
            # The rest of the body is passed over, as long as it comes in time.
            self._expect_request()
            self.resume_reading()

    def body_ended(self) -> None:
        """All of the body has come; if it is answered already, the next request may begin."""
        if self._exchange is not None and self._exchange.is_answered and self.task is None:
            self._loop.call_soon(self._finish)

    def _finish(self) -> None:
        """A request is answered and over."""
        exchange, self._exchange = self._exchange, None
        if exchange is None:
            return
        if self._is_ending or not exchange.head.is_kept_alive:
            self._transport.close()
            return
        self._expect_request()
        self._transport.resume_reading()
        self._read()

    def _expect_request(self) -> None:
        _cancel(self._deadline)
        self._deadline = self._loop.call_later(self._idle_s_max, self._end_if_idle)

    def _end_if_idle(self) -> None:
        if self._exchange is None or self._exchange.is_answered:
            self._end()

    def _end(self) -> None:
        self._transport.close()
        if self._transport.get_write_buffer_size():
            # The client had all this time to read its answer; closing alone would wait for it.
            self._transport.abort()

    def _refuse(self, status: int, message: str) -> None:
        """Garbage in place of a request, or in the middle of a body whose answer may be on its way."""
        self._is_ending = True
        self._buffer.clear()
        if self._exchange is None or not self._exchange.is_begun:
            media_type, body = self._refusal(message)
            headers = f"content-type: {media_type}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
            self._transport.write(_STATUS_LINES[status] + headers.encode() + body)
        if self.task is not None:
            self.task.cancel()
        self._transport.close()

    # What exchanges need.

    def resume_reading(self) -> None:
        self._transport.resume_reading()
        self._read()

    async def write(self, data: bytes) -> None:
        """Waits while the client does not read. What a client that is gone would have got is dropped."""
        if not self._may_write.is_set():
            await self._may_write.wait()
        if not self._transport.is_closing():
            self._transport.write(data)

    # The end.

    def shutdown(self) -> None:
        """The server closes: the request under way may be answered, and no other one begins."""
        self._is_ending = True
        if self._exchange is None:
            self._transport.close()

    def abort(self) -> None:
        self._transport.abort()


class Exchange:
    """One request and its answer, as an ASGI application sees them."""

    __slots__ = (
        "_body",
        "_connection",
        "_is_chunked",
        "_news",
        "_received",
        "_start",
        "head",
        "is_answered",
        "is_begun",
    )

    def __init__(self, connection: Connection, head: Head) -> None:
        self._connection = connection
        self.head = head
        self._body = Body(head.body_bytes)
        self._received = bytearray()
        #: More of the body has come.
        self._news: asyncio.Event | None = None
        #: Of the answer, until its body is known, too.
        self._start = b""
        self._is_chunked = False
        self.is_begun = False
        self.is_answered = False

    def scope(self) -> dict[str, Any]:
        head = self.head
        return {
            "type": "http",
            "method": head.method,
            "path": head.path,
            "raw_path": head.raw_path,
            "query_string": head.query,
            "headers": head.headers,
        }

    # The body.

    @property
    def is_body_over(self) -> bool:
        return self._body.is_over

    def read(self, buffer: bytearray) -> None:
        """Takes what is there, unless the application has enough to do. Raises BadRequestError."""
        if self.is_body_over or (len(self._received) > _BUFFER_BYTES_MAX and not self.is_answered):
            return
        piece = self._body.take(buffer)
        if not self.is_answered:
            # What nobody has read when it is answered is passed over.
            self._received += piece
        if self._news is not None and (piece or self._body.is_over):
            self._news.set()
        if self._body.is_over:
            self._connection.body_ended()

    def _is_short(self) -> bool:
        """More of it has to come first."""
        return not self._received and not self._body.is_over

    async def receive(self) -> Message:
        """A piece of the body. Whoever asks for more than there is waits until it is cancelled."""
        if self._is_short() and self.head.expects_continue and not self.is_begun:
            self.head.expects_continue = False
            await self._connection.write(_CONTINUE)
        while self._is_short():
            self._news = asyncio.Event()
            # What waits in the buffer may be more of it.
            self._connection.resume_reading()
            await self._news.wait()
        piece = bytes(self._received)
        self._received.clear()
        return {"type": "http.request", "body": piece, "more_body": not self._body.is_over}

    # The answer.

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._begin(message)
            return
        body: bytes = message.get("body", b"")
        is_last = not message.get("more_body", False)
        data = b"" if self.head.method == "HEAD" else self._framed(body, is_last=is_last)
        start, self._start = self._start, b""
        self.is_begun = True
        if is_last:
            self.is_answered = True
            self._received.clear()
        if start or data:
            await self._connection.write(start + data)

    def _begin(self, message: Message) -> None:
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
