"""The link to one peer: a connection this node dials, for the messages of all groups.

All messages of a turn leave together, in one write and as few frames as their size allows. Without
a connection they are dropped: they would be outdated when it comes back, and Raft repeats those
that still matter. A bounded queue stands in front of a socket that does not keep up.

    waiting --timer--> dialling --connected--> greeting --PeerWelcome--> open
       ^------------------- any failure, after a jittered back-off -------'
"""

import asyncio
import random
from dataclasses import dataclass
from typing import Protocol

from flotilla.codec.frames import LENGTH_BYTES, Buffer, frame_header
from flotilla.codec.peer.frames import encode_frame, framed_bytes_max
from flotilla.peers.connection import PeerConnection
from flotilla.peers.handshake import (
    ACCEPTED,
    CHALLENGED,
    DECISION_TEXT,
    HandshakeError,
    Introduction,
    PeerWelcome,
    decode_welcome,
    encode_hello,
)
from flotilla.peers.send_queue import SendQueue
from flotilla.raft.messages import Message
from flotilla.security.contexts import TlsError
from flotilla.security.node_tls import PeerTls
from flotilla.types.address import Address
from flotilla.types.ids import GroupId, NodeId
from flotilla.types.limits import MIB, PEER_QUEUE_BYTES_MAX
from flotilla.types.version import SUPPORTED

#: Messages share a frame up to about this size; the receiver handles one while the next is in flight.
FRAME_BYTES_TARGET = 1 * MIB

DIAL_TIMEOUT_MS = 1_500
BACKOFF_MIN_MS = 20
BACKOFF_MAX_MS = 1_000


class PeerLinkOwner(Protocol):
    def link_opened(self, peer: NodeId) -> None: ...

    def link_closed(self, peer: NodeId) -> None: ...

    def link_refused(self, peer: NodeId, address: Address, reason: str) -> None:
        """The handshake failed. Reported once per reason, until the link opens."""


@dataclass(slots=True)
class PeerLinkCounters:
    dialled: int = 0
    refused: int = 0
    #: Write calls on the socket.
    writes: int = 0
    sent_bytes: int = 0
    #: Messages dropped because there was no connection.
    undelivered_messages: int = 0


