"""The HTTP endpoint, as scenarios play at it: requests become paths and JSON, answers become replies again."""

from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable
from itertools import groupby
from struct import Struct
from typing import Any, TypeAlias
from urllib.parse import quote

import httpx
import pytest

from flotilla.codec.batch.header import patch_base_offset
from flotilla.codec.batch.records import encode_batch
from flotilla.frontends.http.api.records import (
    BATCH_TYPE,
    LOG_START_HEADER,
    NEXT_OFFSET_HEADER,
    RESUME_OFFSET_HEADER,
)
from flotilla.server import Server
from flotilla.types import operations as ops
from flotilla.types.errors import ALL_ERRORS, FlotillaError, NotLeaderError
from flotilla.types.lease_tokens import LeasePlace, leases_by_place, read_lease_token, tokens_of
from flotilla.types.operations import Reply, Request
from flotilla.types.operations import cluster as cluster_operations
from flotilla.types.operations import queue as queue
from flotilla.types.operations import schedules as schedule_operations
from flotilla.types.operations import security as security_operations
from flotilla.types.operations import stream as stream_operations
from flotilla.types.operations import transactions as transaction_operations
from flotilla.types.operations.group_expiry import ExpireGroup
from flotilla.types.operations.waiting import (
    DelayedMessage,
    DelayedMessages,
    DeliveredNow,
    DeliverNow,
    ListDelayed,
)
from flotilla.types.records import Record

_ERRORS = {error.row.name: error for error in ALL_ERRORS}
_VERBS = {queue.ACK: "ack", queue.RELEASE: "release", queue.FAIL: "nack", queue.REJECT: "reject"}
#: Of a batch, by which one that is followed by another ends.
_LENGTH, _LENGTH_AT = Struct("<I"), 12
_BY_NAME: TypeAlias = dict[str, Any]


class _RefusedError(Exception):
    def __init__(self, error: FlotillaError) -> None:
        self.error = error


def _requests_of(module: Any) -> tuple[type[Request], ...]:
    found = [value for value in vars(module).values() if isinstance(value, type) and issubclass(value, Request)]
    return tuple(kind for kind in found if kind is not Request)


