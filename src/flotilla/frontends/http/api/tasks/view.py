"""Tasks as JSON, made of records and of the leader's explanation of a message."""

import json
from base64 import b64encode
from collections.abc import Iterator
from typing import Any, Final

from flotilla.codec.batch.view import BatchView
from flotilla.frontends.http.framework.operation import ANYTHING, INTEGER, TEXT, obj, text
from flotilla.types.errors import NotFoundError
from flotilla.types.lease_tokens import lease_token
from flotilla.types.operations.queue import FORGOTTEN_STATE, Delivery, EndedMessage, Explanation
from flotilla.types.records import CONTENT_JSON, Record
from flotilla.types.tasks import MAX_RETRIES_DEFAULT, TASK_TYPE_HEADER, TaskId

#: The status of a task, by the state of its message (partition/state).
STATUSES: Final = ("ready", "leased", "delayed", "done", "dead", "cancelled")
_STATUS_OF: Final = {
    "ready": "ready",
    "blocked": "ready",
    "leased": "leased",
    # Its settlement is not committed, and may yet be refused.
    "settling": "leased",
    "delayed": "delayed",
    "retrying": "delayed",
    "dying": "dead",
    "dead": "dead",
    "dropped": "dead",
    "expired": "dead",
    "acked": "done",
    "cancelled": "cancelled",
}
#: States of a task whose last attempt has not failed.
_BEGUN: Final = ("leased", "settling", "acked")

ID = text(1, 160, "The task's id.", pattern=r"^[A-Za-z0-9._-]+$")

_CONTENTS: Final[dict[str, Any]] = {
    "id": TEXT,
    "queue": TEXT,
    "type": TEXT,
    "payload": ANYTHING,
    "payload_base64": {"type": "string", "description": "In place of `payload`, if that is not JSON."},
    "priority": INTEGER,
    "max_retries": INTEGER,
    "created_ms": {"type": "integer", "description": "Milliseconds since 1970."},
}
LEASED_TASK = obj(
    ("id", "queue", "type", "attempt", "lease"),
    **_CONTENTS,
    attempt={"type": "integer", "description": "1 at the first delivery."},
    lease={"type": "string", "description": "May be given in place of worker_id."},
)
TASK = obj(
    ("id", "queue", "status", "attempts"),
    **_CONTENTS,
    status={"type": "string", "enum": list(STATUSES)},
    attempts={"type": "integer", "description": "Deliveries so far."},
    last_error={"type": "string", "description": "The reason of the last failed attempt."},
    worker_id={"type": "string", "description": "The worker that has the task while it is leased."},
    leased_until_ms={"type": "integer", "description": "When the lease expires."},
    due_ms={"type": "integer", "description": "When a delay ends, or the next attempt may come."},
    ended_ms={"type": "integer", "description": "When it died."},
    result={"description": "The result that a worker gave with its ack, any JSON."},
    result_base64={"type": "string", "description": "In place of `result`, if that is not JSON."},
    result_forgotten={"type": "boolean", "description": "There was a result, which is not kept any more."},
)


def show_result(ended: EndedMessage) -> dict[str, Any]:
    """The fields of TASK about its result."""
    if ended.state == FORGOTTEN_STATE:
        return {"result_forgotten": True}
    if not ended.result:
        return {}
    try:
        return {"result": json.loads(ended.result)}
    except (ValueError, RecursionError):
        return {"result_base64": b64encode(ended.result).decode()}


def leased_tasks(queue: str, delivery: Delivery) -> Iterator[dict[str, Any]]:
    for into, record in enumerate(BatchView(delivery.batch, verify=False).records()):
        task = TaskId(queue, delivery.topic_id, delivery.partition, delivery.first + into)
        found = contents(task, record)
        found["attempt"] = delivery.attempt
        found["lease"] = lease_token(task.topic_id, task.partition, delivery.lease_id, task.offset)
        yield found


def contents(task: TaskId, record: Record) -> dict[str, Any]:
    found: dict[str, Any] = {"id": str(task), "queue": task.queue, "type": task_type(record)}
    if record.content_type == CONTENT_JSON:
        try:
            found["payload"] = json.loads(record.payload)
        except (ValueError, RecursionError):
            found["payload_base64"] = b64encode(record.payload).decode()
    else:
        # It was not enqueued by this API.
        found["payload_base64"] = b64encode(record.payload).decode()
    found["priority"] = record.priority
    found["max_retries"] = record.max_deliveries - 1 if record.max_deliveries else MAX_RETRIES_DEFAULT
    found["created_ms"] = record.timestamp_ms
    return found


def task_type(record: Record) -> str:
    for name, value in record.headers:
        if name == TASK_TYPE_HEADER:
            return value.decode("utf-8", "replace")
    return ""


def explained_task(task: TaskId, found: Explanation, now_ms: int) -> dict[str, Any]:
    """Raises NotFoundError for a task that has ended and is no longer in the log."""
    status = _STATUS_OF.get(found.state)
    if status is None or not found.batch:
        raise NotFoundError(f"task {task} has ended and was removed")
    shown = contents(task, BatchView(found.batch).record(0))
    shown["status"] = status
    shown["attempts"] = found.attempts + (found.state in _BEGUN)
    if found.reason:
        shown["last_error"] = found.reason
    if found.state == "leased":
        shown["worker_id"] = found.holder
        shown["leased_until_ms"] = now_ms + found.remaining_ms
    elif status == "delayed":
        shown["due_ms"] = now_ms + found.remaining_ms
    if found.ended_ms:
        shown["ended_ms"] = found.ended_ms
    return shown
