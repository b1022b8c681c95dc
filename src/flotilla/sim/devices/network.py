"""Links between nodes that delay, lose, repeat and reorder frames, and that can be cut one way.

A frame is the encoded bytes that one node sends another at once; nothing else crosses. Every directed link has its own
condition. Besides frames, a node learns two things about a peer, as it would from its connections:

* *lost*: the peer's process died and its machine said so (a reset), at once unless the link is cut;
* *silent*: nothing came for a while (keep-alives), after a pause, a cut, or an unannounced crash.

Either is reported once as "down", and "up" follows when the peer can be heard again. `set_heard` reports to the network
which processes run; what a node does with frames and hints is not known here.

A node whose disk was replaced is another node under the same id (`renew`). Frames from or to its old
self never arrive: connections begin with a handshake that names the store behind them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from zlib import crc32

from flotilla.sim.devices.world import MS, SECOND, World
from flotilla.types.ids import NodeId


@dataclass(slots=True)
class Weather:
    """The condition that all links of a run have in common, unless a link has its own."""

    latency_min_us: int = 200
    latency_spread_us: int = 800
    #: The share of frames that take up to `tail_us` longer.
    tail_chance: float = 0.0
    tail_us: int = 0
    loss: float = 0.0
    repeat: float = 0.0
    #: Frames that may overtake others. Without it a link keeps the order, as a connection does.
    reorder: float = 0.0
    silence_us: int = 3 * SECOND


class Link:
    """One direction between two nodes."""

    __slots__ = ("arrives_us", "cut", "reported_down", "weather")

    def __init__(self, weather: Weather) -> None:
        self.weather = weather
        self.cut = False
        #: When the last frame in order arrives; later ones come after it.
        self.arrives_us = 0
        #: What the receiving side last learned about the sending one.
        self.reported_down = False


class Network:
    """All links of a cluster. `deliver(to, sender, frame)`, `hint(node, peer, is_up)` are its outputs."""

    __slots__ = (
        "_deliver",
        "_heard",
        "_hint",
        "_links",
        "_lives",
        "_random",
        "_world",
        "dropped_count",
        "repeated_count",
        "sent_bytes",
        "sent_count",
        "weather",
    )

    def __init__(
        self,
        world: World,
        weather: Weather,
        deliver: Callable[[NodeId, NodeId, bytes], None],
        hint: Callable[[NodeId, NodeId, bool], None],
    ) -> None:
        self._world = world
        self._random: Random = world.stream("network")
        self._deliver = deliver
        self._hint = hint
        self._links: dict[tuple[NodeId, NodeId], Link] = {}
        #: Nodes whose process runs and whose keep-alives therefore leave.
        self._heard: dict[NodeId, bool] = {}
        #: Rises when a node comes back as another one.
        self._lives: dict[NodeId, int] = {}
        self.weather = weather
        self.sent_count = 0
        self.sent_bytes = 0
        self.dropped_count = 0
        self.repeated_count = 0

    def add(self, node: NodeId) -> None:
        for other in self._heard:
            self._links[node, other] = Link(self.weather)
            self._links[other, node] = Link(self.weather)
        self._heard[node] = True
        self._lives[node] = 0

    @property
    def node_count(self) -> int:
        return len(self._heard)

    def others(self, node: NodeId) -> list[NodeId]:
        return [other for other in self._heard if other != node]

    def renew(self, node: NodeId) -> None:
        self._lives[node] += 1

    def send(self, sender: NodeId, to: NodeId, frame: bytes) -> None:
        self.sent_count += 1
        self.sent_bytes += len(frame)
        link = self._links[sender, to]
        weather = link.weather
        chance = self._random.random
        if link.cut or (weather.loss and chance() < weather.loss):
            self.dropped_count += 1
            return
        now_us = self._world.now_us
        at_us = now_us + weather.latency_min_us + int(chance() * weather.latency_spread_us)
        if weather.tail_chance and chance() < weather.tail_chance:
            at_us += int(chance() * weather.tail_us)
        if not weather.reorder or chance() >= weather.reorder:
            at_us = link.arrives_us = max(at_us, link.arrives_us + 1)
        lives = self._lives[sender] + self._lives[to]
        self._world.at(at_us, self._arrive, to, sender, frame, lives)
        if weather.repeat and chance() < weather.repeat:
            self.repeated_count += 1
            late_us = int(chance() * chance() * 2 * SECOND)
            self._world.at(at_us + late_us, self._arrive, to, sender, frame, lives)

    def _arrive(self, to: NodeId, sender: NodeId, frame: bytes, lives: int) -> None:
        if lives != self._lives[sender] + self._lives[to]:
            return
        self._world.mix(crc32(frame) + (to << 40) + (sender << 48))
        self._deliver(to, sender, frame)

    # Conditions.

    def cut(self, sender: NodeId, to: NodeId) -> None:
        """Nothing passes from `sender` to `to` any more; what is in flight still arrives."""
        link = self._links[sender, to]
        if not link.cut:
            link.cut = True
            self._watch(sender, to)

    def mend(self, sender: NodeId, to: NodeId) -> None:
        link = self._links[sender, to]
        if link.cut:
            link.cut = False
            self._revive(sender, to)

    def partition(self, side: list[NodeId]) -> None:
        """Cuts every link between `side` and the rest, both ways."""
        for sender, to in self._links:
            if (sender in side) != (to in side):
                self.cut(sender, to)

    def isolate(self, node: NodeId) -> None:
        self.partition([node])

    def heal(self) -> None:
        for sender, to in self._links:
            self.mend(sender, to)

    def clear(self, weather: Weather) -> None:
        """Another weather everywhere."""
        self.weather = weather
        for link in self._links.values():
            link.weather = weather

    def is_cut(self, sender: NodeId, to: NodeId) -> bool:
        return self._links[sender, to].cut

    @property
    def has_cuts(self) -> bool:
        return any(link.cut for link in self._links.values())

    # Which nodes can be heard.

    def set_heard(self, node: NodeId, heard: bool, *, announced: bool = False) -> None:
        """The process of `node` runs, or does not. `announced`: its machine resets the connections."""
        self._heard[node] = heard
        for other in self._heard:
            if other == node:
                continue
            if heard:
                self._revive(node, other)
            elif announced and not self._links[node, other].cut:
                delay_us = self.weather.latency_min_us + int(self._random.random() * self.weather.latency_spread_us)
                self._world.after(delay_us, self._report_lost, node, other)
            else:
                self._watch(node, other)

    def forget(self, node: NodeId) -> None:
        """The process of `node` is new and knows nothing yet: it must learn again which peers are down."""
        for other in self._heard:
            if other != node:
                link = self._links[other, node]
                link.reported_down = False
                if not self._is_audible(other, node):
                    self._watch(other, node)

    def _is_audible(self, peer: NodeId, node: NodeId) -> bool:
        return self._heard[peer] and not self._links[peer, node].cut

    def _watch(self, peer: NodeId, node: NodeId) -> None:
        self._world.after(self.weather.silence_us, self._report_silent, peer, node)

    def _report_silent(self, peer: NodeId, node: NodeId) -> None:
        if not self._is_audible(peer, node):
            self._report(peer, node, is_up=False)

    def _report_lost(self, peer: NodeId, node: NodeId) -> None:
        # The connection broke, whether or not the peer is back by now.
        self._report(peer, node, is_up=False)
        if self._is_audible(peer, node):
            self._revive(peer, node)

    def _revive(self, peer: NodeId, node: NodeId) -> None:
        self._world.after(self.weather.latency_min_us + 50 * MS, self._report_heard, peer, node)

    def _report_heard(self, peer: NodeId, node: NodeId) -> None:
        if self._is_audible(peer, node):
            self._report(peer, node, is_up=True)

    def _report(self, peer: NodeId, node: NodeId, *, is_up: bool) -> None:
        link = self._links[peer, node]
        if link.reported_down == is_up:
            link.reported_down = not is_up
            self._hint(node, peer, is_up)