class Http:
    #: Clusters are formed, and transactions and stream groups worked with, over TCP and gRPC.
    LACKS: tuple[type[Request], ...] = (
        # Events are another contract: tests/integration/http/test_v1.py has them.
        ops.Subscribe,
        ops.AddCredit,
        ops.Unsubscribe,
        *_requests_of(cluster_operations),
        *_requests_of(stream_operations),
        *_requests_of(transaction_operations),
        # tests/integration/http/test_schedules.py has them.
        *_requests_of(schedule_operations),
        *_requests_of(security_operations),
        ops.InitCluster,
        ops.JoinCluster,
        ops.RemoveNode,
        ExpireGroup,
        queue.TakeTokens,
    )

    def __init__(self, server: Server) -> None:
        self._server = server
        self._topic_ids: dict[str, int] = {}
        self._asks: dict[type[Request], Callable[[Any], Awaitable[Reply]]] = {
            ops.Produce: self._produce,
            ops.Fetch: self._fetch,
            ops.ListOffsets: self._list_offsets,
            ops.CommitOffset: self._commit_offset,
            ops.ReadOffset: self._read_offset,
            ops.GetMetadata: self._metadata,
            ops.CreateTopic: self._create_topic,
            ops.AlterTopic: self._alter_topic,
            ops.DeleteTopic: self._delete_topic,
            ops.TrimPartition: self._trim,
            ops.TransferLeadership: self._transfer,
            queue.Poll: self._poll,
            queue.Settle: self._settle,
            queue.Extend: self._extend,
            queue.LeaveQueue: self._leave_queue,
            queue.CancelRecords: self._cancel,
            ListDelayed: self._list_delayed,
            DeliverNow: self._deliver_now,
            queue.ListGroups: self._list_groups,
            queue.DescribeGroup: self._describe_group,
            queue.ResetGroup: self._reset_group,
            queue.DeleteGroup: self._delete_group,
            queue.AlterGroup: self._alter_group,
            queue.ExplainMessage: self._explain,
            queue.ReadResults: self._read_results,
        }

    async def open(self) -> None:
        (broker,) = self._server.catalog.brokers().values()
        self._client = httpx.AsyncClient(base_url=f"http://{broker.http_address}", timeout=30)

    async def close(self) -> None:
        await self._client.aclose()

    async def call(self, request: Request) -> Reply | FlotillaError:
        try:
            return await self._asks[type(request)](request)
        except _RefusedError as refusal:
            return refusal.error

    async def _send(self, method: str, path: str, **options: Any) -> httpx.Response:
        response = await self._client.request(method, f"/v1/{path}", **options)
        if response.status_code >= 300:
            answer = response.json()
            kind = _ERRORS[answer["code"]]
            raise _RefusedError(NotLeaderError() if kind is NotLeaderError else kind(answer["message"]))
        return response

    async def _ask(self, method: str, path: str, body: _BY_NAME | None = None, **query: Any) -> Any:
        return (await self._send(method, path, json=body, params=query or None)).json()

    # Records.

    async def _produce(self, request: ops.Produce) -> ops.Produced:
        path = f"topics/{_name(request.topic)}/partitions/{request.partition}/batches"
        headers = {"Content-Type": BATCH_TYPE}
        found = (await self._send("POST", path, content=bytes(request.batch), headers=headers)).json()
        known = [(each["position"], each["offset"]) for each in found.get("known", ())]
        return ops.Produced(found["base_offset"], found["duplicate"], known)

    async def _fetch(self, request: ops.Fetch) -> ops.Fetched:
        path = f"topics/{_name(request.topic)}/partitions/{request.partition}/batches"
        query: dict[str, Any] = {
            "offset": request.offset,
            "max_bytes": max(request.max_bytes, 1),
            "wait_ms": request.wait_ms,
        }
        if request.types:
            query["types"] = ",".join(request.types)
        if request.headers:
            query["headers"] = ",".join(f"{name}:{value.decode()}" for name, value in request.headers)
        response = await self._send("GET", path, params={**query, "linearizable": _flag(request.is_linearizable)})
        data = response.content
        batches: list[bytes | memoryview] = []
        while data:
            (size,) = _LENGTH.unpack_from(data, _LENGTH_AT)
            batches.append(data[:size])
            data = data[size:]
        headers = response.headers
        ends = (int(headers[LOG_START_HEADER]), int(headers[NEXT_OFFSET_HEADER]))
        return ops.Fetched(batches, *ends, int(headers.get(RESUME_OFFSET_HEADER, 0)))

    async def _list_offsets(self, request: ops.ListOffsets) -> ops.OffsetFound:
        path = f"topics/{_name(request.topic)}/partitions/{request.partition}/offset"
        return ops.OffsetFound((await self._ask("GET", path, timestamp_ms=request.timestamp_ms))["offset"])

    async def _commit_offset(self, request: ops.CommitOffset) -> ops.OffsetCommitted:
        path = f"topics/{_name(request.topic)}/groups/{_name(request.group)}/partitions/{request.partition}/offset"
        body = {"offset": request.offset, "reset": request.reset, "as_of": request.as_of}
        return ops.OffsetCommitted(**await self._ask("PUT", path, body))

    async def _read_offset(self, request: ops.ReadOffset) -> ops.OffsetCommitted:
        path = f"topics/{_name(request.topic)}/groups/{_name(request.group)}/partitions/{request.partition}/offset"
        found = await self._ask("GET", f"{path}?optional={str(request.is_optional).lower()}")
        return ops.OffsetCommitted(**found)

    # Topics.

    async def _metadata(self, request: ops.GetMetadata) -> ops.Metadata:
        if request.create:
            pytest.skip("over HTTP a topic comes to be with its first record, and not by being looked at")
        cluster = await self._ask("GET", "cluster")
        topics = (await self._ask("GET", "topics"))["topics"]
        brokers = [ops.BrokerInfo(each["node"], each["client"], each["http"]) for each in cluster["nodes"]]
        wanted = [_topic(each) for each in topics if not request.topics or each["topic"] in request.topics]
        return ops.Metadata(cluster["cluster_id"], cluster["controller"], brokers, wanted, cluster["cluster_name"])

    async def _create_topic(self, request: ops.CreateTopic) -> ops.TopicReply:
        body = {
            "topic": request.topic,
            "partitions": request.partitions,
            "replication_factor": request.replication_factor,
            "settings": request.settings,
        }
        return ops.TopicReply(_topic(await self._ask("POST", "topics", body)))

    async def _alter_topic(self, request: ops.AlterTopic) -> ops.TopicReply:
        body = {"partitions": request.partitions, "settings": request.settings}
        return ops.TopicReply(_topic(await self._ask("PATCH", f"topics/{_name(request.topic)}", body)))

    async def _delete_topic(self, request: ops.DeleteTopic) -> ops.TopicReply:
        return ops.TopicReply(_topic(await self._ask("DELETE", f"topics/{_name(request.topic)}")))

    async def _trim(self, request: ops.TrimPartition) -> ops.PartitionTrimmed:
        body = {"partitions": {str(request.partition): request.offset}}
        found = await self._ask("POST", f"topics/{_name(request.topic)}/trim", body)
        return ops.PartitionTrimmed(found["partitions"][str(request.partition)])

    async def _transfer(self, request: ops.TransferLeadership) -> ops.Done:
        await self._ask(
            "POST", f"topics/{_name(request.topic)}/partitions/{request.partition}/transfer", {"to": request.to}
        )
        return ops.Done()

    # Messages.

    async def _poll(self, request: queue.Poll) -> queue.Polled:
        body: _BY_NAME = {
            "member": request.member,
            "partitions": request.partitions,
            "max_messages": request.max_messages,
            "max_bytes": request.max_bytes,
            "wait_ms": request.wait_ms,
            "at_most_once": request.is_auto_ack,
            "ordered_by_key": request.is_ordered_by_key,
            "start": _start(request.start),
            "types": request.types,
            "headers": [{"name": name, "value": b64encode(value).decode()} for name, value in request.headers],
        }
        if request.visibility_ms:
            body["visibility_ms"] = request.visibility_ms
        found = await self._ask("POST", f"topics/{_name(request.topic)}/groups/{_name(request.group)}/poll", body)
        for message in found["messages"]:
            if "lease" in message:
                self._topic_ids[request.topic] = read_lease_token(message["lease"]).topic_id
        return queue.Polled(_deliveries(found["messages"]), found["visibility_ms"], found.get("retry_after_ms", 0))

    def _tokens(self, request: queue.Settle | queue.Extend) -> list[str]:
        """Scenarios do not name topics by their ids: as in the last delivery."""
        place = LeasePlace(request.topic_id or self._topic_ids.get(request.topic, 1), request.partition)
        return tokens_of(place, request.leases)

    async def _settle(self, request: queue.Settle) -> queue.Settled:
        body: _BY_NAME = {"leases": self._tokens(request)}
        if request.kind in (queue.FAIL, queue.REJECT):
            body["reason"] = request.reason
        if request.kind in (queue.FAIL, queue.RELEASE) and request.delay_ms != queue.BY_BACKOFF:
            body["delay_ms"] = request.delay_ms
        if request.results:
            # The lease of a message that is not settled may be of any: the offset tells them apart.
            lease = body["leases"][0].rsplit(".", 1)[0]
            body["results"] = [
                {"lease": f"{lease}.{each.offset}", "result": b64encode(each.payload).decode()}
                for each in request.results
            ]
        verb = _VERBS.get(request.kind) or pytest.skip("there is no path for an end that is none")
        found = await self._ask("POST", f"topics/{_name(request.topic)}/groups/{_name(request.group)}/{verb}", body)
        return queue.Settled(_held(found["expired"]))

    async def _extend(self, request: queue.Extend) -> queue.Settled:
        body = {"leases": self._tokens(request), "member": request.member, "visibility_ms": request.visibility_ms}
        found = await self._ask("POST", f"topics/{_name(request.topic)}/groups/{_name(request.group)}/extend", body)
        return queue.Settled(_held(found["expired"]))

    async def _leave_queue(self, request: queue.LeaveQueue) -> ops.Done:
        path = f"topics/{_name(request.topic)}/groups/{_name(request.group)}/leave"
        await self._ask("POST", path, {"member": request.member})
        return ops.Done()

    async def _cancel(self, request: queue.CancelRecords) -> queue.RecordsCancelled:
        body = {"offsets": request.offsets, "idempotency_keys": [key.decode() for key in request.keys]}
        found = await self._ask("POST", f"topics/{_name(request.topic)}/partitions/{request.partition}/cancel", body)
        return queue.RecordsCancelled(found["offsets"])

    async def _list_delayed(self, request: ListDelayed) -> DelayedMessages:
        group = f"groups/{_name(request.group)}/" if request.group else ""
        found = await self._ask("GET", f"topics/{_name(request.topic)}/{group}delayed?limit={request.limit}")
        rows = [row for row in found["messages"] if row.pop("partition") == request.partition]
        return DelayedMessages([DelayedMessage(**row) for row in rows], bool(found["next"]), found["is_cut"])

    async def _deliver_now(self, request: DeliverNow) -> DeliveredNow:
        body = {"offsets": request.offsets, **({"group": request.group} if request.group else {})}
        found = await self._ask("POST", f"topics/{_name(request.topic)}/partitions/{request.partition}/deliver", body)
        return DeliveredNow(found["offsets"])

    async def _read_results(self, request: queue.ReadResults) -> queue.ResultsRead:
        path = f"topics/{_name(request.topic)}/groups/{_name(request.group)}/partitions/{request.partition}/messages"
        (offset,) = request.offsets
        found = await self._ask("GET", f"{path}/{offset}/result?wait_ms={request.wait_ms}")
        if not found.pop("ended"):
            return queue.ResultsRead([])
        result = b64decode(found.pop("result", ""))
        return queue.ResultsRead([queue.EndedMessage(offset, result=result, **found)])

    async def _explain(self, request: queue.ExplainMessage) -> queue.Explanation:
        path = f"topics/{_name(request.topic)}/groups/{_name(request.group)}/partitions/{request.partition}/messages"
        return queue.Explanation(**await self._ask("GET", f"{path}/{request.offset}"))

    # Groups.

    async def _list_groups(self, request: queue.ListGroups) -> queue.GroupList:
        found = await self._ask("GET", f"topics/{_name(request.topic)}/groups")
        return queue.GroupList({each["group"]: each["kind"] for each in found["groups"]})

    async def _describe_group(self, request: queue.DescribeGroup) -> queue.GroupDescription:
        found = await self._ask("GET", f"topics/{_name(request.topic)}/groups/{_name(request.group)}")
        (part,) = [each for each in found["partitions"] if each.pop("partition") == request.partition]
        members = [queue.MemberInfo(**member) for member in part.pop("members")]
        return queue.GroupDescription(**part, members=members)

    async def _reset_group(self, request: queue.ResetGroup) -> queue.GroupReset:
        body = {"start": _start(request.start), "partitions": [request.partition], "dry_run": request.is_dry_run}
        found = await self._ask("POST", f"topics/{_name(request.topic)}/groups/{_name(request.group)}/reset", body)
        (moved,) = found["partitions"]
        return queue.GroupReset(moved["from_offset"], moved["to_offset"])

    async def _delete_group(self, request: queue.DeleteGroup) -> ops.Done:
        force = "?force=true" if request.is_forced else ""
        await self._ask("DELETE", f"topics/{_name(request.topic)}/groups/{_name(request.group)}{force}")
        return ops.Done()

    async def _alter_group(self, request: queue.AlterGroup) -> queue.GroupReply:
        body = {"settings": request.settings}
        found = await self._ask("PATCH", f"topics/{_name(request.topic)}/groups/{_name(request.group)}", body)
        return queue.GroupReply(found["settings"])


