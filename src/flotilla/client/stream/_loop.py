"""The loop's side of one member of a stream group, for both shells: fetches, commits, and its life in the group.

Everything here runs on the loop, but for `raise_error`. A commit that a partition refuses because of its epoch says
that the partition is somebody else's: the member hears of that, and the application through it.
"""

import asyncio
import os
import socket
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence

from flotilla.client._core.asyncio_network import Network, now_ms
from flotilla.client._core.positions import Start, commit_offset, list_offset
from flotilla.client.reader._core import ReaderCore, Wanted
from flotilla.client.reader._loop import ReaderLoop
from flotilla.client.stream._core import StreamMember
from flotilla.client.stream._progress import Mark
from flotilla.client.stream.options import StreamOptions
from flotilla.types.errors import FlotillaError, StaleGenerationError
from flotilla.types.ids import Offset
from flotilla.types.operations import CommitOffset

#: Leaving is a courtesy: whoever just goes is missed after a while.
LEAVE_MS_MAX = 5_000


class StreamLoop:
    def __init__(
        self, network: Network, topic: str, group: str, options: StreamOptions, news: Callable[[], None]
    ) -> None:
        """`news` is called, on the loop, whenever there is something for the application."""
        self._network = network
        self._topic = topic
        self._group = group
        self._options = options
        self._news = news
        host, chance = socket.gethostname(), network.session.chance
        self._reader_loop = ReaderLoop(network, topic, group, options.timeout_ms, news, options.reader.read_from)
        self.member = StreamMember(
            network.session,
            topic,
            group,
            f"{host}-{os.getpid()}-{chance.getrandbits(32):08x}",
            options,
            client=network.session.options.name,
            news=news,
        )
        #: What was committed, for the application's books.
        self.confirmed: deque[tuple[int, Mark]] = deque()
        #: Commits that nobody waits for.
        self._commits: set[asyncio.Task[None]] = set()

    def begin(self) -> None:
        """Joins the group, unless that has happened."""
        self.member.begin(now_ms())
        self._network.wake()

    def fetch(self, reader: ReaderCore, wanted: Iterable[tuple[int, Wanted]]) -> None:
        self._reader_loop.fetch(reader, wanted)

    def gave_up(self, partitions: Mapping[int, int]) -> None:
        """The application is done with these, under these epochs."""
        self._reader_loop.forget(partitions)
        self.member.gave_up(partitions, now_ms())
        self._network.wake()

    # Questions and commits.

    async def find(self, partitions: Sequence[int], at: Start | None, timestamp_ms: int | None) -> dict[int, Offset]:
        return await self._reader_loop.find(partitions, at, timestamp_ms)

    async def committed(self, partitions: Sequence[int]) -> dict[int, Offset | None]:
        return await self._reader_loop.committed(partitions)

    async def lag(self, positions: Mapping[int, Offset]) -> dict[int, int]:
        """How many records are behind each position."""
        limit_ms = self._options.timeout_ms
        ends = await asyncio.gather(
            *[list_offset(self._network, self._topic, partition, "latest", 0, limit_ms) for partition in positions]
        )
        found = zip(positions.items(), ends, strict=True)
        return {partition: max(end - position, 0) for (partition, position), end in found}

    async def commit(self, marks: Mapping[int, Mark], timeout_ms: int | None = None) -> dict[int, Offset]:
        """Where the group stands afterwards. Raises the first error; the others are committed all the same."""
        limit_ms = self._options.timeout_ms if timeout_ms is None else timeout_ms
        results = await asyncio.gather(
            *[self._commit(partition, mark, limit_ms) for partition, mark in marks.items()], return_exceptions=True
        )
        found: dict[int, Offset] = {}
        for partition, result in zip(marks, results, strict=True):
            if isinstance(result, BaseException):
                raise result
            found[partition] = result
        return found

    async def _commit(self, partition: int, mark: Mark, timeout_ms: int) -> Offset:
        request = CommitOffset(self._group, self._topic, partition, mark.offset, epoch=mark.epoch)
        try:
            offset = await commit_offset(self._network, request, timeout_ms)
        except StaleGenerationError:
            self.member.lost(partition, mark.epoch, now_ms())
            self._network.wake()
            raise
        self.confirmed.append((partition, mark))
        return offset

    def commit_soon(self, marks: Mapping[int, Mark], *, is_automatic: bool) -> None:
        """Commits without waiting; an error is raised by what is called next, if whoever called could have known."""
        task = asyncio.get_running_loop().create_task(self._commit_quietly(marks, is_automatic))
        self._commits.add(task)
        task.add_done_callback(self._commits.discard)

    async def _commit_quietly(self, marks: Mapping[int, Mark], is_automatic: bool) -> None:
        try:
            await self.commit(marks)
        except FlotillaError as error:
            if not is_automatic or not (error.retryable or isinstance(error, StaleGenerationError)):
                self.member.errors.append(error)
                self._news()

    async def flush(self, timeout_ms: int | None) -> None:
        """Waits for the commits that nobody waits for, but not longer than that; by itself each has its time limit."""
        if self._commits:
            await asyncio.wait(self._commits, timeout=None if timeout_ms is None else timeout_ms / 1000)
        for task in self._commits:
            task.cancel()

    async def close(self, timeout_ms: int | None) -> None:
        """Leaves the group. What was not committed by now is not."""
        self._reader_loop.close()
        future: asyncio.Future[FlotillaError | None] = asyncio.get_running_loop().create_future()

        def done(error: FlotillaError | None) -> None:
            if not future.done():
                future.set_result(error)

        limit_ms = min(self._options.timeout_ms if timeout_ms is None else timeout_ms, LEAVE_MS_MAX)
        self.member.leave(done, limit_ms, now_ms())
        self._network.wake()
        await future

    def raise_error(self) -> None:
        """Raises what went wrong behind the caller's back. Any thread may call it."""
        if not self.member.errors:
            return
        try:
            error = self.member.errors.popleft()
        except IndexError:
            return
        raise error
