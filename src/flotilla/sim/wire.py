"""The network between clients and nodes: requests and answers are lost, late, and come twice.

It has the weather of the network between the nodes, but not its partitions: a client reaches a leader that the other
nodes cannot hear. A call is answered once: by the first answer that arrives, or by giving up.
"""

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Protocol, TypeAlias

from flotilla.runtime.driver import Driver
from flotilla.sim.devices.network import Network
from flotilla.sim.devices.world import SECOND, World
from flotilla.sim.node import SimNode
from flotilla.types.errors import FlotillaError, NotLeaderError, UnavailableError
from flotilla.types.ids import GroupId, NodeId
from flotilla.types.operations import Reply, Request

Outcome: TypeAlias = Reply | FlotillaError
Answered: TypeAlias = Callable[[Outcome], None]

#: The kind of a call, in few bits, for the digest.
_KIND_BITS = 16


class Servant(Protocol):
    """Takes requests at the nodes."""

    def serve(self, node: SimNode, group: GroupId, request: Request, answer: Answered) -> None: ...


class Call:
    """One request in flight."""

    __slots__ = ("_answered", "is_open", "number")

    def __init__(self, number: int, answered: Answered) -> None:
        self.number = number
        self.is_open = True
        self._answered = answered

    def close(self, outcome: Outcome) -> None:
        if self.is_open:
            self.is_open = False
            self._answered(outcome)


class Wire:
    """All connections of a run between clients and nodes."""

    __slots__ = ("_calls", "_network", "_random", "_servant", "_world", "nodes")

    def __init__(self, world: World, network: Network, servant: Servant) -> None:
        self._world = world
        self._network = network
        self._servant = servant
        self._random: Random = world.stream("wire")
        self._calls = 0
        #: Filled when the nodes are made.
        self.nodes: dict[NodeId, SimNode] = {}

    def ask(self, to: NodeId, group: GroupId, request: Request, answered: Answered, timeout_us: int) -> None:
        self._calls += 1
        call = Call(self._calls, answered)
        self.carry(self._arrive, to, group, request, call)
        self._world.after(timeout_us, call.close, UnavailableError("no answer came"))

    def carry(self, action: Callable[..., None], *arguments: object) -> None:
        """Delivers something once, late, twice, or never."""
        weather = self._network.weather
        chance = self._random.random
        if weather.loss and chance() < weather.loss / 2:
            return
        delay_us = weather.latency_min_us + int(chance() * weather.latency_spread_us)
        if weather.tail_chance and chance() < weather.tail_chance:
            delay_us += int(chance() * weather.tail_us)
        self._world.after(delay_us, action, *arguments)
        if weather.repeat and chance() < weather.repeat:
            self._world.after(delay_us + int(chance() * chance() * 2 * SECOND), action, *arguments)

    def _arrive(self, to: NodeId, group: GroupId, request: Request, call: Call) -> None:
        self._world.mix(call.number << _KIND_BITS | len(type(request).__name__) << 8 | to)
        node = self.nodes[to]
        answer = partial(self.carry, call.close)

        def enter(driver: Driver) -> None:
            self._servant.serve(node, group, request, answer)

        if not node.call(enter):
            answer(NotLeaderError())


class Caller:
    """A client that asks the leader of a group, and looks for it when it has moved."""

    __slots__ = ("_group", "_random", "_wire", "target", "timeout_us")

    def __init__(self, wire: Wire, group: GroupId, random: Random, timeout_us: int) -> None:
        self._wire = wire
        self._group = group
        self._random = random
        self.timeout_us = timeout_us
        #: The node it believes to lead.
        self.target: NodeId = 1

    def ask(self, request: Request, answered: Answered) -> None:
        target = self.target

        def heard(outcome: Outcome) -> None:
            if isinstance(outcome, NotLeaderError) and outcome.leader:
                self.target = outcome.leader
            elif isinstance(outcome, FlotillaError) and self.target == target:
                self.target = 1 + self._random.randrange(len(self._wire.nodes))
            answered(outcome)

        self._wire.ask(target, self._group, request, heard, self.timeout_us)