def _name(text: str) -> str:
    if not text:
        pytest.skip("a path has no empty names")
    return quote(text, safe="")


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _topic(found: _BY_NAME) -> ops.TopicInfo:
    parts = [ops.PartitionInfo(each["number"], each["leader"], each["replicas"]) for each in found["partitions"]]
    return ops.TopicInfo(found["topic"], found["topic_id"], parts, found["settings"])


def _start(start: queue.Start) -> _BY_NAME:
    if start.kind == queue.FROM_OFFSET:
        return {"offset": start.value}
    if start.kind == queue.FROM_TIME:
        return {"timestamp_ms": start.value}
    return {"at": "latest" if start.kind == ops.LATEST else "earliest"}


def _held(tokens: list[str]) -> list[queue.LeaseRange]:
    return [run for runs in leases_by_place(tokens).values() for run in runs]


def _deliveries(messages: list[_BY_NAME]) -> list[queue.Delivery]:
    """Neighbours that came together as one."""

    def alike(numbered: tuple[int, _BY_NAME]) -> tuple[int, int, int, int]:
        place, message = numbered
        lease_id = read_lease_token(message["lease"]).lease_id if "lease" in message else 0
        return message["partition"], lease_id, message["attempt"], message["offset"] - place

    found: list[queue.Delivery] = []
    for (partition, lease_id, attempt, _), group in groupby(enumerate(messages), alike):
        run = [message for _, message in group]
        batch = bytearray(encode_batch([_record(message) for message in run]))
        first = run[0]["offset"]
        patch_base_offset(memoryview(batch), first, 0)
        found.append(queue.Delivery(partition, lease_id, first, len(run), attempt, bytes(batch)))
    return found


def _record(message: _BY_NAME) -> Record:
    return Record(
        b64decode(message["payload"]),
        b64decode(message["key"]) if "key" in message else None,
        tuple((each["name"], b64decode(each["value"])) for each in message.get("headers", ())),
        message["timestamp_ms"],
        message.get("priority", 0),
        message.get("content_type", 0),
        message.get("deliver_at_ms", 0),
        message.get("ttl_ms", 0),
        b64decode(message.get("idempotency_key", "")),
        message.get("max_deliveries", 0),
    )
