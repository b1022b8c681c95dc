"""An application of tasks: functions, the topics whose messages call them, and when they recur."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Lock
from types import TracebackType
from typing import Any, Final, ParamSpec, Self, TypeVar, Unpack, overload

from flotilla.client._duration import Duration, milliseconds
from flotilla.client.admin.schedules import Missed
from flotilla.client.app.declarations import (
    CURRENT,
    DONE,
    ERROR,
    REJECTED,
    START,
    AnyTask,
    Declarations,
    Recurrence,
)
from flotilla.client.app.environment import environment_credentials
from flotilla.client.app.task import Task
from flotilla.client.app.worker import AppWorker
from flotilla.client.async_client import AsyncClient
from flotilla.client.client import Client
from flotilla.client.message import AnyMessage
from flotilla.client.producer.record_fields import RecordFields, check_names
from flotilla.client.worker import DRAIN_MS_DEFAULT
from flotilla.security.client_tls import Tls, tls_of_environment
from flotilla.types.errors import AlreadyExistsError, InvalidArgumentError
from flotilla.types.records import CONTENT_JSON
from flotilla.types.schedules import ONE
from flotilla.types.tasks import TASK_TYPE_HEADER, WORKER_GROUP
from flotilla.types.topics import check_group_name, check_topic_name

P = ParamSpec("P")
R = TypeVar("R")
Function = TypeVar("Function", bound=Callable[..., object])

SERVERS_VARIABLE: Final = "FLOTILLA_SERVERS"
TOPIC_DEFAULT: Final = "tasks"


class App:
    """Functions that messages call: `@app.task`, `send`, and `flotilla worker module:app`."""

    def __init__(
        self, servers: str | Sequence[str] | None = None, *, group: str = WORKER_GROUP, tls: Tls | None = None
    ) -> None:
        """`servers` as of a Client; None: the variable FLOTILLA_SERVERS, or localhost. Nothing is connected yet.

        tls: as of a Client; None: the variables FLOTILLA_CLIENT_CA, FLOTILLA_CLIENT_CERTIFICATE, FLOTILLA_CLIENT_KEY.
        group: the queue group of its workers, unless a task says otherwise.
        """
        check_group_name(group)
        self._servers = servers
        self._tls = tls
        self.group = group
        self._declared = Declarations()
        self._client: Client | None = None
        self._lock = Lock()

    # Declaring.

    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R]: ...

    @overload
    def task(
        self,
        *,
        topic: str = TOPIC_DEFAULT,
        name: str | None = None,
        group: str | None = None,
        time_limit_ms: Duration = 0,
        **fields: Unpack[RecordFields],
    ) -> Callable[[Callable[P, R]], Task[P, R]]: ...

    @overload
    def task(
        self,
        function: Callable[P, R],
        /,
        *,
        topic: str = TOPIC_DEFAULT,
        name: str | None = None,
        group: str | None = None,
        time_limit_ms: Duration = 0,
        **fields: Unpack[RecordFields],
    ) -> Task[P, R]: ...

    def task(  # type: ignore[misc]  # mypy does not match unpacked keywords with an overload that has them.
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        topic: str = TOPIC_DEFAULT,
        name: str | None = None,
        group: str | None = None,
        time_limit_ms: Duration = 0,
        **fields: Unpack[RecordFields],
    ) -> Any:
        """Makes a function or a coroutine function a task; used as `@app.task` or `@app.task(topic="mail")`.

        name: by default that of the function; it stands in messages, so it stays when the function is renamed
        time_limit_ms: an attempt that takes longer has failed. A coroutine is cancelled; a thread cannot be, its
            result is ignored
        fields: of its messages, as of `Client.produce`: `max_deliveries`, `priority`, `ttl_ms` and the like
        """

        def decorate(function: Callable[..., Any]) -> AnyTask:
            called = getattr(function, "__name__", "") if name is None else name
            if not called or not called.isprintable():
                raise InvalidArgumentError("a task needs a name")
            if called in self._declared.tasks:
                raise AlreadyExistsError(f"the app has a task {called!r} already; give one of them a name=")
            check_topic_name(topic)
            check_group_name(group or self.group)
            check_names(fields)
            limit_ms = milliseconds(time_limit_ms)
            if limit_ms < 0:
                raise InvalidArgumentError(f"time_limit_ms is at least 0, not {limit_ms}")
            made = Task(lambda: self.client, function, called, topic, group or self.group, limit_ms, fields)
            self._declared.tasks[called] = made
            return made

        return decorate if function is None else decorate(function)

    def cron(
        self,
        expression: str = "",
        *,
        every_ms: Duration = 0,
        time_zone: str = "",
        missed: Missed = ONE,
        name: str | None = None,
        kwargs: Mapping[str, object] | None = None,
    ) -> Callable[[Any], AnyTask]:
        """Has a task recur, by a cron expression or an interval; above `@app.task`, or alone.

        A worker that starts makes the schedule, or changes it to what stands here. It stays when this line is removed:
        `flotilla schedule delete NAME`.

        name: of the schedule; by default that of the task
        kwargs: the arguments of every call
        """

        def decorate(function: Any) -> AnyTask:
            task = function if isinstance(function, Task) else self.task(function)
            if bool(expression) == bool(every_ms):
                raise InvalidArgumentError("a schedule has either a cron expression or an interval")
            try:
                payload = task.encode((), kwargs or {})
            except TypeError as error:
                raise InvalidArgumentError(f"the schedule of task {task.name}: {error}") from None
            called = task.name if name is None else name
            if called in self._declared.recurrences:
                raise AlreadyExistsError(f"the app has a schedule {called!r} already; give one of them a name=")
            self._declared.recurrences[called] = Recurrence(
                called, task, expression, milliseconds(every_ms), time_zone, missed, payload
            )
            return task

        return decorate

    def on_start(self, hook: Function) -> Function:
        """Decorates a function (task, message) that is called before each attempt."""
        return self._declared.add_hook(START, hook)

    def on_done(self, hook: Function) -> Function:
        """Decorates a function (task, message, result) that is called when a task has returned."""
        return self._declared.add_hook(DONE, hook)

    def on_error(self, hook: Function) -> Function:
        """Decorates a function (task, message, exception) that is called when an attempt has failed."""
        return self._declared.add_hook(ERROR, hook)

    def on_reject(self, hook: Function) -> Function:
        """Decorates a function (task, message, exception) that is called when a task has raised Reject."""
        return self._declared.add_hook(REJECTED, hook)

    # Using.

    @property
    def current_message(self) -> AnyMessage:
        """The message that the running task is called by. Raises LookupError outside of a task."""
        return CURRENT.get()

    @property
    def tasks(self) -> Mapping[str, AnyTask]:
        """By name."""
        return self._declared.tasks

    @property
    def servers(self) -> str | Sequence[str]:
        return self._servers or os.environ.get(SERVERS_VARIABLE, "localhost:7600")

    @property
    def tls(self) -> Tls | None:
        return self._tls or tls_of_environment()

    @property
    def client(self) -> Client:
        """The client that sends messages. It is made when it is first used."""
        with self._lock:
            if self._client is None:
                self._client = Client(self.servers, tls=self.tls, credentials=environment_credentials())
            return self._client

    def worker(
        self,
        *,
        concurrency: int = 16,
        topics: Sequence[str] | None = None,
        drain_ms: Duration = DRAIN_MS_DEFAULT,
        burst: bool = False,
    ) -> AppWorker:
        """A worker for the tasks of all topics, or of some. `run` it, or use it as a context manager.

        concurrency: tasks that run at a time, for each topic; plain functions run in threads
        burst: ends when nothing is ready and nothing runs; messages that wait for a time stay
        """
        return AppWorker(
            self._declared,
            AsyncClient(self.servers, tls=self.tls, credentials=environment_credentials()),
            self.schedule,
            concurrency=concurrency,
            topics=topics,
            drain_ms=milliseconds(drain_ms),
            burst=burst,
        )

    def run(self, *, burst: bool = False, concurrency: int = 16) -> None:
        """Runs a worker until it is stopped by a signal, or (burst) until nothing is ready."""
        self.worker(burst=burst, concurrency=concurrency).run()

    def schedule(self) -> None:
        """Makes the schedules of `cron`, as a worker does when it starts."""
        for each in self._declared.recurrences.values():
            self.client.schedules.create(
                each.name,
                each.task.topic,
                each.payload,
                cron=each.cron or None,
                every_ms=each.every_ms or None,
                time_zone=each.time_zone,
                missed=each.missed,
                headers={TASK_TYPE_HEADER: each.task.name},
                content_type=CONTENT_JSON,
                update=True,
            )

    @contextmanager
    def use(self, servers: str | Sequence[str]) -> Iterator[Self]:
        """Within the block everything goes to another cluster, as to a broker in a test."""
        self.close()
        before, self._servers = self._servers, servers
        try:
            yield self
        finally:
            self.close()
            self._servers = before

    def close(self) -> None:
        """Closes the client. The next use makes a new one."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
