"""The cluster's metadata as this node knows it: lookups in the local replica, and the way to change it.

Every node holds all of it, so any node can say where a partition lives. What only the leaders know,
who leads a group right now, comes from the replicas at hand. A command is judged before it is proposed:
one that makes no sense never reaches the log.
"""

from collections.abc import Callable, Mapping
from typing import Final

from flotilla.broker.ports import Consensus, Outside
from flotilla.metadata.commands import Command, encode_command
from flotilla.metadata.machine import MetadataMachine
from flotilla.metadata.transactions import Transaction
from flotilla.metadata.values import ACTIVE, DRAINING, LEAVING, Broker, Topic
from flotilla.raft.messages import Entry
from flotilla.raft.roles import LEADER
from flotilla.replica.replica import Replica
from flotilla.types.errors import FlotillaError, NotFoundError, NotLeaderError, UnavailableError
from flotilla.types.ids import NO_NODE, GroupId, NodeId, Term
from flotilla.types.operations import BrokerInfo, Metadata, PartitionInfo, TopicInfo

BROKER_STATES: Final = {ACTIVE: "active", DRAINING: "draining", LEAVING: "leaving"}
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

    # Lookups. A restore replaces the state, so nobody holds on to it.

    @property
    def cluster_id(self) -> str:
        return self.machine.state.cluster.cluster_id

    def brokers(self) -> Mapping[NodeId, Broker]:
        """A view that moves with the state."""
        return self.machine.state.brokers

    def peers(self) -> dict[NodeId, str]:
        """Where the brokers listen to each other."""
        return {node: broker.peer_address for node, broker in sorted(self.brokers().items())}

    def topics(self) -> list[Topic]:
        return list(self.machine.state.topics.values())

    def find_topic(self, name: str) -> Topic | None:
        return self.machine.state.topic(name)

    def topic(self, name: str) -> Topic:
        found = self.machine.state.topic(name)
        if found is not None:
            return found
        self._check_complete()
        raise NotFoundError(f"there is no topic {name!r}")

    def transactions(self) -> Mapping[str, Transaction]:
        """Those that were decided, as far as they are remembered."""
        return self.machine.state.transactions.transactions

    @property
    def is_complete(self) -> bool:
        return self._why_incomplete() == ""

    def _check_complete(self) -> None:
        """That something is missing here means something: what was decided before the leader's term has been applied.

        A node that has just started knows less than it did; it must not say that a topic is gone.
        """
        why = self._why_incomplete()
        if why:
            raise UnavailableError(why)

    def _why_incomplete(self) -> str:
        replica = self._consensus.replica(METADATA_GROUP)
        raft = None if replica is None else replica.raft
        if replica is not None and raft is not None and raft.leader == NO_NODE and raft.configuration.voters:
            away = [str(node) for node in raft.configuration.voters if not self._outside.is_up(node)]
            missing = f"; from node {raft.id} these cannot be reached: {', '.join(away)}" if away else ""
            return f"nobody is known to lead the cluster's metadata{missing}"
        if replica is None or raft is None or not self.cluster_id:
            return "the node is not part of a cluster yet"
        is_behind = replica.applied < raft.log.base or raft.log.term(replica.applied) != raft.term
        if raft.leader == NO_NODE or is_behind:
            return "the node has not caught up with the metadata yet"
        return ""

    def not_leader(self, leader: NodeId) -> NotLeaderError:
        """Names the leader's client address, so that a client finds it in one step."""
        broker = self.brokers().get(leader)
        return NotLeaderError(leader, broker.client_address if broker is not None else "")

    def explain(self, error: object) -> FlotillaError:
        """The error as a client shall see it."""
        assert isinstance(error, FlotillaError), f"unexpected answer {error!r}"
        if isinstance(error, NotLeaderError) and error.leader == NO_NODE:
            # Nobody leads, and this node knows a reason: its disk takes nothing.
            error = self._consensus.storage_error() or error
        if isinstance(error, NotLeaderError) and not error.address:
            return self.not_leader(error.leader)
        # Errors outlive the call, and some are raised again: they must not gather the frames they passed.
        return error.with_traceback(None)

    def likely_leader(self, replicas: tuple[NodeId, ...]) -> NodeId:
        """Whom to ask about a group that lives elsewhere: the preferred leader, or who stands in for it."""
        reachable = (node for node in replicas if self._outside.is_up(node))
        return next(reachable, replicas[0] if replicas else NO_NODE)

    def leader_of(self, group: GroupId, replicas: tuple[NodeId, ...]) -> NodeId:
        """As far as this node knows."""
        replica = self._informed(group)
        if replica is None:
            return self.likely_leader(replicas)
        if replica.raft.leader == NO_NODE and self._consensus.storage_error() is not None:
            # Clients come here: they can still read, and are told why they cannot write.
            return replica.raft.id
        return replica.raft.leader

    def _term_of(self, group: GroupId) -> Term:
        """Tells an old opinion of `leader_of` from a newer one; 0 where it is only a guess."""
        replica = self._informed(group)
        return 0 if replica is None else replica.raft.term

    def _informed(self, group: GroupId) -> Replica | None:
        """The replica at hand, unless it knows as little as none: it has just begun, or has been removed."""
        replica = self._consensus.replica(group)
        if replica is None or (
            replica.raft.leader == NO_NODE and replica.raft.id not in replica.raft.configuration.members()
        ):
            return None
        return replica

    # Descriptions.

    def describe_topic(self, topic: Topic) -> TopicInfo:
        partitions = [
            PartitionInfo(
                place.number,
                self.leader_of(place.group, place.replicas),
                list(place.replicas),
                self._term_of(place.group),
                list(place.move.target) if place.move is not None else [],
            )
            for place in topic.partitions
        ]
        settings = {name: str(value) for name, value in topic.chosen}
        settings["replication_factor"] = str(topic.replication_factor)
        return TopicInfo(topic.name, topic.topic_id, partitions, settings)

    def describe(self, names: list[str]) -> Metadata:
        """Of all topics when none is named; what does not exist is left out.

        Whoever cannot know all of them says so: a list that lacks some would look like any other.
        """
        found = [self.find_topic(name) for name in dict.fromkeys(names)] if names else self.topics()
        if not names or None in found:
            self._check_complete()
        brokers = [
            BrokerInfo(
                broker.node,
                broker.client_address,
                broker.http_address,
                self._outside.is_up(broker.node),
                BROKER_STATES[broker.state],
                broker.grpc_address,
            )
            for _, broker in sorted(self.brokers().items())
        ]
        controller = self.leader_of(METADATA_GROUP, ())
        topics = [self.describe_topic(topic) for topic in found if topic is not None]
        return Metadata(self.cluster_id, controller, brokers, topics)

    # Changes.

    def leading(self) -> Replica:
        """The local replica of the metadata, when it leads and knows everything. Raises otherwise."""
        replica = self._consensus.replica(METADATA_GROUP)
        if replica is None:
            raise UnavailableError("the node is not part of a cluster yet")
        if replica.raft.role != LEADER:
            raise NotLeaderError(replica.raft.leader)
        if not replica.is_serving():
            raise UnavailableError("the new leader has not applied its log yet")
        return replica

    def check(self, command: Command) -> None:
        """Raises what the command would be refused with."""
        refused = self.machine.check(command)
        if refused is not None:
            raise refused

    def propose(self, command: Command, answered: Callable[[object], None]) -> None:
        """`answered` is called once if this returns; when it raises, nothing was proposed."""
        self.leading()
        self.check(command)
        self._consensus.propose(METADATA_GROUP, encode_command(command), answered)

    def forward(self, command: Command) -> None:
        """Proposes at the leader, wherever it is. Nobody answers: what is missing later is forwarded again."""
        replica = self._consensus.replica(METADATA_GROUP)
        if replica is None:
            return
        if replica.raft.role == LEADER:
            self._consensus.propose(METADATA_GROUP, encode_command(command), _ignore)
        else:
            self._consensus.forward(METADATA_GROUP, encode_command(command))


def _ignore(_: object) -> None:
    """Seen by its effect, or tried again."""
