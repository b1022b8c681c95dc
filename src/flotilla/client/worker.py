"""A worker: runs a handler for the messages of a queue group, a bounded number at a time, until it is stopped.

A handler is a function, which runs in a thread of a pool, or a coroutine function, which runs on the loop. When it
returns, its message is acknowledged; bytes that it returns are the message's result. When it raises, the attempt
failed, with the exception as the reason; `Reject`, `Retry` and `Release` choose another outcome. Messages are leased
only for free slots, so a slow handler keeps none from other workers, and leases are renewed while handlers run.

Stopping is a drain: the worker leases nothing more, gives back messages that were not started, and waits for running
handlers up to `drain_ms`. Then it releases what is left, which does not count as an attempt: a coroutine is cancelled,
and the result of a thread is ignored. With `ack_mode="auto"` messages that were not started cannot be given back: the
drain handles them too, and what it does not come to is lost. A worker has one topic and one process.
"""

import asyncio
import contextvars
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Protocol, TypeAlias, Unpack, cast

from flotilla.client._background_run import BackgroundRun
from flotilla.client._core.closing import TimeLimit
from flotilla.client._core.loop_thread import new_loop
from flotilla.client._duration import Duration, milliseconds
from flotilla.client.async_client import AsyncClient
from flotilla.client.credentials import Credentials, CredentialsProvider
from flotilla.client.handler_metrics import HandlerCounts, HandlerMetrics, render
from flotilla.client.message import AnyMessage
from flotilla.client.producer.receipt import Receipt
from flotilla.client.queue.aio import AsyncQueueConsumer, AsyncQueueMessage
from flotilla.client.queue.following import Next
from flotilla.client.queue.message import with_owner
from flotilla.client.queue.options import QueueSettings
from flotilla.client.queue.outcome import Outcome, log_outcome, outcome_of, returned
from flotilla.client.queue.sync import QueueMessage
from flotilla.machine import here
from flotilla.security.client_tls import Tls
from flotilla.types.errors import (
    ConnectionClosedError,
    FlotillaError,
    GroupModeError,
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
    UnauthenticatedError,
    UnsupportedError,
)
from flotilla.types.limits import RESULT_BYTES_MAX
from flotilla.types.operations.queue import FAIL, REJECT


class BlockingHandler(Protocol):
    """Runs in a thread."""

    def __call__(self, message: QueueMessage, /) -> object: ...


class AsyncHandler(Protocol):
    """Runs on the loop."""

    async def __call__(self, message: AsyncQueueMessage, /) -> object: ...


Handler: TypeAlias = BlockingHandler | AsyncHandler
#: Called with a message and the exception of its handler.
Hook: TypeAlias = Callable[[AnyMessage, BaseException], object]

DRAIN_MS_DEFAULT = 30_000
#: After an error of the cluster, before messages are asked for again.
_PAUSE_MS = 1_000

#: Errors that do not pass: the worker ends with them.
_FATAL = (
    GroupModeError,
    InvalidArgumentError,
    NotFoundError,
    ConnectionClosedError,
    UnauthenticatedError,
    PermissionDeniedError,
    UnsupportedError,
)

_LOG = logging.getLogger(__name__)


