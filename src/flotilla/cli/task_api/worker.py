"""A worker that leases tasks over HTTP, with one thread for each task that may run at a time.

Each thread has its own connection, leases one task, and renews its lease while the handler runs. When an endpoint
fails, the thread uses another one; leases survive that, because they belong to the worker and not to a connection.
After `stop` running handlers finish, and nothing more is leased.
"""

import json
import logging
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

from flotilla.cli.task_api.client import TaskClient, as_path
from flotilla.client.handler_metrics import HandlerCounts, HandlerMetrics, render
from flotilla.client.queue.outcome import Outcome, log_outcome, outcome_of
from flotilla.types.errors import FlotillaError, LeaseExpiredError, NotFoundError
from flotilla.types.limits import RESULT_BYTES_MAX
from flotilla.types.operations.queue import BY_BACKOFF, REJECT
from flotilla.types.tasks import WORKER_GROUP, topic_of

_LOG = logging.getLogger(__name__)
#: The wait of one lease request: short, so that stopping is quick.
_WAIT_MS: Final = 2_000
_TIMEOUT_MS: Final = 10_000
#: The delay before the next request after an error of the cluster.
_PAUSE_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Task:
    """The argument of a handler."""

    id: str
    queue: str
    type: str
    payload: Any
    attempt: int
    max_retries: int
    priority: int


class HttpWorker(HandlerCounts):
    """`run` blocks until `stop` is called from another thread or a signal handler."""

    def __init__(
        self,
        urls: str,
        queue: str,
        handler: Callable[[Task], object],
        *,
        types: Sequence[str] = (),
        concurrency: int = 16,
        visibility_ms: int = 30_000,
    ) -> None:
        self._urls = urls
        self._handler = handler
        self._lease = {"queue": queue, "types": list(types), "wait_ms": _WAIT_MS, "visibility_ms": visibility_ms}
        self._visibility_ms = visibility_ms
        self._concurrency = concurrency
        self._name = uuid.uuid4().hex[:12]
        self._stopping = threading.Event()
        self._counts = threading.Lock()
        self._metrics = HandlerMetrics(topic_of(queue), WORKER_GROUP)
        # Raises InvalidArgumentError for a wrong URL before anything runs.
        TaskClient(urls, _TIMEOUT_MS).close()

    def run(self) -> None:
        threads = [threading.Thread(target=self._work, args=(number,)) for number in range(self._concurrency)]
        for thread in threads:
            thread.start()
        for thread in threads:
            # In short waits: signal handlers run in between.
            while thread.is_alive():
                thread.join(0.2)

    def stop(self) -> None:
        self._stopping.set()

    @property
    def running_count(self) -> int:
        return self._metrics.started - self._metrics.ended_count

    def metrics(self) -> str:
        with self._counts:
            return render([self._metrics])

    def _work(self, number: int) -> None:
        client = TaskClient(self._urls, _TIMEOUT_MS)
        worker_id = f"worker-{self._name}-{number}"
        while not self._stopping.is_set():
            try:
                body = {**self._lease, "worker_id": worker_id}
                leased = client.ask("POST", "/tasks/lease", body, wait_ms=_WAIT_MS)
            except FlotillaError as error:
                _LOG.warning("cannot lease tasks: %s: %s", error.code, error)
                self._stopping.wait(_PAUSE_S)
                continue
            for task in leased["tasks"]:
                self._handle(client, worker_id, task)
        client.close()

    def _handle(self, client: TaskClient, worker_id: str, leased: dict[str, Any]) -> None:
        given = {"payload": None, **leased}
        task = Task(**{each.name: given[each.name] for each in fields(Task)})
        proof = {"worker_id": worker_id, "lease": leased["lease"]}
        with self._counts:
            self._metrics.begin()
        began_s, failure = time.monotonic(), None
        renewal = _Renewal(self._urls, task.id, proof, self._visibility_ms)
        try:
            value = self._handler(task)
            verb, body = "ack", {**proof, **_ack_fields(task, value)}
        except Exception as error:
            failure, outcome = error, outcome_of(error)
            verb, body = "nack", {**proof, **_nack_fields(outcome)}
            log_outcome(_LOG, f"task {task.id} of type {task.type}", task.attempt, error)
        finally:
            renewal.stop()
            with self._counts:
                self._metrics.end(failure, time.monotonic() - began_s)
        try:
            client.ask("POST", as_path("tasks", task.id, verb), body)
        except (LeaseExpiredError, NotFoundError) as error:
            _LOG.warning("task %s: its %s came too late: %s", task.id, verb, error)
        except FlotillaError as error:
            _LOG.warning("task %s: its %s failed: %s: %s", task.id, verb, error.code, error)


class _Renewal:
    """Extends a lease while its handler runs, in a thread that starts after a third of the lease."""

    def __init__(self, urls: str, task_id: str, proof: dict[str, str], visibility_ms: int) -> None:
        self._urls = urls
        self._path = as_path("tasks", task_id, "extend")
        self._body = {**proof, "visibility_ms": visibility_ms}
        self._every_s = visibility_ms / 3000
        self._is_over = threading.Event()
        self._timer = threading.Timer(self._every_s, self._renew)
        self._timer.daemon = True
        self._timer.start()

    def _renew(self) -> None:
        client = TaskClient(self._urls, _TIMEOUT_MS)
        while not self._is_over.is_set():
            try:
                client.ask("POST", self._path, self._body)
            except (LeaseExpiredError, NotFoundError):
                # The task is redelivered; the handler's result will not count.
                break
            except FlotillaError as error:
                _LOG.warning("cannot renew a lease: %s: %s", error.code, error)
            self._is_over.wait(self._every_s)
        client.close()

    def stop(self) -> None:
        self._is_over.set()
        self._timer.cancel()


def _ack_fields(task: Task, value: object) -> dict[str, object]:
    """What the handler returned, as the task's result. The task is done, whatever it is."""
    if value is None:
        return {}
    try:
        size_bytes = len(json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode())
    except (TypeError, ValueError, RecursionError) as error:
        _LOG.warning("task %s: its result is not JSON, and not kept: %s", task.id, error)
        return {}
    if size_bytes > RESULT_BYTES_MAX:
        _LOG.warning("task %s: its result has %d bytes, and is not kept", task.id, size_bytes)
        return {}
    return {"result": value}


def _nack_fields(outcome: Outcome) -> dict[str, object]:
    """The tasks of HTTP know no release: a Release counts as an attempt here."""
    if outcome.kind == REJECT:
        return {"reason": outcome.reason, "retry": False}
    delay = {} if outcome.delay_ms == BY_BACKOFF else {"delay_ms": outcome.delay_ms}
    return {"reason": outcome.reason, **delay}
