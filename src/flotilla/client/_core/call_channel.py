"""Calls from any thread to the loop of a blocking client: the narrow interface of bulk readers and writers."""

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from flotilla.client._core.asyncio_network import Network
from flotilla.client._core.calls import CallResult
from flotilla.client._core.loop_thread import LoopThread
from flotilla.types.operations import Request

Result = TypeVar("Result")


class CallChannel:
    __slots__ = ("_network", "_thread")

    def __init__(self, thread: LoopThread, network: Network) -> None:
        self._thread = thread
        self._network = network

    def submit(self, request: Request, timeout_ms: int, done: Callable[[CallResult], None]) -> None:
        """Starts a call; `done` is called on the loop."""
        self._thread.post(self._network.submit, request, timeout_ms, done)

    def run(self, work: Callable[[Network], Coroutine[Any, Any, Result]]) -> Result:
        """Runs a coroutine on the loop and waits for it."""
        return self._thread.run(work(self._network))
