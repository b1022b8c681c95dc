"""A reader for threads: messages from an offset or a time on, committed when the application says so.

Messages are decoded in the caller's thread; fetches are made by the client's thread, also while the
application works.
"""

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from flotilla.client._core.asyncio_network import Network, now_ms
from flotilla.client._core.loop_thread import WAIT_MS_MAX, LoopThread
from flotilla.client._core.positions import Start
from flotilla.client._options import Subscription
from flotilla.client.reader._core import ReaderCore
from flotilla.client.reader._loop import ReaderLoop
from flotilla.client.reader.message import Message
from flotilla.client.reader.options import ReaderPlan
from flotilla.types.errors import ConnectionClosedError
from flotilla.types.ids import Offset


class Reader:
    """Made by `Client.reader`. For one thread at a time: iterate it, or poll it. It has no end but `close`."""

    def __init__(
        self,
        thread: LoopThread,
        network: Network,
        plan: Subscription[ReaderPlan],
        closed: Callable[["Reader"], None],
    ) -> None:
        topic, group, chosen = plan
        self.topic = topic
        self._thread = thread
        self._start = (chosen.partitions, chosen.offset, chosen.timestamp_ms)
        self._options = chosen.options
        self._closed = closed
        self._reader: ReaderCore | None = None
        #: Set when something has arrived since it was last looked at.
        self._news = threading.Event()
        self._feed = ReaderLoop(network, topic, group, chosen.timeout_ms, self._news.set, chosen.options.read_from)
        self._is_closed = False

    def poll(self, max_messages: int = 500, *, wait_ms: int = 1_000) -> list[Message]:
        """Messages that have arrived, up to so many; waits for the first one, and returns none if none comes in time.

        The next ones are fetched while the application works. Raises what makes it impossible to go on, when
        everything before that was handed out.
        """
        reader = self._opened()
        deadline_ms = now_ms() + wait_ms
        while True:
            self._news.clear()
            messages = reader.take(max_messages)
            if reader.may_want:
                self._fetch(reader)
            remaining_ms = deadline_ms - now_ms()
            if messages or remaining_ms <= 0:
                return messages
            self._wait(remaining_ms)

    def seek(
        self, offset: Start | None = None, *, timestamp_ms: int | None = None, partition: int | None = None
    ) -> None:
        """Goes on at an offset, at `earliest` or `latest`, or at the first record at or after a time.

        In one partition or in all that are read. Reading again what was read is a seek backwards.
        """
        reader = self._opened()
        partitions = list(reader.positions) if partition is None else [partition]
        found = self._thread.run(self._feed.find(partitions, offset, timestamp_ms))
        for number, position in found.items():
            reader.seek(number, position)

    def positions(self) -> dict[int, Offset]:
        """For each partition the offset of the message that comes next."""
        return self._opened().positions

    def commit(self) -> dict[int, Offset]:
        """Remembers the positions for the group, and says where it stands: ahead, if it stood there already."""
        return self._thread.run(self._feed.commit(self._opened().positions))

    def committed(self) -> dict[int, Offset | None]:
        """For each partition where the group stands; None where it never committed."""
        return self._thread.run(self._feed.committed(list(self._opened().positions)))

    def close(self) -> None:
        """Ends it; whoever waits for a message is told so."""
        if not self._is_closed:
            self._is_closed = True
            self._closed(self)
            self._news.set()
            if not self._thread.is_foreign:
                self._thread.post(self._feed.close)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Message:
        reader = self._opened()
        while True:
            self._news.clear()
            message = reader.take_one()
            if reader.may_want:
                self._fetch(reader)
            if message is not None:
                return message
            self._wait(WAIT_MS_MAX)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _opened(self) -> ReaderCore:
        self._check_open()
        if self._reader is None:
            positions = self._thread.run(self._feed.begin(*self._start))
            self._reader = ReaderCore(self.topic, positions, self._options)
        return self._reader

    def _fetch(self, reader: ReaderCore) -> None:
        wanted = reader.wanted()
        if wanted:
            self._thread.post(self._feed.fetch, reader, wanted)

    def _wait(self, wait_ms: int) -> None:
        """Until there are news, or a while; the caller looks again."""
        self._news.wait(min(wait_ms, WAIT_MS_MAX) / 1000)
        self._check_open()

    def _check_open(self) -> None:
        if self._is_closed:
            raise ConnectionClosedError("the reader is closed")
        self._thread.check()
