"""Operations on topics and group settings, and the metadata that clients ask for first.

The metadata's leader makes changes; any node describes what it knows. Names, counts and settings are checked before
anything is proposed, by the same rules as in the state machine. New partitions wait for the nodes that founded the
cluster (`founders`).
"""

from dataclasses import asdict

from flotilla.broker.catalog import Catalog
from flotilla.broker.cluster.founders import FounderWait
from flotilla.broker.metadata_reads import MetadataReads
from flotilla.broker.ports import Cancel, Done, Outside
from flotilla.metadata import commands
from flotilla.metadata.move_commands import ResizeTopic
from flotilla.metadata.values import Topic
from flotilla.types.errors import FlotillaError, InvalidArgumentError, NotFoundError, UnavailableError
from flotilla.types.group_settings import GROUP_SETTINGS
from flotilla.types.operations import AlterTopic, CreateTopic, DeleteTopic, GetMetadata, TopicReply
from flotilla.types.operations.cluster import CountPartitions
from flotilla.types.operations.queue import AlterGroup, GroupReply
from flotilla.types.settings import NodeSettings
from flotilla.types.topics import SETTINGS
from flotilla.types.version import TOPIC_OWNERS


class Topics:
    def __init__(
        self,
        settings: NodeSettings,
        catalog: Catalog,
        outside: Outside,
        reads: MetadataReads,
        founders: FounderWait,
    ) -> None:
        self._settings = settings
        self._catalog = catalog
        self._outside = outside
        self._reads = reads
        self._founders = founders

    def get_metadata(self, request: GetMetadata, done: Done) -> Cancel | None:
        if not request.is_linearizable:
            self.describe(request, done)
            return None

        def confirmed(error: FlotillaError | None) -> None:
            try:
                self.describe(request, done, is_stale=error is not None)
            except FlotillaError as refused:
                done(self._catalog.explain(refused))

        return self._reads.confirm(confirmed)

    def describe(self, request: GetMetadata, done: Done, *, is_stale: bool = False) -> None:
        """What this node knows. It is stale if it may lack what the client has seen, or what a quorum knows."""
        described = self._catalog.describe(request, is_stale=is_stale)
        if request.create and len(described.topics) < len(dict.fromkeys(request.topics)):
            raise self._create_missing(request.topics, request.owner)
        done(described)

    def count_partitions(self, _: CountPartitions, done: Done) -> None:
        done(self._catalog.count_partitions())

    def _create_missing(self, names: list[str], owner: str) -> FlotillaError:
        """Asks the metadata's leader to create them. Returns the error for the client, which may be retryable."""
        missing = [name for name in dict.fromkeys(names) if self._catalog.find_topic(name) is None]
        if not self._settings.creates_topics:
            return NotFoundError(f"there is no topic {missing[0]!r}, and auto_create_topics is off")
        creations = [self._creation(CreateTopic(name, owner=owner)) for name in missing]
        for creation in creations:
            self._catalog.check(creation)
        self._founders.check(self._settings.default_replication_factor, is_exact=False)
        for creation in creations:
            self._catalog.forward(creation)
        return UnavailableError(f"the topic {missing[0]!r} is being created")

    def _creation(self, request: CreateTopic) -> commands.CreateTopic | commands.CreateOwnedTopic:
        settings = self._settings
        creation = commands.CreateTopic(
            name=request.topic,
            partitions=request.partitions or settings.default_partitions,
            replication_factor=request.replication_factor or settings.default_replication_factor,
            settings=tuple(SETTINGS.parse(request.settings).items()),
            now_ms=self._outside.now_ms(),
        )
        if not request.owner or self._catalog.cluster_version < TOPIC_OWNERS:
            return creation
        return commands.CreateOwnedTopic(**asdict(creation), owner=request.owner)

    def create_topic(self, request: CreateTopic, done: Done) -> None:
        self._catalog.leading()
        self._check_brokers(request.replication_factor)
        creation = self._creation(request)
        self._catalog.check(creation)
        self._founders.check(creation.replication_factor, is_exact=request.replication_factor > 0)
        self._propose(creation, done)

    def _check_brokers(self, replication_factor: int) -> None:
        """A replication factor that was asked for by name is kept or refused. Founders count before they register."""
        known = self._catalog.machine.state.node_count()
        if replication_factor > known:
            raise InvalidArgumentError(
                f"a replication factor of {replication_factor} needs as many brokers, and the cluster has {known}"
            )

    def alter_topic(self, request: AlterTopic, done: Done) -> None:
        """A setting without a value goes back to its default."""
        if request.replication_factor:
            self._resize(request, done)
            return
        chosen = {name: text for name, text in request.settings.items() if text}
        command = commands.AlterTopic(
            name=request.topic,
            settings=tuple(SETTINGS.parse(chosen).items()),
            reset=tuple(name for name, text in request.settings.items() if not text),
            partitions=request.partitions,
            now_ms=self._outside.now_ms(),
        )
        self._catalog.leading()
        topic = self._catalog.topic(request.topic)
        if request.partitions > len(topic.partitions):
            self._catalog.check(command)
            self._founders.check(topic.replication_factor, is_exact=False)
        self._propose(command, done)

    def _resize(self, request: AlterTopic, done: Done) -> None:
        """The replicas first, then the other changes."""
        command = ResizeTopic(request.topic, request.replication_factor, self._outside.now_ms())
        rest = AlterTopic(request.topic, request.partitions, request.settings)
        if not rest.partitions and not rest.settings:
            self._propose(command, done)
            return

        def resized(result: object) -> None:
            try:
                if isinstance(result, FlotillaError):
                    raise result
                self.alter_topic(rest, done)
            except FlotillaError as error:
                done(self._catalog.explain(error))

        self._catalog.propose(command, resized)

    def alter_group(self, request: AlterGroup, done: Done) -> None:
        """A setting without a value follows the topic again. Without settings: only returns what is set."""
        catalog = self._catalog
        if not request.settings:
            catalog.leading()
            done(GroupReply(GROUP_SETTINGS.show(catalog.topic(request.topic).chosen_for(request.group))))
            return
        chosen = {name: text for name, text in request.settings.items() if text}
        command = commands.AlterGroup(
            topic=request.topic,
            group=request.group,
            settings=tuple(GROUP_SETTINGS.parse(chosen).items()),
            reset=tuple(name for name, text in request.settings.items() if not text),
            now_ms=self._outside.now_ms(),
        )

        def answered(result: object) -> None:
            if isinstance(result, Topic):
                done(GroupReply(GROUP_SETTINGS.show(result.chosen_for(request.group))))
            else:
                done(catalog.explain(result))

        catalog.propose(command, answered)

    def delete_topic(self, request: DeleteTopic, done: Done) -> None:
        """Names the topic by its id: another one may have its name when the command is applied."""
        self._catalog.leading()
        topic = self._catalog.topic(request.topic)
        self._propose(commands.DeleteTopic(topic.name, topic.topic_id, self._outside.now_ms()), done)

    def _propose(self, command: commands.Command, done: Done) -> None:
        catalog = self._catalog

        def answered(result: object) -> None:
            done(TopicReply(catalog.describe_topic(result)) if isinstance(result, Topic) else catalog.explain(result))

        catalog.propose(command, answered)
