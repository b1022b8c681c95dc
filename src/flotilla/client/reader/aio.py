"""A reader for coroutines: messages from an offset or a time on, committed by the application."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

from flotilla.client._core.asyncio_network import Network
from flotilla.client._core.positions import Start
from flotilla.client._duration import Duration, milliseconds
from flotilla.client._options import Subscription
from flotilla.client.reader._core import ReaderCore
from flotilla.client.reader._loop import ReaderLoop
from flotilla.client.reader.message import Message
from flotilla.client.reader.options import ReaderPlan
from flotilla.machine import steady_ms
from flotilla.types.errors import ConnectionClosedError
from flotilla.types.ids import Offset


class AsyncReader:
    """Made by `AsyncClient.reader`. For one task at a time: iterate it, or poll it. It never ends by itself."""

    def __init__(
        self,
        network: Network,
        plan: Subscription[ReaderPlan],
        closed: Callable[["AsyncReader"], None],
        arrived: Callable[[], None] | None = None,
    ) -> None:
        """`arrived` is called on the loop when there is something to take, instead of waking a task."""
        topic, group, chosen = plan
        self.topic = topic
        self._start = (chosen.partitions, chosen.offset, chosen.timestamp_ms)
        self._options = chosen.options
        self._closed = closed
        self._reader: ReaderCore | None = None
        #: Set when something has arrived since the last look.
        self._news = asyncio.Event()
        self._feed = ReaderLoop(
            network, topic, group, chosen.timeout_ms, arrived or self._news.set, chosen.options.read_from
        )
        self._is_closed = False

    async def poll(self, max_messages: int = 500, *, wait_ms: Duration = 1_000) -> list[Message]:
        """Up to `max_messages` messages; waits up to `wait_ms` for the first one, and returns [] if none comes.

        The next messages are fetched while the application works. An error that ends the reading is raised when
        everything before it was returned.
        """
        reader = await self._opened()
        deadline_ms = steady_ms() + milliseconds(wait_ms)
        while True:
            self._news.clear()
            messages = reader.take(max_messages)
            if reader.may_want:
                self._feed.fetch(reader, reader.wanted())
            remaining_ms = deadline_ms - steady_ms()
            if messages or remaining_ms <= 0:
                return messages
            await self._wait(remaining_ms)

    @property
    def behind(self) -> int | None:
        """How many records are still to be read, in all partitions, those that are buffered here included.

        As the brokers' answers to this reader's fetches said last; it costs no request. None: there was no answer yet.
        """
        return None if self._reader is None else self._reader.behind

    async def seek(
        self, offset: Start | None = None, *, timestamp_ms: int | None = None, partition: int | None = None
    ) -> None:
        """Moves to an offset, to "earliest" or "latest", or to the first record at or after a time.

        Moves one partition, or all that are read. A seek backwards reads messages again.
        """
        reader = await self._opened()
        reader.seek_all(await self._find(offset, timestamp_ms, partition))

    async def _find(self, offset: Start | None, timestamp_ms: int | None, partition: int | None) -> dict[int, Offset]:
        """The positions that `seek` moves to."""
        reader = await self._opened()
        partitions = list(reader.positions) if partition is None else [partition]
        return await self._feed.find(partitions, offset, timestamp_ms)

    async def positions(self) -> dict[int, Offset]:
        """The offset of the next message, by partition."""
        return (await self._opened()).positions

    async def commit(self) -> dict[int, Offset]:
        """Commits the positions for the group. Returns its committed offsets; they never move backwards.

        Raises StaleGenerationError when the group was deleted since this reader began: nothing is committed for one
        that has its name now.
        """
        reader = await self._opened()
        return await self._feed.commit(reader.positions)

    async def committed(self) -> dict[int, Offset | None]:
        """The committed offset of the group, by partition; None: it never committed there."""
        reader = await self._opened()
        return await self._feed.committed(list(reader.positions))

    async def close(self) -> None:
        """Ends the reader; a pending `poll` raises ConnectionClosedError."""
        if not self._is_closed:
            self._is_closed = True
            self._feed.close()
            self._news.set()
            self._closed(self)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        reader = await self._opened()
        while True:
            self._news.clear()
            message = reader.take_one()
            if reader.may_want:
                self._feed.fetch(reader, reader.wanted())
            if message is not None:
                return message
            await self._wait()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _opened(self) -> ReaderCore:
        self._check_open()
        if self._reader is None:
            positions = await self._feed.begin(*self._start)
            self._check_open()
            self._reader = ReaderCore(self.topic, positions, self._options, self._feed.topic_id)
        return self._reader

    async def _wait(self, wait_ms: int | None = None) -> None:
        """Until there are news, or a while; the caller looks again."""
        with suppress(TimeoutError):
            async with asyncio.timeout(None if wait_ms is None else wait_ms / 1000):
                await self._news.wait()
        self._check_open()

    def _check_open(self) -> None:
        if self._is_closed:
            raise ConnectionClosedError("the reader is closed")