class Worker(HandlerCounts, BackgroundRun):
    """Handles messages of a group. `run` blocks until `stop`; in a program with a loop of its own, await `serve`.

    As a context manager it runs in a thread until the end of the block.
    """

    def __init__(
        self,
        addresses: str | Sequence[str] | AsyncClient,
        topic: str,
        group: str,
        handler: Handler,
        *,
        concurrency: int = 16,
        drain_ms: Duration = DRAIN_MS_DEFAULT,
        on_error: Hook | None = None,
        on_reject: Hook | None = None,
        tls: Tls | None = None,
        credentials: CredentialsProvider | Credentials | None = None,
        **settings: Unpack[QueueSettings],
    ) -> None:
        """Raises InvalidArgumentError, also for a handler that does not take one message.

        addresses: as of a client, or an AsyncClient of the loop that will `serve`.
        concurrency: handlers that run at a time; 16.
        drain_ms: how long a stop waits for running handlers; 30 s.
        on_error: called on the loop when a handler has failed, with the message and the exception.
        on_reject: the same when a handler has raised Reject.
        tls: encrypts the connections, as of a client; an AsyncClient has its own.
        credentials: as of a client.
        settings: the keyword arguments of `Client.queue`.
        """
        if concurrency < 1 or milliseconds(drain_ms) < 0:
            raise InvalidArgumentError("concurrency is at least 1, and drain_ms at least 0")
        check_handler(handler)
        self._client = addresses
        self._tls = tls
        self._credentials = credentials
        self.topic = topic
        self.group = group
        self._handler = handler
        self._is_async = inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(
            getattr(handler, "__call__", None)  # noqa: B004 - an object whose call is a coroutine.
        )
        self.concurrency = concurrency
        self._drain_ms = milliseconds(drain_ms)
        self._on_error = on_error
        self._on_reject = on_reject
        self._settings = settings
        self._is_auto_ack = settings.get("ack_mode") == "auto"
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._is_stopped = False
        self._running: dict[asyncio.Task[None], None] = {}
        self._run_name = f"flotilla-worker-{topic}"
        self._metrics = HandlerMetrics(topic, group)

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
                # The loop has ended already.
                return

    @property
    def running_count(self) -> int:
        """Handlers that are running."""
        return len(self._running)

    def metrics(self) -> str:
        """What the worker has counted, in the text format of Prometheus. Any thread may call it."""
        return render([self._metrics])

    async def serve(self) -> None:
        """The same as `run`, on the running loop."""
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        if self._is_stopped:
            return
        client = self._client
        if not isinstance(client, AsyncClient):
            client = AsyncClient(client, tls=self._tls, credentials=self._credentials)
        threads = None if self._is_async else ThreadPoolExecutor(self.concurrency, f"flotilla-worker-{self.topic}")
        try:
            settings: QueueSettings = {"prefetch": self.concurrency, **self._settings}
            consumer = client.queue(self.topic, group=self.group, **settings)
            await self._work(consumer, self._stopping, threads)
        finally:
            self._loop = None
            if threads is not None:
                # A thread that does not end cannot be ended, and is not waited for.
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
            await self._drain(consumer, taking)
        if not taking.cancelled():
            # The task ends by itself only with an error, or after the last message.
            taking.result()

    async def _drain(self, consumer: AsyncQueueConsumer, taking: asyncio.Task[None]) -> None:
        limit = TimeLimit(self._drain_ms)
        self._is_stopped = True
        if not self._is_auto_ack:
            taking.cancel()
        closing = asyncio.get_running_loop().create_task(consumer.close(drain_ms=self._drain_ms))
        # With messages that are acknowledged on delivery it goes on until it has taken the last one that was sent.
        await asyncio.wait((taking,), timeout=limit.left_seconds)
        taking.cancel()
        await asyncio.wait((taking,))
        if self._running:
            await asyncio.wait(self._running, timeout=limit.left_seconds)
        try:
            await closing
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
            try:
                message = await self._next(consumer)
            except ConnectionClosedError:
                if self._is_stopped:
                    return
                raise
            work = self._await(message) if threads is None else self._call(message, bridge, threads)
            task = loop.create_task(self._handle(message, work))
            self._running[task] = None
            task.add_done_callback(ended)

    async def _next(self, consumer: AsyncQueueConsumer) -> AsyncQueueMessage:
        """The next message, however long that takes; errors of the cluster are logged and waited out."""
        while True:
            try:
                return await anext(consumer)
            except _FATAL:
                raise
            except FlotillaError as error:
                self._note(error)
                if error.retryable:
                    await asyncio.sleep(_PAUSE_MS / 1000)

    async def _await(self, message: AsyncQueueMessage) -> object:
        handler = cast("Callable[[AsyncQueueMessage], Awaitable[object]]", self._handler)
        return await handler(message)

    async def _call(self, message: AsyncQueueMessage, bridge: "_Bridge", threads: ThreadPoolExecutor) -> object:
        handler = cast("Callable[[QueueMessage], object]", self._handler)
        # The same message, with methods that a thread can call.
        blocking = with_owner(message, QueueMessage, bridge)
        # A thread does not inherit context variables: the trace, for example.
        call = partial(contextvars.copy_context().run, handler, blocking)
        return await asyncio.get_running_loop().run_in_executor(threads, call)

    async def _handle(self, message: AsyncQueueMessage, work: Coroutine[None, None, object]) -> None:
        error: BaseException | None = None
        value: object = None
        self._metrics.begin()
        began_ns = here().elapsed_ns()
        try:
            value = await work
        except BaseException as raised:
            error = raised
        self._metrics.end(error, (here().elapsed_ns() - began_ns) / 1e9)
        if error is not None:
            self._note_outcome(message, error)
        if not message.is_settled:
            outcome = returned(value) if error is None else outcome_of(error)
            if not outcome.is_result_kept:
                _LOG.warning("the result of %r is too large: the limit is %d bytes", message, RESULT_BYTES_MAX)
            await message._owner.settle((message,), outcome, wait=False)
        if error is not None and not isinstance(error, Exception):
            raise error

    def _note_outcome(self, message: AsyncQueueMessage, error: BaseException) -> None:
        outcome = outcome_of(error)
        log_outcome(_LOG, f"{message.topic}/{message.partition}@{message.offset}", message.attempt, error)
        hook = {FAIL: self._on_error, REJECT: self._on_reject}.get(outcome.kind)
        if hook is not None:
            try:
                hook(message, error)
            except Exception:
                _LOG.exception("a hook of the worker of %s failed", self.topic)

    def _note(self, error: FlotillaError) -> None:
        _LOG.warning("topic %s, group %s: %s: %s", self.topic, self.group, error.code, error)


def check_handler(handler: Callable[..., object]) -> None:
    """Raises InvalidArgumentError: a handler that takes no message would fail every attempt of every message."""
    try:
        found = inspect.signature(handler)
    except ValueError:
        # Some functions written in C have none.
        return
    try:
        found.bind(None)
    except TypeError:
        name = getattr(handler, "__qualname__", repr(handler))
        raise InvalidArgumentError(f"a handler takes one argument, the message; this one is {name}{found}") from None


class _Bridge:
    """Settles messages of the loop for handlers in threads."""

    def __init__(self, loop: asyncio.AbstractEventLoop, consumer: AsyncQueueConsumer) -> None:
        self._loop = loop
        self._consumer = consumer

    def settle(self, messages: Iterable[QueueMessage], outcome: Outcome, *, wait: bool = True) -> None:
        future = asyncio.run_coroutine_threadsafe(self._consumer.settle(messages, outcome, wait=wait), self._loop)
        if wait:
            future.result()

    def then(self, message: QueueMessage, following: Next) -> Receipt:
        return asyncio.run_coroutine_threadsafe(self._consumer.then(message, following), self._loop).result()

    def extend(self, message: QueueMessage, visibility_ms: Duration) -> None:
        asyncio.run_coroutine_threadsafe(self._consumer.extend(message, visibility_ms), self._loop).result()
