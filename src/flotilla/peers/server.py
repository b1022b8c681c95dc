"""The listener for other nodes: accepts their connections and receives their messages.

A connection may send messages only after its PeerHello was accepted. There is at most one per peer: the
same process dialling again replaces its own old connection; another process with the same id is
refused while the first is alive. Connections without a handshake are few and short-lived, and their
frames may not be longer than a handshake. When they are too many, the address with the most of them loses its oldest,
and places are kept for the addresses of members: a node that dials finds a place, whoever else does.

With TLS a connection begins with its handshake, in which both sides show certificates; then the certificate of the
other side must be that of the node that its PeerHello names.
"""

import asyncio
from dataclasses import dataclass
from typing import Protocol

from flotilla.codec.frames import Buffer, frame_header
from flotilla.codec.peer.frames import decode_frame
from flotilla.codec.peer.reading_frames import CLOCK, decode_reading, is_reading
from flotilla.peers.connection import PeerConnection
from flotilla.peers.handshake import (
    ACCEPTED,
    DECISION_TEXT,
    REFUSED_CERTIFICATE,
    REFUSED_DUPLICATE,
    REFUSED_REMOVED,
    REFUSED_SECRET,
    HandshakeError,
    Introduction,
    KnownPeer,
    PeerHello,
    PeerWelcome,
    decode_hello,
    encode_welcome,
    judge,
    judge_data,
)
from flotilla.raft.messages import Message
from flotilla.security.handshake_places import given_up
from flotilla.security.node_tls import PeerTls
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.ids import NO_NODE, GroupId, NodeId
from flotilla.types.limits import PEER_HANDSHAKE_COUNT_MAX
from flotilla.types.version import VersionRange

#: A hostile sender can use any id, so only this many refused ids are remembered and reported.
_REFUSALS_MAX = 64


class PeerServerOwner(Protocol):
    def received(self, messages: list[tuple[GroupId, Message]]) -> bool:
        """False: one of them is forged, and the connection is cut."""

    def clock_heard(self, peer: NodeId, wall_ms: int) -> None:
        """The reading of a peer's wall clock."""

    def room_heard(self, peer: NodeId, room: int) -> None:
        """How much room a peer's disk has."""

    def peer_entered(self, peer: NodeId) -> None: ...

    def peer_left(self, peer: NodeId) -> None: ...

    def peer_refused(self, peer: NodeId, address: str, reason: str) -> None:
        """A peer was refused, for another reason than the last time; NO_NODE: it did not identify itself."""


@dataclass(slots=True)
class PeerServerCounters:
    accepted: int = 0
    #: Handshakes refused, or not handshakes at all.
    refused: int = 0
    #: Connections cut because a frame could not be decoded, had another sender or target, or was forged.
    damaged: int = 0
    received_frames: int = 0
    received_bytes: int = 0


