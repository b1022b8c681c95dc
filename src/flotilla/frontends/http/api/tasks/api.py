"""The task API over HTTP. A task is a message of a topic; nothing is stored beside it.

POST /tasks                 enqueue             POST /tasks/lease           lease tasks
GET /tasks/{id}             status, result      POST /tasks/{id}/ack        done
GET /tasks                  list                POST /tasks/{id}/nack       failed: retry later, or dead
DELETE /tasks/{id}          cancel              POST /tasks/{id}/extend     more time
GET /stats                  all queues

An id names the partition and the offset, so each of these is one request to one leader.
"""

import asyncio
import json
from typing import Any, Final

from flotilla.frontends.http.api.settlement_batcher import Settlement, SettlementBatcher
from flotilla.frontends.http.api.tasks import schemas
from flotilla.frontends.http.api.tasks.queues import ENDPOINT_MEMBER, Queues
from flotilla.frontends.http.api.tasks.view import ID, TASK, explained_task, leased_tasks, show_result
from flotilla.frontends.http.framework.operation import Answer, Call, Operation
from flotilla.frontends.http.framework.response import Response, large_json_response
from flotilla.frontends.large_answers import LargeAnswers
from flotilla.gateway.gateway import Gateway
from flotilla.types.dead_letters import cut_reason
from flotilla.types.errors import (
    FlotillaError,
    InvalidArgumentError,
    LeaseExpiredError,
    NotFoundError,
    OffsetOutOfRangeError,
    TopicReplacedError,
)
from flotilla.types.lease_tokens import read_lease_token
from flotilla.types.limits import IDEMPOTENCY_KEY_BYTES_MAX
from flotilla.types.operations.queue import (
    ACK,
    BY_BACKOFF,
    FAIL,
    REJECT,
    CancelRecords,
    EndedMessage,
    ExplainMessage,
    Explanation,
    Extend,
    GroupDescription,
    LeaseRange,
    Poll,
    Polled,
    ReadResults,
)
from flotilla.types.records import CONTENT_JSON, Record
from flotilla.types.tasks import (
    TASK_TYPE_BYTES_MAX,
    TASK_TYPE_HEADER,
    WORKER_GROUP,
    TaskId,
    parse_task_id,
    topic_of,
)

_ENDED: Final = ("done", "dead", "cancelled")
#: Errors for an id that names no message; the last one: the topic has no such partition.
_ABSENT: Final = (NotFoundError, TopicReplacedError, OffsetOutOfRangeError, InvalidArgumentError)


