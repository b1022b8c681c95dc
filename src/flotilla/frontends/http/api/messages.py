"""Queue groups over HTTP: polls, and the settlement of their messages.

A message comes with its lease, an opaque token that settles it at any node. Nothing is kept between requests.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from flotilla.codec.batch.view import BatchView
from flotilla.frontends.http.api.filters import WANTED_HEADERS, WANTED_TYPES
from flotilla.frontends.http.api.record_view import MESSAGE, base64_text, read_base64, read_headers, show_record
from flotilla.frontends.http.api.stream_credit import Place, Unsettled
from flotilla.frontends.http.framework.operation import (
    INTEGER,
    TEXT,
    Answer,
    Call,
    Operation,
    array,
    flag,
    integer,
    obj,
    text,
)
from flotilla.frontends.http.framework.parameters import (
    MEMBER,
    OF_GROUP,
    PARTITION,
    START,
    VISIBILITY,
    WAIT,
    read_start,
)
from flotilla.frontends.http.framework.response import Response, large_json_response
from flotilla.frontends.large_answers import LargeAnswers
from flotilla.gateway.gateway import Gateway
from flotilla.types.lease_tokens import LeasePlace, lease_token, leases_by_place, read_lease_token
from flotilla.types.limits import MIB, REASON_BYTES_MAX, RESULT_BYTES_MAX
from flotilla.types.operations.queue import (
    ACK,
    BY_BACKOFF,
    FAIL,
    REJECT,
    RELEASE,
    Delivery,
    Extend,
    LeaseRange,
    MessageResult,
    Poll,
    Polled,
    Settle,
)
from flotilla.types.topics import PARTITION_COUNT_MAX

_YEAR_MS: Final = 365 * 24 * 3_600_000
_LEASES: Final = array(text(5, 64), 1, 1_024, "As they came with the messages.")
_RESULTS: Final = array(
    obj(("lease", "result"), lease=text(5, 64), result=base64_text(RESULT_BYTES_MAX)),
    0,
    1_024,
    "Results of some of them, in base64; together up to 128 KiB.",
)
_REASON: Final = text(0, REASON_BYTES_MAX, "For people; dead letters keep it.", default="")
_DELAY: Final = integer(0, _YEAR_MS, "Until the next attempt; by default the group's backoff.")

POLL = obj(
    ("member",),
    member=MEMBER,
    max_messages=integer(1, 1_024, default=16),
    max_bytes=integer(1, 8 * MIB, default=8 * MIB),
    visibility_ms=VISIBILITY,
    wait_ms=WAIT,
    partitions=array(PARTITION, 0, PARTITION_COUNT_MAX, "By default all of them."),
    at_most_once=flag("Acked before it is sent, and never leased."),
    ordered_by_key=flag("Messages of one key one at a time, in order: sets `ordered` of the group."),
    start=START,
    types=WANTED_TYPES,
    headers=WANTED_HEADERS,
)
POLLED = obj(
    ("messages", "visibility_ms"),
    messages={"type": "array", "items": MESSAGE},
    visibility_ms={"type": "integer", "description": "How long the leases last from now."},
    retry_after_ms={"type": "integer", "description": "With a rate limit: when it is worth asking again."},
)
_SETTLED = obj(
    ("expired",),
    expired={"type": "array", "items": TEXT, "description": "Leases that were refused; the rest is done."},
)
_EXTENDED = obj(("expired", "visibility_ms"), expired={"type": "array", "items": TEXT}, visibility_ms=INTEGER)


class MessageApi:
    def __init__(self, gateway: Gateway, unsettled: Unsettled, large: LargeAnswers) -> None:
        """`unsettled` gets every settlement: event streams wait for it."""
        self._gateway = gateway
        self._unsettled = unsettled
        self._large = large

    def operations(self) -> list[Operation]:
        tag = "messages"
        path = "/v1/topics/{topic}/groups/{group}"
        acked = obj(("leases",), leases=_LEASES, results=_RESULTS)
        failed = obj(("leases",), leases=_LEASES, reason=_REASON, delay_ms=_DELAY)
        rejected = obj(("leases",), leases=_LEASES, reason=_REASON)
        released = obj(("leases",), leases=_LEASES, delay_ms=integer(0, _YEAR_MS, default=0))
        extended = obj(
            ("leases", "member"), leases=_LEASES, member=MEMBER, visibility_ms={**VISIBILITY, "default": 30_000}
        )
        ends = {200: _SETTLED}
        return [
            Operation(
                "pollMessages", "POST", f"{path}/poll", tag, "Lease messages.", self.poll, OF_GROUP,
                body=POLL, answers={200: POLLED}, errors=(404, 409, 416),
                description="The first poll creates the group.",
            ),
            Operation("ackMessages", "POST", f"{path}/ack", tag, "Messages are done.", self.ack, OF_GROUP,
                      body=acked, answers=ends, errors=(404, 409)),
            Operation("nackMessages", "POST", f"{path}/nack", tag, "Attempts failed.", self.nack, OF_GROUP,
                      body=failed, answers=ends, errors=(404, 409)),
            Operation("rejectMessages", "POST", f"{path}/reject", tag, "To the dead letters at once.", self.reject,
                      OF_GROUP, body=rejected, answers=ends, errors=(404, 409)),
            Operation("releaseMessages", "POST", f"{path}/release", tag, "Release messages: no attempt is counted.",
                      self.release, OF_GROUP, body=released, answers=ends, errors=(404, 409)),
            Operation("extendLeases", "POST", f"{path}/extend", tag, "Extend leases.", self.extend, OF_GROUP,
                      body=extended, answers={200: _EXTENDED}, errors=(404, 409)),
            Operation("leaveQueue", "POST", f"{path}/leave", tag, "A member has ended.", self.leave, OF_GROUP,
                      body=obj(("member",), member=MEMBER), answers={200: obj()}, errors=(404,),
                      description="What it holds is given back at once, which does not count as an attempt, and it "
                      "keeps nobody from deleting the group. A member that polls again is there again."),
        ]  # fmt: skip

    async def poll(self, call: Call) -> Response:
        body: dict[str, Any] = call.body
        request = Poll(
            call.path["topic"],
            call.path["group"],
            body["member"],
            body.get("partitions", []),
            body["max_messages"],
            body["max_bytes"],
            body.get("visibility_ms", 0),
            body["wait_ms"],
            body["at_most_once"],
            body["ordered_by_key"],
            read_start(body.get("start", {})),
            body.get("types", []),
            headers=read_headers(body.get("headers", ()), "the body"),
        )
        polled = await self._gateway.poll(request)
        batches = [delivery.batch for delivery in polled.deliveries]
        return await self._large.make(batches, lambda: large_json_response(_shown(polled), "messages"))

    async def ack(self, call: Call) -> Answer:
        return await self._settle(call, ACK)

    async def nack(self, call: Call) -> Answer:
        return await self._settle(call, FAIL)

    async def reject(self, call: Call) -> Answer:
        return await self._settle(call, REJECT)

    async def release(self, call: Call) -> Answer:
        return await self._settle(call, RELEASE)

    async def _settle(self, call: Call, kind: int) -> Answer:
        body: dict[str, Any] = call.body
        topic, group = call.path["topic"], call.path["group"]
        reason: str = body.get("reason", "")
        delay_ms: int = body.get("delay_ms", BY_BACKOFF)
        results = _results_by_place(body.get("results", ()))
        expired = await self._ask_each(
            body["leases"],
            lambda place, held: Settle(
                topic,
                place.partition,
                group,
                kind,
                held,
                reason,
                delay_ms,
                topic_id=place.topic_id,
                results=results.get(place, []),
            ),
        )
        self._unsettled.settled(topic, group, _places(body["leases"]))
        return Answer({"expired": expired})

    async def extend(self, call: Call) -> Answer:
        body: dict[str, Any] = call.body
        topic, group, member = call.path["topic"], call.path["group"], body["member"]
        visibility_ms: int = body["visibility_ms"]
        expired = await self._ask_each(
            body["leases"],
            lambda place, held: Extend(topic, place.partition, group, member, held, visibility_ms, place.topic_id),
        )
        self._unsettled.extended(topic, group, _places(body["leases"]), visibility_ms)
        return Answer({"expired": expired, "visibility_ms": visibility_ms})

    async def leave(self, call: Call) -> Answer:
        await self._gateway.leave(call.path["topic"], call.path["group"], call.body["member"])
        return Answer({})

    async def _ask_each(
        self, leases: list[str], request: Callable[[LeasePlace, list[LeaseRange]], Settle | Extend]
    ) -> list[str]:
        """Asks every partition about its own leases; returns the refused ones, as they were given."""
        held = leases_by_place(leases)
        asked = [self._gateway.ask(request(place, runs)) for place, runs in held.items()]
        # Lease ids are per leader: several partitions may use the same one.
        refused = {
            (*place, run.lease_id, offset)
            for place, settled in zip(held, await asyncio.gather(*asked), strict=True)
            for run in settled.expired
            for offset in range(run.first, run.end)
        }
        return [lease for lease in leases if read_lease_token(lease) in refused] if refused else []


def _shown(polled: Polled) -> dict[str, Any]:
    messages = [message for delivery in polled.deliveries for message in show_delivery(delivery)]
    shown: dict[str, Any] = {"messages": messages, "visibility_ms": polled.visibility_ms}
    if polled.retry_after_ms:
        shown["retry_after_ms"] = polled.retry_after_ms
    return shown


def show_delivery(delivery: Delivery) -> Iterator[dict[str, Any]]:
    for into, record in enumerate(BatchView(delivery.batch, verify=False).records()):
        offset = delivery.first + into
        shown = {"partition": delivery.partition, **show_record(offset, record), "attempt": delivery.attempt}
        if delivery.lease_id:
            shown["lease"] = lease_token(delivery.topic_id, delivery.partition, delivery.lease_id, offset)
        yield shown


def _results_by_place(given: Iterable[dict[str, str]]) -> dict[LeasePlace, list[MessageResult]]:
    """Raises InvalidArgumentError."""
    found: dict[LeasePlace, list[MessageResult]] = {}
    for place, each in enumerate(given):
        token = read_lease_token(each["lease"])
        payload = read_base64(each["result"], f"the body.results[{place}].result")
        found.setdefault(token.place, []).append(MessageResult(token.offset, payload))
    return found


def _places(leases: list[str]) -> list[Place]:
    return [(token.partition, token.offset) for token in map(read_lease_token, leases)]
