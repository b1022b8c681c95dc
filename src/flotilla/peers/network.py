"""All links of a node: sends the driver's messages to peers, and reports messages and peers up or down.

Each node dials every other one, and messages travel only from the dialling side; so a pair of
nodes has two connections, and the two need not agree on one of them. A peer is *up* while both are
open. Losing either is reported at once: it is a hint, wrong at times, and nothing but speed may
depend on it.

Every connection carries something at least every second check in both directions; one that
falls silent, or stops taking bytes, is cut. The first frame of a link, and one at every
check, which serves as a ping, is the reading of this node's wall clock: so a node has heard the
clocks of all that voted for it.
"""

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from flotilla.codec.peer.reading_frames import CLOCK, ROOM, encode_reading
from flotilla.peers.handshake import REFUSED_DATA, REFUSED_STRANGER, Introduction, KnownPeer, PeerWelcome
from flotilla.peers.link import PeerLink
from flotilla.peers.server import PeerServer, PeerServerCounters
from flotilla.raft.messages import Message
from flotilla.replica.ports import LinkEvents
from flotilla.security.join_secret import JoinSecret
from flotilla.security.node_tls import PeerTls
from flotilla.types.address import Address
from flotilla.types.ids import GroupId, NodeId
from flotilla.types.timing import Timing
from flotilla.types.version import ROOM_TOLD, VersionRange


@dataclass(frozen=True, slots=True)
class PeerHealth:
    peer: NodeId
    is_up: bool
    last_failure: str
    queued_bytes: int
    dropped_frames: int
    undelivered_messages: int
    sent_bytes: int