class TaskApi:
    def __init__(self, gateway: Gateway, large: LargeAnswers) -> None:
        self._gateway = gateway
        self._large = large
        self._now_ms = gateway.now_ms
        self._queues = Queues(gateway)
        self._settlements = SettlementBatcher(gateway)

    def operations(self) -> list[Operation]:
        task = {"id": ID}
        return [
            Operation(
                "enqueueTask", "POST", "/tasks", "tasks", "Enqueue a task.", self.enqueue,
                body=schemas.ENQUEUE, answers={201: schemas.ENQUEUED, 200: schemas.ENQUEUED}, errors=(404, 409),
                description="201 for a new one; 200 for one that was there, under the same idempotency key.",
            ),
            Operation(
                "leaseTasks", "POST", "/tasks/lease", "tasks", "Lease tasks.", self.lease,
                body=schemas.LEASE, answers={200: schemas.LEASED}, errors=(404, 409),
                description="The list is empty when there is nothing to do. With `types`, one request looks at the "
                "next 1,024 tasks that were not looked at for the same types; with `wait_ms` it goes on from there.",
            ),
            Operation(
                "ackTask", "POST", "/tasks/{id}/ack", "tasks", "A task is done.", self.ack, task,
                body=schemas.ACK_BODY, answers={200: schemas.ACKED}, errors=(404, 409),
            ),
            Operation(
                "nackTask", "POST", "/tasks/{id}/nack", "tasks", "An attempt failed.", self.nack, task,
                body=schemas.NACK_BODY, answers={200: schemas.ACKED}, errors=(404, 409),
                description="The task is retried after a backoff; after the last retry it is dead.",
            ),
            Operation(
                "extendTask", "POST", "/tasks/{id}/extend", "tasks", "Extend the lease of a task.", self.extend, task,
                body=schemas.EXTEND_BODY, answers={200: schemas.EXTENDED}, errors=(404, 409),
            ),
            Operation(
                "cancelTask", "DELETE", "/tasks/{id}", "tasks", "Cancel a task.", self.cancel, task,
                answers={200: schemas.CANCELLED}, errors=(404, 409),
                description="Also while a worker has it: the worker is not notified, and its ack changes nothing.",
            ),
            Operation(
                "getTask", "GET", "/tasks/{id}", "tasks", "The status of a task.", self.status, task,
                query=schemas.STATUS_QUERY, answers={200: TASK}, errors=(404,),
                description="With `wait_ms` the answer comes when the task is done, dead or cancelled, or when that "
                "time is over.",
            ),
            Operation(
                "listTasks", "GET", "/tasks", "tasks", "Tasks of a queue, the oldest first.", self.list_tasks,
                query=schemas.LIST_QUERY, answers={200: schemas.TASKS},
                description="A queue that was never used is empty.",
            ),
            Operation(
                "getStats", "GET", "/stats", "tasks", "Tasks of all queues by status.", self.stats,
                answers={200: schemas.STATS},
            ),
        ]  # fmt: skip

    # Enqueueing and leasing.

    async def enqueue(self, call: Call) -> Answer:
        body: dict[str, Any] = call.body
        queue = body["queue"]
        topic = await self._queues.topic(queue)
        records = (_record(body, self._now_ms()),)
        receipt = (await self._queues.patiently(topic.name, lambda: self._gateway.produce(topic.name, records)))[0]
        # The topic may have been deleted and created again since.
        topic = self._gateway.known_topic(topic.name) or topic
        shown = {
            "id": str(TaskId(queue, topic.topic_id, receipt.partition, receipt.offset)),
            "queue": queue,
            "status": "delayed" if body["delay_ms"] else "ready",
            "duplicate": receipt.duplicate,
        }
        return Answer(shown, 200 if receipt.duplicate else 201)

    async def lease(self, call: Call) -> Response:
        body: dict[str, Any] = call.body
        topic = await self._queues.topic(body["queue"])
        name = topic.name
        poll = Poll(
            name,
            WORKER_GROUP,
            body["worker_id"],
            max_messages=body["max"],
            visibility_ms=body.get("visibility_ms", 0),
            wait_ms=body["wait_ms"],
            types=body.get("types", []),
        )
        polled = await self._queues.patiently(name, lambda: self._gateway.poll(poll))
        batches = [delivery.batch for delivery in polled.deliveries]
        return await self._large.make(batches, lambda: large_json_response(_leased(body["queue"], polled), "tasks"))

    # The end of a lease.

    async def ack(self, call: Call) -> Answer:
        result = _encode_json(call.body["result"]) if "result" in call.body else None
        return await self._settle(call, ACK, "", BY_BACKOFF, result)

    async def nack(self, call: Call) -> Answer:
        reason = cut_reason(call.body["reason"])
        kind = FAIL if call.body["retry"] else REJECT
        return await self._settle(call, kind, reason, call.body.get("delay_ms", BY_BACKOFF))

    async def _settle(self, call: Call, kind: int, reason: str, delay_ms: int, result: bytes | None = None) -> Answer:
        task = _task(call)
        lease_id, member = _holder(call, task)
        settlement = Settlement(task.topic, task.topic_id, task.partition, WORKER_GROUP, kind, reason, delay_ms)
        try:
            await self._settlements.settle(settlement, task.offset, lease_id=lease_id, member=member, result=result)
        except (*_ABSENT, LeaseExpiredError) as error:
            raise await self._why_not_held(task, error) from None
        return Answer({"id": str(task)})

    async def _why_not_held(self, task: TaskId, error: FlotillaError) -> FlotillaError:
        """The error for a lease that never was: there is no such task, or no worker has it."""
        try:
            await self._explain(task)
        except NotFoundError as absent:
            return absent
        if isinstance(error, NotFoundError):
            return LeaseExpiredError(f"task {task} is not leased")
        return error

    async def extend(self, call: Call) -> Answer:
        task = _task(call)
        lease_id, member = _holder(call, task)
        visibility_ms = call.body["visibility_ms"]
        held = [LeaseRange(lease_id, task.offset, task.offset + 1)]
        request = Extend(task.topic, task.partition, WORKER_GROUP, member, held, visibility_ms, task.topic_id)
        try:
            settled = await self._gateway.ask(request)
        except _ABSENT as error:
            raise await self._why_not_held(task, error) from None
        if settled.expired:
            raise await self._why_not_held(task, LeaseExpiredError(f"the lease of task {task} has expired"))
        return Answer({"id": str(task), "visibility_ms": visibility_ms})

    # One task.

    async def status(self, call: Call) -> Answer:
        task = _task(call)
        ended = await self._ended(task, call.query["wait_ms"]) if call.query["wait_ms"] else None
        shown = explained_task(task, await self._explain(task), self._now_ms())
        if shown["status"] == "done":
            # It may have ended since.
            ended = ended or await self._ended(task, 0)
            if ended is not None:
                shown.update(show_result(ended))
        return Answer(shown)

    async def _ended(self, task: TaskId, wait_ms: int) -> EndedMessage | None:
        """None: it has not ended within that time."""
        request = ReadResults(task.topic, task.partition, WORKER_GROUP, [task.offset], wait_ms, task.topic_id)
        try:
            found = (await self._gateway.ask(request)).ended
        except _ABSENT:
            raise _no_task(str(task)) from None
        return found[0] if found else None

    async def cancel(self, call: Call) -> Answer:
        task = _task(call)
        request = CancelRecords(task.topic, task.partition, [task.offset], topic_id=task.topic_id)
        try:
            await self._gateway.ask(request)
        except _ABSENT:
            raise _no_task(str(task)) from None
        status = explained_task(task, await self._explain(task), self._now_ms())["status"]
        if status != "cancelled":
            raise LeaseExpiredError(f"task {task} has already ended: it is {status}")
        return Answer({"id": str(task), "status": status})

    async def _explain(self, task: TaskId) -> Explanation:
        request = ExplainMessage(task.topic, task.partition, task.offset, WORKER_GROUP, task.topic_id, has_record=True)
        try:
            return await self._queues.opened(task.topic, lambda: self._gateway.ask(request))
        except _ABSENT:
            raise _no_task(str(task)) from None

    # Many tasks.

    async def list_tasks(self, call: Call) -> Answer:
        """Partition by partition: from the first unsettled task, or with `all` from the start of the log."""
        query = call.query
        try:
            topic = await self._gateway.topic(topic_of(query["queue"]))
            described = await self._queues.describe(query["queue"])
        except NotFoundError:
            # A queue is created with its first task: before that it is empty, which is no error.
            return Answer({"tasks": []})
        partition, offset = map(int, query.get("after", "0.0").split("."))
        room: int = query["limit"]
        ids: list[TaskId] = []
        while partition < len(described) and room:
            group = described[partition]
            offset = max(offset, group.log_start if query["all"] else group.floor)
            end = min(offset + room, group.next_offset)
            ids += [TaskId(query["queue"], topic.topic_id, partition, each) for each in range(offset, end)]
            room -= max(end - offset, 0)
            offset = end
            if end >= group.next_offset:
                partition, offset = partition + 1, 0
        tasks = [task for task in await asyncio.gather(*map(self._show, ids)) if task is not None]
        shown: dict[str, Any] = {
            "tasks": [task for task in tasks if query["all"] or task["status"] not in _ENDED],
        }
        if partition < len(described):
            shown["next"] = f"{partition}.{offset}"
        return Answer(shown)

    async def _show(self, task: TaskId) -> dict[str, Any] | None:
        try:
            return explained_task(task, await self._explain(task), self._now_ms())
        except NotFoundError:
            # The task ended and was removed since the log was described.
            return None

    async def stats(self, call: Call) -> Answer:
        names = await self._queues.names()
        queues = [queue for queue in await asyncio.gather(*map(self._queue_stats, names)) if queue is not None]
        total = {name: sum(queue[name] for queue in queues) for name in schemas.COUNTS}
        return Answer({"queues": queues, "total": total})

    async def _queue_stats(self, queue: str) -> dict[str, Any] | None:
        try:
            parts = await self._queues.describe(queue)
        except NotFoundError:
            # The queue was deleted in between.
            return None
        return {"queue": queue, **_counted(parts)}


