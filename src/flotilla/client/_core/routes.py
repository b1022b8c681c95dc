"""The client's view of the cluster: brokers, topics and leaders. All of it may be out of date.

It is learned from metadata and from redirects. Nothing here sends requests: the session does, when an entry is missing
or proved wrong. Bootstrap addresses are kept for ever and come after the brokers that were learned; their order is
random, so that a thousand clients do not all start with the same node.

Leaders are compared by term: a broker's answer replaces a known leader only if it names a newer term. Otherwise a
broker that lags behind, or has no replica and guesses, would misdirect calls.
"""

from collections.abc import Sequence
from random import Random

from flotilla.types.address import Address, parse_address
from flotilla.types.ids import NO_NODE, Index, NodeId, Term
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
        #: The terms of the leaders of partitions; a leader may be in a later term by now.
        self._terms: dict[Route, Term] = {}
        #: Brokers that did not answer in time, and have sent nothing since.
        self.suspects: dict[Address, None] = {}
        #: Brokers whose connection failed, and that have sent nothing since; the newest failure last.
        self._missed: dict[Address, None] = {}
        #: The shortest round trip of Hello to each broker.
        self.round_trips_ms: dict[Address, int] = {}
        self.topics: dict[str, TopicInfo] = {}
        #: For each topic, the entry of the metadata up to which its description is true.
        self.described_at: dict[str, Index] = {}
        #: Routes with another leader than before. The session clears it when it has followed them.
        self.moved: dict[Route, None] = {}

    def find(self, route: Route) -> Address | None:
        """Where to send; None: unknown, or there is no leader."""
        return self._nodes.get(route.replica) if route.replica else self._leaders.get(route)

    def address(self, node: NodeId) -> Address | None:
        """The address of a broker, if it is known."""
        return self._nodes.get(node)

    def measured(self, address: Address, round_trip_ms: int) -> None:
        self.round_trips_ms[address] = min(round_trip_ms, self.round_trips_ms.get(address, round_trip_ms))

    def candidates(self) -> list[Address]:
        """All addresses that may answer, the most promising first.

        Of the unreachable ones the one that was tried longest ago comes first, so that repeated attempts reach all.
        """
        tried = {address: place for place, address in enumerate(self._missed, 1)}
        known = dict.fromkeys([*self._brokers, *self._bootstrap])
        return sorted(known, key=lambda address: (address in self.suspects, tried.get(address, 0)))

    def missed(self, address: Address) -> None:
        """The connection to this address could not be made, or has ended."""
        self._missed.pop(address, None)
        self._missed[address] = None

    def heard(self, address: Address) -> None:
        """The broker at this address has sent something."""
        self.suspects.pop(address, None)
        self._missed.pop(address, None)

    def update(self, metadata: Metadata, asked: Sequence[str]) -> None:
        """Takes over metadata of the `asked` topics; the answer says nothing about others."""
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
            self.described_at[topic.name] = max(metadata.index, self.described_at.get(topic.name, 0))
            known = self.topics.get(topic.name)
            # Partitions are only added: a broker that reports fewer lags behind.
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
        """Takes over the leader that a broker named, or that it knows none. A route to a replica is dropped, too."""
        route = route._replace(replica=NO_NODE)
        found = _address(address) if address else None
        self._set(route, found)

    def doubt(self, route: Route, address: Address) -> None:
        """Forgets a leader at this address, because a call to it failed."""
        if self._leaders.get(route) == address:
            del self._leaders[route]

    def learn(self, topic: TopicInfo) -> None:
        """Takes over a topic that was created or changed just now; its leaders are not known yet."""
        self.forget(topic.name)
        self.topics[topic.name] = topic

    def forget(self, name: str) -> None:
        """Drops a topic that was deleted, or may have been created anew."""
        topic = self.topics.pop(name, None)
        self.described_at.pop(name, None)
        if topic is not None:
            for part in topic.partitions:
                self._leaders.pop(Route(name, part.number), None)
                self._terms.pop(Route(name, part.number), None)

    def _set(self, route: Route, address: Address | None) -> None:
        if address is None:
            self._leaders.pop(route, None)
        elif self._leaders.get(route) != address:
            self._leaders[route] = address
            self.moved[route] = None


def _address(text: str) -> Address | None:
    try:
        return parse_address(text)
    except ValueError:
        return None
