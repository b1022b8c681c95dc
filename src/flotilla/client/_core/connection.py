"""The protocol of one connection to a broker, without a socket: requests in, bytes out; bytes in, answers out.

    greeting   Hello is in flight; nothing else may be sent
    log-in     where the broker asks who the client is, and the client has credentials: `take_log_in` has the next step
    open       requests may be sent up to the broker's bound, and are answered in any order

It knows correlation ids and bounds, not what requests mean: each comes with a token, which is returned with the answer.
A request whose caller was cancelled is forgotten, but counts until it is answered, because the broker still works on
it. The driver closes the connection when `receive` raises.
"""

from typing import Any, Generic, TypeVar

from flotilla.client._core.log_in import LogIn
from flotilla.client.credentials import CredentialsProvider, JoinCredentials
from flotilla.codec.client.frames import (
    NO_CORRELATION,
    PROTOCOL_VERSION_MAX,
    PROTOCOL_VERSION_MIN,
    Answer,
    Buffers,
    decode_response,
    encode_request,
)
from flotilla.codec.frames import FrameReader
from flotilla.types.errors import FlotillaError, InvalidArgumentError, UnavailableError
from flotilla.types.ids import Index
from flotilla.types.limits import CLIENT_FRAME_BYTES_MAX
from flotilla.types.operations import Authenticate, Challenge, Hello, Reply, Request, Welcome

Token = TypeVar("Token")

#: Hello is the first request.
HELLO_ID = NO_CORRELATION + 1


def hello(name: str, is_gateway: bool) -> Hello:
    return Hello(PROTOCOL_VERSION_MIN, PROTOCOL_VERSION_MAX, name, is_gateway)


