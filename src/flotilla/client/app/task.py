"""A task: a function that messages of a topic call."""

import asyncio
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, ParamSpec, TypeAlias, TypeVar, Unpack

from flotilla.client._duration import Duration
from flotilla.client.app._arguments import Signature
from flotilla.client.client import Client
from flotilla.client.producer.receipt import Receipt
from flotilla.client.producer.record_fields import RecordFields
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.records import CONTENT_JSON
from flotilla.types.tasks import TASK_THEN_HEADER, TASK_TYPE_HEADER

P = ParamSpec("P")
R = TypeVar("R")


class Sent(Receipt):
    """The receipt of a task's message. Made by `Task.send`."""

    task: "Task[Any, Any]"

    def result(self, *, timeout_ms: Duration | None = None) -> Any:
        """Waits for what the function returns. Raises as `Task.result`."""
        return self.task.result(self, timeout_ms=timeout_ms)

    async def aresult(self, *, timeout_ms: Duration | None = None) -> Any:
        """The same, for coroutines."""
        return await asyncio.to_thread(self.task.result, self, timeout_ms=timeout_ms)

    def __reduce__(self) -> tuple[type[Receipt], tuple[object, ...]]:
        """Pickled it is a receipt, for `Task.result` in another process."""
        return Receipt, tuple(self)


class Task(Generic[P, R]):
    """A function of an App; calling it calls the function, here and now. Made by `App.task`."""

    def __init__(
        self,
        client: Callable[[], Client],
        function: Callable[P, R],
        name: str,
        topic: str,
        group: str,
        time_limit_ms: int,
        fields: RecordFields,
    ) -> None:
        self._client = client
        self.function = function
        #: In the header of its messages.
        self.name = name
        self.topic = topic
        self.group = group
        #: 0: none.
        self.time_limit_ms = time_limit_ms
        self.is_async = inspect.iscoroutinefunction(function)
        self._fields = fields
        self._signature = Signature(function)
        self.__doc__ = function.__doc__
        self.__name__ = name
        self.__wrapped__ = function

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def send(self, *args: P.args, **kwargs: P.kwargs) -> "Sent":
        """Has a worker call the function with these arguments. Returns when the message is stored.

        Raises TypeError for arguments that the function does not take, and WrongTypeError for values that do not fit
        its annotations or cannot be sent as JSON.
        """
        return self.send_with_options(args, kwargs)

    async def asend(self, *args: P.args, **kwargs: P.kwargs) -> "Sent":
        """The same, for coroutines."""
        return await asyncio.to_thread(self.send_with_options, args, kwargs)

    def send_with_options(
        self,
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
        *,
        key: bytes | None = None,
        **fields: Unpack[RecordFields],
    ) -> "Sent":
        """`send` with fields of the record: `delay_ms`, `deliver_at`, `priority`, `idempotency_key` and the like."""
        return self._send(args, kwargs or {}, key, fields, ())

    def then(self, other: "AnyTask") -> "Chain[P]":
        """A chain: `other` is called with what this function returns, or without arguments if it takes none.

        Raises InvalidArgumentError for a task that needs more than one argument.
        """
        return Chain(self, ()).then(other)

    def result(self, receipt: Receipt, *, timeout_ms: Duration | None = None) -> Any:
        """Waits until the message of a receipt has ended, and returns what the function returned there.

        Raises as `Client.result`: MessageFailedError for a task that failed for the last time, ForgottenError for a
        result that is not kept, DeadlineError for one that does not come in time. Raises InvalidArgumentError for a
        result that is not JSON, or does not fit the annotation.
        """
        return self._signature.decode_result(self._client().result(receipt, group=self.group, timeout_ms=timeout_ms))

    def encode_result(self, value: object) -> bytes:
        """What the function returned as the result of its message. Raises WrongTypeError, ValueError."""
        return self._signature.encode_result(value)

    def follow(self, value: object, following: Sequence[str]) -> tuple[bytes, RecordFields]:
        """Payload and fields of the message that calls this task with what the one before has returned.

        Raises WrongTypeError, or ValueError, for a value that does not fit.
        """
        return self.encode((value,) if self._signature.takes(1) else (), {}), self._record({}, following)

    def encode(self, args: Sequence[object], kwargs: Mapping[str, object]) -> bytes:
        """The payload of a message with these arguments."""
        return self._signature.encode(tuple(args), kwargs)

    def decode(self, payload: bytes) -> dict[str, Any]:
        """The arguments in a payload. Raises InvalidArgumentError."""
        return self._signature.decode(payload)

    def _send(
        self,
        args: Sequence[object],
        kwargs: Mapping[str, object],
        key: bytes | None,
        fields: RecordFields,
        following: Sequence[str],
    ) -> "Sent":
        payload = self.encode(args, kwargs)
        sent = Sent(*self._client().produce(self.topic, payload, key=key, **self._record(fields, following)))
        sent.task = self
        return sent

    def _record(self, fields: RecordFields, following: Sequence[str]) -> RecordFields:
        merged: RecordFields = {**self._fields, **fields}
        own: Any = merged.get("headers", ())
        headers = [*(own.items() if isinstance(own, Mapping) else own), (TASK_TYPE_HEADER, self.name)]
        if following:
            headers.append((TASK_THEN_HEADER, json.dumps(following, ensure_ascii=False)))
        merged["headers"] = headers
        merged.setdefault("content_type", CONTENT_JSON)
        return merged

    def __repr__(self) -> str:
        return f"<Task {self.name} of topic {self.topic}>"


AnyTask: TypeAlias = Task[Any, Any]


class Chain(Generic[P]):
    """Tasks that are called one after the other. Made by `Task.then`.

    A worker acknowledges each message together with sending the next one, both or neither.
    """

    def __init__(self, first: Task[P, Any], following: tuple[AnyTask, ...]) -> None:
        self._first = first
        self._following = following

    def then(self, other: AnyTask) -> "Chain[P]":
        """The chain with one task more. Raises InvalidArgumentError as `Task.then`."""
        if not (other._signature.takes(1) or other._signature.takes(0)):
            raise InvalidArgumentError(f"task {other.name} cannot follow another: it needs more than one argument")
        return Chain(self._first, (*self._following, other))

    def send(self, *args: P.args, **kwargs: P.kwargs) -> Sent:
        """Sends the first task; the receipt is of its message. Raises as `Task.send`."""
        return self.send_with_options(args, kwargs)

    async def asend(self, *args: P.args, **kwargs: P.kwargs) -> Sent:
        """The same, for coroutines."""
        return await asyncio.to_thread(self.send_with_options, args, kwargs)

    def send_with_options(
        self,
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
        *,
        key: bytes | None = None,
        **fields: Unpack[RecordFields],
    ) -> Sent:
        """`send` with fields of the first record. Those that follow have its key, and the fields of their tasks."""
        return self._first._send(args, kwargs or {}, key, fields, [task.name for task in self._following])

    def __repr__(self) -> str:
        return f"<Chain {' '.join(task.name for task in (self._first, *self._following))}>"
