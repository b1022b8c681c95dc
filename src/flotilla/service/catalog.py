"""The cluster's metadata as this node knows it: the local replica of the metadata group, and lookups in it.

Every node holds all of it, so any node can say where a partition lives. What only the leaders know,
who leads a group right now, comes from the replicas at hand.
"""

from collections.abc import Callable

from flotilla.metadata.machine import MetadataMachine
from flotilla.metadata.queries import DescribeCluster, ListBrokers, ListTopics, TopicByName
from flotilla.metadata.values import Broker, Cluster, Topic
from flotilla.raft.messages import Entry
from flotilla.service.ports import Consensus, Outside
from flotilla.types.errors import NotFoundError, NotLeaderError
from flotilla.types.ids import NO_NODE, GroupId, NodeId
from flotilla.types.operations import BrokerInfo, Metadata, PartitionInfo, TopicInfo

#: The group of the cluster's metadata.
METADATA_GROUP: GroupId = 1


class CatalogMachine(MetadataMachine):
    """The metadata's state machine, which says when it has changed."""

    def __init__(self) -> None:
        super().__init__()
        self.on_changed: Callable[[], None] = _nobody

    def apply(self, entry: Entry) -> object:  # type: ignore[override]
        result = super().apply(entry)
        self.on_changed()
        return result

    def restore(self, data: bytes) -> None:
        super().restore(data)
        self.on_changed()


def _nobody() -> None:
    """Nobody listens yet."""


class Catalog:
    def __init__(self, machine: CatalogMachine, consensus: Consensus, outside: Outside) -> None:
        self.machine = machine
        self._consensus = consensus
        self._outside = outside

    @property
    def cluster_id(self) -> str:
        cluster = self.machine.read(DescribeCluster())
        return cluster.cluster_id if isinstance(cluster, Cluster) else ""

    def brokers(self) -> dict[NodeId, Broker]:
        brokers = self.machine.read(ListBrokers())
        assert isinstance(brokers, list)
        return {broker.node: broker for broker in brokers}

    def topics(self) -> list[Topic]:
        topics = self.machine.read(ListTopics())
        assert isinstance(topics, list)
        return topics

    def find_topic(self, name: str) -> Topic | None:
        topic = self.machine.read(TopicByName(name))
        assert topic is None or isinstance(topic, Topic)
        return topic

    def topic(self, name: str) -> Topic:
        found = self.find_topic(name)
        if found is None:
            raise NotFoundError(f"there is no topic {name!r}")
        return found

    def client_address(self, node: NodeId) -> str:
        broker = self.brokers().get(node)
        return broker.client_address if broker is not None else ""

    def not_leader(self, leader: NodeId) -> NotLeaderError:
        """Names the leader's client address, so that a client finds it in one step."""
        return NotLeaderError(leader, self.client_address(leader))

    def leader_of(self, group: GroupId, replicas: tuple[NodeId, ...]) -> NodeId:
        """As far as this node knows; a group that lives elsewhere is asked for at its preferred leader."""
        replica = self._consensus.replica(group)
        if replica is not None:
            return replica.raft.leader
        return replicas[0] if replicas else NO_NODE

    def describe_topic(self, topic: Topic) -> TopicInfo:
        partitions = [
            PartitionInfo(p.number, self.leader_of(p.group, p.replicas), list(p.replicas)) for p in topic.partitions
        ]
        settings = {name: str(value) for name, value in topic.chosen}
        settings["replication_factor"] = str(topic.replication_factor)
        return TopicInfo(topic.name, topic.topic_id, partitions, settings)

    def describe(self, names: list[str]) -> Metadata:
        topics = self.topics() if not names else [t for t in map(self.find_topic, names) if t is not None]
        brokers = [
            BrokerInfo(b.node, b.client_address, b.http_address, self._outside.is_up(b.node))
            for b in self.brokers().values()
        ]
        controller = self.leader_of(METADATA_GROUP, ())
        return Metadata(self.cluster_id, controller, brokers, [self.describe_topic(topic) for topic in topics])
