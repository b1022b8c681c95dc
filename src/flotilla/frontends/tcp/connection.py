"""One client's connection without a socket or a clock: bytes in, requests out; answers in, bytes out.

    new        only Hello is understood, in a small frame and soon; where clients say who they are, so is the log-in
    open       requests are handed out while the bounds allow, and answered in any order
    draining   what came before is answered; new requests are refused
    closing    nothing is taken in any more; what is to be written leaves, then the connection ends

A request is in flight until its answer has been handed to the socket. So reading stops for a client that does not
read its answers, and no client gets more than its bound of requests into one iteration of the loop. The batch of a
request counts against this connection's bound and the server's budget until the request is answered, and the answer
counts until the client has received it. A client that leaves much unread gets OVERLOADED.
A subscription is a request with many answers that stays in flight until it is ended.
Time is counted in ticks: a pause of this process adds one tick of silence, not many.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from flotilla.broker.ports import Cancel, Subscription
from flotilla.broker.ports import Done as Answering
from flotilla.codec.client.frames import (
    NO_CORRELATION,
    PROTOCOL_VERSION_MAX,
    PROTOCOL_VERSION_MIN,
    Answer,
    Incoming,
    decode_request,
    encode_response,
)
from flotilla.codec.frames import Buffer, FrameReader
from flotilla.frontends.room_making import SILENT_MS_MIN
from flotilla.frontends.tcp.budget import Budgets
from flotilla.types import limits
from flotilla.types.access import Principal
from flotilla.types.errors import (
    FlotillaError,
    InvalidArgumentError,
    OverloadedError,
    QuotaExceededError,
    UnauthenticatedError,
    UnavailableError,
)
from flotilla.types.ids import Index, NodeId
from flotilla.types.operations import (
    Authenticate,
    Challenge,
    Done,
    Fetch,
    Fetched,
    Hello,
    Metadata,
    Ping,
    Produce,
    Reply,
    Request,
    Welcome,
)
from flotilla.types.operations.queue import (
    AddCredit,
    Extend,
    LeaveQueue,
    Poll,
    Polled,
    Pushed,
    Subscribe,
    Unsubscribe,
    Withdraw,
)
from flotilla.types.operations.transactions import Stage, StageSettlement

TICK_MS = 1_000

NEW = "new"
OPEN = "open"
DRAINING = "draining"
CLOSING = "closing"

#: Answers that may be replaced by OVERLOADED: the client can ask again and loses nothing.
_REPEATABLE = (Fetched, Metadata)
#: Requests with a batch, which counts against the budgets until they are answered.
WITH_BATCH = (Produce, Stage)
#: Requests about a subscription on the same connection.
_STEERING = (AddCredit, Unsubscribe)
#: Requests with large answers.
_READING = (Fetch, Poll, Subscribe)
#: Requests that name the member whose leases and transactions they are about.
_OF_MEMBERS = (Poll, Subscribe, Extend, StageSettlement)
#: All requests without a batch that mean something for the connection.
_CONCERNING = frozenset((*_STEERING, Ping, Withdraw, *_READING, *_OF_MEMBERS, LeaveQueue))
#: Members that are remembered for one connection. The leases of further ones are not released early; they expire.
_MEMBER_COUNT_MAX = 1_024
#: `retry_after_ms` of OVERLOADED.
_OVERLOADED_RETRY_MS = 100


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    requests_max: int = limits.CONNECTION_REQUEST_COUNT_MAX
    request_bytes_max: int = limits.CONNECTION_REQUEST_BYTES_MAX
    output_bytes_max: int = limits.CONNECTION_OUTPUT_BYTES_MAX
    frame_bytes_max: int = limits.CLIENT_FRAME_BYTES_MAX


class Host(Protocol):
    """What a connection needs of the broker: the facts of Welcome, and a place to report lost members."""

    @property
    def node(self) -> NodeId: ...

    @property
    def cluster_id(self) -> str: ...

    @property
    def metadata_index(self) -> Index: ...

    def now_ms(self) -> int: ...

    def lost(self, members: Sequence[str]) -> None: ...


class Entrance(Protocol):
    """Who a client is, where it has to say so, and what it may do."""

    #: Ways to log in; empty: its certificate says who it is.
    mechanisms: list[str]

    @property
    def is_open(self) -> bool:
        """The client has said who it is, or need not."""

    @property
    def has_ended(self) -> bool:
        """The client had entered, and was removed since, or its token has expired."""

    def step(self, request: Authenticate) -> Challenge:
        """Raises UnauthenticatedError, which ends the connection."""

    def handle(self, request: Request, done: Answering, metadata_index: Index = 0) -> Cancel | None:
        """As the service's."""

    def allows(self, request: Request) -> bool:
        """Whether the client may do this now."""

    def refused(self, request: Request) -> FlotillaError | None:
        """Why it may not; None: it may."""

    @property
    def is_metered(self) -> bool:
        """What the client sends and gets is counted."""

    def enter(self) -> None:
        """The client has said who it is. Raises QuotaExceededError."""

    def leave(self) -> None:
        """The connection has ended."""

    def received(self, request: Request, size_bytes: int, resume: Callable[[], None]) -> bool:
        """Counts a request. True: the client is not to be read until `resume` is called."""

    def sent(self, request: Request, size_bytes: int, resume: Callable[[], None] | None) -> bool:
        """Counts an answer; the same. `resume` is None while the client is not read anyway."""


