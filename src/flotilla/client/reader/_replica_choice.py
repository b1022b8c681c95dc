"""The choice of the replica that a reader fetches from, by partition.

    leader    the leader
    nearest   on the same host, else with the shortest round trip; one without a measured round trip is tried first
    spread    consecutive readers start with different replicas, and stay there

A replica that could not answer is avoided for a while, longer each time. When none is left, the leader is asked. The
client's view may be out of date: a wrong choice costs one refusal.
"""

from typing import Final

from flotilla.client._core.backoff import doubled_ms
from flotilla.client._core.session import Session
from flotilla.types.address import Address
from flotilla.types.ids import NO_NODE, NodeId

LEADER: Final = "leader"
NEAREST: Final = "nearest"
SPREAD: Final = "spread"
READ_FROM: Final = (LEADER, NEAREST, SPREAD)

#: How long a replica that could not answer is avoided: at first, and at most.
_AVOID_MS: Final = 500
_AVOID_MS_MAX: Final = 30_000
_LOOPBACK: Final = ("localhost", "::1")


class ReplicaChoice:
    def __init__(self, session: Session, topic: str, read_from: str) -> None:
        assert read_from in READ_FROM
        self._session = session
        self._topic = topic
        self._read_from = read_from
        #: The number of this reader within its client, counted from a random start.
        self._place = session.next_place()
        #: By partition and node: until when it is avoided, and its consecutive failures.
        self._avoided: dict[tuple[int, NodeId], tuple[int, int]] = {}

    def choose(self, partition: int) -> NodeId:
        """The replica to ask next; NO_NODE: the leader."""
        topic = self._session.routes.topics.get(self._topic)
        if self._read_from == LEADER or topic is None or partition >= len(topic.partitions):
            return NO_NODE
        # In the same order for all partitions: brokers name the preferred leader first.
        replicas = sorted(topic.partitions[partition].replicas)
        if not replicas:
            return NO_NODE
        first = (self._place + partition) % len(replicas)
        usable = [node for node in replicas[first:] + replicas[:first] if self._is_usable(partition, node)]
        if self._read_from == NEAREST:
            usable.sort(key=self._distance)
        return usable[0] if usable else NO_NODE

    def failed(self, partition: int, node: NodeId) -> None:
        """It could not answer, or not in time."""
        _, count = self._avoided.get((partition, node), (0, 0))
        wait_ms = doubled_ms(_AVOID_MS, count, _AVOID_MS_MAX)
        self._avoided[partition, node] = (self._session.now_ms + wait_ms, count + 1)

    def answered(self, partition: int, node: NodeId) -> None:
        self._avoided.pop((partition, node), None)

    def _is_usable(self, partition: int, node: NodeId) -> bool:
        address = self._session.routes.address(node)
        until_ms, _ = self._avoided.get((partition, node), (0, 0))
        return address is not None and address not in self._session.routes.suspects and until_ms <= self._session.now_ms

    def _distance(self, node: NodeId) -> tuple[bool, int]:
        routes = self._session.routes
        address = routes.address(node)
        assert address is not None
        return not self._is_here(address), routes.round_trips_ms.get(address, -1)

    def _is_here(self, address: Address) -> bool:
        host = address.host
        return host in _LOOPBACK or host.startswith("127.") or host == self._session.options.host
