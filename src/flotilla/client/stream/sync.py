"""A stream consumer for threads: reads the partitions that its group has assigned to it.

Partitions come and go between two messages, in the thread that asks for the next one: callbacks run there. An
AsyncStreamConsumer on the client's thread fetches and sends heartbeats, also while the application works.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import Self

from flotilla.client._blocking import blocking, documented_by
from flotilla.client._core.asyncio_network import Network
from flotilla.client._core.closing import TimeLimit, leaving
from flotilla.client._core.loop_thread import WAIT_MS_MAX, LoopThread, News
from flotilla.client._core.positions import Start
from flotilla.client._duration import Duration, milliseconds
from flotilla.client._options import Subscription
from flotilla.client.reader._core import Bookmark
from flotilla.client.reader.message import Message
from flotilla.client.stream._core import Recall
from flotilla.client.stream._progress import Mark
from flotilla.client.stream.aio import AsyncStreamConsumer
from flotilla.client.stream.options import StreamOptions
from flotilla.machine import steady_ms
from flotilla.types.errors import ConnectionClosedError, FlotillaError
from flotilla.types.ids import Offset


class StreamConsumer:
    """Made by `Client.stream`. For one thread at a time: iterate it, or poll it. It never ends by itself."""

    def __init__(
        self,
        thread: LoopThread,
        network: Network,
        subscription: Subscription[StreamOptions],
        closed: Callable[["StreamConsumer"], None],
    ) -> None:
        self.topic, self.group, self._options = subscription
        self._thread = thread
        self._run = thread.run
        self._closed = closed
        #: Set when something has happened since the last look.
        self._news = News()
        self._inner = AsyncStreamConsumer(network, subscription, lambda _: None, self._news.set)
        self._feed = self._inner._feed
        self._reading = self._inner._reading
        self._commit_due_ms = 0
        self._is_closing = False
        #: Closed, to the end.
        self._is_shut = False

    @property
    def member(self) -> str:
        """The name of this member in the group."""
        return self._inner.member

    @property
    def assignment(self) -> list[int]:
        """The partitions that this member reads now."""
        return self._inner.assignment

    @property
    def is_assigned(self) -> bool:
        """Whether this member reads all partitions that the group has assigned to it. It joins with the first poll."""
        return self._inner.is_assigned

    @documented_by(AsyncStreamConsumer.poll)
    def poll(self, max_messages: int = 500, *, wait_ms: Duration = 1_000) -> list[Message]:
        self._enter()
        deadline_ms = steady_ms() + milliseconds(wait_ms)
        reader = self._reading.reader
        before: Bookmark = []
        try:
            while True:
                self._catch_up()
                before = reader.bookmark()
                messages = self._reading.take(max_messages)
                self._fetch()
                remaining_ms = deadline_ms - steady_ms()
                if messages or remaining_ms <= 0:
                    return messages
                self._wait(remaining_ms)
        except FlotillaError:
            raise
        except BaseException:
            # Interrupted: the next poll gets the messages.
            self._reading.rewind(before)
            raise

    @documented_by(AsyncStreamConsumer.commit)
    def commit(self, offsets: Mapping[int, Offset] | None = None, *, wait: bool = True) -> dict[int, Offset]:
        marks = self._inner._marks(offsets)
        if wait:
            return self._run(self._feed.commit(marks))
        self._commit_soon(marks, is_automatic=False)
        return {partition: mark.offset for partition, mark in marks.items()}

    @property
    def behind(self) -> int | None:
        """How many records are still to be read, in all partitions of this member, those that are buffered included.

        As the brokers' answers to fetches said last; it costs no request, unlike `lag`. None: there was no answer yet.
        """
        return self._reading.reader.behind

    committed = blocking(AsyncStreamConsumer.committed)
    positions = blocking(AsyncStreamConsumer.positions)
    lag = blocking(AsyncStreamConsumer.lag)

    @documented_by(AsyncStreamConsumer.seek)
    def seek(
        self, offset: Start | None = None, *, timestamp_ms: int | None = None, partition: int | None = None
    ) -> None:
        found = self._run(self._inner._find(offset, timestamp_ms, partition))
        with self._unfetched():
            for number, position in found.items():
                self._reading.seek(number, position)

    @documented_by(AsyncStreamConsumer.pause)
    def pause(self, partitions: Iterable[int] | None = None) -> None:
        with self._unfetched():
            for partition in self.assignment if partitions is None else partitions:
                self._reading.reader.pause(partition)

    @documented_by(AsyncStreamConsumer.resume)
    def resume(self, partitions: Iterable[int] | None = None) -> None:
        with self._unfetched():
            for partition in self._reading.reader.paused if partitions is None else partitions:
                self._reading.reader.resume(partition)

    @documented_by(AsyncStreamConsumer.close)
    def close(self, *, timeout_ms: Duration | None = None) -> None:
        self._close(timeout_ms, is_handled=True)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Message:
        self._enter()
        reading = self._reading
        reading.reader.came_from = None
        try:
            while True:
                self._catch_up()
                message = reading.take_one()
                self._fetch()
                if message is not None:
                    return message
                self._wait(WAIT_MS_MAX)
        except FlotillaError:
            raise
        except BaseException:
            # Interrupted: the next call gets the message.
            reading.undo()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with leaving(error, f"a consumer of {self.topic}") as limit_ms:
            # The messages in hand when the block failed are not handled.
            self._close(limit_ms, is_handled=error is None)

    # Inside.

    def _enter(self) -> None:
        if self._is_closing:
            raise ConnectionClosedError("the consumer is closed")
        self._thread.check()
        self._reading.handled()
        if self._feed.member.is_idle:
            self._thread.post(self._feed.begin)

    @contextmanager
    def _unfetched(self) -> Iterator[None]:
        """Changes positions; an interrupt leaves some of the changes, with nothing fetched of before."""
        try:
            yield
        except FlotillaError:
            raise
        except BaseException:
            self._reading.reader.rewind([])
            raise

    def _fetch(self) -> None:
        reader = self._reading.reader
        if reader.may_want:
            wanted = reader.wanted()
            if wanted:
                self._thread.post(self._feed.fetch, reader, wanted)

    def _catch_up(self) -> None:
        """Takes in changes of the group, and errors of commits, since the last call."""
        member = self._feed.member
        if self._reading.may_announce:
            self._announce()
        while member.changes and not self._is_closing:
            # A change is dropped when it was taken in: one that is interrupted is taken in again.
            change, count = member.next_change()
            if isinstance(change, Recall):
                self._give_up(change, count)
            elif change is not None:
                self._reading.add(change)
                member.drop_changes(count)
                self._announce()
        self._feed.raise_error()
        if self._options.auto_commit_ms and steady_ms() >= self._commit_due_ms:
            self._commit_due_ms = steady_ms() + self._options.auto_commit_ms
            self._reading.note(self._feed.confirmed)
            marks = self._reading.unsaved()
            if marks:
                self._commit_soon(marks, is_automatic=True)

    def _announce(self) -> None:
        added = self._reading.announce()
        if added and self._options.on_assign is not None:
            self._options.on_assign(added)

    def _give_up(self, recall: Recall, count: int, timeout_ms: int | None = None) -> None:
        """Gives up the partitions of a recall, which are `count` changes of the member."""
        reading = self._reading
        partitions = reading.owned(recall.partitions)
        try:
            if partitions:
                if self._options.on_revoke is not None:
                    self._options.on_revoke(partitions, recall.is_lost)
                if not recall.is_lost:
                    self._run(self._inner._save(partitions, timeout_ms))
        finally:
            reading.remove(recall.partitions)
            self._thread.post(self._feed.gave_up, recall.partitions)
            self._feed.member.drop_changes(count)

    def _close(self, timeout_ms: Duration | None, *, is_handled: bool) -> None:
        if self._is_shut:
            return
        self._is_closing = True
        if not self._thread.is_usable:
            self._inner._is_closed = True
            self._closed(self)
            self._is_shut = True
            return
        try:
            self._leave(TimeLimit(timeout_ms), is_handled=is_handled)
        except FlotillaError:
            raise
        except BaseException:
            # Interrupted: it leaves the group without the caller, who may also call this again.
            self._inner._is_closed = True
            if not self._is_shut:
                self._thread.post(self._feed.close_soon)
            self._closed(self)
            raise
        self._feed.raise_error()

    def _leave(self, limit: TimeLimit, *, is_handled: bool) -> None:
        self._news.set()
        if is_handled:
            self._reading.handled()
        member = self._feed.member
        try:
            while member.changes:
                change, count = member.next_change()
                if isinstance(change, Recall):
                    self._give_up(change, count, limit.left_ms)
                else:
                    member.drop_changes(count)
            self._give_up(Recall(dict(self._reading.epochs), is_lost=False), 0, limit.left_ms)
            self._run(self._feed.flush(limit.left_ms))
        finally:
            self._inner._is_closed = True
            self._closed(self)
            self._run(self._feed.close(limit.left_ms))
            self._is_shut = True

    def _commit_soon(self, marks: Mapping[int, Mark], *, is_automatic: bool) -> None:
        self._thread.post(partial(self._feed.commit_soon, marks, is_automatic=is_automatic))

    def _wait(self, wait_ms: int) -> None:
        """Until there are news, or a while; the caller looks again."""
        self._news.wait(min(wait_ms, WAIT_MS_MAX))
        if self._is_closing:
            raise ConnectionClosedError("the consumer is closed")
        self._thread.check()