class RequestTicket:
    """A request in flight. `answer` is its Done; a second answer, or one that comes too late, is dropped."""

    __slots__ = ("_connection", "batch_bytes", "correlation_id", "metadata_index", "request")

    def __init__(
        self, connection: "Connection", correlation_id: int, request: Request, batch_bytes: int, metadata_index: Index
    ) -> None:
        self._connection = connection
        self.correlation_id = correlation_id
        self.request = request
        #: Bytes that it has taken from the budgets.
        self.batch_bytes = batch_bytes
        #: It needs metadata that are at least as new.
        self.metadata_index = metadata_index

    def answer(self, answer: Reply | FlotillaError) -> None:
        """Never raises: the caller is the broker, which a fault of one connection does not concern."""
        try:
            self._connection.answer(self, answer)
        except Exception as failure:
            self._connection.broken(failure)


def _raise(failure: Exception) -> None:
    raise failure


def is_too_slow(ticks: int, moved_bytes: int) -> bool:
    """Whether a transfer that has lasted `ticks` and moved `moved_bytes` is below the minimum rate."""
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
        broken: Callable[[Exception], None] = _raise,
    ) -> None:
        """`wake` is called when there is output, or when the bounds allow requests again; `serve` with each request
        for the service; `broken` when an answer raised, to end the connection.
        """
        self.state = NEW
        #: What the client calls itself, once it has said so.
        self.client_name = ""
        #: Whom the certificate of the client names; None: it showed none.
        self.peer_principal: Principal | None = None
        #: None: nobody has to say who they are.
        self.entrance: Entrance | None = None
        #: Why the connection ends, for people; empty while it is open.
        self.reason = ""
        self._host = host
        self._budgets = budgets
        self._wake = wake
        self._serve = serve
        self.broken = broken
        #: The client has sent a request other than Hello and its log-in, and may.
        self.has_asked = False
        self._limits = connection_limits or ConnectionLimits()
        #: Cuts the received bytes into frames. Not used any more once the connection is closing.
        self.frames = FrameReader(min(limits.HANDSHAKE_FRAME_BYTES_MAX, self._limits.frame_bytes_max), bytearray)
        #: Bytes that were taken from a budget for the frame that is being received.
        self._frame_bytes = 0
        #: The next frame waits for room in a budget.
        self._is_waiting = False
        #: The client has used up a quota for the moment.
        self._is_paused = False
        #: Requests that the service has not answered, with the function that cancels each.
        self._tickets: dict[RequestTicket, Cancel | None] = {}
        #: The subscriptions among them, by correlation id.
        self._subscriptions: dict[int, RequestTicket] = {}
        #: Members of queue groups that came over this connection, in order of their first request.
        self._members: dict[str, None] = {}
        #: The members are clients of a gateway, and outlive this connection.
        self._is_gateway = False
        self._batch_bytes = 0
        #: The last metadata index that the client got.
        self._sent_metadata_index: Index = 0
        self._output: list[Any] = []
        self.output_bytes = 0
        #: Bytes that the transport buffers because the client does not read.
        self._unwritten_bytes = 0
        #: Answers in `_output`.
        self._output_count = 0
        self._heard = True
        self._silent_ticks = 0
        self._frame_ticks = 0
        self._frame_number = 0
        #: In which nobody had logged in.
        self._unknown_ticks = 0

    # Bytes in, requests out.

    @property
    def is_reading(self) -> bool:
        """Whether to read more bytes now. A closing connection reads and drops them."""
        if self.state == CLOSING:
            return True
        bounds = self._limits
        return (
            not self._is_waiting
            and not self._is_paused
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

    @property
    def is_stranger(self) -> bool:
        """It has asked for nothing yet, or has not said who it is."""
        return not self.has_asked and self.state != CLOSING

    @property
    def is_silent(self) -> bool:
        """It has asked for nothing for a while and waits for nothing, and nobody knows whose it is."""
        return (
            self.entrance is None
            and self._silent_ticks * TICK_MS >= SILENT_MS_MIN
            and not self._members
            and self.state != CLOSING
        )

    def _has_output_room(self, more: int = 0) -> bool:
        """Whether the output budget of the node allows `more` for this connection."""
        return self._budgets.output.has_room(self.unread_bytes, more)

    def set_unwritten(self, count: int) -> None:
        """Sets how many bytes the transport buffers; the channel keeps it up to date."""
        if count != self._unwritten_bytes:
            self._budgets.output.hold(count - self._unwritten_bytes)
            self._unwritten_bytes = count

    def received(self, count: int) -> bool:
        """`count` bytes were put into the room() of `frames`. True: more bytes are wanted, as of `pump`."""
        self._heard = True
        if self.state != CLOSING:
            self.frames.received(count)
        return self.pump()

    def feed(self, data: memoryview) -> bool:
        """Takes bytes from a buffer that the caller will reuse. True: more bytes are wanted, as of `pump`."""
        self._heard = True
        if self.state == CLOSING:
            return True
        self.frames.put(data)
        is_reading = self.pump()
        self.frames.keep()
        return is_reading

    def pump(self) -> bool:
        """Serves every whole request that the bounds allow.

        True: more bytes are wanted, and every whole request has been served.
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
        """The service has accepted the request and will answer later; `cancel` cancels it."""
        if ticket in self._tickets:
            self._tickets[ticket] = cancel
            if isinstance(ticket.request, Subscribe):
                self._subscriptions[ticket.correlation_id] = ticket

    def _reserve(self, length: int) -> bool:
        """Takes the next frame's bytes from the budget, or waits for them. A handshake is small and takes none."""
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
        """Decodes a frame and admits its request. None: the connection has answered it."""
        held, self._frame_bytes = self._frame_bytes, 0
        try:
            correlation_id, request, metadata_index = decode_request(frame)
        except InvalidArgumentError:
            self._release(held)
            raise
        entrance = self.entrance
        if entrance is not None and entrance.is_metered and isinstance(request, Request):
            self._is_paused = entrance.received(request, len(frame), self._resume)
        return self._admit(correlation_id, request, held, metadata_index)

    def _resume(self) -> None:
        """The quota allows more."""
        self._is_paused = False
        self._wake()

    def _admit(self, correlation_id: int, request: Incoming, held: int, metadata_index: Index) -> RequestTicket | None:
        """The ticket of a request that took `held` bytes from the budgets. None: the connection has answered it."""
        if type(request) not in WITH_BATCH:
            # Nothing of the frame is kept.
            self._release(held)
            held = 0
            if self.state == OPEN and type(request) in _CONCERNING and self._is_settled_here(correlation_id, request):
                return None
        elif isinstance(request, Stage) and (self.entrance is None or self.entrance.allows(request)):
            self._note(request.member)
        if self.state == OPEN and isinstance(request, Request):
            ticket = RequestTicket(self, correlation_id, request, held, metadata_index)
            self._tickets[ticket] = None
            self._batch_bytes += held
            return ticket
        self._release(held)
        self._converse(correlation_id, request)
        return None

    def _is_settled_here(self, correlation_id: int, request: Incoming) -> bool:
        """Handles what a request without a batch means for the connection. True: it has been answered."""
        if isinstance(request, _STEERING):
            self._steer(correlation_id, request)
            return True
        if isinstance(request, Ping):
            self._send(correlation_id, Done())
            return True
        if isinstance(request, Withdraw):
            self._withdraw(request.request)
            self._send(correlation_id, Done())
            return True
        if isinstance(request, _READING) and not self._has_output_room():
            # Before the records are read or leased.
            self._send(correlation_id, _overloaded("too many answers of this node are unread"))
            return True
        if isinstance(request, _OF_MEMBERS):
            # Whoever may not use a group must not report that its members are lost.
            if self.entrance is None or self.entrance.allows(request):
                self._note(request.member)
        elif isinstance(request, LeaveQueue):
            self._members.pop(request.member, None)
        return False

    def _note(self, member: str) -> None:
        if member and not self._is_gateway and len(self._members) < _MEMBER_COUNT_MAX:
            self._members[member] = None

    def _steer(self, correlation_id: int, request: AddCredit | Unsubscribe) -> None:
        """Adds credit to a subscription, or ends it. It may have ended by itself already: that is no error."""
        ticket = self._subscriptions.get(request.subscription)
        if ticket is not None:
            subscription = cast(Subscription, self._tickets[ticket])
            if isinstance(request, AddCredit):
                subscription.add_credit(request.messages)
            else:
                subscription.end(lambda: self._unsubscribed(correlation_id, ticket))
                return
        self._send(correlation_id, Done())

    def _unsubscribed(self, correlation_id: int, ticket: RequestTicket) -> None:
        if ticket in self._tickets:
            self._forget(ticket)
        self._send(correlation_id, Done())

    def _withdraw(self, correlation_id: int) -> None:
        """Ends the wait of a request. It may have been answered already: that is no error.

        An auto-ack poll goes on: its acks may be committed, and then only its answer has the messages.
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
        """Answers the handshake, errors of decoding, and requests while draining."""
        if self.state == NEW:
            if isinstance(request, Hello):
                self._greet(correlation_id, request)
            else:
                self.fail(InvalidArgumentError("the first request on a connection is Hello"), correlation_id)
        elif isinstance(request, FlotillaError):
            self._send(correlation_id, request)
        elif isinstance(request, Authenticate):
            self._log_in(correlation_id, request)
        elif isinstance(request, Hello):
            self._send(correlation_id, InvalidArgumentError("Hello was already sent on this connection"))
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
        self.client_name = hello.client
        self._is_gateway = hello.is_gateway
        entrance = self.entrance
        if entrance is None or entrance.is_open:
            self.frames.frame_bytes_max = self._limits.frame_bytes_max
        if not self._has_entered(correlation_id):
            return
        host = self._host
        frame_bytes_max, requests_max = self._limits.frame_bytes_max, self._limits.requests_max
        mechanisms = [] if entrance is None else entrance.mechanisms
        welcome = Welcome(high, host.node, host.cluster_id, frame_bytes_max, requests_max, host.now_ms(), mechanisms)
        self._send(correlation_id, welcome)

    def _log_in(self, correlation_id: int, request: Authenticate) -> None:
        if self.entrance is None:
            self._send(correlation_id, InvalidArgumentError("this broker does not ask who its clients are"))
            return
        try:
            challenge = self.entrance.step(request)
        except UnauthenticatedError as error:
            self.fail(error, correlation_id)
            return
        if self.entrance.is_open:
            self.frames.frame_bytes_max = self._limits.frame_bytes_max
        if self._has_entered(correlation_id):
            self._send(correlation_id, challenge)

    def _has_entered(self, correlation_id: int) -> bool:
        """False: the client has as many connections as it may, and this one ends."""
        try:
            if self.entrance is not None and self.entrance.is_open:
                self.entrance.enter()
        except QuotaExceededError as error:
            self.fail(error, correlation_id)
            return False
        return True

    def reconsider(self) -> None:
        """Users or grants have changed: ends what waits and is allowed no more."""
        entrance = self.entrance
        if entrance is None or self.state in (NEW, CLOSING):
            return
        if entrance.has_ended:
            self.fail(UnauthenticatedError("the user of this connection was removed"))
            return
        for ticket, cancel in list(self._tickets.items()):
            if cancel is not None and (error := entrance.refused(ticket.request)) is not None:
                cancel()
                self.answer(ticket, error)

    # Answers in, bytes out.

    def answer(self, ticket: RequestTicket, answer: Reply | FlotillaError) -> None:
        if ticket not in self._tickets:
            return
        if type(answer) is Pushed:
            self._reply(ticket, answer)
            return
        self._forget(ticket)
        if self.state == CLOSING:
            return
        if type(answer) in _REPEATABLE and self.unread_bytes >= self._limits.output_bytes_max:
            answer = _overloaded("too many answers on this connection are unread")
        elif type(answer) is Fetched and not self._has_output_room(sum(map(len, answer.batches))):
            answer = _overloaded("too many answers of this node are unread")
        self._reply(ticket, answer)

    def _reply(self, ticket: RequestTicket, answer: Reply | FlotillaError) -> None:
        before = self.output_bytes
        self._send(ticket.correlation_id, answer)
        entrance = self.entrance
        if entrance is not None and entrance.is_metered:
            resume = None if self._is_paused else self._resume
            self._is_paused |= entrance.sent(ticket.request, self.output_bytes - before, resume)

    def take_output(self) -> list[Any]:
        """Everything there is to write. The requests that it answers are no longer in flight."""
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

    def _new_metadata_index(self) -> Index:
        """What the next answer says about the metadata; 0: nothing new for this client."""
        index = self._host.metadata_index
        if index <= self._sent_metadata_index:
            return 0
        self._sent_metadata_index = index
        return index

    def _send(self, correlation_id: int, answer: Answer) -> None:
        metadata_index = self._new_metadata_index()
        try:
            buffers = encode_response(correlation_id, answer, metadata_index)
        except InvalidArgumentError as error:
            # The answer exceeds a frame. The client can ask for less.
            buffers = encode_response(correlation_id, error, metadata_index)
        if not self._output:
            self._wake()
        self._output += buffers
        self._output_count += 1
        size = sum(map(len, buffers))
        self.output_bytes += size
        self._budgets.output.hold(size)

    # The end.

    def drain(self) -> None:
        """Lets requests in flight finish, cancels those that only wait, and refuses new ones."""
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
        """Sends the error and ends the connection."""
        if self.state != CLOSING:
            self._send(correlation_id, error)
            self.finish(str(error))

    def finish(self, reason: str) -> None:
        """Stops reading and cancels the requests that can be cancelled. Idempotent: the first reason stands."""
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
        # Requests that cannot be cancelled keep their part of the budgets until the service answers them.
        for ticket, cancel in list(self._tickets.items()):
            if cancel is not None and ticket in self._tickets:
                self._forget(ticket)
                cancel()
        if self.entrance is not None:
            self.entrance.leave()
        if self._members:
            self._host.lost(tuple(self._members))
            self._members.clear()
        self._wake()

    # Time.

    def tick(self) -> None:
        """A second has passed. Ends the connection if its client has exceeded a time limit."""
        heard, self._heard = self._heard, False
        self._silent_ticks = 0 if heard or self.request_count else self._silent_ticks + 1
        if self.state == NEW:
            self._frame_ticks += 1
            if self._frame_ticks * TICK_MS > limits.HANDSHAKE_MS_MAX:
                self.fail(UnavailableError(f"no Hello within {limits.HANDSHAKE_MS_MAX} ms"))
        elif self.entrance is not None and self.entrance.has_ended:
            self.fail(UnauthenticatedError("the log-in has ended: the token has expired, or the user was removed"))
        elif self.entrance is not None and not self.entrance.is_open and self._is_log_in_late():
            self.fail(UnauthenticatedError(f"no log-in within {limits.HANDSHAKE_MS_MAX} ms"))
        elif self._is_frame_late():
            self.fail(UnavailableError("a frame takes too long"))
        elif self._silent_ticks * TICK_MS >= limits.IDLE_MS_MAX:
            self.finish("idle")

    def _is_log_in_late(self) -> bool:
        self._unknown_ticks += 1
        return self._unknown_ticks * TICK_MS > limits.HANDSHAKE_MS_MAX

    def _is_frame_late(self) -> bool:
        """Whether the client sends its present frame too slowly; time in which reading was stopped does not count."""
        frames = self.frames
        if self._frame_number != frames.taken_count or not self.is_reading or not frames.is_midway:
            self._frame_number = frames.taken_count
            self._frame_ticks = 0
            return False
        self._frame_ticks += 1
        return is_too_slow(self._frame_ticks, frames.pending_bytes)
