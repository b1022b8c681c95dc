"""Runs a handler for the messages of a queue group, so many at a time, until it is told to stop.

A handler is a function, which runs in a thread of a pool, or a coroutine function, which runs on the loop. When it
returns, its message is acknowledged; when it raises, its message has failed, with the exception as the reason;
`Reject` and `Retry` say something else. Messages are leased only for free slots, so a slow handler keeps nothing from
the others, and their leases are renewed while they run.

Stopping is a drain: nothing more is taken, what was taken and not begun goes back at once, running handlers have a
while to end. What is left then goes back uncounted: its handler is cut off, or ends for nothing.
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias, Unpack, cast

from flotilla.client._core.loop_thread import new_loop
from flotilla.client.async_client import AsyncClient
from flotilla.client.queue.aio import AsyncQueueConsumer, AsyncQueueMessage
from flotilla.client.queue.message import with_owner
from flotilla.client.queue.options import QueueSettings
from flotilla.client.queue.outcome import Outcome, is_decision, outcome_of
from flotilla.client.queue.sync import QueueMessage
from flotilla.types.errors import FlotillaError, GroupModeError, InvalidArgumentError, NotFoundError

Handler: TypeAlias = Callable[[QueueMessage], object] | Callable[[AsyncQueueMessage], Awaitable[object]]

DRAIN_MS_DEFAULT = 30_000
#: After an error of the cluster, before messages are asked for again.
_PAUSE_MS = 1_000

#: What will not pass: the worker ends with it.
_FATAL = (GroupModeError, InvalidArgumentError, NotFoundError)

_LOG = logging.getLogger(__name__)


class Worker:
    """Handles messages of a group. `run` blocks; in a program with a loop of its own, await `serve`."""

    def __init__(
        self,
        addresses: str | Sequence[str] | AsyncClient,
        topic: str,
        group: str,
        handler: Handler,
        *,
        concurrency: int = 16,
        drain_ms: int = DRAIN_MS_DEFAULT,
        **settings: Unpack[QueueSettings],
    ) -> None:
        """`addresses` as of a client, or an AsyncClient of the loop that will `serve`; settings as of a consumer."""
        if concurrency < 1 or drain_ms < 0:
            raise InvalidArgumentError("concurrency is at least 1, and drain_ms at least 0")
        self._client = addresses
        self.topic = topic
        self.group = group
        self._handler = handler
        self._is_async = inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(
            getattr(handler, "__call__", None)  # noqa: B004 - an object whose call is a coroutine.
        )
        self.concurrency = concurrency
        self._drain_ms = drain_ms
        self._settings = settings
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._is_stopped = False
        self._running: dict[asyncio.Task[None], None] = {}
        #: Messages that were handled, and those of them whose handler failed.
        self.handled_count = 0
        self.failed_count = 0

    def run(self) -> None:
        """Handles messages until `stop` is called, from another thread or a signal handler; then drains."""
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(self.serve())

    def stop(self) -> None:
        """Begins the drain. Any thread may call it, also before `run`, and more than once."""
        self._is_stopped = True
        loop = self._loop
        if loop is not None and self._stopping is not None:
            try:
                loop.call_soon_threadsafe(self._stopping.set)
            except RuntimeError:
                # It has come to its end already.
                return

    @property
    def running_count(self) -> int:
        """Handlers that are at work."""
        return len(self._running)

    async def serve(self) -> None:
        """What `run` does, on the loop that runs now."""
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        if self._is_stopped:
            return
        client = self._client if isinstance(self._client, AsyncClient) else AsyncClient(self._client)
        threads = None if self._is_async else ThreadPoolExecutor(self.concurrency, f"flotilla-worker-{self.topic}")
        try:
            settings: QueueSettings = {"prefetch": self.concurrency, **self._settings}
            consumer = client.queue(self.topic, group=self.group, **settings)
            await self._work(consumer, self._stopping, threads)
        finally:
            self._loop = None
            if threads is not None:
                # A handler that does not end cannot be ended; nobody waits for it.
                threads.shutdown(wait=False, cancel_futures=True)
            if client is not self._client:
                await client.close()

    async def _work(
        self, consumer: AsyncQueueConsumer, stopping: asyncio.Event, threads: ThreadPoolExecutor | None
    ) -> None:
        loop = asyncio.get_running_loop()
        taking = loop.create_task(self._take_messages(consumer, threads))
        waiting = loop.create_task(stopping.wait())
        try:
            await asyncio.wait((taking, waiting), return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
            taking.cancel()
            await asyncio.wait((taking, waiting))
            await self._drain(consumer)
        if not taking.cancelled():
            # It ends by itself only with an error.
            taking.result()

    async def _drain(self, consumer: AsyncQueueConsumer) -> None:
        try:
            await consumer.close(drain_ms=self._drain_ms)
        except FlotillaError as error:
            self._note(error)
        left = list(self._running)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    # The messages.

    async def _take_messages(self, consumer: AsyncQueueConsumer, threads: ThreadPoolExecutor | None) -> None:
        loop = asyncio.get_running_loop()
        free = asyncio.Semaphore(self.concurrency)
        bridge = _Bridge(loop, consumer)

        def ended(task: asyncio.Task[None]) -> None:
            del self._running[task]
            free.release()

        while True:
            await free.acquire()
            message = await self._next(consumer)
            work = self._await(message) if threads is None else self._call(message, bridge, threads)
            task = loop.create_task(self._handle(message, work))
            self._running[task] = None
            task.add_done_callback(ended)

    async def _next(self, consumer: AsyncQueueConsumer) -> AsyncQueueMessage:
        """The next message, however long that takes: what is wrong with the cluster may pass."""
        while True:
            try:
                return await anext(consumer)
            except _FATAL:
                raise
            except FlotillaError as error:
                self._note(error)
                if error.retryable:
                    await asyncio.sleep(_PAUSE_MS / 1000)

    async def _await(self, message: AsyncQueueMessage) -> None:
        handler = cast("Callable[[AsyncQueueMessage], Awaitable[object]]", self._handler)
        await handler(message)

    async def _call(self, message: AsyncQueueMessage, bridge: "_Bridge", threads: ThreadPoolExecutor) -> None:
        handler = cast("Callable[[QueueMessage], object]", self._handler)
        # The same message, with methods that a thread can call.
        blocking = with_owner(message, QueueMessage, bridge)
        await asyncio.get_running_loop().run_in_executor(threads, handler, blocking)

    async def _handle(self, message: AsyncQueueMessage, work: Coroutine[None, None, None]) -> None:
        error: BaseException | None = None
        try:
            await work
        except BaseException as raised:
            error = raised
        self.handled_count += 1
        if error is not None and not is_decision(error):
            self.failed_count += 1
            place = f"{message.topic}/{message.partition}@{message.offset}"
            _LOG.warning("%s, attempt %d, failed: %r", place, message.attempt, error)
        if not message.is_settled:
            await message._owner.settle((message,), outcome_of(error), wait=False)
        if error is not None and not isinstance(error, Exception):
            raise error

    def _note(self, error: FlotillaError) -> None:
        _LOG.warning("topic %s, group %s: %s: %s", self.topic, self.group, error.code, error)


class _Bridge:
    """Settles for handlers in threads what belongs to the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, consumer: AsyncQueueConsumer) -> None:
        self._loop = loop
        self._consumer = consumer

    def settle(self, messages: Iterable[QueueMessage], outcome: Outcome, *, wait: bool = True) -> None:
        future = asyncio.run_coroutine_threadsafe(self._consumer.settle(messages, outcome, wait=wait), self._loop)
        if wait:
            future.result()

    def extend(self, message: QueueMessage, visibility_ms: int) -> None:
        asyncio.run_coroutine_threadsafe(self._consumer.extend(message, visibility_ms), self._loop).result()
