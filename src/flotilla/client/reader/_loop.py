"""The asyncio side of one reader: fetches, start offsets and commits.

A fetch goes to the leader, or to a replica by the reader's choice; when a replica cannot answer, others are asked, and
finally the leader. The core does not notice.

A reader of a whole topic also reads partitions that are added later, from their beginning, since they were empty when
the reader started. They are looked for now and then, when an answer arrives.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from flotilla.client._core.asyncio_network import Network
from flotilla.client._core.calls import CallResult, ClientCall
from flotilla.client._core.positions import (
    Start,
    chosen_partitions,
    find_topic,
    known_offset,
    read_offset,
    read_position,
    start_offsets,
)
from flotilla.client.reader._core import ReaderCore, Wanted
from flotilla.client.reader._replica_choice import LEADER, ReplicaChoice
from flotilla.machine import steady_ms
from flotilla.types.errors import FlotillaError, InvalidArgumentError, NotFoundError, TopicReplacedError
from flotilla.types.ids import NO_NODE, Index, NodeId, Offset
from flotilla.types.operations import CommitOffset, Fetch, GetMetadata, Route

#: How often the reader looks for new partitions.
REFRESH_MS = 10_000
#: A replica that does not answer is left sooner than a leader, which only an election replaces.
REPLICA_WAIT_MS_MAX = 1_000


class ReaderLoop:
    def __init__(
        self,
        network: Network,
        topic: str,
        group: str,
        timeout_ms: int,
        news: Callable[[], None],
        read_from: str = LEADER,
        replaced: Callable[[int], None] | None = None,
    ) -> None:
        """`news` is called, on the loop, after each answer to the core.

        `replaced` gets the id of a topic that was deleted and created again; without it the core gets the error.
        """
        self._replaced = replaced
        self._replicas = ReplicaChoice(network.session, topic, read_from)
        self._network = network
        self._topic = topic
        self._group = group
        self._timeout_ms = timeout_ms
        self._news = news
        self._calls: dict[tuple[int, int], ClientCall] = {}
        #: Whether new partitions are read, too; and the partitions known so far.
        self._reads_all = False
        self._known: list[int] = []
        #: Of the topic that is read; 0 before `begin`. Another one of its name is refused with TOPIC_REPLACED.
        self.topic_id = 0
        #: By partition, as of when the position of the group is known: a group that was deleted since is not moved.
        self._as_of: dict[int, Index] = {}
        self._looked_ms = steady_ms()
        self._looking: asyncio.Task[None] | None = None

    async def begin(
        self, partitions: Sequence[int] | None, at: Start | None, timestamp_ms: int | None
    ) -> dict[int, Offset]:
        """The start offsets of the partitions to read."""
        topic = await find_topic(self._network, self._topic, self._timeout_ms)
        self.topic_id = topic.topic_id
        self._reads_all = partitions is None
        self._known = chosen_partitions(topic, partitions)
        if self._group and (at is not None or timestamp_ms is not None):
            await asyncio.gather(*[self._look_up(partition) for partition in self._known])
        return await self.find(self._known, at, timestamp_ms)

    async def find(self, partitions: Sequence[int], at: Start | None, timestamp_ms: int | None) -> dict[int, Offset]:
        return await start_offsets(
            self._network,
            self._topic,
            partitions,
            committed=self._look_up if self._group else None,
            at=at,
            timestamp_ms=timestamp_ms,
            timeout_ms=self._timeout_ms,
            topic_id=self.topic_id,
        )

    async def _look_up(self, partition: int) -> Offset | None:
        """The committed offset of the group. Commits are for the life of the group that was seen first."""
        found = await read_position(self._network, self._group, self._topic, partition, self._timeout_ms, self.topic_id)
        self._as_of.setdefault(partition, found.as_of)
        return known_offset(found)

    def fetch(self, reader: ReaderCore, wanted: Iterable[tuple[int, Wanted]]) -> None:
        """Makes the requests that the core wants, and reports their answers to it."""
        for generation, request in wanted:
            self._ask(reader, (request.partition, generation), request)

    def _ask(self, reader: ReaderCore, name: tuple[int, int], request: Wanted) -> None:
        partition = request.partition
        replica = NO_NODE
        wait_ms = 0
        if isinstance(request, Fetch):
            replica = self._replicas.choose(partition)
            request.is_any_replica = replica != NO_NODE
            wait_ms = min(request.wait_ms, REPLICA_WAIT_MS_MAX) if replica else request.wait_ms
            request.wait_ms = wait_ms
        self._calls[name] = self._network.submit(
            request,
            self._timeout_ms + wait_ms,
            partial(self._arrived, reader, name, request, replica),
            route=Route(self._topic, partition, replica),
            is_single=replica != NO_NODE,
        )

    def _arrived(
        self, reader: ReaderCore, name: tuple[int, int], request: Wanted, replica: NodeId, result: CallResult
    ) -> None:
        self._calls.pop(name, None)
        if self._reads_all and self._looking is None and steady_ms() - self._looked_ms >= REFRESH_MS:
            self._looking = asyncio.get_running_loop().create_task(self._look_for_more(reader))
        if replica != NO_NODE:
            if isinstance(result, FlotillaError) and (result.retryable or isinstance(result, NotFoundError)):
                self._replicas.failed(request.partition, replica)
                self._ask(reader, name, request)
                return
            self._replicas.answered(request.partition, replica)
        if isinstance(result, TopicReplacedError) and self._replaced is not None:
            self._replaced(request.topic_id)
            return
        following = reader.following(*name, result)
        if following is not None:
            self.fetch(reader, [(name[1], following)])
        reader.arrived(*name, result, is_followed=following is not None)
        self._news()

    async def _look_for_more(self, reader: ReaderCore) -> None:
        try:
            found = await self._network.call(GetMetadata([self._topic]), self._timeout_ms)
            self._network.session.routes.update(found, [self._topic])
            topics = [topic for topic in found.topics if topic.topic_id == self.topic_id]
            numbers = [part.number for topic in topics for part in topic.partitions]
            for partition, offset in (
                await self.find([n for n in numbers if n not in self._known], None, None)
            ).items():
                self._known.append(partition)
                reader.appeared(partition, offset, self.topic_id)
            self._news()
        except FlotillaError:
            # Tried again after a later answer.
            pass
        finally:
            self._looked_ms = steady_ms()
            self._looking = None

    async def commit(self, positions: Mapping[int, Offset]) -> dict[int, Offset]:
        """Commits, and returns the committed offsets.

        Raises StaleGenerationError when the group was deleted since this reader looked it up.
        """
        self._checked_group()
        found = await asyncio.gather(*[self._commit(partition, offset) for partition, offset in positions.items()])
        return dict(zip(positions, found, strict=True))

    async def _commit(self, partition: int, offset: Offset) -> Offset:
        as_of = self._as_of.get(partition, 0)
        request = CommitOffset(self._group, self._topic, partition, offset, topic_id=self.topic_id, as_of=as_of)
        committed = await self._network.call(request, self._timeout_ms)
        self._as_of[partition] = max(self._as_of.get(partition, 0), committed.as_of)
        return committed.offset

    async def committed(self, partitions: Sequence[int]) -> dict[int, Offset | None]:
        group = self._checked_group()
        found = await asyncio.gather(
            *[
                read_offset(self._network, group, self._topic, partition, self._timeout_ms, self.topic_id)
                for partition in partitions
            ]
        )
        return dict(zip(partitions, found, strict=True))

    def forget(self, partitions: Iterable[int]) -> None:
        """Cancels the fetches of partitions that are not read any more."""
        left = dict.fromkeys(partitions)
        for name in [name for name in self._calls if name[0] in left]:
            self._network.session.cancel(self._calls.pop(name))

    def close(self) -> None:
        """Cancels all requests."""
        self._reads_all = False
        if self._looking is not None:
            self._looking.cancel()
        for call in self._calls.values():
            self._network.session.cancel(call)
        self._calls.clear()

    def _checked_group(self) -> str:
        if not self._group:
            raise InvalidArgumentError("committing takes a group: consumer(..., group=...)")
        return self._group