class PeerNetwork:
    def __init__(
        self,
        *,
        node: NodeId,
        cluster: bytes,
        listen: Address,
        peers: Mapping[NodeId, Address],
        chance: random.Random,
        check_interval_ms: int = Timing().link_check_ms,
        data: int = 0,
        tls: PeerTls | None = None,
        secret: JoinSecret | None = None,
    ) -> None:
        """`data` is the number of this node's data directory. With `tls` nodes show each other their certificates.

        With `secret` nodes on links without TLS prove that they know it.
        """
        self.node = node
        self._tls = tls
        self._check_interval_s = check_interval_ms / 1000
        self._listen = listen
        self._chance = chance
        #: Its owner changes it when the node enters a cluster; every later handshake says so.
        self.own = Introduction(cluster, node, chance.getrandbits(63), data, secret=secret)
        self._server = PeerServer(self.own, self, tls)
        self._links: dict[NodeId, PeerLink] = {}
        self._up: dict[NodeId, None] = {}
        self._events: LinkEvents | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._wall_ms: Callable[[], int] | None = None
        self._clock_heard: Callable[[NodeId, int], None] | None = None
        for peer, address in peers.items():
            self.add_peer(peer, address)

    def exchange_clocks(self, wall_ms: Callable[[], int], heard: Callable[[NodeId, int], None]) -> None:
        """From now on peers are told the reading of `wall_ms`, and `heard` is told theirs."""
        self._wall_ms = wall_ms
        self._clock_heard = heard

    async def start(self, events: LinkEvents) -> None:
        """Listens and dials; events come from now on."""
        self._events = events
        port = await self._server.start(self._listen.host, self._listen.port)
        self._listen = Address(self._listen.host, port)
        for link in self._links.values():
            link.dial()
        self._timer = asyncio.get_running_loop().call_later(self._check_interval_s, self._check)

    def close(self) -> None:
        """Ends all connections; written bytes still leave. No event comes any more."""
        self._events = None
        if self._timer is not None:
            self._timer.cancel()
        for link in self._links.values():
            link.close()
        self._server.close()

    @property
    def address(self) -> Address:
        """Where this node listens; with the real port once started."""
        return self._listen

    @property
    def counters(self) -> PeerServerCounters:
        return self._server.counters

    def add_peer(self, peer: NodeId, address: Address, known: KnownPeer | None = None) -> None:
        """Adds a node, or moves its address. It is accepted if it agrees with what is known of it."""
        assert peer != self.node
        self._server.expect(peer, known or KnownPeer())
        self._server.found(peer, address.host)
        link = self._links.get(peer)
        if link is not None:
            link.move(address)
            return
        link = self._links[peer] = PeerLink(self.own, peer, address, self, self._chance, tls=self._tls)
        if self._events is not None:
            link.dial()

    @property
    def peer_count(self) -> int:
        return len(self._links)

    def is_up(self, peer: NodeId) -> bool:
        return peer in self._up

    def is_unknown_to(self, peer: NodeId) -> bool:
        """Whether a peer refuses this node, because it knows none of this id or another data directory."""
        link = self._links.get(peer)
        answer = None if link is None else link.answer
        return answer is not None and answer.decision in (REFUSED_STRANGER, REFUSED_DATA)

    def versions_of(self, peer: NodeId) -> VersionRange | None:
        """The cluster versions that a peer supports; None: it is not up."""
        return self._server.versions_of(peer) if peer in self._up else None

    @property
    def election_timeouts(self) -> Mapping[NodeId, int]:
        """What peers have said of their election timeouts, in ms, also those that cannot be reached now."""
        return self._server.election_timeouts

    def answers(self) -> dict[NodeId, PeerWelcome | None]:
        """What each peer said to the newest hello; None: it cannot be reached."""
        return {peer: link.answer for peer, link in self._links.items()}

    def remove_peer(self, peer: NodeId, *, for_good: bool = False) -> None:
        """`for_good`: the cluster has removed the node, which is told so when it dials."""
        link = self._links.pop(peer, None)
        if link is not None:
            link.close()
        if link is not None or for_good:
            self._server.remove(peer, for_good=for_good)
            self._update_up(peer)

    def send(self, to: NodeId, messages: list[tuple[GroupId, Message]]) -> None:
        """Sends in one write, unless the messages are large. Messages to an unknown or absent node are lost."""
        link = self._links.get(to)
        if link is not None:
            self._contained(link, partial(link.send, messages))

    def tell_room(self, room: int) -> None:
        for link in self._links.values():
            if link.version >= ROOM_TOLD:
                self._contained(link, partial(link.send_frame, encode_reading(ROOM, self.node, link.peer, room)))

    def health(self) -> list[PeerHealth]:
        return [
            PeerHealth(
                peer=peer,
                is_up=peer in self._up,
                last_failure=link.last_failure,
                queued_bytes=link.queue.size_bytes,
                dropped_frames=link.queue.dropped_count,
                undelivered_messages=link.counters.undelivered_messages,
                sent_bytes=link.counters.sent_bytes,
            )
            for peer, link in self._links.items()
        ]

    def _check(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._check_interval_s, self._check)
        for link in list(self._links.values()):
            self._contained(link, link.check)
            self._contained(link, partial(self._send_clock, link))
        self._server.check()

    def _contained(self, link: PeerLink, action: Callable[[], None]) -> None:
        """An exception of one link ends its connection; Raft repeats what was lost with it."""
        try:
            action()
        except Exception as failure:
            what = f"the link to node {link.peer} failed and is cut"
            context = {"message": what, "exception": failure, "part": "link"}
            asyncio.get_running_loop().call_exception_handler(context)
            link.cut(f"failed: {failure!r}")

    def _send_clock(self, link: PeerLink) -> None:
        if self._wall_ms is not None:
            link.send_frame(encode_reading(CLOCK, self.node, link.peer, self._wall_ms()))

    def _update_up(self, peer: NodeId) -> None:
        """Reports a change between up and down."""
        link = self._links.get(peer)
        is_up = link is not None and link.is_open and self._server.has(peer)
        if is_up == (peer in self._up):
            return
        if is_up:
            self._up[peer] = None
        else:
            del self._up[peer]
        if self._events is not None:
            (self._events.peer_up if is_up else self._events.peer_down)(peer)

    # What links and the server report.

    def received(self, messages: list[tuple[GroupId, Message]]) -> bool:
        return self._events is None or self._events.receive(messages)

    def clock_heard(self, peer: NodeId, wall_ms: int) -> None:
        if self._clock_heard is not None:
            self._clock_heard(peer, wall_ms)

    def room_heard(self, peer: NodeId, room: int) -> None:
        if self._events is not None:
            self._events.peer_room(peer, room)

    def link_opened(self, peer: NodeId) -> None:
        # Its address may have been a name.
        self._server.found(peer, self._links[peer].host)
        self._send_clock(self._links[peer])
        self._update_up(peer)

    def link_closed(self, peer: NodeId) -> None:
        self._update_up(peer)

    def link_refused(self, peer: NodeId, address: Address, reason: str) -> None:
        if self._events is not None:
            self._events.refused_by_peer(peer, str(address), reason)

    def peer_refused(self, peer: NodeId, address: str, reason: str) -> None:
        if self._events is not None:
            self._events.peer_refused(peer, address, reason)

    def peer_entered(self, peer: NodeId) -> None:
        # The peer lives: dial it at once, without the rest of the back-off.
        self._links[peer].dial()
        self._update_up(peer)

    def peer_left(self, peer: NodeId) -> None:
        self._update_up(peer)
