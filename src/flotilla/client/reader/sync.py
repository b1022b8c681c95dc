"""A reader for threads: messages from an offset or a time on, committed by the application.

Messages are decoded in the caller's thread. An AsyncReader on the client's thread fetches, also while the application
works, and does everything else.
"""

from collections.abc import Callable
from types import TracebackType
from typing import Self

from flotilla.client._blocking import blocking, documented_by
from flotilla.client._core.asyncio_network import Network
from flotilla.client._core.loop_thread import WAIT_MS_MAX, LoopThread, News
from flotilla.client._core.positions import Start
from flotilla.client._duration import Duration, milliseconds
from flotilla.client._options import Subscription
from flotilla.client.reader._core import Bookmark, ReaderCore
from flotilla.client.reader.aio import AsyncReader
from flotilla.client.reader.message import Message
from flotilla.client.reader.options import ReaderPlan
from flotilla.machine import steady_ms
from flotilla.types.errors import FlotillaError


class Reader:
    """Made by `Client.reader`. For one thread at a time: iterate it, or poll it. It never ends by itself."""

    def __init__(
        self,
        thread: LoopThread,
        network: Network,
        plan: Subscription[ReaderPlan],
        closed: Callable[["Reader"], None],
    ) -> None:
        self.topic = plan.topic
        self._thread = thread
        self._run = thread.run
        self._closed = closed
        #: Set when something has arrived since the last look.
        self._news = News()
        self._inner = AsyncReader(network, plan, lambda _: None, self._news.set)
        #: Closed, to the end.
        self._is_shut = False

    @documented_by(AsyncReader.poll)
    def poll(self, max_messages: int = 500, *, wait_ms: Duration = 1_000) -> list[Message]:
        reader = self._opened()
        deadline_ms = steady_ms() + milliseconds(wait_ms)
        before: Bookmark = []
        try:
            while True:
                self._news.clear()
                before = reader.bookmark()
                messages = reader.take(max_messages)
                if reader.may_want:
                    self._fetch(reader)
                remaining_ms = deadline_ms - steady_ms()
                if messages or remaining_ms <= 0:
                    return messages
                self._wait(remaining_ms)
        except FlotillaError:
            raise
        except BaseException:
            # Interrupted: the next poll gets the messages.
            reader.rewind(before)
            raise

    @property
    def behind(self) -> int | None:
        """How many records are still to be read, in all partitions, those that are buffered here included.

        As the brokers' answers to this reader's fetches said last; it costs no request. None: there was no answer yet.
        """
        return self._inner.behind

    @documented_by(AsyncReader.seek)
    def seek(
        self, offset: Start | None = None, *, timestamp_ms: int | None = None, partition: int | None = None
    ) -> None:
        reader = self._opened()
        found = self._run(self._inner._find(offset, timestamp_ms, partition))
        try:
            reader.seek_all(found)
        except FlotillaError:
            raise
        except BaseException:
            reader.rewind([])
            raise

    positions = blocking(AsyncReader.positions)
    commit = blocking(AsyncReader.commit)
    committed = blocking(AsyncReader.committed)

    @documented_by(AsyncReader.close)
    def close(self) -> None:
        if self._is_shut:
            return
        # In a form that may be done twice: an interrupt leaves the rest to the next call.
        self._inner._is_closed = True
        self._news.set()
        if self._thread.is_usable:
            self._thread.post(self._inner._feed.close)
        self._closed(self)
        self._is_shut = True

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Message:
        reader = self._opened()
        reader.came_from = None
        try:
            while True:
                self._news.clear()
                message = reader.take_one()
                if reader.may_want:
                    self._fetch(reader)
                if message is not None:
                    return message
                self._wait(WAIT_MS_MAX)
        except FlotillaError:
            raise
        except BaseException:
            # Interrupted: the next call gets the message.
            reader.undo()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _opened(self) -> ReaderCore:
        self._check_open()
        return self._inner._reader or self._run(self._inner._opened())

    def _fetch(self, reader: ReaderCore) -> None:
        wanted = reader.wanted()
        if wanted:
            self._thread.post(self._inner._feed.fetch, reader, wanted)

    def _wait(self, wait_ms: int) -> None:
        """Until there are news, or a while; the caller looks again."""
        self._news.wait(min(wait_ms, WAIT_MS_MAX))
        self._check_open()

    def _check_open(self) -> None:
        self._inner._check_open()
        self._thread.check()
