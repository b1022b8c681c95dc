"""A member of a stream group for coroutines: messages of the partitions that are its own at the moment.

Partitions come and go between two messages, in the task that asks for the next one: callbacks run there.
"""

import asyncio
import inspect
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from flotilla.client._core.asyncio_network import Network, now_ms
from flotilla.client._core.closing import TimeLimit, leaving
from flotilla.client._core.positions import Start
from flotilla.client._duration import Duration
from flotilla.client._options import Subscription
from flotilla.client.reader.message import Message
from flotilla.client.stream._core import Recall
from flotilla.client.stream._loop import StreamLoop
from flotilla.client.stream._progress import StreamProgress
from flotilla.client.stream.options import StreamOptions
from flotilla.types.errors import ConnectionClosedError, FlotillaError, StaleGenerationError
from flotilla.types.ids import Offset

#: So often an iteration that never has to wait lets the loop do something else: heartbeats, for one thing.
_TURN_MESSAGES = 64


class AsyncStreamConsumer:
    """Made by `AsyncClient.stream`. For one task at a time: iterate it, or poll it. It has no end but `close`."""

    def __init__(
        self,
        network: Network,
        subscription: Subscription[StreamOptions],
        closed: Callable[["AsyncStreamConsumer"], None],
    ) -> None:
        topic, group, options = subscription
        self.topic = topic
        self.group = group
        self._options = options
        self._closed = closed
        #: Set when something has happened since it was last looked at.
        self._news = asyncio.Event()
        self._feed = StreamLoop(network, topic, group, options, self._news.set)
        self._reading = StreamProgress(topic, options.reader)
        self._commit_due_ms = 0
        #: Messages handed out by iteration.
        self._turn = 0
        self._is_closing = False
        self._is_closed = False

    @property
    def member(self) -> str:
        """The name under which the group knows it."""
        return self._feed.member.name

    @property
    def assignment(self) -> list[int]:
        """The partitions that it reads at the moment."""
        return sorted(self._reading.epochs)

    async def poll(self, max_messages: int = 500, *, wait_ms: int = 1_000) -> list[Message]:
        """Messages of its partitions, up to so many; waits for the first one, and returns none if none comes in time.

        Asking for more says that everything before was handled. The first call joins the group.
        """
        self._enter()
        deadline_ms = now_ms() + wait_ms
        while True:
            await self._catch_up()
            messages = self._reading.take(max_messages)
            self._fetch()
            remaining_ms = deadline_ms - now_ms()
            if messages or remaining_ms <= 0:
                return messages
            await self._wait(remaining_ms)

    async def commit(self, offsets: Mapping[int, Offset] | None = None, *, wait: bool = True) -> dict[int, Offset]:
        """Remembers for the group that everything handed out is done, or other offsets, by partition.

        Returns where the group stands in the partitions that were committed, when that is on disk at a majority; with
        `wait=False` at once, and the next call raises what went wrong. Raises StaleGenerationError when a partition
        belongs to somebody else by now.
        """
        self._check_open()
        reading = self._reading
        reading.note(self._feed.confirmed)
        marks = reading.taken() if offsets is None else reading.marks(offsets)
        if wait:
            return await self._feed.commit(marks)
        self._feed.commit_soon(marks, is_automatic=False)
        return {partition: mark.offset for partition, mark in marks.items()}

    async def committed(self) -> dict[int, Offset | None]:
        """For each of its partitions where the group stands; None where it never committed."""
        self._check_open()
        return await self._feed.committed(self.assignment)

    async def positions(self) -> dict[int, Offset]:
        """For each of its partitions the offset of the message that comes next."""
        return self._reading.reader.positions

    async def lag(self) -> dict[int, int]:
        """For each of its partitions how many messages are still to come."""
        self._check_open()
        return await self._feed.lag(self._reading.reader.positions)

    async def seek(
        self, offset: Start | None = None, *, timestamp_ms: int | None = None, partition: int | None = None
    ) -> None:
        """Goes on at an offset, at `earliest` or `latest`, or at the first record at or after a time.

        In one of its partitions or in all of them.
        """
        self._check_open()
        partitions = self.assignment if partition is None else [partition]
        for number, position in (await self._feed.find(partitions, offset, timestamp_ms)).items():
            self._reading.seek(number, position)

    async def pause(self, partitions: Iterable[int] | None = None) -> None:
        """Hands out nothing of these, or of all its partitions, until they are resumed. They stay its own."""
        for partition in self.assignment if partitions is None else partitions:
            self._reading.reader.pause(partition)

    async def resume(self, partitions: Iterable[int] | None = None) -> None:
        """Goes on with these, or with all that are paused."""
        for partition in self._reading.reader.paused if partitions is None else partitions:
            self._reading.reader.resume(partition)

    async def close(self, *, timeout_ms: Duration | None = None) -> None:
        """Gives up its partitions, as if everything handed out were handled, and leaves the group."""
        await self._close(timeout_ms, is_handled=True)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        self._enter()
        while True:
            await self._catch_up()
            message = self._reading.take_one()
            self._fetch()
            if message is not None:
                self._turn += 1
                if self._turn % _TURN_MESSAGES == 0:
                    await asyncio.sleep(0)
                return message
            await self._wait(None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with leaving(error, f"a consumer of {self.topic}") as limit_ms:
            # What was in hand when something went wrong is not done.
            await self._close(limit_ms, is_handled=error is None)

    # Inside.

    def _enter(self) -> None:
        if self._is_closing:
            raise ConnectionClosedError("the consumer is closed")
        self._reading.handled()
        self._feed.begin()

    def _fetch(self) -> None:
        reader = self._reading.reader
        if reader.may_want:
            self._feed.fetch(reader, reader.wanted())

    async def _catch_up(self) -> None:
        """What has happened to the group and to commits since this was last called."""
        member = self._feed.member
        while member.changes and not self._is_closing:
            change = member.take_change()
            if isinstance(change, Recall):
                await self._give_up(change)
            elif change is not None:
                added = self._reading.add(change)
                await _call(self._options.on_assign, added)
        self._feed.raise_error()
        if self._options.auto_commit_ms and now_ms() >= self._commit_due_ms:
            self._commit_due_ms = now_ms() + self._options.auto_commit_ms
            self._reading.note(self._feed.confirmed)
            marks = self._reading.unsaved()
            if marks:
                self._feed.commit_soon(marks, is_automatic=True)

    async def _give_up(self, recall: Recall, timeout_ms: int | None = None) -> None:
        reading = self._reading
        partitions = reading.owned(recall.partitions)
        try:
            if partitions:
                await _call(self._options.on_revoke, partitions, recall.is_lost)
                if not recall.is_lost:
                    await self._save(partitions, timeout_ms)
        finally:
            reading.remove(reading.owned(recall.partitions))
            self._feed.gave_up(recall.partitions)

    async def _save(self, partitions: list[int], timeout_ms: int | None) -> None:
        """Commits what was handled, where that happens by itself."""
        if not self._options.auto_commit_ms:
            return
        self._reading.note(self._feed.confirmed)
        try:
            await self._feed.commit(self._reading.unsaved(partitions), timeout_ms)
        except StaleGenerationError:
            # Somebody else is further, or begins where the last commit was.
            return
        except FlotillaError as error:
            self._feed.member.errors.append(error)

    async def _close(self, timeout_ms: Duration | None, *, is_handled: bool) -> None:
        if self._is_closing:
            return
        self._is_closing = True
        self._news.set()
        if is_handled:
            self._reading.handled()
        member = self._feed.member
        limit = TimeLimit(timeout_ms)
        try:
            while member.changes:
                change = member.take_change()
                if isinstance(change, Recall):
                    await self._give_up(change, limit.left_ms)
            await self._give_up(Recall(dict(self._reading.epochs), is_lost=False), limit.left_ms)
            await self._feed.flush(limit.left_ms)
        finally:
            self._is_closed = True
            self._closed(self)
            await self._feed.close(limit.left_ms)
        self._feed.raise_error()

    async def _wait(self, wait_ms: int | None) -> None:
        """Until there are news, or a while; the caller looks again."""
        if self._options.auto_commit_ms:
            due_ms = max(self._commit_due_ms - now_ms(), 1)
            wait_ms = due_ms if wait_ms is None else min(wait_ms, due_ms)
        with suppress(TimeoutError):
            async with asyncio.timeout(None if wait_ms is None else wait_ms / 1000):
                await self._news.wait()
        self._news.clear()
        if self._is_closing:
            raise ConnectionClosedError("the consumer is closed")

    def _check_open(self) -> None:
        if self._is_closed:
            raise ConnectionClosedError("the consumer is closed")


async def _call(callback: Callable[..., Any] | None, *arguments: object) -> None:
    """Plain functions and coroutine functions alike."""
    if callback is not None:
        found = callback(*arguments)
        if inspect.isawaitable(found):
            await found
