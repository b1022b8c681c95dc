"""What the client knows of the cluster: brokers, topics, and who leads what. Every bit of it may be out of date.

Learned from metadata answers and from brokers that say who leads in their place. Nothing here asks for
anything: the session does, whenever something is missing or proved wrong. Brokers that were given at the
beginning are kept for ever, in an order that differs from client to client so that a thousand of them
do not begin at the same node, and they come after the brokers that were learned.

Who leads a partition is believed by term: what a broker says counts against what is known only if it speaks of
a newer term. Otherwise a broker that lags behind, or has no replica and guesses, would send calls astray.
"""

from collections.abc import Sequence
from random import Random

from flotilla.types.address import Address, parse_address
from flotilla.types.ids import NO_NODE, NodeId, Term
from flotilla.types.operations import CONTROLLER, Metadata, Route, TopicInfo


class Routes:
    def __init__(self, bootstrap: Sequence[Address], chance: Random) -> None:
        assert bootstrap
        self._bootstrap = list(bootstrap)
        chance.shuffle(self._bootstrap)
        self._chance = chance
        self._brokers: list[Address] = []
        self._nodes: dict[NodeId, Address] = {}
        self._leaders: dict[Route, Address] = {}
        #: Of the leaders of partitions: they lead in this term, or in a later one.
        self._terms: dict[Route, Term] = {}
        #: Brokers that were silent when they should have spoken, and have not spoken since.
        self.suspects: dict[Address, None] = {}
        #: Brokers whose connection could not be made or was lost, and who have not spoken since; the newest loss last.
        self._missed: dict[Address, None] = {}
        #: The quickest answers of brokers so far, to Hello.
        self.round_trips_ms: dict[Address, int] = {}
        self.topics: dict[str, TopicInfo] = {}

    def find(self, route: Route) -> Address | None:
        """Where to send; None when that must be found out first, or nobody leads."""
        return self._nodes.get(route.replica) if route.replica else self._leaders.get(route)

    def address(self, node: NodeId) -> Address | None:
        """Where a broker is reached, if it was heard of."""
        return self._nodes.get(node)

    def measured(self, address: Address, round_trip_ms: int) -> None:
        self.round_trips_ms[address] = min(round_trip_ms, self.round_trips_ms.get(address, round_trip_ms))

    def candidates(self) -> list[Address]:
        """Everybody who may know more, once each, the most promising first.

        Of those that could not be reached the one comes first that was tried the longest time ago: whoever asks again
        and again gets round to all of them.
        """
        tried = {address: place for place, address in enumerate(self._missed, 1)}
        known = dict.fromkeys([*self._brokers, *self._bootstrap])
        return sorted(known, key=lambda address: (address in self.suspects, tried.get(address, 0)))

    def missed(self, address: Address) -> None:
        """The connection there could not be made, or has ended."""
        self._missed.pop(address, None)
        self._missed[address] = None

    def heard(self, address: Address) -> None:
        """The broker there has spoken."""
        self.suspects.pop(address, None)
        self._missed.pop(address, None)

    def update(self, metadata: Metadata, asked: Sequence[str]) -> None:
        """Takes over an answer about `asked` topics; of the others it says nothing."""
        addresses = {}
        for broker in metadata.brokers:
            address = _address(broker.client)
            if address is not None:
                addresses[broker.node] = address
        alive = [addresses[broker.node] for broker in metadata.brokers if broker.is_alive and broker.node in addresses]
        self._chance.shuffle(alive)
        self._brokers = alive
        self._nodes = addresses
        self._set(CONTROLLER, addresses.get(metadata.controller))
        found = {topic.name: topic.topic_id for topic in metadata.topics}
        for name in asked:
            if name in self.topics and self.topics[name].topic_id != found.get(name):
                self.forget(name)
        for topic in metadata.topics:
            known = self.topics.get(topic.name)
            # Partitions only grow: a broker that tells of fewer has not heard of the others yet.
            if known is None or known.topic_id != topic.topic_id or len(topic.partitions) >= len(known.partitions):
                self.topics[topic.name] = topic
            for part in topic.partitions:
                self._believe(Route(topic.name, part.number), addresses.get(part.leader), part.term)

    def _believe(self, route: Route, address: Address | None, term: Term) -> None:
        known = self._leaders.get(route)
        if known is None or known == address or term > self._terms.get(route, 0):
            self._terms[route] = term
            self._set(route, address)

    def redirect(self, route: Route, address: str) -> None:
        """A broker said who leads instead, or that it does not know. That it has a replica may be old news, too."""
        route = route._replace(replica=NO_NODE)
        found = _address(address) if address else None
        self._set(route, found)

    def doubt(self, route: Route, address: Address) -> None:
        """A call that went there led nowhere: ask before this way is used again."""
        if self._leaders.get(route) == address:
            del self._leaders[route]

    def learn(self, topic: TopicInfo) -> None:
        """A topic that came to be or was changed just now; who leads its partitions has to be asked for."""
        self.forget(topic.name)
        self.topics[topic.name] = topic

    def forget(self, name: str) -> None:
        """The topic is gone, or may be another one."""
        topic = self.topics.pop(name, None)
        if topic is not None:
            for part in topic.partitions:
                self._leaders.pop(Route(name, part.number), None)
                self._terms.pop(Route(name, part.number), None)

    def _set(self, route: Route, address: Address | None) -> None:
        if address is None:
            self._leaders.pop(route, None)
        else:
            self._leaders[route] = address


def _address(text: str) -> Address | None:
    try:
        return parse_address(text)
    except ValueError:
        return None
