"""Operations on topics: create, alter, delete; and what a topic looks like."""

from dataclasses import field

from flotilla.types.access import MANAGE
from flotilla.types.ids import NodeId, Term
from flotilla.types.operations.request import CONTROLLER, ONCE, REPEATABLE, Reply, Request
from flotilla.types.slotted import slotted
from flotilla.types.topics import SETTINGS, TopicSettings, resolve_settings


@slotted
class PartitionInfo:
    number: int
    #: NO_NODE while no leader is known.
    leader: NodeId
    replicas: list[NodeId]
    #: The term in which the leader leads; 0: the broker has no replica and only guesses.
    term: Term = 0
    #: The replicas that the partition is moving to; empty while it stays.
    target: list[NodeId] = field(default_factory=list)


@slotted
class TopicInfo:
    name: str
    topic_id: int
    partitions: list[PartitionInfo]
    #: The settings that were chosen for the topic, as text; a later broker may have more of them than this version.
    settings: dict[str, str]
    #: Keys are spread over the partitions below this number: those that the topic was created with. So a key stays
    #: where it is when the topic grows.
    key_partitions: int = 0
    #: The user who created the topic. The topic counts against the quota of that user. Empty: the topic has no owner.
    owner: str = ""

    @property
    def settings_in_force(self) -> TopicSettings:
        """Every setting of the topic as a number, defaults included."""
        known = {name: text for name, text in self.settings.items() if name in SETTINGS}
        return resolve_settings(SETTINGS.parse(known).items())


@slotted
class TopicReply(Reply):
    """The topic as it is after a change (as it was, for a deletion)."""

    topic: TopicInfo


@slotted
class CreateTopic(Request[TopicReply], to=CONTROLLER, effect=ONCE, needs=MANAGE):
    topic: str
    #: 0: the default of the cluster.
    partitions: int = 0
    replication_factor: int = 0
    settings: dict[str, str] = field(default_factory=dict)
    #: Who creates it: the broker that took the request says so for users; empty: nobody.
    owner: str = ""


@slotted
class AlterTopic(Request[TopicReply], to=CONTROLLER, effect=REPEATABLE, needs=MANAGE):
    topic: str
    #: 0: leave as it is. Partitions can only grow.
    partitions: int = 0
    settings: dict[str, str] = field(default_factory=dict)
    #: 0: leave as it is.
    replication_factor: int = 0


@slotted
class DeleteTopic(Request[TopicReply], to=CONTROLLER, effect=ONCE, needs=MANAGE):
    topic: str