def _leased(queue: str, polled: Polled) -> dict[str, Any]:
    tasks = [task for each in polled.deliveries for task in leased_tasks(queue, each)]
    shown: dict[str, Any] = {"tasks": tasks, "visibility_ms": polled.visibility_ms}
    if polled.retry_after_ms:
        shown["retry_after_ms"] = polled.retry_after_ms
    return shown


def _counted(parts: list[GroupDescription]) -> dict[str, int]:
    return {
        "ready": sum(part.ready for part in parts),
        "leased": sum(part.leased for part in parts),
        "delayed": sum(part.delayed for part in parts),
        "done": sum(part.acked_total for part in parts),
        "dead": sum(part.dead_total for part in parts),
        "cancelled": sum(part.cancelled_total for part in parts),
        "attempts_failed": sum(part.failed_total for part in parts),
        "workers": len({member.name for part in parts for member in part.members if member.name != ENDPOINT_MEMBER}),
        "oldest_age_ms": max((part.oldest_age_ms for part in parts), default=0),
    }


def _encode_json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _record(body: dict[str, Any], now_ms: int) -> Record:
    """Raises InvalidArgumentError for texts with too many bytes in UTF-8; the schema counts characters."""
    kind = body["type"].encode()
    if len(kind) > TASK_TYPE_BYTES_MAX:
        raise InvalidArgumentError(f"the body.type has at most {TASK_TYPE_BYTES_MAX} bytes in UTF-8")
    key = body.get("idempotency_key", "").encode()
    if len(key) > IDEMPOTENCY_KEY_BYTES_MAX:
        raise InvalidArgumentError(f"the body.idempotency_key has at most {IDEMPOTENCY_KEY_BYTES_MAX} bytes in UTF-8")
    return Record(
        _encode_json(body["payload"]),
        headers=((TASK_TYPE_HEADER, kind),),
        timestamp_ms=now_ms,
        priority=body["priority"],
        content_type=CONTENT_JSON,
        deliver_at_ms=now_ms + body["delay_ms"] if body["delay_ms"] else 0,
        idempotency_key=key,
        max_deliveries=body["max_retries"] + 1,
    )


def _task(call: Call) -> TaskId:
    text: str = call.path["id"]
    task = parse_task_id(text)
    if task is None:
        raise _no_task(text)
    return task


def _no_task(text: str) -> NotFoundError:
    return NotFoundError(f"there is no task {text}")


def _holder(call: Call, task: TaskId) -> tuple[int, str]:
    """The lease id, or 0 and the name of the worker that holds the lease."""
    worker: str = call.body.get("worker_id", "")
    if "lease" not in call.body:
        if not worker:
            raise InvalidArgumentError("the body needs worker_id, or the task's lease")
        return 0, worker
    topic_id, partition, lease_id, offset = read_lease_token(call.body["lease"])
    if (topic_id, partition, offset) != (task.topic_id, task.partition, task.offset):
        raise InvalidArgumentError("the body.lease is of another task")
    return lease_id, worker or ENDPOINT_MEMBER