class ClientConnection(Generic[Token]):
    __slots__ = (
        "_credentials",
        "_frames",
        "_log_in",
        "_next_id",
        "_steps",
        "_waiting",
        "_welcome",
        "ended",
        "is_malformed",
        "is_open",
        "metadata_index",
        "room",
    )

    def __init__(self, credentials: CredentialsProvider | None = None) -> None:
        """`credentials` are asked for if the broker wants to know who the client is."""
        self._credentials = credentials
        self._log_in: LogIn | None = None
        #: Frames of the log-in that are to be sent.
        self._steps: Buffers = []
        self._frames = FrameReader(CLIENT_FRAME_BYTES_MAX)
        #: The buffer for the rest of a large answer; None: any buffer, which is passed to `receive`.
        self.room = self._frames.room
        #: The broker's Welcome, which opens the connection.
        self._welcome: Welcome | None = None
        self.is_open = False
        #: Bytes came that are not frames of the protocol.
        self.is_malformed = False
        #: Why the broker has ended the connection, behind answers that count.
        self.ended: FlotillaError | None = None
        #: The highest metadata index that this broker has reported.
        self.metadata_index: Index = 0
        self._next_id = HELLO_ID + 1
        #: Tokens by correlation id, in the order of sending. None: the request was forgotten.
        self._waiting: dict[int, Token | None] = {}

    @property
    def has_room(self) -> bool:
        """Another request may be sent now. One place is kept for a ping, if the broker allows more than one."""
        welcome = self._welcome
        return self.is_open and welcome is not None and len(self._waiting) < max(welcome.requests_max - 1, 1)

    @property
    def has_room_for_ping(self) -> bool:
        return self.is_open and self._welcome is not None and len(self._waiting) < self._welcome.requests_max

    @property
    def welcomed_ms(self) -> int:
        """The broker's time of day in Welcome; 0: not welcomed yet, or not reported."""
        return 0 if self._welcome is None else self._welcome.time_ms

    @property
    def cluster_id(self) -> str:
        """The broker's cluster in Welcome; empty: not welcomed yet, or the broker is in none."""
        return "" if self._welcome is None else self._welcome.cluster_id

    @property
    def request_count(self) -> int:
        """Requests that the broker has not answered."""
        return len(self._waiting)

    def greet(self, name: str, is_gateway: bool = False) -> Buffers:
        """The first bytes on a connection; `name` is shown to operators of the broker."""
        return encode_request(HELLO_ID, hello(name, is_gateway))

    def send(self, request: Request, token: Token, metadata_index: Index = 0) -> tuple[int, Buffers]:
        """The id and the frame of a request, to be answered from metadata that are at least as new as the index.

        Raises InvalidArgumentError when it does not fit into a frame.
        """
        welcome = self._welcome
        assert welcome is not None
        assert len(self._waiting) < welcome.requests_max
        correlation_id = self._next_id
        if metadata_index <= self.metadata_index:
            metadata_index = 0
        frame = self._encode(correlation_id, request, metadata_index, welcome.frame_bytes_max)
        self._next_id += 1
        self._waiting[correlation_id] = token
        return correlation_id, frame

    def _encode(self, correlation_id: int, request: Request, metadata_index: Index, bytes_max: int) -> Buffers:
        frame = encode_request(correlation_id, request, metadata_index)
        size_bytes = sum(map(len, frame))
        if size_bytes > bytes_max:
            raise InvalidArgumentError(f"a request of {size_bytes} bytes is over the broker's limit of {bytes_max}")
        return frame

    def forget(self, correlation_id: int) -> None:
        """Drops the answer when it comes: its caller was cancelled."""
        if correlation_id in self._waiting:
            self._waiting[correlation_id] = None

    def is_waiting(self, correlation_id: int) -> bool:
        """The request is not answered yet, forgotten or not."""
        return correlation_id in self._waiting

    def pending(self) -> list[Token]:
        """Tokens of all unanswered requests that were not forgotten, in the order of sending."""
        return [token for token in self._waiting.values() if token is not None]

    def receive(self, data: Any) -> list[tuple[Token, Reply | FlotillaError]]:
        """The answers that are now complete, without forgotten ones. An int counts bytes that were put into room().

        Raises the error with which the broker ends the connection, and InvalidArgumentError for a malformed answer;
        behind other answers it is in `ended`, because these count.
        """
        try:
            answers = [decode_response(frame) for frame in self._frames.feed(data)]
        except InvalidArgumentError:
            self.is_malformed = True
            raise
        return self._answered(answers)

    def _answered(self, answers: list[tuple[int, Answer, Index]]) -> list[tuple[Token, Reply | FlotillaError]]:
        answered: list[tuple[Token, Reply | FlotillaError]] = []
        for correlation_id, answer, metadata_index in answers:
            if metadata_index > self.metadata_index:
                self.metadata_index = metadata_index
            try:
                if correlation_id == NO_CORRELATION or not self.is_open:
                    self._converse(answer)
                    continue
                token = self._take(correlation_id, answer)
            except FlotillaError as error:
                if not answered:
                    raise
                self.ended = error
                break
            if token is not None and not isinstance(answer, Welcome | Challenge):
                answered.append((token, answer))
        return answered

    def _take(self, correlation_id: int, answer: Answer) -> Token | None:
        """The token of the request that is answered; None: it was forgotten. Raises InvalidArgumentError."""
        if correlation_id not in self._waiting:
            raise InvalidArgumentError(f"the broker answers request {correlation_id}, which was not made")
        if isinstance(answer, Welcome | Challenge):
            raise InvalidArgumentError("the broker welcomes twice")
        return self._waiting.pop(correlation_id)

    def _converse(self, answer: Answer) -> None:
        if isinstance(answer, FlotillaError):
            raise answer
        if isinstance(answer, Challenge) and self._log_in is not None:
            self._step(self._log_in.answer(answer))
            return
        if not isinstance(answer, Welcome) or self._welcome is not None:
            raise InvalidArgumentError("the broker does not answer Hello with Welcome")
        if not PROTOCOL_VERSION_MIN <= answer.version <= PROTOCOL_VERSION_MAX:
            raise InvalidArgumentError(f"the broker chose protocol version {answer.version}")
        if answer.requests_max < 1:
            raise UnavailableError("the broker allows no requests on this connection")
        self._welcome = answer
        provider = self._credentials
        is_asked = bool(answer.mechanisms) or isinstance(provider, JoinCredentials)
        credentials = provider() if is_asked and provider is not None else None
        if credentials is None:
            self.is_open = True
        else:
            self._log_in = LogIn(credentials)
            self._step(self._log_in.begin(answer.mechanisms))

    def _step(self, step: Authenticate | None) -> None:
        if step is None:
            self._log_in = None
            self.is_open = True
        else:
            self._steps += encode_request(self._next_id, step)
            self._next_id += 1

    def take_log_in(self) -> Buffers:
        """What the log-in has to send; empty: nothing now."""
        steps, self._steps = self._steps, []
        return steps
