"""The producer and the worker of a queue, each in a process of its own, as applications run them.

Both stay connected and carry out orders, so that short turns of several products can alternate. An order is a number of
messages at a steady rate, or one message at a time: the next one when the worker has the last one. A payload holds the
time when the producer called its client; all processes of a machine share one clock. A message that is late does not
delay the schedule of those behind it.
"""

import asyncio
import multiprocessing
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from time import perf_counter
from typing import Any, NamedTuple, Self

from bench.peers.pacing import sent_at, stamped
from bench.peers.processes import busy_s

_CONTEXT = multiprocessing.get_context("spawn")
_START_S_MAX = 60.0
_ORDER_S_MAX = 60.0
_TURN_S = 0.1
#: The resolution of an event loop's timers.
_SLEEP_S = 0.001
#: Messages before the first order, so that connections, leases and prefetch windows are as in the midst of work.
_WARM_UP = 300
_WARM_UP_RATE = 500


class Order(NamedTuple):
    payload_bytes: int
    count: int
    #: Messages a second; 0: one at a time.
    rate: int


class Turn:
    """One order, in the producer's process."""

    def __init__(self, order: Order, arrived: Any) -> None:
        self.is_paced = order.rate > 0
        self._order = order
        self._arrived = arrived

    def payloads(self) -> Iterator[bytes]:
        """For a client that blocks: each payload when it is due."""
        if not self.is_paced:
            yield from self._one_by_one()
            return
        started = perf_counter()
        for number in range(self._order.count):
            wait_s = started + number / self._order.rate - perf_counter()
            if wait_s > 0:
                time.sleep(wait_s)
            yield stamped(perf_counter(), self._order.payload_bytes)

    async def payloads_on_loop(self) -> AsyncIterator[bytes]:
        """For a client on an event loop."""
        if not self.is_paced:
            for payload in self._one_by_one():
                yield payload
            return
        started = perf_counter()
        for number in range(self._order.count):
            while perf_counter() < started + number / self._order.rate:
                await asyncio.sleep(_SLEEP_S)
            yield stamped(perf_counter(), self._order.payload_bytes)

    def _one_by_one(self) -> Iterator[bytes]:
        for _ in range(self._order.count):
            yield stamped(perf_counter(), self._order.payload_bytes)
            if not self._arrived.acquire(timeout=_ORDER_S_MAX):
                raise TimeoutError("a message did not arrive")


class Turns:
    """The orders, in the producer's process."""

    def __init__(self, orders: Connection, arrived: Any) -> None:
        self._orders = orders
        self._arrived = arrived

    def __iter__(self) -> Iterator[Turn]:
        """Without an end: the process is killed. Begin when the client is connected."""
        self._orders.send(None)
        while True:
            yield Turn(self._orders.recv(), self._arrived)


class Arrivals:
    """The messages that have arrived, in the worker's process."""

    def __init__(self, reports: Connection, expected: Any, is_paced: Any, arrived: Any) -> None:
        self._reports = reports
        self._expected = expected
        self._is_paced = is_paced
        self._arrived = arrived
        self._durations: list[float] = []

    def begin(self) -> None:
        """The client is connected."""
        self._reports.send(None)

    def note(self, payload: bytes) -> None:
        """What the handler of each message does. The last one of an order reports all durations."""
        self._durations.append(perf_counter() - sent_at(payload))
        if not self._is_paced.value:
            self._arrived.release()
        if len(self._durations) == self._expected.value:
            durations, self._durations = self._durations, []
            self._reports.send(durations)


class Pair:
    """A producer and a worker; both are connected and have warmed up when its block begins."""

    def __init__(
        self,
        produce: Callable[[Any, str, Turns], None],
        work: Callable[[Any, str, Arrivals], None],
        address: Any,
        queue: str,
    ) -> None:
        """`produce` and `work` run in the processes, are given the address and the queue, and do not return."""
        # Kept: it is gone when the last reference here is.
        self._arrived = arrived = _CONTEXT.Semaphore(0)
        self._expected = _CONTEXT.RawValue("q", 0)
        self._is_paced = _CONTEXT.RawValue("q", 1)
        self._orders, orders = _CONTEXT.Pipe()
        self._reports, reports = _CONTEXT.Pipe()
        arrivals = Arrivals(reports, self._expected, self._is_paced, arrived)
        self._processes = (
            _CONTEXT.Process(target=work, args=(address, queue, arrivals), name="worker", daemon=True),
            _CONTEXT.Process(
                target=produce, args=(address, queue, Turns(orders, arrived)), name="producer", daemon=True
            ),
        )

    def paced(self, payload_bytes: int, rate: int, count: int) -> list[float]:
        """Seconds from the producer's call to the worker's handler, at a steady rate."""
        return self._run(Order(payload_bytes, count, rate))

    def one_by_one(self, payload_bytes: int, count: int) -> list[float]:
        """The same with one message at a time, which the producer waits for, too."""
        return self._run(Order(payload_bytes, count, 0))

    def busy_s(self) -> float:
        """Processor time that both processes have used so far."""
        return sum(busy_s(process.pid) for process in self._processes if process.pid is not None)

    def _run(self, order: Order) -> list[float]:
        self._expected.value = order.count
        self._is_paced.value = int(order.rate > 0)
        self._orders.send(order)
        durations: list[float] = self._receive(self._reports, _ORDER_S_MAX)
        return durations

    def _receive(self, connection: Connection, timeout_s: float) -> Any:
        deadline = perf_counter() + timeout_s
        while perf_counter() < deadline:
            ended = [process.name for process in self._processes if process.exitcode is not None]
            if ended:
                raise RuntimeError(f"the {' and the '.join(ended)} ended")
            with suppress(EOFError):
                # Its process is about to end.
                if connection.poll(_TURN_S):
                    return connection.recv()
        raise TimeoutError(f"a producer or a worker did not answer within {timeout_s:.0f} s")

    def __enter__(self) -> Self:
        for process in self._processes:
            process.start()
        try:
            for connection in (self._reports, self._orders):
                self._receive(connection, _START_S_MAX)
            self.paced(100, _WARM_UP_RATE, _WARM_UP)
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def _stop(self) -> None:
        for process in self._processes:
            process.kill()
            process.join()