class PeerServer:
    def __init__(self, own: Introduction, owner: PeerServerOwner, tls: PeerTls | None = None) -> None:
        self.counters = PeerServerCounters()
        self._tls = tls
        self._acceptor = None if tls is None else tls.acceptor(self._handshake_failed, self._is_member)
        self._own = own
        self._owner = owner
        #: The nodes that are accepted; the same as the links.
        self.members: dict[NodeId, KnownPeer] = {}
        #: The nodes that the cluster has removed for good.
        self._removed: dict[NodeId, None] = {}
        #: Where each of them is, or was when it was last heard of.
        self._hosts: dict[NodeId, str] = {}
        #: Connections before their handshake.
        self._strangers: dict[PeerConnection, None] = {}
        #: Those among them that were asked for the join secret, with the bytes of their hello and the challenge.
        self._challenged: dict[PeerConnection, tuple[bytes, PeerWelcome]] = {}
        #: The connection and the hello of each accepted peer.
        self._accepted: dict[NodeId, tuple[PeerConnection, PeerHello]] = {}
        self._names: dict[PeerConnection, NodeId] = {}
        #: Refused nodes since they were last accepted, with the reason.
        self._refusals: dict[NodeId, str] = {}
        #: What members have said of their election timeout, also those that are cut off now.
        self.election_timeouts: dict[NodeId, int] = {}
        #: Why TLS handshakes have failed.
        self._failed_handshakes: dict[str, None] = {}
        self._listener: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> int:
        """Listens; returns the port, which the system chose if `port` is 0."""
        self._listener = await asyncio.get_running_loop().create_server(self._accept, host, port)
        bound: int = self._listener.sockets[0].getsockname()[1]
        return bound

    def _accept(self) -> asyncio.BaseProtocol:
        if self._acceptor is None:
            return PeerConnection(self)
        return self._acceptor.accept(lambda: PeerConnection(self))

    def close(self) -> None:
        if self._listener is not None:
            self._listener.close()
        if self._acceptor is not None:
            self._acceptor.close()
        for connection in [*self._strangers, *self._names]:
            connection.finish("shutting down")

    def has(self, peer: NodeId) -> bool:
        return peer in self._accepted

    def versions_of(self, peer: NodeId) -> VersionRange | None:
        """The cluster versions that a connected peer supports; None: it is not connected."""
        present = self._accepted.get(peer)
        return None if present is None else present[1].versions

    def expect(self, peer: NodeId, known: KnownPeer) -> None:
        """The peer is accepted from now on, if it agrees with what is known of it."""
        if not known.data:
            self.members.setdefault(peer, known)
            return
        self.members[peer] = known
        present = self._accepted.get(peer)
        if present is not None:
            decision = judge_data(known, present[1])
            if decision != ACCEPTED:
                present[0].cut(DECISION_TEXT[decision])

    def found(self, peer: NodeId, host: str) -> None:
        """A member is at this host."""
        if host:
            self._hosts[peer] = host

    def _is_member(self, host: str) -> bool:
        return host in self._hosts.values()

    def remove(self, peer: NodeId, *, for_good: bool) -> None:
        """The peer is not a member any more; `for_good`: the cluster has removed it."""
        self.members.pop(peer, None)
        self._hosts.pop(peer, None)
        self.election_timeouts.pop(peer, None)
        if for_good:
            self._removed[peer] = None
        if peer in self._accepted:
            self._accepted[peer][0].cut(DECISION_TEXT[REFUSED_REMOVED] if for_good else "no longer a member")

    def check(self) -> None:
        for connection in [*self._strangers, *self._names]:
            try:
                connection.check()
            except Exception as failure:
                context = {"message": "a peer's connection failed and is cut", "exception": failure, "part": "link"}
                asyncio.get_running_loop().call_exception_handler(context)
                connection.cut(f"failed: {failure!r}")

    # Events of connections.

    def connection_made(self, connection: PeerConnection) -> None:
        self._strangers[connection] = None
        if len(self._strangers) > PEER_HANDSHAKE_COUNT_MAX:
            hosts = {stranger: stranger.host for stranger in self._strangers}
            stranger = given_up(hosts, self._is_member)
            # Its end is reported later, and it counts no more: many may come in one turn of the loop.
            del self._strangers[stranger]
            stranger.cut("too many handshakes at once")

    def frame_received(self, connection: PeerConnection, frame: Buffer) -> None:
        if not connection.is_open:
            self._introduce(connection, frame)
            return
        peer = self._names[connection]
        self.counters.received_frames += 1
        self.counters.received_bytes += len(frame)
        try:
            if is_reading(frame):
                kind, sender, to, number = decode_reading(frame)
                self._check_ends(peer, sender, to)
                (self._owner.clock_heard if kind == CLOCK else self._owner.room_heard)(peer, number)
                return
            messages = decode_frame(frame)
            if messages:
                # All messages of a frame have the same sender and target.
                self._check_ends(peer, messages[0][1].sender, messages[0][1].to)
        except InvalidArgumentError as error:
            self.counters.damaged += 1
            connection.cut(str(error))
            return
        if not self._owner.received(messages):
            reason = "sent a term that no election can have reached"
            self.counters.damaged += 1
            connection.cut(reason)
            self._refused(connection, peer, reason)

    def _check_ends(self, peer: NodeId, sender: NodeId, to: NodeId) -> None:
        if sender != peer or to != self._own.node:
            raise InvalidArgumentError("a frame has another sender or target than its link")

    def connection_writable(self, connection: PeerConnection) -> None:
        """Only pings are written here: nothing is queued."""

    def connection_lost(self, connection: PeerConnection) -> None:
        self._strangers.pop(connection, None)
        self._challenged.pop(connection, None)
        peer = self._names.pop(connection, None)
        if peer is not None and self._accepted[peer][0] is connection:
            del self._accepted[peer]
            self._owner.peer_left(peer)

    def _introduce(self, connection: PeerConnection, frame: Buffer) -> None:
        asked = self._challenged.pop(connection, None)
        said = bytes(frame) if asked is None else asked[0]
        try:
            hello = decode_hello(said)
        except HandshakeError as error:
            self._refused(connection, NO_NODE, str(error))
            connection.cut(str(error))
            return
        decision = judge(hello, self._own, self.members, self._removed)
        if self._is_other_certificate(connection, hello):
            decision = REFUSED_CERTIFICATE
        has_none = not hello.nonce
        if decision == ACCEPTED and self._own.needs_proof(is_encrypted=connection.is_encrypted, has_none=has_none):
            if asked is None and hello.nonce:
                self._challenge(connection, said)
                return
            if asked is None or not self._own.is_answer(bytes(frame), *asked):
                decision = REFUSED_SECRET
        if decision == ACCEPTED and self._is_taken(hello):
            decision = REFUSED_DUPLICATE
        welcome = encode_welcome(self._own.welcome(hello, decision))
        connection.write([frame_header(len(welcome)), welcome])
        if decision == ACCEPTED:
            self._admit(connection, hello)
        else:
            self._refused(connection, hello.sender, DECISION_TEXT[decision])
            connection.finish(DECISION_TEXT[decision])

    def _is_other_certificate(self, connection: PeerConnection, hello: PeerHello) -> bool:
        tls = self._tls
        if tls is None or (tls.is_optional and not connection.is_encrypted):
            return False
        return tls.node_of(connection.transport) != hello.sender

    def _challenge(self, connection: PeerConnection, hello: bytes) -> None:
        challenge = self._own.challenge(hello)
        self._challenged[connection] = (hello, challenge)
        asked = encode_welcome(challenge)
        connection.write([frame_header(len(asked)), asked])

    def _handshake_failed(self, address: str, reason: str) -> None:
        """Reports each reason once, until a peer is accepted. They are few, whatever strangers send."""
        if self._listener is None or not self._listener.is_serving():
            return
        self.counters.refused += 1
        if reason not in self._failed_handshakes:
            self._failed_handshakes[reason] = None
            self._owner.peer_refused(NO_NODE, address, reason)

    def _refused(self, connection: PeerConnection, peer: NodeId, reason: str) -> None:
        """Reports a refusal once per reason, although peers retry, and only for a bounded number of ids."""
        self.counters.refused += 1
        is_bounded = peer in self._refusals or len(self._refusals) < _REFUSALS_MAX
        if is_bounded and self._refusals.get(peer) != reason:
            self._refusals[peer] = reason
            self._owner.peer_refused(peer, connection.remote, reason)

    def _is_taken(self, hello: PeerHello) -> bool:
        """Whether a live connection of another process has this node id."""
        present = self._accepted.get(hello.sender)
        return present is not None and present[1].process != hello.process and not present[0].is_closed

    def _admit(self, connection: PeerConnection, hello: PeerHello) -> None:
        connection.open()
        self.counters.accepted += 1
        self._refusals.pop(hello.sender, None)
        self._failed_handshakes.clear()
        del self._strangers[connection]
        self._names[connection] = hello.sender
        self.found(hello.sender, connection.host)
        if hello.election_ms:
            self.election_timeouts[hello.sender] = hello.election_ms
        else:
            # An earlier program, which may have another one by now.
            self.election_timeouts.pop(hello.sender, None)
        replaced = self._accepted.get(hello.sender)
        self._accepted[hello.sender] = (connection, hello)
        if replaced is None:
            self._owner.peer_entered(hello.sender)
        else:
            replaced[0].cut("replaced by a newer connection")
