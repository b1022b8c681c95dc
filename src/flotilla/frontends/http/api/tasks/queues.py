"""Task queues: each is a topic with one queue group, created at its first use.

A queue is created with its first task or worker if the cluster creates topics automatically. A queue group holds what
it owes from its first poll on; this one is told to hold from the beginning, because tasks may come long before workers.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from flotilla.gateway.gateway import Gateway
from flotilla.machine import steady_ms
from flotilla.types.errors import NotFoundError
from flotilla.types.operations import GetMetadata, TopicInfo
from flotilla.types.operations.queue import AlterGroup, DescribeGroup, GroupDescription, Poll
from flotilla.types.tasks import QUEUE_PREFIX, WORKER_GROUP, topic_of

Result = TypeVar("Result")

#: The member name of requests that are made for no worker.
ENDPOINT_MEMBER = "flotilla.http"
#: No task has this type, so a poll for it leases nothing; but it opens the group.
_NO_TYPE = "\0"
#: How long a leader may not know a new topic.
_LAG_MS_MAX = 5_000


class Queues:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        #: Lookups and creations in flight, shared by all requests that wait for the topic.
        self._making: dict[tuple[str, object], asyncio.Task[TopicInfo]] = {}

    async def topic(self, queue: str) -> TopicInfo:
        """The topic of a queue, created if it is missing. Raises FlotillaError."""
        topic = topic_of(queue)
        known = self._gateway.known_topic(topic)
        if known is not None:
            return known
        key = (topic, self._gateway.caller)
        making = self._making.get(key)
        if making is None:
            making = self._making[key] = asyncio.ensure_future(self._find_or_make(topic))
            making.add_done_callback(lambda _: self._making.pop(key))
        # Shielded: other requests may wait for the same topic.
        return await asyncio.shield(making)

    async def _find_or_make(self, topic: str) -> TopicInfo:
        try:
            return await self._gateway.topic(topic)
        except NotFoundError:
            await self._gateway.ask(GetMetadata([topic], create=True))
        await self._gateway.ask(AlterGroup(topic, WORKER_GROUP, {"holds_retention": "1"}))
        return await self._gateway.topic(topic)

    async def patiently(self, topic: str, work: Callable[[], Awaitable[Result]]) -> Result:
        """Retries `work` while the topic is too new for its leader. Raises FlotillaError."""
        deadline_ms = steady_ms() + _LAG_MS_MAX
        while True:
            try:
                return await work()
            except NotFoundError:
                # Raises NotFoundError if the metadata has no such topic either.
                await self._gateway.topic(topic)
                if steady_ms() > deadline_ms:
                    raise
            await asyncio.sleep(_LAG_MS_MAX / 50_000)

    async def opened(self, topic: str, work: Callable[[], Awaitable[Result]]) -> Result:
        """The result of `work`; the group is opened first if it was never polled. Raises NotFoundError."""
        try:
            return await work()
        except NotFoundError:
            await self._gateway.poll(Poll(topic, WORKER_GROUP, ENDPOINT_MEMBER, types=[_NO_TYPE]))
            return await work()

    async def names(self) -> list[str]:
        """The names of all queues, in order."""
        topics = (await self._gateway.ask(GetMetadata(search=QUEUE_PREFIX, is_linearizable=True))).topics
        return sorted(topic.name.removeprefix(QUEUE_PREFIX) for topic in topics if topic.name.startswith(QUEUE_PREFIX))

    async def describe(self, queue: str) -> list[GroupDescription]:
        """One for each partition. Raises NotFoundError."""
        topic = topic_of(queue)
        partitions = await self._gateway.partitions(topic)

        async def ask(number: int) -> GroupDescription:
            request = DescribeGroup(topic, number, WORKER_GROUP)
            return await self.opened(topic, lambda: self._gateway.ask(request))

        return list(await asyncio.gather(*map(ask, partitions)))
