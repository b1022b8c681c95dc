"""One client's connection without a socket or a clock: bytes in, requests out; answers in, bytes out.

    new        only Hello is understood, in a small frame and soon
    open       requests are handed out while the bounds allow, and answered in any order
    draining   what came before is answered; new requests are refused
    closing    nothing is taken in any more; what is to be written leaves, then the connection ends

A request counts as under way until its answer has been handed to the socket, so that a client that
does not read is soon not read from either, and no client gets more than its bound of requests
into one turn of the loop. Its batch counts, here and in the budget of the server, until it is answered, and its
answer until the client has taken it. Who leaves much unread is told to ask again later.
A subscription is a request that is answered many times and stays under way until somebody ends it.
Time is counted in ticks: after a pause of this process one tick finds old silence, not many.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from flotilla.broker.ports import Cancel, Subscription
from flotilla.codec.client.frames import (
    NO_CORRELATION,
    PROTOCOL_VERSION_MAX,
    PROTOCOL_VERSION_MIN,
    Answer,
    Incoming,
    decode_request,
    encode_response,
)
from flotilla.codec.frames import DIRECT_BYTES_MIN, Buffer, FrameReader
from flotilla.frontends.tcp.budget import ByteBudget, OutputBudget
from flotilla.types import limits
from flotilla.types.errors import FlotillaError, InvalidArgumentError, OverloadedError, UnavailableError
from flotilla.types.ids import NodeId
from flotilla.types.operations import Done, Fetch, Fetched, Hello, Metadata, Produce, Reply, Request, Welcome
from flotilla.types.operations.queue import AddCredit, Extend, Poll, Polled, Pushed, Subscribe, Unsubscribe, Withdraw
from flotilla.types.operations.transactions import Stage

TICK_MS = 1_000

NEW = "new"
OPEN = "open"
DRAINING = "draining"
CLOSING = "closing"

#: Answers that nobody misses: the same question can be asked again.
_REPEATABLE = (Fetched, Metadata)
#: Requests with a batch, which holds its part of the budgets until they are answered.
WITH_BATCH = (Produce, Stage)
#: Requests about a subscription that is under way here.
_STEERING = (AddCredit, Unsubscribe)
#: Requests that have much read for them, or leased.
_READING = (Fetch, Poll)
#: Requests that say whose leases they are about.
_OF_MEMBERS = (Poll, Subscribe, Extend)
#: Consumers that one connection is remembered to have had; leases of others end when they run out.
_MEMBER_COUNT_MAX = 1_024
#: What a client is told to wait before it asks again.
_OVERLOADED_RETRY_MS = 100


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    requests_max: int = limits.CONNECTION_REQUEST_COUNT_MAX
    request_bytes_max: int = limits.CONNECTION_REQUEST_BYTES_MAX
    output_bytes_max: int = limits.CONNECTION_OUTPUT_BYTES_MAX
    frame_bytes_max: int = limits.CLIENT_FRAME_BYTES_MAX


class Budgets:
    """What all connections share: small frames and large ones apart, so that slow large ones stop nobody else."""

    __slots__ = ("large", "output", "small")

    def __init__(
        self,
        bytes_max: int = limits.SERVER_REQUEST_BYTES_MAX,
        output_bytes_max: int = limits.SERVER_OUTPUT_BYTES_MAX,
    ) -> None:
        self.small = ByteBudget(bytes_max)
        self.large = ByteBudget(bytes_max)
        self.output = OutputBudget(output_bytes_max)

    def of(self, length: int) -> ByteBudget:
        return self.small if length < DIRECT_BYTES_MIN else self.large


class Host(Protocol):
    """Who answers a Hello, and hears of the end. The service is one."""

    @property
    def node(self) -> NodeId: ...

    @property
    def cluster_id(self) -> str: ...

    def now_ms(self) -> int: ...

    def lost(self, members: Sequence[str]) -> None: ...


class RequestTicket:
    """A request under way. `answer` is its Done; a second answer, or one that comes too late, is dropped."""

    __slots__ = ("_connection", "batch_bytes", "correlation_id", "request")

    def __init__(self, connection: "Connection", correlation_id: int, request: Request, batch_bytes: int) -> None:
        self._connection = connection
        self.correlation_id = correlation_id
        self.request = request
        #: What it holds of the budgets.
        self.batch_bytes = batch_bytes

    def answer(self, answer: Reply | FlotillaError) -> None:
        self._connection.answer(self, answer)


def is_too_slow(ticks: int, moved_bytes: int) -> bool:
    """Whether a transfer that has lasted so long should have come further."""
    allowed_ms = limits.TRANSFER_MS_MAX + moved_bytes * 1000 // limits.TRANSFER_BYTES_PER_SECOND_MIN
    return ticks * TICK_MS > allowed_ms


def _overloaded(message: str) -> OverloadedError:
    error = OverloadedError(message)
    error.retry_after_ms = _OVERLOADED_RETRY_MS
    return error


class Connection:
    def __init__(
        self,
        host: Host,
        budgets: Budgets,
        wake: Callable[[], None],
        serve: Callable[["RequestTicket"], None],
        connection_limits: ConnectionLimits | None = None,
    ) -> None:
        """`wake` is called when there is something to write, or when requests may be handed out again; `serve` with
        each request for the service.
        """
        self.state = NEW
        #: Why it ends, for people; empty while it does not.
        self.reason = ""
        self._host = host
        self._budgets = budgets
        self._wake = wake
        self._serve = serve
        self._limits = connection_limits or ConnectionLimits()
        #: Bytes on their way to becoming frames. A closing connection takes nothing out of it, nor puts anything in.
        self.frames = FrameReader(min(limits.HANDSHAKE_FRAME_BYTES_MAX, self._limits.frame_bytes_max), bytearray)
        #: Bytes of a budget that were taken for the frame under way.
        self._frame_bytes = 0
        self._is_waiting = False
        #: Given to the service and not answered, with what gives them up.
        self._tickets: dict[RequestTicket, Cancel | None] = {}
        #: Those of them that are answered many times, by correlation id.
        self._subscriptions: dict[int, RequestTicket] = {}
        #: Consumers of queue groups that were heard here, in the order of their first word.
        self._members: dict[str, None] = {}
        #: They live elsewhere, and do not end with the connection.
        self._is_gateway = False
        self._batch_bytes = 0
        self._output: list[Any] = []
        self.output_bytes = 0
        self._unwritten_bytes = 0
        #: How many requests are answered in `_output`.
        self._output_count = 0
        self._heard = True
        self._silent_ticks = 0
        self._frame_ticks = 0
        self._frame_number = 0

    # Bytes in, requests out.

    @property
    def is_reading(self) -> bool:
        """Whether more bytes are wanted now. A closing connection reads in order to forget."""
        if self.state == CLOSING:
            return True
        bounds = self._limits
        return (
            not self._is_waiting
            and len(self._tickets) + self._output_count < bounds.requests_max
            and self._batch_bytes < bounds.request_bytes_max
            and self.output_bytes + self._unwritten_bytes < bounds.output_bytes_max
        )

    @property
    def request_count(self) -> int:
        return len(self._tickets) + self._output_count

    @property
    def unread_bytes(self) -> int:
        return self.output_bytes + self._unwritten_bytes

    def _has_output_room(self, more: int = 0) -> bool:
        """Whether what all clients of the node leave unread allows more for this one."""
        return self._budgets.output.has_room(self.unread_bytes, more)

    def set_unwritten(self, count: int) -> None:
        """What the socket's side holds because the client does not take it; kept up to date by that side."""
        if count != self._unwritten_bytes:
            self._budgets.output.hold(count - self._unwritten_bytes)
            self._unwritten_bytes = count

    def received(self, count: int) -> bool:
        """So many bytes were put into the room() of `frames`. Whether more are wanted, as of `pump`."""
        self._heard = True
        if self.state != CLOSING:
            self.frames.received(count)
        return self.pump()

    def feed(self, data: memoryview) -> bool:
        """More bytes, which may be overwritten afterwards. Whether still more are wanted, as of `pump`."""
        self._heard = True
        if self.state == CLOSING:
            return True
        self.frames.put(data)
        is_reading = self.pump()
        self.frames.keep()
        return is_reading

    def pump(self) -> bool:
        """Hands every request that is whole and allowed to the service; whether more bytes are wanted then.

        If so, nothing is left to be handed out until they come.
        """
        while self.is_reading:
            if self.state == CLOSING:
                return True
            try:
                frame = self.frames.take(self._reserve)
                if frame is None:
                    return not self._is_waiting
                ticket = self._understand(frame)
            except InvalidArgumentError as error:
                self.fail(error)
                return True
            if ticket is not None:
                self._serve(ticket)
        return False

    def started(self, ticket: RequestTicket, cancel: Cancel) -> None:
        """The service has taken the request; `cancel` gives it up."""
        if ticket in self._tickets:
            self._tickets[ticket] = cancel
            if isinstance(ticket.request, Subscribe):
                self._subscriptions[ticket.correlation_id] = ticket

    def _reserve(self, length: int) -> bool:
        """Takes of the budget what the next frame needs, or waits for it. A handshake is small and soon over."""
        if self._frame_bytes or self.state == NEW:
            return True
        budget = self._budgets.of(length)
        if not budget.take(length):
            self._is_waiting = True
            budget.wait(self, length, lambda: self._granted(length))
            return False
        self._frame_bytes = length
        return True

    def _granted(self, length: int) -> None:
        self._is_waiting = False
        self._frame_bytes = length
        self._wake()

    def _release(self, count: int) -> None:
        if count:
            self._budgets.of(count).give(count)

    def _understand(self, frame: Buffer) -> RequestTicket | None:
        """What a whole frame asks for. None: it was answered here."""
        held, self._frame_bytes = self._frame_bytes, 0
        try:
            correlation_id, request = decode_request(frame)
        except InvalidArgumentError:
            self._release(held)
            raise
        return self._admit(correlation_id, request, held)

    def _admit(self, correlation_id: int, request: Incoming, held: int) -> RequestTicket | None:
        """The ticket of a request that holds so much of the budgets. None: it was answered here."""
        if type(request) not in WITH_BATCH:
            # Nothing of the frame is kept.
            self._release(held)
            held = 0
            if self.state == OPEN and self._is_settled_here(correlation_id, request):
                return None
        if self.state == OPEN and isinstance(request, Request):
            ticket = RequestTicket(self, correlation_id, request, held)
            self._tickets[ticket] = None
            self._batch_bytes += held
            return ticket
        self._release(held)
        self._converse(correlation_id, request)
        return None

    def _is_settled_here(self, correlation_id: int, request: Incoming) -> bool:
        """Does what a request without a batch means for the connection; whether that is all there is to do."""
        if isinstance(request, _STEERING):
            self._steer(correlation_id, request)
            return True
        if isinstance(request, Withdraw):
            self._withdraw(request.request)
            self._send(correlation_id, Done())
            return True
        if isinstance(request, _READING) and not self._has_output_room():
            # Before that happens.
            self._send(correlation_id, _overloaded("too many answers of this node wait to be read"))
            return True
        if isinstance(request, _OF_MEMBERS) and not self._is_gateway and len(self._members) < _MEMBER_COUNT_MAX:
            self._members[request.member] = None
        return False

    def _steer(self, correlation_id: int, request: AddCredit | Unsubscribe) -> None:
        """More for a subscription, or its end. One that has ended by itself meanwhile is no mistake of the client's."""
        ticket = self._subscriptions.get(request.subscription)
        if ticket is not None:
            subscription = cast(Subscription, self._tickets[ticket])
            if isinstance(request, AddCredit):
                subscription.add_credit(request.messages)
            else:
                self._forget(ticket)
                subscription()
        self._send(correlation_id, Done())

    def _withdraw(self, correlation_id: int) -> None:
        """Has a request wait no longer. One that was answered is no mistake: the two have met on their ways.

        A poll that acknowledges what it takes goes on: it may have committed that, and its answer is all there is then.
        """
        for ticket, cancel in self._tickets.items():
            if ticket.correlation_id == correlation_id:
                request = ticket.request
                is_bound = isinstance(request, Subscribe) or (isinstance(request, Poll) and request.is_auto_ack)
                if cancel is not None and not is_bound:
                    cancel()
                    withdrawn = UnavailableError("the request was withdrawn")
                    self.answer(ticket, Polled([]) if isinstance(request, Poll) else withdrawn)
                return

    def _converse(self, correlation_id: int, request: Incoming) -> None:
        """Everything that is no matter of the service."""
        if self.state == NEW:
            if isinstance(request, Hello):
                self._greet(correlation_id, request)
            else:
                self.fail(InvalidArgumentError("the first request on a connection is Hello"), correlation_id)
        elif isinstance(request, FlotillaError):
            self._send(correlation_id, request)
        elif isinstance(request, Hello):
            self._send(correlation_id, InvalidArgumentError("Hello has been said"))
        else:
            self._send(correlation_id, UnavailableError("the broker is shutting down"))

    def _greet(self, correlation_id: int, hello: Hello) -> None:
        low, high = max(hello.version_min, PROTOCOL_VERSION_MIN), min(hello.version_max, PROTOCOL_VERSION_MAX)
        if low > high:
            offered = f"protocol versions {hello.version_min} to {hello.version_max} are not spoken here"
            spoken = f"this broker speaks {PROTOCOL_VERSION_MIN} to {PROTOCOL_VERSION_MAX}"
            self.fail(InvalidArgumentError(f"{offered}; {spoken}"), correlation_id)
            return
        self.state = OPEN
        self._is_gateway = hello.is_gateway
        self.frames.frame_bytes_max = self._limits.frame_bytes_max
        host = self._host
        frame_bytes_max, requests_max = self._limits.frame_bytes_max, self._limits.requests_max
        welcome = Welcome(high, host.node, host.cluster_id, frame_bytes_max, requests_max, host.now_ms())
        self._send(correlation_id, welcome)

    # Answers in, bytes out.

    def answer(self, ticket: RequestTicket, answer: Reply | FlotillaError) -> None:
        if ticket not in self._tickets:
            return
        if type(answer) is Pushed:
            self._send(ticket.correlation_id, answer)
            return
        self._forget(ticket)
        if self.state == CLOSING:
            return
        if type(answer) in _REPEATABLE and self.unread_bytes >= self._limits.output_bytes_max:
            answer = _overloaded("too many answers wait to be read on this connection")
        elif type(answer) is Fetched and not self._has_output_room(sum(map(len, answer.batches))):
            answer = _overloaded("too many answers of this node wait to be read")
        self._send(ticket.correlation_id, answer)

    def take_output(self) -> list[Any]:
        """Everything there is to write; the requests it answers are under way no longer."""
        output = self._output
        self._output = []
        self._budgets.output.hold(-self.output_bytes)
        self.output_bytes = 0
        self._output_count = 0
        return output

    def _forget(self, ticket: RequestTicket) -> None:
        del self._tickets[ticket]
        if self._subscriptions and self._subscriptions.get(ticket.correlation_id) is ticket:
            del self._subscriptions[ticket.correlation_id]
        held = ticket.batch_bytes
        if held:
            self._batch_bytes -= held
            self._budgets.of(held).give(held)

    def _send(self, correlation_id: int, answer: Answer) -> None:
        try:
            buffers = encode_response(correlation_id, answer)
        except InvalidArgumentError as error:
            # An answer that fits no frame. The client can ask for less.
            buffers = encode_response(correlation_id, error)
        if not self._output:
            self._wake()
        self._output += buffers
        self._output_count += 1
        size = sum(map(len, buffers))
        self.output_bytes += size
        self._budgets.output.hold(size)

    # The end.

    def drain(self) -> None:
        """Answers what is under way and refuses the rest; what waits for news is told that there will be none."""
        if self.state == NEW:
            self.finish("shutting down")
        elif self.state == OPEN:
            self.state = DRAINING
            for ticket, cancel in list(self._tickets.items()):
                if cancel is not None:
                    cancel()
                    self.answer(ticket, UnavailableError("the broker is shutting down"))
            self._wake()

    @property
    def is_drained(self) -> bool:
        return self.state == DRAINING and not self._tickets and not self._output

    def fail(self, error: FlotillaError, correlation_id: int = NO_CORRELATION) -> None:
        """Says what is wrong and ends the connection: the stream has lost its place, or its client has no time."""
        if self.state != CLOSING:
            self._send(correlation_id, error)
            self.finish(str(error))

    def finish(self, reason: str) -> None:
        """Takes nothing in any more and gives up what can be given up. Idempotent: the first reason stands."""
        if self.state == CLOSING:
            return
        self.state = CLOSING
        self.reason = reason
        if self._is_waiting:
            self._is_waiting = False
            self._budgets.small.leave(self)
            self._budgets.large.leave(self)
        self._release(self._frame_bytes)
        self._frame_bytes = 0
        self.frames = FrameReader(self._limits.frame_bytes_max, bytearray)
        # Requests that cannot be given up stay, with what they hold, until the service is done with them.
        for ticket, cancel in list(self._tickets.items()):
            if cancel is not None and ticket in self._tickets:
                self._forget(ticket)
                cancel()
        if self._members:
            self._host.lost(tuple(self._members))
            self._members.clear()
        self._wake()

    # Time.

    def tick(self) -> None:
        """A second has passed. Ends the connection if its client has let a time run out."""
        heard, self._heard = self._heard, False
        self._silent_ticks = 0 if heard or self.request_count else self._silent_ticks + 1
        if self.state == NEW:
            self._frame_ticks += 1
            if self._frame_ticks * TICK_MS > limits.HANDSHAKE_MS_MAX:
                self.fail(UnavailableError(f"no Hello within {limits.HANDSHAKE_MS_MAX} ms"))
        elif self._is_frame_late():
            self.fail(UnavailableError("a frame takes too long"))
        elif self._silent_ticks * TICK_MS >= limits.IDLE_MS_MAX:
            self.finish("idle")

    def _is_frame_late(self) -> bool:
        """Whether the client is too slow in sending the frame under way; waits of our own do not count."""
        frames = self.frames
        if self._frame_number != frames.taken_count or not self.is_reading or not frames.is_midway:
            self._frame_number = frames.taken_count
            self._frame_ticks = 0
            return False
        self._frame_ticks += 1
        return is_too_slow(self._frame_ticks, frames.pending_bytes)
