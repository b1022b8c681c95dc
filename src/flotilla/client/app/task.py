"""A task: a function that messages of a topic call."""

import asyncio
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, ParamSpec, TypeVar, Unpack

from flotilla.client.app._arguments import Signature
from flotilla.client.client import Client
from flotilla.client.producer.receipt import Receipt
from flotilla.client.producer.record_fields import RecordFields
from flotilla.types.records import CONTENT_JSON
from flotilla.types.tasks import TASK_TYPE_HEADER

P = ParamSpec("P")
R = TypeVar("R")


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

    def send(self, *args: P.args, **kwargs: P.kwargs) -> Receipt:
        """Has a worker call the function with these arguments. Returns when the message is stored.

        Raises TypeError for arguments that the function does not take, and WrongTypeError for values that do not fit
        its annotations or cannot be sent as JSON.
        """
        return self.send_with_options(args, kwargs)

    async def asend(self, *args: P.args, **kwargs: P.kwargs) -> Receipt:
        """The same, for coroutines."""
        return await asyncio.to_thread(self.send_with_options, args, kwargs)

    def send_with_options(
        self,
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
        *,
        key: bytes | None = None,
        **fields: Unpack[RecordFields],
    ) -> Receipt:
        """`send` with fields of the record: `delay_ms`, `deliver_at`, `priority`, `idempotency_key` and the like."""
        payload = self.encode(args, kwargs or {})
        merged: RecordFields = {**self._fields, **fields}
        merged["headers"] = self._headers(merged.get("headers", ()))
        merged.setdefault("content_type", CONTENT_JSON)
        return self._client().produce(self.topic, payload, key=key, **merged)

    def encode(self, args: Sequence[object], kwargs: Mapping[str, object]) -> bytes:
        """The payload of a message with these arguments."""
        return self._signature.encode(tuple(args), kwargs)

    def decode(self, payload: bytes) -> dict[str, Any]:
        """The arguments in a payload. Raises InvalidArgumentError."""
        return self._signature.decode(payload)

    def _headers(self, own: Any) -> list[tuple[str, bytes | str]]:
        pairs = own.items() if isinstance(own, Mapping) else own
        return [*pairs, (TASK_TYPE_HEADER, self.name)]

    def __repr__(self) -> str:
        return f"<Task {self.name} of topic {self.topic}>"
