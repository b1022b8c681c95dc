"""Names of the task API: queues, task ids and headers, shared by endpoints, broker and tools.

A queue is a topic, its workers are one queue group, and a task is a record whose type stands in a header. The id of
a task says where it is: queue, topic id, partition and offset. So no index of tasks is needed, and a queue that was
deleted and created again does not answer for tasks of the earlier one.
"""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from flotilla.types.errors import InvalidArgumentError
from flotilla.types.ids import Offset
from flotilla.types.topics import NAME_LENGTH_MAX

TASK_TYPE_HEADER: Final = "flotilla-task-type"
#: The names of the tasks that follow, as a JSON array.
TASK_THEN_HEADER: Final = "flotilla-task-then"
#: A queue's topic is this and its name.
QUEUE_PREFIX: Final = "tasks."
#: The queue group of the workers of every queue.
WORKER_GROUP: Final = "workers"
DEFAULT_QUEUE: Final = "default"
TASK_TYPE_BYTES_MAX: Final = 256
#: Types in the filter of one poll.
TASK_TYPES_MAX: Final = 64
MAX_RETRIES_DEFAULT: Final = 3
#: Far above what is sensible, far below what an attempt is counted in.
MAX_RETRIES_MAX: Final = 1_000

QUEUE_NAME_LENGTH_MAX: Final = 100
_QUEUE: Final = re.compile(rf"[A-Za-z0-9_-][A-Za-z0-9._-]{{0,{QUEUE_NAME_LENGTH_MAX - 1}}}", re.ASCII)
_ID: Final = re.compile(r"(.+)\.([0-9a-f]{1,16})\.([0-9]{1,6})\.([0-9]{1,18})", re.ASCII)

assert len(QUEUE_PREFIX) + QUEUE_NAME_LENGTH_MAX < NAME_LENGTH_MAX


class TaskId(NamedTuple):
    queue: str
    topic_id: int
    partition: int
    offset: Offset

    @property
    def topic(self) -> str:
        return QUEUE_PREFIX + self.queue

    def __str__(self) -> str:
        return f"{self.queue}.{self.topic_id:x}.{self.partition}.{self.offset}"


def topic_of(queue: str) -> str:
    """The topic of a queue. Raises InvalidArgumentError for a bad name."""
    if _QUEUE.fullmatch(queue) is None:
        raise InvalidArgumentError(
            f"a queue name has 1 to {QUEUE_NAME_LENGTH_MAX} letters, digits, _, - or dots, and no dot in front"
        )
    return QUEUE_PREFIX + queue


def checked_types(types: Iterable[str]) -> tuple[str, ...]:
    """The types of a filter, in order and each once. Raises InvalidArgumentError."""
    if isinstance(types, str):
        raise InvalidArgumentError(f"types is a list of types, as in [{types!r}], not one type")
    found = tuple(types)
    try:
        is_short = all(len(kind.encode()) <= TASK_TYPE_BYTES_MAX for kind in found)
    except (AttributeError, UnicodeEncodeError):
        raise InvalidArgumentError("a type is a text that UTF-8 can encode") from None
    found = tuple(sorted(dict.fromkeys(found)))
    if not is_short or len(found) > TASK_TYPES_MAX:
        raise InvalidArgumentError(f"the limit is {TASK_TYPES_MAX} types of {TASK_TYPE_BYTES_MAX} bytes each")
    return found


def parse_task_id(text: str) -> TaskId | None:
    """None: not a task id."""
    found = _ID.fullmatch(text)
    if found is None or _QUEUE.fullmatch(found[1]) is None:
        return None
    task = TaskId(found[1], int(found[2], 16), int(found[3]), int(found[4]))
    # One task has one name: leading zeros would make more of them.
    return task if str(task) == text else None
