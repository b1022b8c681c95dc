"""Server-sent events: messages of a queue group as they come, and a partition's log as it grows.

The data of an event is a record. In a group's stream the id of an event is its lease, and a request settles it like
any other message. At most `max_in_flight` messages are unsettled; more come when those are settled at this node or
their leases expire. In a log's stream the id is the offset, and a client that reconnects with `Last-Event-ID`, as
browsers do, continues after it. An error is the last event. Comments keep a silent connection alive.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from flotilla.codec.batch.columns import leading
from flotilla.frontends.http.api.filters import FILTER_QUERY, WANTED_HEADERS, WANTED_TYPES, read_filter
from flotilla.frontends.http.api.messages import show_delivery
from flotilla.frontends.http.api.record_view import read_headers, show_batch
from flotilla.frontends.http.api.stream_credit import Unsettled
from flotilla.frontends.http.framework.operation import TEXT, Call, Operation, Parameter, flag, integer, obj
from flotilla.frontends.http.framework.parameters import GROUP, MEMBER, OF_PARTITION, OF_TOPIC, OFFSET, VISIBILITY
from flotilla.frontends.http.framework.response import Response
from flotilla.frontends.large_answers import LargeAnswers, parts_of
from flotilla.gateway.gateway import Gateway
from flotilla.gateway.subscription import GatewaySubscription
from flotilla.types.errors import FlotillaError, InvalidArgumentError
from flotilla.types.limits import MIB, SHOWN_BYTES_MAX
from flotilla.types.operations import LATEST, Fetch, Fetched, ListOffsets
from flotilla.types.operations.queue import Delivery, Pushed, Subscribe

EVENT_TYPE: Final = "text/event-stream"
#: Interval of comments: proxies keep the connection open, and a dead client is detected.
_BEAT_MS: Final = 15_000
_BEAT: Final = b": still here\n\n"

_SUBSCRIPTION = obj(
    ("group", "member"),
    group=GROUP,
    member=MEMBER,
    max_in_flight=integer(1, 10_000, "Unsettled messages at most.", default=16),
    visibility_ms=VISIBILITY,
    at_most_once=flag("Acked before it is sent: there is nothing to settle."),
    types=WANTED_TYPES,
    headers=WANTED_HEADERS,
)
_FOLLOW_QUERY = (Parameter("offset", OFFSET), *FILTER_QUERY)


class EventApi:
    def __init__(self, gateway: Gateway, unsettled: Unsettled, large: LargeAnswers) -> None:
        self._gateway = gateway
        self._unsettled = unsettled
        self._large = large

    def operations(self) -> list[Operation]:
        return [
            Operation(
                "subscribe", "POST", "/v1/topics/{topic}/subscribe", "messages", "Messages as they come.",
                self.subscribe, OF_TOPIC, body=_SUBSCRIPTION, answers={200: TEXT}, answer_type=EVENT_TYPE,
                errors=(404, 409),
                description="Server-sent events. The id of each is its lease, and its data the message as in a poll.",
            ),
            Operation(
                "followRecords", "GET", "/v1/topics/{topic}/partitions/{partition}/follow", "records",
                "A partition's records as they are stored.", self.follow, OF_PARTITION, query=_FOLLOW_QUERY,
                answers={200: TEXT}, answer_type=EVENT_TYPE, errors=(404, 416),
                description="Server-sent events, from an offset, from the record after Last-Event-ID, or from the "
                "end. The id of each is its offset, and its data the record as in a fetch.",
            ),
        ]  # fmt: skip

    # A queue group.

    async def subscribe(self, call: Call) -> Response:
        body = call.body
        is_auto: bool = body["at_most_once"]
        request = Subscribe(
            call.path["topic"],
            body["group"],
            body["member"],
            body["max_in_flight"],
            visibility_ms=body.get("visibility_ms", 0),
            is_auto_ack=is_auto,
            types=body.get("types", []),
            headers=read_headers(body.get("headers", ()), "the body"),
        )
        subscription = await self._gateway.subscribe(request)
        return _stream(self._messages(request, subscription))

    async def _messages(self, request: Subscribe, subscription: GatewaySubscription) -> AsyncIterator[bytes]:
        window = self._unsettled.open(request.topic, request.group, subscription.add_credit)
        try:
            async for pushed in _with_beats(subscription):
                if pushed is None:
                    yield _BEAT
                    continue
                places = [(each.partition, each.first + at) for each in pushed.deliveries for at in range(each.count)]
                if request.is_auto_ack:
                    # Only the socket's back-pressure bounds it.
                    subscription.add_credit(len(places))
                else:
                    window.given(places, pushed.visibility_ms)
                for part in parts_of(pushed.deliveries, SHOWN_BYTES_MAX):
                    batches = [delivery.batch for delivery in part]
                    yield await self._large.make(batches, partial(_message_events, part))
        except FlotillaError as error:
            yield _failure(error)
        finally:
            window.close()
            subscription.close()

    # A log.

    async def follow(self, call: Call) -> Response:
        topic, partition = call.path["topic"], call.path["partition"]
        last = call.headers.get("last-event-id", "")
        if last:
            if not (last.isascii() and last.isdecimal() and len(last) < 19):
                raise InvalidArgumentError(f"Last-Event-ID {last[:40]!r} is not an offset")
            offset = int(last) + 1
        elif "offset" in call.query:
            offset = call.query["offset"]
        else:
            offset = (await self._gateway.ask(ListOffsets(topic, partition, LATEST))).offset
        # A missing topic or offset is a status, not an event.
        request = Fetch(topic, partition, offset, 1 * MIB, **read_filter(call.query))
        return _stream(self._records(request, await self._gateway.ask(request)))

    async def _records(self, request: Fetch, fetched: Fetched) -> AsyncIterator[bytes]:
        offset = request.offset
        try:
            while True:
                batches = leading(fetched.batches, SHOWN_BYTES_MAX)
                records, following = await self._large.make(batches, partial(_events, batches, offset))
                yield records or _BEAT
                offset = following
                if len(batches) == len(fetched.batches):
                    # With a filter the broker may have looked further than the last match.
                    offset = max(offset, fetched.reached)
                fetched = await self._gateway.ask(replace(request, offset=offset, wait_ms=_BEAT_MS))
        except FlotillaError as error:
            yield _failure(error)


async def _with_beats(subscription: GatewaySubscription) -> AsyncIterator[Pushed | None]:
    """The pushes; None after an interval without one."""
    pushing: asyncio.Future[Pushed] | None = None
    try:
        while True:
            if pushing is None:
                pushing = asyncio.ensure_future(anext(subscription))
            await asyncio.wait((pushing,), timeout=_BEAT_MS / 1000)
            if not pushing.done():
                yield None
                continue
            try:
                pushed = pushing.result()
            except StopAsyncIteration:
                return
            finally:
                pushing = None
            yield pushed
    finally:
        if pushing is not None:
            pushing.cancel()


def _event(event_id: str, data: dict[str, Any]) -> bytes:
    head = f"id: {event_id}\n" if event_id else ""
    return f"{head}data: {json.dumps(data, separators=(',', ':'))}\n\n".encode()


def _message_events(deliveries: Sequence[Delivery]) -> bytes:
    messages = [message for delivery in deliveries for message in show_delivery(delivery)]
    return b"".join([_event(each.get("lease", ""), each) for each in messages])


def _events(batches: Sequence[bytes | memoryview], offset: int) -> tuple[bytes, int]:
    """The records from an offset on, and the offset after the last one."""
    records = [record for batch in batches for record in show_batch(batch, offset)]
    following = records[-1]["offset"] + 1 if records else offset
    return b"".join([_event(str(each["offset"]), each) for each in records]), following


def _failure(error: FlotillaError) -> bytes:
    body = {"code": error.code, "message": str(error), "retryable": error.retryable}
    return f"event: error\ndata: {json.dumps(body)}\n\n".encode()


def _stream(body: AsyncIterator[bytes]) -> Response:
    return Response(body, EVENT_TYPE, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
