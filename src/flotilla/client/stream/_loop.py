"""The asyncio side of one stream member, for both shells: fetches, commits and membership.

Everything here runs on the loop, except `raise_error`. A commit that fails because of its epoch means that another
member owns the partition: it is reported to the member, which recalls it from the application.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence

from flotilla.client._core.answer import Answer, gather_answers
from flotilla.client._core.asyncio_network import Network
from flotilla.client._core.positions import Start, commit_offset, list_offset
from flotilla.client.reader._core import ReaderCore, Wanted
from flotilla.client.reader._loop import ReaderLoop
from flotilla.client.stream._core import StreamMember
from flotilla.client.stream._progress import Mark
from flotilla.client.stream.options import StreamOptions
from flotilla.machine import here, steady_ms
from flotilla.types.errors import FlotillaError, StaleGenerationError, TopicReplacedError
from flotilla.types.ids import Offset
from flotilla.types.operations import CommitOffset

#: Leaving is optional: the group removes a member that stops its heartbeats.
LEAVE_MS_MAX = 5_000


class StreamLoop:
    def __init__(
        self, network: Network, topic: str, group: str, options: StreamOptions, news: Callable[[], None]
    ) -> None:
        """`news` is called, on the loop, when the application should look again."""
        self._network = network
        self._topic = topic
        self._group = group
        self._options = options
        self._news = news
        machine, chance = here(), network.session.chance
        self._reader_loop = ReaderLoop(
            network, topic, group, options.timeout_ms, news, options.reader.read_from, self._replaced
        )
        self.member = StreamMember(
            network.session,
            topic,
            group,
            f"{machine.host_name()}-{machine.process_id()}-{chance.getrandbits(32):08x}",
            options,
            client=network.session.options.name,
            news=news,
        )
        #: Commits that have succeeded, for the application's progress.
        self.confirmed: deque[tuple[int, Mark]] = deque()
        #: Leaving, when nobody waits for it.
        self._closing: asyncio.Task[None] | None = None
        #: Unawaited commits.
        self._commits: set[asyncio.Task[None]] = set()

    def begin(self) -> None:
        """Joins the group, unless that has happened."""
        self.member.begin(steady_ms())
        self._network.wake()

    def fetch(self, reader: ReaderCore, wanted: Iterable[tuple[int, Wanted]]) -> None:
        self._reader_loop.fetch(reader, wanted)

    def _replaced(self, topic_id: int) -> None:
        self.member.replaced(topic_id, steady_ms())

    def gave_up(self, partitions: Mapping[int, int]) -> None:
        """The application has given up these partitions, by epoch."""
        self._reader_loop.forget(partitions)
        self.member.gave_up(partitions, steady_ms())
        self._network.wake()

    # Offsets and commits.

    async def find(self, partitions: Sequence[int], at: Start | None, timestamp_ms: int | None) -> dict[int, Offset]:
        return await self._reader_loop.find(partitions, at, timestamp_ms)

    async def committed(self, partitions: Sequence[int]) -> dict[int, Offset | None]:
        return await self._reader_loop.committed(partitions)

    async def lag(self, positions: Mapping[int, Offset]) -> dict[int, int]:
        """The count of records after each position."""
        limit_ms = self._options.timeout_ms
        ends = await asyncio.gather(
            *[list_offset(self._network, self._topic, partition, "latest", 0, limit_ms) for partition in positions]
        )
        found = zip(positions.items(), ends, strict=True)
        return {partition: max(end - position, 0) for (partition, position), end in found}

    async def commit(self, marks: Mapping[int, Mark], timeout_ms: int | None = None) -> dict[int, Offset]:
        """Commits all, returns the committed offsets, and raises the first error."""
        limit_ms = self._options.timeout_ms if timeout_ms is None else timeout_ms
        return await gather_answers({each: self._commit(each, mark, limit_ms) for each, mark in marks.items()})

    async def _commit(self, partition: int, mark: Mark, timeout_ms: int) -> Offset:
        request = CommitOffset(
            self._group, self._topic, partition, mark.offset, epoch=mark.epoch, topic_id=mark.topic_id
        )
        try:
            offset = await commit_offset(self._network, request, timeout_ms)
        except StaleGenerationError:
            self.member.lost(partition, mark.epoch, steady_ms())
            self._network.wake()
            raise
        except TopicReplacedError:
            self._replaced(mark.topic_id)
            self._network.wake()
            raise
        self.confirmed.append((partition, mark))
        return offset

    def commit_soon(self, marks: Mapping[int, Mark], *, is_automatic: bool) -> None:
        """Commits without waiting. The next call raises the error; of an automatic commit only an unexpected one."""
        task = asyncio.get_running_loop().create_task(self._commit_quietly(marks, is_automatic))
        self._commits.add(task)
        task.add_done_callback(self._commits.discard)

    async def _commit_quietly(self, marks: Mapping[int, Mark], is_automatic: bool) -> None:
        try:
            await self.commit(marks)
        except FlotillaError as error:
            if not is_automatic or not (
                error.retryable or isinstance(error, StaleGenerationError | TopicReplacedError)
            ):
                self.member.errors.append(error)
                self._news()

    async def flush(self, timeout_ms: int | None) -> None:
        """Waits for unawaited commits, at most `timeout_ms`; each has a time limit of its own."""
        if self._commits:
            await asyncio.wait(self._commits, timeout=None if timeout_ms is None else timeout_ms / 1000)
        for task in self._commits:
            task.cancel()

    async def close(self, timeout_ms: int | None) -> None:
        """Leaves the group, without committing."""
        self._reader_loop.close()
        left: Answer[None] = Answer()
        limit_ms = min(self._options.timeout_ms if timeout_ms is None else timeout_ms, LEAVE_MS_MAX)
        self.member.leave(left.set, limit_ms, steady_ms())
        self._network.wake()
        # A member that cannot leave is removed by the group later.
        await left.future

    def raise_error(self) -> None:
        """Raises an error of background work. Any thread may call it."""
        errors = self.member.errors
        if not errors:
            return
        error = errors[0]
        try:
            errors.popleft()
            raise error
        except BaseException as raised:
            if raised is not error:
                # Interrupted: the next call raises it.
                errors.appendleft(error)
            raise

    def close_soon(self) -> None:
        """Leaves the group without waiting for it."""
        self._closing = asyncio.get_running_loop().create_task(self.close(LEAVE_MS_MAX))
