"""The cluster's metadata as this node knows them: lookups in the local replica, and proposals to change them.

Every node has a full copy, so any node can say where a partition lives. Which replica leads a group right now is not
in the metadata: it comes from the local replicas. A command is checked before it is proposed, so an invalid one never
reaches the log.
"""

from collections.abc import Callable, Mapping
from dataclasses import astuple
from typing import Final

from flotilla.broker.ports import Consensus, Outside
from flotilla.metadata.commands import Command, LabelNode, encode_command
from flotilla.metadata.machine import MetadataMachine
from flotilla.metadata.state import ClusterState
from flotilla.metadata.transactions import TransactionTable
from flotilla.metadata.values import ACTIVE, DRAINING, LEAVING, NO_LABELS, Broker, Labels, Topic
from flotilla.raft.messages import Entry
from flotilla.raft.roles import LEADER
from flotilla.replica.replica import Replica
from flotilla.types.errors import (
    FlotillaError,
    NotFoundError,
    NotLeaderError,
    TopicGrownError,
    TopicReplacedError,
    UnavailableError,
)
from flotilla.types.ids import NO_NODE, GroupId, Index, NodeId, Term
from flotilla.types.operations import BrokerInfo, GetMetadata, Metadata, PartitionInfo, TopicInfo
from flotilla.types.operations.cluster import PartitionCounts
from flotilla.types.snapshot_data import SnapshotData
from flotilla.types.version import NODES_LABELLED

BROKER_STATES: Final = {ACTIVE: "active", DRAINING: "draining", LEAVING: "leaving"}
#: The group of the cluster's metadata.
METADATA_GROUP: GroupId = 1
_NOT_KNOWN: Final = (0, 0)


class CatalogMachine(MetadataMachine):
    """The metadata's state machine, with a callback for each change."""

    def __init__(self) -> None:
        super().__init__()
        self.on_changed: Callable[[], None] = _no_listener
        #: The last entry that changed a topic or the settings of a group; after a restore, one that may have.
        self.topics_index: Index = 0
        #: Called when a user or a grant has changed.
        self.on_security_changed: Callable[[], None] = _no_listener
        self._security_version = 0

    def apply(self, entry: Entry) -> object:  # type: ignore[override]
        result = super().apply(entry)
        if isinstance(result, Topic):
            self.topics_index = entry.index
        self._look_at_security()
        self.on_changed()
        return result

    def restore(self, data: SnapshotData, decoded: tuple[Index, ClusterState] | None = None) -> None:
        super().restore(data, decoded)
        self.topics_index = self.applied
        self._look_at_security()
        self.on_changed()

    def _look_at_security(self) -> None:
        version = self.state.security.version
        if version != self._security_version:
            self._security_version = version
            self.on_security_changed()


def _no_listener() -> None:
    """Until the membership has started."""


