"""A session among real brokers, on the clock that they share and that tests turn by hand.

Connections carry encoded bytes. Whatever is sent is served when `run` is called, so a test can cut a
connection before a broker has read a request, or after it has carried it out and before the answer arrives.
"""

from functools import partial
from random import Random

from flotilla.broker.ports import Cancel
from flotilla.client._core.calls import CallResult, ClientCall
from flotilla.client._core.links import Close, Dial, LinkId, Write
from flotilla.client._core.session import Session
from flotilla.client._core.session_options import SessionOptions
from flotilla.codec.client.frames import decode_request, encode_response
from flotilla.codec.frames import FrameReader
from flotilla.types.address import parse_address
from flotilla.types.errors import FlotillaError, UnavailableError
from flotilla.types.limits import CLIENT_FRAME_BYTES_MAX
from flotilla.types.operations import READ, Done, Effect, Hello, Ping, Reply, Request, Route, Welcome, Withdraw
from tests.unit.broker.fleet import TICK_MS
from tests.unit.client.brokers import BrokerNode, Brokers


class _Link:
    def __init__(self, broker: BrokerNode) -> None:
        self.broker = broker
        self.node = broker.node
        self.frames = FrameReader(CLIENT_FRAME_BYTES_MAX)
        #: Bytes on their way to the broker, and to the client.
        self.sent: list[bytes] = []
        self.answers: list[bytes] = []
        #: Requests that wait, by correlation id.
        self.waiting: dict[int, Cancel | None] = {}

    def answer(self, correlation_id: int, answer: Reply | Welcome | FlotillaError) -> None:
        self.waiting.pop(correlation_id, None)
        self.answers.append(b"".join(encode_response(correlation_id, answer, self.broker.metadata_index)))


class World:
    def __init__(
        self,
        cluster: Brokers,
        *,
        bootstrap: tuple[int, ...] = (),
        seed: int = 1,
        requests_max: int = 256,
        options: SessionOptions | None = None,
    ) -> None:
        self.cluster = cluster
        addresses = [parse_address(cluster.addresses[node]) for node in bootstrap or cluster.addresses]
        self.session = Session(addresses, Random(seed), options or SessionOptions(), self.now_ms)
        self.links: dict[LinkId, _Link] = {}
        self.dialled: list[int] = []
        #: The metadata indexes that requests needed, with their node.
        self.needed: list[tuple[int, int]] = []
        #: The nodes that were pinged.
        self.pinged: list[int] = []
        #: Nodes that cannot be reached, and nodes that take requests but whose answers are held back.
        self.down: set[int] = set()
        self.silent: set[int] = set()
        self.requests_max = requests_max

    @property
    def now_ms(self) -> int:
        return self.cluster.fleet.clock.now_ms

    @now_ms.setter
    def now_ms(self, now_ms: int) -> None:
        """Only the brokers notice that time passes."""
        self.cluster.fleet.turn_to(now_ms)

    def call(
        self, request: Request, route: Route, *, timeout_ms: int = 10_000, effect: Effect = READ
    ) -> list[CallResult]:
        """Submits a call; its outcome will be in the list."""
        results: list[CallResult] = []
        self.session.submit(
            ClientCall(request, self.now_ms + timeout_ms, results.append, route=route, effect=effect), self.now_ms
        )
        return results

    # Steps.

    def run(self) -> None:
        """Carries everything back and forth until nothing moves any more. No time passes."""
        while self.act() or self.serve() or self.deliver():
            pass

    def act(self) -> bool:
        actions = self.session.take_actions()
        for action in actions:
            if isinstance(action, Dial):
                self._dial(action)
            elif isinstance(action, Close):
                self.links.pop(action.link, None)
            elif isinstance(action, Write) and action.link in self.links:
                self.links[action.link].sent += [bytes(piece) for piece in action.buffers]
        return bool(actions)

    def serve(self) -> bool:
        """Brokers carry out what has reached them; their answers are on the way."""
        moved = False
        for link in list(self.links.values()):
            pieces, link.sent = link.sent, []
            for frame in [frame for piece in pieces for frame in link.frames.feed(piece)]:
                moved = True
                self._serve(link, frame)
        return moved

    def deliver(self) -> bool:
        moved = False
        for number, link in list(self.links.items()):
            if link.node in self.silent:
                continue
            answers, link.answers = link.answers, []
            for data in answers:
                moved = True
                self.session.received(number, data, self.now_ms)
        return moved

    def cut(self, node: int, reason: str = "reset") -> None:
        """Every connection to a node breaks; what is on it is lost, what was carried out was carried out."""
        for number, link in list(self.links.items()):
            if link.node == node:
                del self.links[number]
                for cancel in link.waiting.values():
                    if cancel is not None:
                        cancel()
                self.session.lost(number, reason, self.now_ms)

    def stop(self, node: int) -> None:
        """The client reaches a broker no more; the other brokers do."""
        self.down.add(node)
        self.cut(node)

    def kill(self, node: int) -> None:
        """A broker dies."""
        self.cluster.fleet.kill(node)
        self.stop(node)

    def restart(self, node: int) -> None:
        """A broker that died starts again."""
        self.cluster.fleet.restart(node)
        self.down.discard(node)

    def pass_ms(self, duration_ms: int) -> None:
        """Time passes; everything that is due happens in its order."""
        end_ms = self.now_ms + duration_ms
        self.run()
        while self.now_ms < end_ms or self.session.wake_ms <= end_ms:
            now_ms = self.now_ms
            broker_ms = self.cluster.fleet.clock.next_ms or end_ms
            next_ms = min(self.session.wake_ms, broker_ms, now_ms // TICK_MS * TICK_MS + TICK_MS, end_ms)
            self.now_ms = max(now_ms, next_ms)
            self.session.tick(self.now_ms)
            self.run()

    # Inside.

    def _dial(self, action: Dial) -> None:
        node = next(node for node, address in self.cluster.addresses.items() if address == str(action.address))
        self.dialled.append(node)
        if node in self.down:
            self.session.lost(action.link, "refused", self.now_ms)
        else:
            self.links[action.link] = _Link(self.cluster.node(node))
            self.session.dialled(action.link, self.now_ms)

    def _serve(self, link: _Link, frame: memoryview) -> None:
        correlation_id, request, needed = decode_request(frame)
        if needed:
            self.needed.append((link.node, needed))
        if isinstance(request, Hello):
            name, time_ms = self.cluster.cluster_id, self.cluster.now_ms()
            welcome = Welcome(1, link.node, name, CLIENT_FRAME_BYTES_MAX, self.requests_max, time_ms)
            link.answer(correlation_id, welcome)
        elif isinstance(request, Ping):
            self.pinged.append(link.node)
            link.answer(correlation_id, Done())
        elif isinstance(request, Withdraw):
            cancel = link.waiting.get(request.request)
            if cancel is not None:
                cancel()
                link.answer(request.request, UnavailableError("the request was withdrawn"))
            link.answer(correlation_id, Done())
        else:
            assert isinstance(request, Request)
            cancel = self.cluster.handle(link.node, request, partial(link.answer, correlation_id), needed)
            if cancel is not None:
                link.waiting[correlation_id] = cancel
