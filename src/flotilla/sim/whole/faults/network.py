"""Paths that are cut, slow or lossy for dials, names that are not found or change, and accept queues that are full."""

from collections.abc import Callable

from flotilla.sim.devices.world import MS
from flotilla.sim.whole.cluster import Broker
from flotilla.sim.whole.faults.trouble import Trouble
from flotilla.sim.whole.process import Host
from flotilla.sim.whole.sockets import WINDOW_BYTES, Internet

_USUAL_CHOPPINESS = 0.05
_USUAL_BACKLOG = 1_024


class NetworkFaults:
    def __init__(self, trouble: Trouble, start_later: Callable[[Broker], None]) -> None:
        """`start_later` starts a broker again that has lost its power."""
        self._trouble = trouble
        self._start_later = start_later
        self._moves = 0
        self._chance = trouble.chance
        self._internet: Internet = trouble.cluster.internet
        #: Cuts that last: (source, target) by address, with how many faults hold each.
        self._cuts: dict[tuple[Host, Host], int] = {}

    # Cuts.

    def cut(self) -> None:
        """Splits all hosts in two; clients stand on either side."""
        brokers = self._trouble.members()
        side = self._chance.sample(brokers, self._chance.randint(1, len(brokers) - 1))
        hosts = [broker.host for broker in side]
        all_brokers = {broker.host for broker in self._trouble.cluster.brokers.values()}
        clients = [host for host in self._internet.hosts if host not in all_brokers]
        hosts += [host for host in clients if self._chance.random() < 0.3]
        others = [host for host in self._internet.hosts if host not in hosts]
        names = ", ".join(host.name for host in hosts)
        self._trouble.simulation.tell(f"the network splits: {names} on one side")
        self._cut([(one, other) for one in hosts for other in others], both_ways=True)

    def cut_one_way(self) -> None:
        source = self._trouble.target().host
        others = [broker.host for broker in self._trouble.members() if broker.host is not source]
        targets = self._chance.sample(others, self._chance.randint(1, len(others)))
        pairs = [(source, target) for target in targets]
        if self._chance.random() < 0.5:
            pairs = [(target, one) for one, target in pairs]
        for one, other in pairs:
            self._trouble.simulation.tell(f"{other.name} hears nothing of {one.name} any more")
        self._cut(pairs, both_ways=False)

    def cut_client(self) -> None:
        """Leaves half-open connections between a host of clients and a broker."""
        brokers = {broker.host for broker in self._trouble.cluster.brokers.values()}
        clients = [host for host in self._internet.hosts if host not in brokers]
        one, other = self._chance.choice(clients), self._trouble.target().host
        self._trouble.simulation.tell(f"{one.name} and {other.name} are cut off from each other")
        self._cut([(one, other)], both_ways=self._chance.random() < 0.7)

    def isolate(self) -> None:
        host = self._trouble.target().host
        self._trouble.simulation.tell(f"{host.name} is cut off from everyone")
        self._cut([(host, other) for other in self._internet.hosts if other is not host], both_ways=True)

    def _cut(self, pairs: list[tuple[Host, Host]], *, both_ways: bool) -> None:
        if both_ways:
            pairs = pairs + [(other, one) for one, other in pairs]
        for pair in pairs:
            self._cuts[pair] = self._cuts.get(pair, 0) + 1
            self._internet.cut(*pair)
        self._trouble.later(self._trouble.length_us(), self._mend, pairs)

    def _mend(self, pairs: list[tuple[Host, Host]]) -> None:
        for pair in pairs:
            left = self._cuts.get(pair, 0) - 1
            if left > 0:
                self._cuts[pair] = left
            elif left == 0:
                del self._cuts[pair]
                self._internet.mend(*pair)

    # Slow, choppy and failing.

    def slow_path(self) -> None:
        host = self._trouble.target().host
        latency_us = self._chance.choice((5 * MS, 50 * MS, 400 * MS))
        self._trouble.simulation.tell(f"every packet of {host.name} takes {latency_us // MS} ms")
        for other in self._internet.hosts:
            if other is not host:
                for path in (self._internet.path(host, other), self._internet.path(other, host)):
                    path.slow(latency_us)
        self._trouble.later(self._trouble.length_us(), self._internet.hurry_all)

    def chop(self) -> None:
        """Reads get a few bytes at a time."""
        self._internet.choppiness = self._chance.choice((0.3, 0.9))
        self._trouble.later(self._trouble.length_us(), self._usual)

    def narrow(self) -> None:
        """Receivers have room for little: most writes leave a part behind."""
        self._internet.window_bytes = self._chance.choice((300, 1_500))
        self._trouble.simulation.tell(f"connections take {self._internet.window_bytes} bytes at a time")
        self._trouble.later(self._trouble.length_us(), self._usual)

    def reset(self) -> None:
        """Connections of a broker are reset, as by a router that forgot them."""
        process = self._trouble.target().process
        if process is not None and process.is_alive:
            victims = [each for each in process.sockets if self._chance.random() < 0.3]
            self._trouble.simulation.tell(f"{len(victims)} connections of {process.host.name} are reset")
            for each in victims:
                each.break_up()

    def fail_dials(self) -> None:
        self._trouble.simulation.tell("many new connections are reset at once")
        self._internet.failing_dials = self._chance.choice((0.2, 0.8))
        self._trouble.later(self._trouble.length_us(), self._usual)

    def change_names(self) -> None:
        """No name is found for a while; or a broker starts at another address, and its name follows later."""
        broker = self._trouble.target()
        if self._chance.random() < 0.5:
            self._lose_names()
        elif broker.is_up and broker.node not in self._trouble.held | self._trouble.removed:
            self._moves += 1
            address = f"10.2.{self._moves // 250}.{self._moves % 250}"
            self._trouble.tell(broker, f"loses power, and gets the address {address}")
            broker.cut_power()
            self._internet.move(broker.host, address)
            self._trouble.later(self._trouble.length_us(), self._internet.rename, broker.host.name, address)
            self._start_later(broker)

    def _lose_names(self) -> None:
        self._trouble.simulation.tell("no name is found")
        self._internet.is_nameless = True
        self._trouble.later(self._trouble.length_us(), self._usual)

    def fill_queues(self) -> None:
        """Accept queues hold few connections, and a broker is too busy to accept."""
        broker = self._trouble.target()
        self._internet.backlog = self._chance.choice((0, 1))
        broker.host.slowness = 2_000
        self._trouble.tell(broker, "is busy, and its accept queue is full")
        self._trouble.later(self._trouble.length_us(), self._usual)

    def _usual(self) -> None:
        internet = self._internet
        internet.choppiness, internet.failing_dials = _USUAL_CHOPPINESS, 0.0
        internet.is_nameless, internet.backlog = False, _USUAL_BACKLOG
        internet.window_bytes = WINDOW_BYTES
        for broker in self._trouble.cluster.brokers.values():
            broker.host.slowness = 1

    def heal(self) -> None:
        self._usual()
        self._cuts.clear()
        self._internet.rename_all()
        self._internet.mend_all()
        self._internet.hurry_all()
