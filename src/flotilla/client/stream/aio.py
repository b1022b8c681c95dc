"""A stream consumer for coroutines: reads the partitions that its group has assigned to it.

Partitions come and go between two messages, in the task that asks for the next one: callbacks run there.
"""

import asyncio
import inspect
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from flotilla.client._core.asyncio_network import Network
from flotilla.client._core.closing import TimeLimit, leaving
from flotilla.client._core.positions import Start
from flotilla.client._duration import Duration, milliseconds
from flotilla.client._options import Subscription
from flotilla.client.reader.message import Message
from flotilla.client.stream._core import Recall
from flotilla.client.stream._loop import StreamLoop
from flotilla.client.stream._progress import Mark, StreamProgress
from flotilla.client.stream.options import StreamOptions
from flotilla.machine import steady_ms
from flotilla.types.errors import ConnectionClosedError, FlotillaError, StaleGenerationError, TopicReplacedError
from flotilla.types.ids import Offset

#: An iteration that never waits yields to the loop after this many messages, for heartbeats.
_TURN_MESSAGES = 64


class AsyncStreamConsumer:
    """Made by `AsyncClient.stream`. For one task at a time: iterate it, or poll it. It never ends by itself."""

    def __init__(
        self,
        network: Network,
        subscription: Subscription[StreamOptions],
        closed: Callable[["AsyncStreamConsumer"], None],
        happened: Callable[[], None] | None = None,
    ) -> None:
        """`happened` is called on the loop when there is something to look at, instead of waking a task."""
        topic, group, options = subscription
        self.topic = topic
        self.group = group
        self._options = options
        self._closed = closed
        #: Set when something has happened since the last look.
        self._news = asyncio.Event()
        self._feed = StreamLoop(network, topic, group, options, happened or self._news.set)
        self._reading = StreamProgress(topic, options.reader)
        self._commit_due_ms = 0
        #: Messages handed out by iteration.
        self._turn = 0
        self._is_closing = False
        self._is_closed = False

    @property
    def member(self) -> str:
        """The name of this member in the group."""
        return self._feed.member.name

    @property
    def assignment(self) -> list[int]:
        """The partitions that this member reads now."""
        return sorted(self._reading.epochs)

    async def poll(self, max_messages: int = 500, *, wait_ms: Duration = 1_000) -> list[Message]:
        """Up to `max_messages` messages; waits up to `wait_ms` for the first one, and returns [] if none comes.

        A poll says that all messages before it were handled. The first call joins the group.
        """
        self._enter()
        deadline_ms = steady_ms() + milliseconds(wait_ms)
        while True:
            await self._catch_up()
            messages = self._reading.take(max_messages)
            self._fetch()
            remaining_ms = deadline_ms - steady_ms()
            if messages or remaining_ms <= 0:
                return messages
            await self._wait(remaining_ms)

    async def commit(self, offsets: Mapping[int, Offset] | None = None, *, wait: bool = True) -> dict[int, Offset]:
        """Commits everything that was returned so far, or the given offsets, by partition.

        Returns the committed offsets of the group when they are on disk at a majority; with `wait=False` at once, and
        the next call raises the error. Raises StaleGenerationError when another member has the partition by now.
        """
        marks = self._marks(offsets)
        if wait:
            return await self._feed.commit(marks)
        self._feed.commit_soon(marks, is_automatic=False)
        return {partition: mark.offset for partition, mark in marks.items()}

    async def committed(self) -> dict[int, Offset | None]:
        """The committed offset of the group, by partition of this member; None: it never committed there."""
        self._check_open()
        return await self._feed.committed(self.assignment)

    async def positions(self) -> dict[int, Offset]:
        """The offset of the next message, by partition of this member."""
        return self._reading.reader.positions

    async def lag(self) -> dict[int, int]:
        """How many messages are still to be read, by partition of this member."""
        self._check_open()
        return await self._feed.lag(self._reading.reader.positions)

    @property
    def is_assigned(self) -> bool:
        """Whether this member reads all partitions that the group has assigned to it. It joins with the first poll."""
        member = self._feed.member
        return member.is_assigned and not member.changes

    @property
    def behind(self) -> int | None:
        """How many records are still to be read, in all partitions of this member, those that are buffered included.

        As the brokers' answers to fetches said last; it costs no request, unlike `lag`. None: there was no answer yet.
        """
        return self._reading.reader.behind

    async def seek(
        self, offset: Start | None = None, *, timestamp_ms: int | None = None, partition: int | None = None
    ) -> None:
        """Moves to an offset, to "earliest" or "latest", or to the first record at or after a time.

        Moves one partition of this member, or all of them.
        """
        for number, position in (await self._find(offset, timestamp_ms, partition)).items():
            self._reading.seek(number, position)

    async def _find(self, offset: Start | None, timestamp_ms: int | None, partition: int | None) -> dict[int, Offset]:
        """The positions that `seek` moves to."""
        self._check_open()
        return await self._feed.find(self.assignment if partition is None else [partition], offset, timestamp_ms)

    async def pause(self, partitions: Iterable[int] | None = None) -> None:
        """Returns no messages of these partitions, or of all, until they are resumed. This member keeps them."""
        for partition in self.assignment if partitions is None else partitions:
            self._reading.reader.pause(partition)

    async def resume(self, partitions: Iterable[int] | None = None) -> None:
        """Goes on with these partitions, or with all that are paused."""
        for partition in self._reading.reader.paused if partitions is None else partitions:
            self._reading.reader.resume(partition)

    async def close(self, *, timeout_ms: Duration | None = None) -> None:
        """Counts everything that was returned as handled, gives up the partitions, and leaves the group."""
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
            # The messages in hand when the block failed are not handled.
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
        """Takes in changes of the group, and errors of commits, since the last call."""
        member = self._feed.member
        while member.changes and not self._is_closing:
            change = member.take_change()
            if isinstance(change, Recall):
                await self._give_up(change)
            elif change is not None:
                self._reading.add(change)
                await _call(self._options.on_assign, self._reading.announce())
        self._feed.raise_error()
        if self._options.auto_commit_ms and steady_ms() >= self._commit_due_ms:
            self._commit_due_ms = steady_ms() + self._options.auto_commit_ms
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
            reading.remove(recall.partitions)
            self._feed.gave_up(recall.partitions)

    def _marks(self, offsets: Mapping[int, Offset] | None) -> dict[int, Mark]:
        self._check_open()
        reading = self._reading
        reading.note(self._feed.confirmed)
        return reading.taken() if offsets is None else reading.marks(offsets)

    async def _save(self, partitions: list[int], timeout_ms: int | None) -> None:
        """Commits what was handled, if commits are automatic."""
        if not self._options.auto_commit_ms:
            return
        self._reading.note(self._feed.confirmed)
        try:
            await self._feed.commit(self._reading.unsaved(partitions), timeout_ms)
        except (StaleGenerationError, TopicReplacedError):
            # Another member is further, or begins at the last commit.
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
            due_ms = max(self._commit_due_ms - steady_ms(), 1)
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
