"""What an App declares: tasks by name, hooks, and schedules to make."""

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final, TypeVar

from flotilla.client.admin.schedules import Missed
from flotilla.client.app.task import AnyTask as AnyTask
from flotilla.client.message import AnyMessage

Function = TypeVar("Function", bound=Callable[..., object])

#: The message that the running coroutine or thread is called by.
CURRENT: Final[ContextVar[AnyMessage]] = ContextVar("flotilla_message")

START: Final = "start"
DONE: Final = "done"
ERROR: Final = "error"
REJECTED: Final = "reject"


@dataclass(frozen=True, slots=True)
class Recurrence:
    """A schedule of a task, made when a worker starts."""

    name: str
    task: AnyTask
    cron: str
    every_ms: int
    time_zone: str
    missed: Missed
    payload: bytes


@dataclass(slots=True)
class Declarations:
    tasks: dict[str, AnyTask] = field(default_factory=dict)
    recurrences: dict[str, Recurrence] = field(default_factory=dict)
    #: By event.
    hooks: dict[str, list[Callable[..., object]]] = field(default_factory=dict)

    def add_hook(self, event: str, function: Function) -> Function:
        self.hooks.setdefault(event, []).append(function)
        return function