class PeerLink:
    def __init__(
        self,
        own: Introduction,
        peer: NodeId,
        address: Address,
        owner: PeerLinkOwner,
        chance: random.Random,
        queue_bytes_max: int = PEER_QUEUE_BYTES_MAX,
        tls: PeerTls | None = None,
    ) -> None:
        """With `tls` the other side must show the certificate of the peer, before anything is said to it."""
        self.peer = peer
        self._tls = tls
        self.address = address
        self.counters = PeerLinkCounters()
        self.queue = SendQueue(queue_bytes_max)
        #: Why the last attempt failed or the last connection ended, as a text for operators.
        self.last_failure = ""
        #: Why the last handshake failed; empty: it succeeded.
        self._refusal = ""
        #: The reply to the newest hello; None: the newest attempt to reach the peer failed, or its connection ended.
        self.answer: PeerWelcome | None = None
        self._own = own
        self._owner = owner
        self._chance = chance
        self._connection: PeerConnection | None = None
        #: What was said on the newest connection, and whether it has got the proof of the join secret.
        self._hello = b""
        self._has_proved = False
        self._dialling: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._backoff_ms = BACKOFF_MIN_MS
        self._is_closed = False

    @property
    def is_open(self) -> bool:
        return self._connection is not None and self._connection.is_open and not self._connection.is_closed

    @property
    def host(self) -> str:
        """The address of the peer's host, as the newest connection has it; empty: there is none."""
        return "" if self._connection is None else self._connection.host

    @property
    def version(self) -> int:
        """Which both nodes speak; 0: the link is not open."""
        return self.answer.version if self.answer is not None and self.is_open else 0

    def send(self, messages: list[tuple[GroupId, Message]]) -> None:
        """Batches the messages into frames, and writes what the socket takes now."""
        connection = self._connection
        if connection is None or not self.is_open:
            self.counters.undelivered_messages += len(messages)
            return
        for batch in split(messages):
            body = encode_frame(batch)
            size_bytes = sum(map(len, body))
            self.queue.push([frame_header(size_bytes), *body], LENGTH_BYTES + size_bytes)
        self._write(connection)

    def send_frame(self, frame: bytes) -> None:
        """Writes one small frame after what is queued; without a connection it is lost."""
        connection = self._connection
        if connection is not None and self.is_open:
            self.queue.push([frame_header(len(frame)), frame], LENGTH_BYTES + len(frame))
            self._write(connection)

    def _write(self, connection: PeerConnection) -> None:
        queue = self.queue
        while queue.size_bytes and not connection.is_paused:
            before = queue.size_bytes
            self.counters.writes += 1
            connection.write(queue.pop(FRAME_BYTES_TARGET))
            self.counters.sent_bytes += before - queue.size_bytes

    def check(self) -> None:
        connection = self._connection
        if connection is None:
            return
        if connection.is_closed:
            # Cut before, but without `connection_lost`: uvloop omits it when a dial is cancelled as it succeeds.
            self.connection_lost(connection)
        else:
            connection.check()

    def dial(self) -> None:
        """Dials at once, unless a connection exists or is being dialled."""
        if self._is_closed or self._connection is not None or self._dialling is not None:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.counters.dialled += 1
        self._dialling = asyncio.get_running_loop().create_task(self._dial())

    def cut(self, reason: str) -> None:
        """Ends the present connection, and dials again."""
        if self._connection is not None:
            self._connection.cut(reason)

    def move(self, address: Address) -> None:
        """The peer has another address now."""
        if address != self.address:
            self.address = address
            self.cut("the peer has moved")

    def close(self) -> None:
        """Closes after the written bytes have left, and never dials again."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._dialling is not None:
            self._dialling.cancel()
        if self._connection is not None:
            self._connection.finish("shutting down")

    async def _dial(self) -> None:
        try:
            async with asyncio.timeout(DIAL_TIMEOUT_MS / 1000):
                await self._connect()
        except Exception as error:
            # Not only OSError and TimeoutError: a link that stops dialling is gone for ever.
            self.last_failure = str(error) or "no answer"
            self.answer = None
            if isinstance(error, TlsError):
                self._refused(self.last_failure)
            connection = self._connection
            if connection is None:
                self._dial_later()
            else:
                # The dial succeeded as its time ran out: uvloop has closed the socket and does not report that.
                connection.cut(self.last_failure)
                self.connection_lost(connection)
        finally:
            self._dialling = None

    async def _connect(self) -> None:
        host, port = self.address
        if self._tls is None:
            await asyncio.get_running_loop().create_connection(lambda: PeerConnection(self), host, port)
        else:
            await self._tls.connect_node(lambda: PeerConnection(self), host, port, self.peer)

    def _dial_later(self) -> None:
        if self._is_closed:
            return
        delay_ms = self._backoff_ms * (0.5 + self._chance.random() / 2)
        self._backoff_ms = min(2 * self._backoff_ms, BACKOFF_MAX_MS)
        self._timer = asyncio.get_running_loop().call_later(delay_ms / 1000, self._timer_fired)

    def _timer_fired(self) -> None:
        self._timer = None
        self.dial()

    # Events of the connection.

    def connection_made(self, connection: PeerConnection) -> None:
        assert self._connection is None
        self._connection = connection
        self._hello = encode_hello(self._own.hello(self.peer))
        self._has_proved = False
        connection.write([frame_header(len(self._hello)), self._hello])

    def frame_received(self, connection: PeerConnection, frame: Buffer) -> None:
        if connection.is_open:
            # The peer sends its messages over the connection that it dials itself.
            connection.cut("messages on the wrong connection")
            return
        try:
            welcome = decode_welcome(frame)
        except HandshakeError as error:
            failure = str(error)
        else:
            if welcome.decision == CHALLENGED and self._own.secret is not None and not self._has_proved:
                failure = self._prove(connection, welcome)
                if not failure:
                    return
            else:
                self.answer = welcome
                failure = self._judge(welcome, connection)
        if failure:
            connection.cut(failure)
            self._refused(failure)
            return
        connection.open()
        self._refusal = ""
        self._backoff_ms = BACKOFF_MIN_MS
        self.last_failure = ""
        self._owner.link_opened(self.peer)

    def _prove(self, connection: PeerConnection, challenge: PeerWelcome) -> str:
        """Answers a challenge. Why it does not; empty: it does."""
        proof = self._own.answer(self._hello, challenge)
        if proof is None:
            return "the other side does not know the join secret"
        self._has_proved = True
        connection.write([frame_header(len(proof)), proof])
        return ""

    def _refused(self, failure: str) -> None:
        self.counters.refused += 1
        if failure != self._refusal:
            self._refusal = failure
            self._owner.link_refused(self.peer, self.address, failure)

    def _judge(self, welcome: PeerWelcome, connection: PeerConnection) -> str:
        """Why the reply is not acceptable; empty if it is."""
        if welcome.decision != ACCEPTED:
            return DECISION_TEXT.get(welcome.decision, f"refused with decision {welcome.decision}")
        if welcome.sender != self.peer:
            return f"node {welcome.sender} answered instead of node {self.peer}"
        if not SUPPORTED.has(welcome.version):
            return f"version {welcome.version} was chosen, and this node supports {SUPPORTED}"
        present = self._own.cluster_version
        if welcome.version < present:
            return f"the cluster is at version {present}, and the node supports up to {welcome.version}"
        if not self._has_proved and self._own.needs_proof(is_encrypted=connection.is_encrypted, has_none=True):
            return "the other side does not ask for the join secret, and so does not know it"
        return ""

    def connection_writable(self, connection: PeerConnection) -> None:
        self._write(connection)

    def connection_lost(self, connection: PeerConnection) -> None:
        if connection is not self._connection:
            # Replaced already.
            return
        self._connection = None
        self.queue.clear()
        self.last_failure = connection.reason or "closed by the peer"
        if isinstance(connection.error, TlsError) and not connection.is_open:
            # The dialling side is the first to be done with the handshake: so it hears of a refusal.
            self._refused(self.last_failure)
        if connection.is_open:
            self.answer = None
            self._owner.link_closed(self.peer)
        self._dial_later()


def split(messages: list[tuple[GroupId, Message]]) -> list[list[tuple[GroupId, Message]]]:
    """Splits messages into frames of about FRAME_BYTES_TARGET, in order."""
    if len(messages) == 1:
        return [messages]
    frames: list[list[tuple[GroupId, Message]]] = []
    frame_bytes = FRAME_BYTES_TARGET
    for item in messages:
        size_bytes = framed_bytes_max(item[1])
        if frame_bytes + size_bytes > FRAME_BYTES_TARGET:
            frames.append([])
            frame_bytes = 0
        frames[-1].append(item)
        frame_bytes += size_bytes
    return frames