class Catalog:
    def __init__(self, machine: CatalogMachine, consensus: Consensus, outside: Outside) -> None:
        self.machine = machine
        self._consensus = consensus
        self._outside = outside
        #: Groups that this node has deleted, as the leader of the metadata, because nobody used them.
        self.expired_group_count = 0

    # Lookups. A restore replaces the state: do not keep references to it.

    @property
    def cluster_id(self) -> str:
        """Drawn when the cluster was founded; empty while this node knows none."""
        return self.machine.state.cluster.cluster_id

    @property
    def cluster_version(self) -> int:
        """What may be written (`types/version`)."""
        return self.machine.state.cluster_version

    @property
    def cluster_name(self) -> str:
        return self.machine.state.cluster.name

    def brokers(self) -> Mapping[NodeId, Broker]:
        """A live view."""
        return self.machine.state.brokers

    def has_labels(self, wanted: LabelNode) -> bool:
        """Whether the metadata have these labels of a node, as far as the cluster's version has any."""
        known = self.machine.state.labels.get(wanted.node, NO_LABELS)
        return self.cluster_version < NODES_LABELLED or known == Labels(wanted.machine, wanted.zone)

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

    def check_topic(self, name: str, topic_id: int) -> None:
        """Raises an error unless the topic of that name is the one with that id. Ids grow and are never used again."""
        found = self.topic(name).topic_id
        if found < topic_id:
            raise NotFoundError(f"topic {name!r} has id {found}; there is none of id {topic_id}")
        if found > topic_id:
            raise TopicReplacedError(
                f"topic {name!r} was deleted and created again; the request is about topic {topic_id}, not {found}"
            )

    def check_partition_count(self, name: str, known: int) -> None:
        """Raises TopicGrownError when the topic has more partitions than the producer knows."""
        count = len(self.topic(name).partitions)
        if count > known:
            raise TopicGrownError(f"topic {name!r} has {count} partitions by now, not {known}")

    def transactions(self) -> TransactionTable:
        """Decided transactions that are still remembered."""
        return self.machine.state.transactions

    @property
    def is_complete(self) -> bool:
        return self._why_incomplete() == ""

    def _check_complete(self) -> None:
        """Raises UnavailableError unless everything decided before the leader's term has been applied here.

        A node that has just started knows less than it did; it must not report that a topic is gone.
        """
        why = self._why_incomplete()
        if why:
            raise UnavailableError(why)

    def _why_incomplete(self) -> str:
        replica = self._consensus.replica(METADATA_GROUP)
        raft = None if replica is None else replica.raft
        if replica is not None and raft is not None and raft.leader == NO_NODE and raft.configuration.voters:
            away = [str(node) for node in raft.configuration.voters if not self._outside.is_up(node)]
            missing = f"; node {raft.id} cannot reach nodes {', '.join(away)}" if away else ""
            return f"the cluster's metadata have no known leader{missing}"
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
        """The error as a client sees it."""
        assert isinstance(error, FlotillaError), f"unexpected answer {error!r}"
        if isinstance(error, NotLeaderError) and error.leader == NO_NODE:
            # There is no leader, and this node knows a reason: its disk refuses writes.
            error = self._consensus.storage_error() or error
        if isinstance(error, NotLeaderError) and not error.address:
            return self.not_leader(error.leader)
        # Errors outlive the call, and some are raised again: they must not collect traceback frames.
        return error.with_traceback(None)

    def likely_leader(self, replicas: tuple[NodeId, ...]) -> NodeId:
        """The node to try for a group without a replica here: the preferred leader, or the next that is up."""
        reachable = (node for node in replicas if self._outside.is_up(node))
        return next(reachable, replicas[0] if replicas else NO_NODE)

    def leader_of(self, group: GroupId, replicas: tuple[NodeId, ...]) -> NodeId:
        """As far as this node knows."""
        replica = self._informed(group)
        if replica is None:
            return self.likely_leader(replicas)
        if replica.raft.leader == NO_NODE and self._consensus.storage_error() is not None:
            # Clients are sent here: they can still read, and get the reason why they cannot write.
            return replica.raft.id
        return replica.raft.leader

    def _term_of(self, group: GroupId) -> Term:
        """The term in which `leader_of` leads; 0: it is only a guess."""
        replica = self._informed(group)
        return 0 if replica is None else replica.raft.term

    def _informed(self, group: GroupId) -> Replica | None:
        """The local replica. None: there is none, or it knows no leader and is no member (just added, or removed)."""
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
        return TopicInfo(topic.name, topic.topic_id, partitions, settings, topic.key_partitions, topic.owner)

    def count_partitions(self) -> PartitionCounts:
        """As far as this node knows; it may lack the newest, as metadata that are marked as stale."""
        topics = self.topics()
        counts = PartitionCounts(len(topics))
        for topic in topics:
            for place in topic.partitions:
                leader, move = self.leader_of(place.group, place.replicas), place.move
                counts.add(topic.name, place.number, leader, place.replicas, move.target if move is not None else ())
        return counts

    def describe(self, request: GetMetadata, *, is_stale: bool = False) -> Metadata:
        """All topics, or a page of them, when none is named; topics that do not exist are left out.

        Raises UnavailableError when this node may not know all of them: an incomplete list would look complete. A list
        that is marked as stale may be incomplete; a topic that was asked for by name is not left out of it.
        """
        names = request.topics
        named = [self.find_topic(name) for name in dict.fromkeys(names)]
        if is_stale:
            self._check_stale(names)
        elif not names or None in named:
            self._check_complete()
        found = [topic for topic in named if topic is not None]
        page, total = (found, len(found)) if names else request.page_of(self.topics())
        brokers = [
            BrokerInfo(
                broker.node,
                broker.client_address,
                broker.http_address,
                self._outside.is_up(broker.node),
                BROKER_STATES[broker.state],
                broker.grpc_address,
                broker.version,
                *(self._outside.versions_of(broker.node) or _NOT_KNOWN),
                *astuple(self.machine.state.labels.get(broker.node, NO_LABELS)),
            )
            for _, broker in sorted(self.brokers().items())
        ]
        controller = self.leader_of(METADATA_GROUP, ())
        topics = [self.describe_topic(topic) for topic in page]
        state = self.cluster_name, is_stale, self.machine.applied, self.cluster_version
        return Metadata(self.cluster_id, controller, brokers, topics, *state, total)

    def _check_stale(self, names: list[str]) -> None:
        if not self.cluster_id:
            raise UnavailableError("the node is not part of a cluster yet")
        missing = [name for name in names if name and self.find_topic(name) is None]
        if missing:
            why = self._why_incomplete() or "no quorum of the metadata answers"
            raise UnavailableError(f"it is not certain that there is no topic {missing[0]!r}: {why}")

    # Changes.

    def leading(self) -> Replica:
        """The local replica of the metadata, if it leads and has applied its log. Raises otherwise."""
        replica = self._consensus.replica(METADATA_GROUP)
        if replica is None:
            raise UnavailableError("the node is not part of a cluster yet")
        if replica.raft.role != LEADER:
            raise NotLeaderError(replica.raft.leader)
        if not replica.is_serving():
            raise UnavailableError("the new leader has not applied its log yet")
        return replica

    def check(self, command: Command) -> None:
        """Raises the error with which the command would be refused."""
        refused = self.machine.check(command)
        if refused is not None:
            raise refused

    def propose(self, command: Command, answered: Callable[[object], None]) -> None:
        """`answered` is called once if this returns; when it raises, nothing was proposed."""
        self.leading()
        self.check(command)
        self._consensus.propose(METADATA_GROUP, encode_command(command), answered)

    def forward(self, command: Command) -> None:
        """Fire and forget, to the leader wherever it is: the caller watches the metadata and retries."""
        replica = self._consensus.replica(METADATA_GROUP)
        if replica is None:
            return
        if replica.raft.role == LEADER:
            self._consensus.propose(METADATA_GROUP, encode_command(command), _ignore)
        else:
            self._consensus.forward(METADATA_GROUP, encode_command(command))


def _ignore(_: object) -> None:
    """Fire and forget: the caller watches the metadata and retries."""
