"""Both shells behind one face, so that one suite holds for both, and a cluster behind real TCP servers.

The brokers live on a thread of their own, as other processes would. A `Shell` makes every method of a client
block: those of the blocking one do anyway, those of the other run on a loop until they return.
"""

import asyncio
import inspect
import threading
from collections.abc import Callable, Coroutine
from typing import Any

from flotilla.client.admin.cluster import Admin, AsyncAdmin
from flotilla.client.admin.dead_letters import AsyncDeadLetters, DeadLetters
from flotilla.client.producer.aio import AsyncDelivery, AsyncProducer
from flotilla.client.producer.sync import Producer, SyncDelivery
from flotilla.client.queue.aio import AsyncQueueConsumer, AsyncQueueMessage
from flotilla.client.queue.sync import QueueConsumer, QueueMessage
from flotilla.client.reader.aio import AsyncReader
from flotilla.client.reader.sync import Reader
from flotilla.client.stream.aio import AsyncStreamConsumer
from flotilla.client.stream.sync import StreamConsumer
from flotilla.client.transaction.aio import AsyncTransaction
from flotilla.client.transaction.sync import Transaction
from flotilla.frontends.tcp.server import TcpServer
from tests.unit.client.brokers import Brokers

_WRAPPED = (
    Admin,
    AsyncAdmin,
    AsyncReader,
    AsyncDeadLetters,
    AsyncDelivery,
    AsyncProducer,
    AsyncQueueConsumer,
    AsyncQueueMessage,
    AsyncStreamConsumer,
    AsyncTransaction,
    Reader,
    DeadLetters,
    Producer,
    QueueConsumer,
    QueueMessage,
    StreamConsumer,
    SyncDelivery,
    Transaction,
)


class TcpServers:
    """Brokers that listen."""

    def __init__(self, cluster: Brokers) -> None:
        self.cluster = cluster
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="brokers")
        self._thread.start()
        self._servers: dict[int, TcpServer] = {}
        for node in list(self.cluster.addresses):
            self.open(node)

    @property
    def addresses(self) -> list[str]:
        return list(self.cluster.addresses.values())

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    def do(self, action: Callable[[], Any]) -> Any:
        """On the thread of the brokers."""

        async def work() -> Any:
            return action()

        if threading.current_thread() is self._thread:
            return action()
        return self.run(work())

    def open(self, node: int, port: int = 0) -> None:
        async def start() -> int:
            server = self._servers[node] = TcpServer(self.cluster.node(node))
            return await server.start("127.0.0.1", port)

        self.cluster.addresses[node] = f"127.0.0.1:{self.run(start())}"

    def shut(self, node: int) -> None:
        self.run(self._shut(self._servers.pop(node)))

    async def _shut(self, server: TcpServer) -> None:
        # A connection that is just being accepted has to be there before it can be closed.
        for _ in range(5):
            await asyncio.sleep(0)
        await server.close()

    def connections(self) -> int:
        return sum(server.statistics()["connections"] for server in self._servers.values())

    def close(self) -> None:
        for node in list(self._servers):
            self.shut(node)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Shell:
    def __init__(self, target: Any, run: Callable[[Callable[[], Any]], Any]) -> None:
        self._target = target
        self._run = run

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._target, name)
        return self._blocking(attribute) if callable(attribute) else self._wrap(attribute)

    def _blocking(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def method(*arguments: Any, **keywords: Any) -> Any:
            return self._wrap(self._run(lambda: function(*map(_unwrap, arguments), **keywords)))

        return method

    def _wrap(self, found: Any) -> Any:
        if isinstance(found, list):
            return [self._wrap(each) for each in found]
        return Shell(found, self._run) if isinstance(found, _WRAPPED) else found

    def take(self, count: int) -> list[Any]:
        """The first messages of an iteration."""
        following = getattr(self._target, "__anext__", None) or self._target.__next__
        return [self._wrap(self._run(following)) for _ in range(count)]

    def __enter__(self) -> "Shell":
        self._run(getattr(self._target, "__aenter__", None) or self._target.__enter__)
        return self

    def __exit__(self, *error: Any) -> Any:
        leave = getattr(self._target, "__aexit__", None) or self._target.__exit__
        return self._run(lambda: leave(*error))


def _unwrap(argument: Any) -> Any:
    if isinstance(argument, list):
        return [_unwrap(each) for each in argument]
    return argument._target if isinstance(argument, Shell) else argument


def run_at_once(action: Callable[[], Any]) -> Any:
    return action()


def runner_on(loop: asyncio.AbstractEventLoop) -> Callable[[Callable[[], Any]], Any]:
    """Runs on a loop what may be a coroutine."""

    async def work(action: Callable[[], Any]) -> Any:
        found = action()
        return await found if inspect.iscoroutine(found) else found

    return lambda action: loop.run_until_complete(work(action))
