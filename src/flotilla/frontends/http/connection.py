"""One HTTP connection, with the bounds that uvicorn's own protocol leaves open.

uvicorn bounds the head of a request by bytes, but lets a client take any time over it, and cuts off an idle
connection only if not one byte of the next request came. Here a connection that has not sent a whole head
in time is closed, whatever it does meanwhile; so is one that does not read its answer, and one too many. And a
request whose client has gone away is cancelled: nobody waits on behalf of nobody.
"""

import asyncio
from typing import Any

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle
from uvicorn.server import ServerState

#: Clients of HTTP that are connected to one node.
CONNECTION_COUNT_MAX = 1_024
#: How long a connection may be without a request, or be sending the head of one, or not read its answer.
IDLE_MS_MAX = 30_000

_BAD_REQUEST = b'{"code":"INVALID_ARGUMENT","message":"this is no HTTP request","retryable":false}'


class Connection(H11Protocol):
    def __init__(self, config: Config, state: ServerState, idle_ms_max: int = IDLE_MS_MAX) -> None:
        super().__init__(config, state, {})
        self._idle_s_max = idle_ms_max / 1000
        self._app = self.app
        self.app = self._run
        #: What works on the request under way.
        self._running: asyncio.Task[object] | None = None
        #: When the next request must be here, and until when the client must read what waits for it.
        self._deadline: asyncio.TimerHandle | None = None
        self._stall: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > CONNECTION_COUNT_MAX:
            transport.abort()
        else:
            self._expect_request()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        _cancel(self._deadline)
        _cancel(self._stall)
        if self._running is not None:
            self._running.cancel()

    async def _run(self, scope: Any, receive: Any, send: Any) -> None:
        self._running = asyncio.current_task()
        try:
            await self._app(scope, receive, send)
        except asyncio.CancelledError:
            if not self.transport.is_closing():
                raise
        finally:
            self._running = None

    def on_response_complete(self) -> None:
        self._expect_request()
        # This may begin with the next request at once.
        super().on_response_complete()

    def _expect_request(self) -> None:
        _cancel(self._deadline)
        self._deadline = self.loop.call_later(self._idle_s_max, self._end_if_idle)

    def _end_if_idle(self) -> None:
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is None or cycle.response_complete:
            self._end()

    def _end(self) -> None:
        self.transport.close()
        if self.transport.get_write_buffer_size():
            # The client had all this time to read its answer; closing alone would wait for it.
            self.transport.abort()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stall = self.loop.call_later(self._idle_s_max, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        _cancel(self._stall)

    def shutdown(self) -> None:
        """The server closes. A connection that is on its way out already may not be able to say goodbye."""
        if not self.transport.is_closing():
            super().shutdown()

    def send_400_response(self, msg: str) -> None:
        """Garbage in place of a request, or in the middle of a body whose answer is already on its way."""
        try:
            headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
            head = self.conn.send(h11.Response(status_code=400, headers=headers, reason=b"Bad Request"))
            body = self.conn.send(h11.Data(data=_BAD_REQUEST))
            end = self.conn.send(h11.EndOfMessage())
            self.transport.write(b"".join(part for part in (head, body, end) if part))
        except h11.LocalProtocolError:
            pass
        self.transport.close()


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
