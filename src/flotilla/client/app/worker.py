"""The worker of an App: one `Worker` for each topic and group, on one loop, and a pool of threads for all of them."""

import asyncio
import contextvars
import inspect
import json
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final

from flotilla.client._background_run import BackgroundRun
from flotilla.client._core.loop_thread import new_loop
from flotilla.client.app.declarations import CURRENT, DONE, ERROR, REJECTED, START, AnyTask, Declarations
from flotilla.client.async_client import AsyncClient
from flotilla.client.handler_metrics import render
from flotilla.client.message import AnyMessage
from flotilla.client.queue.aio import AsyncQueueMessage
from flotilla.client.queue.following import Next
from flotilla.client.queue.outcome import ACKED_UNKEPT, Reject, is_decision, kind_of
from flotilla.client.worker import Worker
from flotilla.types.errors import FlotillaError, InvalidArgumentError
from flotilla.types.limits import RESULT_BYTES_MAX
from flotilla.types.operations.queue import FAIL, REJECT
from flotilla.types.tasks import TASK_THEN_HEADER, TASK_TYPE_HEADER

#: Between two looks whether anything is left to do.
_LOOK_MS: Final = 20

_LOG = logging.getLogger(__name__)


class AppWorker(BackgroundRun):
    """Runs the tasks of an App. Made by `App.worker`."""

    def __init__(
        self,
        declared: Declarations,
        client: AsyncClient,
        schedule: Callable[[], None],
        *,
        concurrency: int,
        topics: Sequence[str] | None,
        drain_ms: int,
        burst: bool,
    ) -> None:
        """`schedule` makes the schedules, and blocks."""
        chosen = [task for task in declared.tasks.values() if topics is None or task.topic in topics]
        if not chosen:
            among = "" if topics is None else f" of topic {', '.join(topics)}"
            raise InvalidArgumentError(f"the app has no task{among}")
        self._declared = declared
        self._schedule = schedule
        self.concurrency = concurrency
        self._is_burst = burst
        self._threads: ThreadPoolExecutor | None = None
        self._client = client
        self._workers = [
            Worker(self._client, topic, group, partial(self._handle, topic), concurrency=concurrency, drain_ms=drain_ms)
            for topic, group in dict.fromkeys((task.topic, task.group) for task in chosen)
        ]
        self._run_name = "flotilla-app"

    @property
    def topics(self) -> list[str]:
        return [worker.topic for worker in self._workers]

    @property
    def running_count(self) -> int:
        """Tasks that are running."""
        return sum([worker.running_count for worker in self._workers])

    @property
    def handled_count(self) -> int:
        """Attempts that have ended; of these, failed ones, and rejected messages."""
        return sum([worker.handled_count for worker in self._workers])

    @property
    def failed_count(self) -> int:
        return sum([worker.failed_count for worker in self._workers])

    @property
    def rejected_count(self) -> int:
        return sum([worker.rejected_count for worker in self._workers])

    def metrics(self) -> str:
        """What the worker has counted, in the text format of Prometheus. Any thread may call it."""
        return render([worker._metrics for worker in self._workers])

    def run(self) -> None:
        """Runs tasks until `stop` is called, from another thread or a signal handler; then drains."""
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(self.serve())

    def stop(self) -> None:
        """Begins the drain. Any thread may call it, also before `run`, and more than once."""
        for worker in self._workers:
            worker.stop()

    async def serve(self) -> None:
        """The same as `run`, on the running loop."""
        self._threads = ThreadPoolExecutor(self.concurrency * len(self._workers), "flotilla-task")
        try:
            await self._prepare()
            async with asyncio.TaskGroup() as running:
                serving = [running.create_task(self._serve(worker)) for worker in self._workers]
                if self._is_burst:
                    await self._wait_idle(serving)
                    self.stop()
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from None
        finally:
            self._threads.shutdown(wait=False, cancel_futures=True)
            await self._client.close()

    async def _serve(self, worker: Worker) -> None:
        try:
            await worker.serve()
        finally:
            # One that ends takes the others along: a process with half of its tasks looks healthy and is not.
            self.stop()

    async def _prepare(self) -> None:
        """Topics and schedules: a worker may be the first that needs them."""
        for topic in dict.fromkeys(self.topics):
            await self._client.create_topic(topic, if_not_exists=True)
        await asyncio.to_thread(self._schedule)

    async def _wait_idle(self, serving: list[asyncio.Task[None]]) -> None:
        while not any(task.done() for task in serving):
            await asyncio.sleep(_LOOK_MS / 1000)
            if self.running_count:
                continue
            try:
                groups = [await self._client.describe_group(each.topic, each.group) for each in self._workers]
            except FlotillaError:
                continue  # A group exists when its first member has asked for messages.
            if not any(group.lag - group.delayed or group.dying for group in groups) and not self.running_count:
                return

    # One message.

    async def _handle(self, topic: str, message: AsyncQueueMessage) -> bytes | None:
        task: AnyTask | None = None
        try:
            task = self._find(topic, message)
            following = self._following(message)
            arguments = self._arguments(task, message)
            await self._notify(START, task, message)
            result = await self._call(task, message, arguments)
            if following:
                await self._pass_on(task, message, result, following)
        except BaseException as error:
            kind = kind_of(error)
            if kind in (FAIL, REJECT):
                await self._notify(ERROR if kind == FAIL else REJECTED, task, message, error)
            raise
        await self._notify(DONE, task, message, result)
        return None if result is None or following else await self._encoded(task, message, result)

    async def _encoded(self, task: AnyTask, message: AsyncQueueMessage, result: object) -> bytes | None:
        """The result as JSON. The task is done, whatever it returned: one that is not JSON is not kept."""
        try:
            return task.encode_result(result)
        except (ValueError, RecursionError) as error:
            _LOG.warning("task %s: %s; it is not kept", task.name, error)
            await message._owner.settle((message,), ACKED_UNKEPT, wait=False)
            return None

    async def _pass_on(
        self, task: AnyTask, message: AsyncQueueMessage, value: object, following: Sequence[AnyTask]
    ) -> None:
        """Acknowledges the message, with its result, and sends the next one. Raises Reject for a value that is no fit.

        The same function would return the like at another time.
        """
        other, *rest = following
        try:
            payload, fields = other.follow(value, [each.name for each in rest])
            result = None if value is None else task.encode_result(value)
        except (ValueError, RecursionError) as error:
            raise Reject(f"task {other.name} cannot follow {task.name}: {error}") from error
        if result is not None and len(result) > RESULT_BYTES_MAX:
            result = None
        await message._owner.then(message, Next(other.topic, payload, message.key, None, fields, result))

    def _following(self, message: AnyMessage) -> list[AnyTask]:
        """The tasks that follow. Raises LookupError as `_find`, before anything is done."""
        header = message.header(TASK_THEN_HEADER)
        if header is None:
            return []
        try:
            names = json.loads(header)
            return [self._declared.tasks[name] for name in names]
        except (ValueError, TypeError):
            raise Reject(f"the header {TASK_THEN_HEADER} is no JSON array of names") from None
        except KeyError as error:
            raise LookupError(f"there is no task {error} in this worker, which follows") from None

    def _find(self, topic: str, message: AnyMessage) -> AnyTask:
        """Raises LookupError: another worker, or the next version of this one, may know the task."""
        here = [task for task in self._declared.tasks.values() if task.topic == topic]
        header = message.header(TASK_TYPE_HEADER)
        if header is None and len(here) == 1:
            return here[0]
        name = "" if header is None else header.decode(errors="replace")
        found = next((task for task in here if task.name == name), None)
        if found is None:
            raise LookupError(f"topic {topic} has no task {name!r} in this worker")
        return found

    def _arguments(self, task: AnyTask, message: AnyMessage) -> dict[str, Any]:
        """Raises Reject: the same bytes will not fit at another time either."""
        try:
            return task.decode(message.payload)
        except InvalidArgumentError as error:
            raise Reject(f"bad arguments of task {task.name}: {error}") from error

    async def _call(self, task: AnyTask, message: AnyMessage, arguments: dict[str, Any]) -> object:
        context = contextvars.copy_context()
        context.run(CURRENT.set, message)
        loop = asyncio.get_running_loop()
        work: asyncio.Future[object]
        if task.is_async:
            work = loop.create_task(task.function(**arguments), context=context)
        else:
            work = loop.run_in_executor(self._threads, partial(context.run, task.function, **arguments))
        try:
            async with asyncio.timeout(task.time_limit_ms / 1000 if task.time_limit_ms else None) as limit:
                return await work
        except TimeoutError:
            if limit.expired():
                raise TimeoutError(f"task {task.name} took longer than {task.time_limit_ms} ms") from None
            raise

    async def _notify(self, event: str, task: AnyTask | None, message: AnyMessage, *more: object) -> None:
        for hook in self._declared.hooks.get(event, ()):
            try:
                answer = hook(task, message, *more)
                if inspect.isawaitable(answer):
                    await answer
            except Exception as error:
                if event == START and is_decision(error):
                    raise
                _LOG.exception("a hook of %s failed", event)
