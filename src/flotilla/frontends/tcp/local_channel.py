"""The broker's side of a connection from within its own process: values in the place of frames, and no socket.

A node's own gateway reaches the broker through it. It keeps every rule of a connection: the handshake, the bound on
requests, the budgets that all connections share, subscriptions, withdrawals, and the drain at shutdown. Requests are
served inside the write that brings them; answers of one iteration of the loop leave together at its end. The reader
of the answers is this process, so none stay unread and no transfer can be slow: there is nothing to tick.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast

from flotilla.codec.client.frames import Answer, Incoming
from flotilla.codec.client.handover import Answers, hand_over_answer, size_of
from flotilla.frontends.tcp.connection import CLOSING, OPEN, WITH_BATCH, Connection
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.ids import Index


class LocalChannelOwner(Protocol):
    """The server, as its channels see it."""

    def local_connection_for(self, channel: "LocalChannel") -> "LocalBrokerConnection": ...

    def schedule(self, channel: "LocalChannel") -> None:
        """Has `flush` called at the end of this iteration of the loop, once."""

    def lost(self, channel: "LocalChannel") -> None: ...


class LocalBrokerConnection(Connection):
    """A Connection that is given values, each with its correlation id, and gives values."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        #: Requests that the bounds have stopped; as many as one connection may make.
        self._stopped: deque[tuple[int, Incoming, Index]] = deque()

    def put(self, requests: Sequence[tuple[int, Incoming, Index]]) -> None:
        if self.state != CLOSING:
            self._stopped.extend(requests)

    def pump(self) -> bool:
        stopped = self._stopped
        while stopped and self.is_reading:
            if self.state == CLOSING:
                stopped.clear()
                break
            correlation_id, request, metadata_index = stopped[0]
            # Only batches are kept for long, and only they are counted.
            if isinstance(request, WITH_BATCH) and not self._reserve(len(request.batch)):
                break
            stopped.popleft()
            held, self._frame_bytes = self._frame_bytes, 0
            ticket = self._admit(correlation_id, request, held, metadata_index)
            if ticket is not None:
                self._serve(ticket)
        return not stopped

    def _send(self, correlation_id: int, answer: Answer) -> None:
        try:
            answer = hand_over_answer(answer)
        except InvalidArgumentError as error:
            # An answer that fits no frame. The client can ask for less.
            answer = hand_over_answer(error)
        if not self._output:
            self._wake()
        self._output.append((correlation_id, answer, self._new_metadata_index()))
        self._output_count += 1
        size = size_of(answer)
        self.output_bytes += size
        self._budgets.output.hold(size)


class LocalChannel:
    """Implements client LocalTransport; the server treats it like the channel of a socket."""

    def __init__(
        self, owner: LocalChannelOwner, received: Callable[[Answers], None], lost: Callable[[str], None]
    ) -> None:
        self.connection = owner.local_connection_for(self)
        self._owner = owner
        self._received = received
        self._lost = lost
        #: `flush` has been scheduled.
        self.is_scheduled = False
        self._is_ended = False
        #: No bytes travel.
        self.received_bytes = 0
        self.sent_bytes = 0

    # What the client calls.

    def writelines(self, requests: Sequence[Any]) -> None:
        self.connection.put(requests)
        self.connection.pump()

    def abort(self) -> None:
        self.cut("")

    # What the server calls.

    def flush(self) -> None:
        """Hands over the answers, ends what is at its end, and goes on where bounds had stopped it."""
        self.is_scheduled = False
        connection = self.connection
        output = cast(Answers, connection.take_output())
        if self._is_ended:
            return
        if output:
            self._received(output)
        if connection.state != OPEN:
            if connection.is_drained:
                connection.finish("shutting down")
            if connection.state == CLOSING:
                self.cut("")
        connection.pump()

    def tick(self) -> None:
        """A second has passed."""

    def cut(self, reason: str) -> None:
        """Ends at once; answers that are not handed over are lost."""
        self.connection.finish(reason)
        if not self._is_ended:
            self._is_ended = True
            asyncio.get_running_loop().call_soon(self._end)

    def _end(self) -> None:
        self.connection.take_output()
        self._owner.lost(self)
        self._lost(self.connection.reason)
