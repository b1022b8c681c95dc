"""A reader for coroutines: messages from an offset or a time on, committed when the application says so."""

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Self

from flotilla.client._core.asyncio_network import Network
from flotilla.client._core.positions import Start
from flotilla.client._options import Subscription
from flotilla.client.reader._core import ReaderCore
from flotilla.client.reader._loop import ReaderLoop
from flotilla.client.reader.message import Message
from flotilla.client.reader.options import ReaderPlan
from flotilla.types.errors import ConnectionClosedError
from flotilla.types.ids import Offset


class AsyncReader:
    """Made by `AsyncClient.reader`. For one task at a time: iterate it, or poll it. It has no end but `close`."""

    def __init__(
        self,
        network: Network,
        plan: Subscription[ReaderPlan],
        closed: Callable[["AsyncReader"], None],
    ) -> None:
        topic, group, chosen = plan
        self.topic = topic
        self._start = (chosen.partitions, chosen.offset, chosen.timestamp_ms)
        self._options = chosen.options
        self._closed = closed
        self._reader: ReaderCore | None = None
        #: Set when something has arrived since it was last looked at.
        self._news = asyncio.Event()
        self._feed = ReaderLoop(network, topic, group, chosen.timeout_ms, self._news.set, chosen.options.read_from)
        self._is_closed = False

    async def poll(self, max_messages: int = 500, *, wait_ms: int = 1_000) -> list[Message]:
        """Messages that have arrived, up to so many; waits for the first one, and returns none if none comes in time.

        The next ones are fetched while the application works. Raises what makes it impossible to go on, when
        everything before that was handed out.
        """
        reader = await self._opened()
        try:
            async with asyncio.timeout(wait_ms / 1000):
                while True:
                    self._news.clear()
                    messages = reader.take(max_messages)
                    if reader.may_want:
                        self._feed.fetch(reader, reader.wanted())
                    if messages:
                        return messages
                    await self._wait()
        except TimeoutError:
            return []

    async def seek(
        self, offset: Start | None = None, *, timestamp_ms: int | None = None, partition: int | None = None
    ) -> None:
        """Goes on at an offset, at `earliest` or `latest`, or at the first record at or after a time.

        In one partition or in all that are read. Reading again what was read is a seek backwards.
        """
        reader = await self._opened()
        partitions = list(reader.positions) if partition is None else [partition]
        found = await self._feed.find(partitions, offset, timestamp_ms)
        for number, position in found.items():
            reader.seek(number, position)

    async def positions(self) -> dict[int, Offset]:
        """For each partition the offset of the message that comes next."""
        return (await self._opened()).positions

    async def commit(self) -> dict[int, Offset]:
        """Remembers the positions for the group, and says where it stands: ahead, if it stood there already."""
        reader = await self._opened()
        return await self._feed.commit(reader.positions)

    async def committed(self) -> dict[int, Offset | None]:
        """For each partition where the group stands; None where it never committed."""
        reader = await self._opened()
        return await self._feed.committed(list(reader.positions))

    async def close(self) -> None:
        """Ends it; whoever waits for a message is told so."""
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
            self._reader = ReaderCore(self.topic, positions, self._options)
        return self._reader

    async def _wait(self) -> None:
        await self._news.wait()
        self._check_open()

    def _check_open(self) -> None:
        if self._is_closed:
            raise ConnectionClosedError("the reader is closed")
