"""The storm of `flotilla chaos` over the task API: enqueues and leases tasks over HTTP, at all nodes in turn.

The producer repeats a request with the same idempotency key until it is answered, as a client should: an acknowledged
task is stored once, whichever node died in between.
"""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

from flotilla.cli.chaos.storm import CONCURRENCY, MAX_DELIVERIES, QUEUE, Serving, Storm
from flotilla.cli.demo.ledger import Place
from flotilla.cli.task_api.client import TaskClient
from flotilla.cli.task_api.worker import HttpWorker, Task
from flotilla.types.errors import FlotillaError
from flotilla.types.tasks import parse_task_id

_ENQUEUERS = 8
#: How long one task is retried.
_PATIENCE_S = 60.0
_PAUSE_S = 0.1
_TIMEOUT_MS = 10_000


class _Workers(HttpWorker):
    """Implements `Serving`."""

    async def serve(self) -> None:
        await asyncio.to_thread(self.run)


class HttpStorm(Storm):
    @property
    def _urls(self) -> str:
        return ",".join(f"http://127.0.0.1:{node.ports.http}" for node in self._cluster.nodes.values())

    def _worker(self) -> Serving:
        return _Workers(self._urls, QUEUE, self._handle_task, concurrency=CONCURRENCY, visibility_ms=10_000)

    def _handle_task(self, task: Task) -> None:
        found = parse_task_id(task.id)
        assert found is not None
        self.work(int(task.payload), task.attempt, Place(found.partition, found.offset))

    async def _produce(self) -> None:
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(_ENQUEUERS, "enqueue") as threads:
            shares = [loop.run_in_executor(threads, self._enqueue_share, number) for number in range(_ENQUEUERS)]
            await asyncio.gather(*shares)

    def _enqueue_share(self, share: int) -> None:
        """Enqueues every eighth number when it is due."""
        client = TaskClient(self._urls, _TIMEOUT_MS)
        began = time.monotonic()
        number = share + 1
        while (due := number / self._rate) < self._run_s:
            time.sleep(max(began + due - time.monotonic(), 0))
            self._enqueue(client, number)
            number += _ENQUEUERS
        client.close()

    def _enqueue(self, client: TaskClient, number: int) -> None:
        body = {
            "type": "chaos",
            "queue": QUEUE,
            "payload": number,
            "max_retries": MAX_DELIVERIES - 1,
            "idempotency_key": f"chaos-{number}",
        }
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                found = parse_task_id(client.ask("POST", "/tasks", body)["id"])
                break
            except FlotillaError:
                if time.monotonic() > deadline:
                    self.ledger.unknown.add(number)
                    return
                time.sleep(_PAUSE_S)
        assert found is not None
        self.ledger.acknowledged[number] = Place(found.partition, found.offset)
