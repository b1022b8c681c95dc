"""The JSON Schemas of the task API's requests and answers."""

from typing import Final

from flotilla.frontends.http.api.tasks.view import LEASED_TASK, STATUSES, TASK
from flotilla.frontends.http.framework.operation import INTEGER, TEXT, Parameter, array, flag, integer, obj, text
from flotilla.types.limits import IDEMPOTENCY_KEY_BYTES_MAX, PRIORITY_MAX, REASON_BYTES_MAX
from flotilla.types.tasks import (
    DEFAULT_QUEUE,
    MAX_RETRIES_DEFAULT,
    MAX_RETRIES_MAX,
    QUEUE_NAME_LENGTH_MAX,
    TASK_TYPE_BYTES_MAX,
    TASK_TYPES_MAX,
)

_YEAR_MS: Final = 365 * 24 * 3_600_000
_HALF_DAY_MS: Final = 12 * 3_600_000
_LIST_MAX: Final = 100

_QUEUE = text(
    1,
    QUEUE_NAME_LENGTH_MAX,
    "Name of the queue.",
    default=DEFAULT_QUEUE,
    pattern=r"^[A-Za-z0-9_-][A-Za-z0-9._-]*$",
)
_WORKER = text(1, 256, "The worker's name: unique, and unchanged while it holds tasks.")
_LEASE = text(1, 64, "The task's `lease`, in place of worker_id.")
_VISIBILITY = integer(100, _HALF_DAY_MS, "How long the lease lasts; by default as the queue says.")
_TASK_TYPE = text(1, TASK_TYPE_BYTES_MAX, "The type of the task: workers can ask for some types only.")

ENQUEUE = obj(
    ("type",),
    type=_TASK_TYPE,
    payload={"description": "Any JSON.", "default": None},
    priority=integer(0, PRIORITY_MAX, "Higher ones first.", default=0),
    max_retries=integer(0, MAX_RETRIES_MAX, "Retries after the first attempt failed.", default=MAX_RETRIES_DEFAULT),
    idempotency_key=text(1, IDEMPOTENCY_KEY_BYTES_MAX, "A repeated request gets the id of the first task."),
    delay_ms=integer(0, _YEAR_MS, "Workers get the task no earlier.", default=0),
    queue=_QUEUE,
)
ENQUEUED = obj(
    ("id", "queue", "status", "duplicate"),
    id=TEXT,
    queue=TEXT,
    status={"type": "string", "enum": ["ready", "delayed"], "description": "At the time it was enqueued."},
    duplicate={"type": "boolean", "description": "It was there already, under the same idempotency key."},
)
LEASE = obj(
    ("worker_id",),
    worker_id=_WORKER,
    queue=_QUEUE,
    types=array(_TASK_TYPE, 0, TASK_TYPES_MAX, "Only tasks of these types."),
    max=integer(1, 1_024, "Tasks at once.", default=1),
    wait_ms=integer(0, 300_000, "How long to wait for the first task.", default=0),
    visibility_ms=_VISIBILITY,
)
LEASED = obj(
    ("tasks", "visibility_ms"),
    tasks={"type": "array", "items": LEASED_TASK},
    visibility_ms={"type": "integer", "description": "How long the leases last from now."},
    retry_after_ms={"type": "integer", "description": "With a rate limit: when it is worth asking again."},
)
ACKED = obj(("id",), id=TEXT)
ACK_BODY = obj(
    worker_id=_WORKER,
    lease=_LEASE,
    result={"description": "Any JSON, up to 64 KiB: `GET /tasks/{id}` shows it as long as the queue keeps it."},
)
STATUS_QUERY = (Parameter("wait_ms", integer(0, 300_000, "How long to wait until the task has ended.", default=0)),)
NACK_BODY = obj(
    worker_id=_WORKER,
    lease=_LEASE,
    reason=text(0, REASON_BYTES_MAX, "For people; it becomes last_error.", default=""),
    delay_ms=integer(0, _YEAR_MS, "Until the next attempt; by default the queue's backoff."),
    retry=flag("False: dead at once, whatever retries are left.", default=True),
)
EXTEND_BODY = obj(
    worker_id=_WORKER, lease=_LEASE, visibility_ms=integer(100, _HALF_DAY_MS, "From now on.", default=30_000)
)
EXTENDED = obj(("id", "visibility_ms"), id=TEXT, visibility_ms=INTEGER)
CANCELLED = obj(("id", "status"), id=TEXT, status=TEXT)
COUNTS: Final = (*STATUSES, "attempts_failed")
_COUNTS: Final = dict.fromkeys(COUNTS, INTEGER)
STATS = obj(
    ("queues", "total"),
    queues={"type": "array", "items": obj(("queue",), queue=TEXT, workers=INTEGER, oldest_age_ms=INTEGER, **_COUNTS)},
    total=obj(**_COUNTS),
)
TASKS = obj(
    ("tasks",), tasks={"type": "array", "items": TASK}, next={"type": "string", "description": "Where to go on."}
)
LIST_QUERY = (
    Parameter("queue", _QUEUE),
    Parameter("limit", integer(1, _LIST_MAX, "Tasks to look at.", default=20)),
    Parameter("after", text(1, 40, "`next` of the page before.", pattern=r"^[0-9]{1,6}\.[0-9]{1,18}$")),
    Parameter("all", flag("Those that have ended, too, as far as they are kept.")),
)
