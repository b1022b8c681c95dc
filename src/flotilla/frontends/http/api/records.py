"""Records over HTTP: produced, fetched by offset, looked up by time, cancelled; as JSON or as stored batches.

A fetch is paged by the offset that it returns. Clients that need speed send and get batches as they are on disk: the
same bytes as over TCP, in which a producer id and a sequence make repetition harmless.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from flotilla.codec.batch.columns import leading
from flotilla.frontends.http.api.filters import FILTER_QUERY, read_filter
from flotilla.frontends.http.api.record_view import (
    NEW_RECORD,
    RECORD,
    read_record,
    show_batch,
)
from flotilla.frontends.http.framework.operation import (
    FLAG,
    INTEGER,
    Answer,
    Call,
    Operation,
    Parameter,
    array,
    flag,
    integer,
    obj,
    text,
)
from flotilla.frontends.http.framework.parameters import (
    OF_PARTITION,
    OF_TOPIC,
    OFFSET,
    OFFSET_MAX,
    PARTITION,
    TOPIC_ID,
    WAIT,
)
from flotilla.frontends.http.framework.response import Response, large_json_response
from flotilla.frontends.large_answers import LargeAnswers
from flotilla.gateway.gateway import Gateway
from flotilla.types.limits import CANCEL_COUNT_MAX, IDEMPOTENCY_KEY_BYTES_MAX, MIB, SHOWN_BYTES_MAX
from flotilla.types.operations import (
    EARLIEST,
    LATEST,
    Fetch,
    Fetched,
    ListOffsets,
    Produce,
)
from flotilla.types.operations.queue import CancelRecords

BATCH_TYPE: Final = "application/vnd.flotilla.batch"
LOG_START_HEADER: Final = "Flotilla-Log-Start"
NEXT_OFFSET_HEADER: Final = "Flotilla-Next-Offset"
#: With a filter: where to go on.
RESUME_OFFSET_HEADER: Final = "Flotilla-Resume-Offset"
_PRODUCE_MAX: Final = 10_000
_FETCH_MAX: Final = 1_000

_RECEIPT = obj(
    ("partition", "offset", "duplicate"),
    partition=INTEGER,
    offset=INTEGER,
    duplicate=FLAG,
    topic_id={"type": "integer", "description": "Of the topic; one that is created again under its name has another."},
)
_PRODUCE = obj(("records",), records=array(NEW_RECORD, 1, _PRODUCE_MAX), partition=PARTITION)
_RECEIPTS = obj(("receipts",), receipts={"type": "array", "items": _RECEIPT})
_FETCHED = obj(
    ("records", "next", "looked", "log_start", "end"),
    records={"type": "array", "items": RECORD},
    next={"type": "integer", "description": "The offset to continue with."},
    looked={"type": "integer", "description": "Records up to there: those that a filter left out count, too."},
    log_start={"type": "integer", "description": "The oldest offset that is kept."},
    end={"type": "integer", "description": "Offsets below are committed."},
)
_OFFSET = obj(("offset",), offset={"type": "integer", "description": "-1: there is no record at or after that time."})
_STORED = obj(
    ("base_offset", "duplicate"),
    base_offset=INTEGER,
    duplicate=FLAG,
    known={
        "type": "array",
        "items": obj(("position", "offset"), position=INTEGER, offset=INTEGER),
        "description": "Nothing was stored: records at these positions have idempotency keys that are known.",
    },
)
_CANCEL = obj(
    offsets=array(OFFSET, 0, CANCEL_COUNT_MAX),
    idempotency_keys=array(text(1, IDEMPOTENCY_KEY_BYTES_MAX), 0, CANCEL_COUNT_MAX),
)
_CANCELLED = obj(("offsets",), offsets={"type": "array", "items": INTEGER})
_BYTES = integer(1, 2**32 - 1, "Bytes of stored batches; at least one batch is returned.", default=1 * MIB)
_FROM = Parameter("offset", OFFSET, is_required=True)
_LINEARIZABLE = Parameter("linearizable", flag("Includes everything that was acknowledged before the request."))
_FETCH_QUERY = (
    _FROM,
    Parameter("limit", integer(1, _FETCH_MAX, "Records at most.", default=100)),
    Parameter("until", {**OFFSET, "description": "Only records before this offset."}),
    Parameter("max_bytes", _BYTES),
    Parameter("wait_ms", WAIT),
    _LINEARIZABLE,
    TOPIC_ID,
    *FILTER_QUERY,
)
_BATCH_QUERY = (
    _FROM, Parameter("max_bytes", _BYTES), Parameter("wait_ms", WAIT), _LINEARIZABLE, TOPIC_ID, *FILTER_QUERY,
)  # fmt: skip
_COUNT = integer(
    0,
    2**32 - 1,
    "How many partitions the client knows: a topic that has more refuses. 0: it does not matter.",
    default=0,
)


class RecordApi:
    def __init__(self, gateway: Gateway, large: LargeAnswers) -> None:
        self._gateway = gateway
        self._large = large
        self._now_ms = gateway.now_ms

    def operations(self) -> list[Operation]:
        tag = "records"
        path = "/v1/topics/{topic}/partitions/{partition}"
        at = integer(-2, 2**53 - 1, "A time in milliseconds since 1970; -2: the earliest; -1: the end.", default=LATEST)
        return [
            Operation(
                "produceRecords", "POST", "/v1/topics/{topic}/records", tag, "Store records.", self.produce, OF_TOPIC,
                body=_PRODUCE, answers={201: _RECEIPTS}, errors=(404, 409),
                description="On disk at a majority when this is answered. Records with a key go to the partition of "
                "that key, unless a partition is named.",
            ),
            Operation(
                "fetchRecords", "GET", f"{path}/records", tag, "Read records by offset.", self.fetch, OF_PARTITION,
                query=_FETCH_QUERY, answers={200: _FETCHED}, errors=(404, 409, 416),
                description="An answer has records of up to 8 MiB, or of one batch. With a filter one request looks at "
                "up to 2,048 records, and at fewer large ones. `next` says how far it came, also when none matches.",
            ),
            Operation(
                "findOffset", "GET", f"{path}/offset", tag, "The first offset at or after a time.", self.find,
                OF_PARTITION, query=(Parameter("timestamp_ms", at), TOPIC_ID), answers={200: _OFFSET},
                errors=(404, 409),
            ),
            Operation(
                "cancelRecords", "POST", f"{path}/cancel", tag, "Cancel messages: no group gets them any more.",
                self.cancel, OF_PARTITION, body=_CANCEL, answers={200: _CANCELLED}, errors=(404, 416),
            ),
            Operation(
                "produceBatch", "POST", f"{path}/batches", tag, "Store one batch as it is.", self.produce_batch,
                OF_PARTITION, query=(TOPIC_ID, Parameter("partition_count", _COUNT)),
                body={"type": "string", "format": "binary"}, body_type=BATCH_TYPE,
                answers={201: _STORED}, errors=(404, 409),
            ),
            Operation(
                "fetchBatches", "GET", f"{path}/batches", tag, "Read stored batches as they are.", self.fetch_batches,
                OF_PARTITION, query=_BATCH_QUERY, answers={200: {"type": "string", "format": "binary"}},
                answer_type=BATCH_TYPE, errors=(404, 409, 416),
                description=f"One after the other; the headers {LOG_START_HEADER} and {NEXT_OFFSET_HEADER} say how "
                f"far the log reaches, and {RESUME_OFFSET_HEADER}, with a filter, where to go on.",
            ),
        ]  # fmt: skip

    async def produce(self, call: Call) -> Answer:
        await self._gateway.learn_time()
        now_ms = self._now_ms()
        given = enumerate(call.body["records"])
        records = [read_record(each, f"the body.records[{at}]", now_ms) for at, each in given]
        partition = call.body.get("partition")
        receipts = await self._gateway.produce(call.path["topic"], records, partition=partition)
        shown = [
            {
                "partition": receipt.partition,
                "offset": receipt.offset,
                "duplicate": receipt.duplicate,
                "topic_id": receipt.topic_id,
            }
            for receipt in receipts
        ]
        return Answer({"receipts": shown}, 201)

    async def fetch(self, call: Call) -> Response:
        fetched = await self._fetch(call)
        batches = leading(fetched.batches, SHOWN_BYTES_MAX)
        shown = partial(_shown, call.query, fetched, batches)
        return await self._large.make(batches, lambda: large_json_response(shown(), "records"))

    async def _fetch(self, call: Call) -> Fetched:
        query = call.query
        request = Fetch(
            call.path["topic"],
            call.path["partition"],
            query["offset"],
            query["max_bytes"],
            query["wait_ms"],
            is_linearizable=query["linearizable"],
            topic_id=query["topic_id"],
            **read_filter(query),
        )
        return await self._gateway.ask(request)

    async def find(self, call: Call) -> Answer:
        timestamp_ms: int = call.query["timestamp_ms"]
        assert timestamp_ms >= EARLIEST
        request = ListOffsets(call.path["topic"], call.path["partition"], timestamp_ms, call.query["topic_id"])
        return Answer({"offset": (await self._gateway.ask(request)).offset})

    async def cancel(self, call: Call) -> Answer:
        keys = [key.encode() for key in call.body.get("idempotency_keys", ())]
        request = CancelRecords(call.path["topic"], call.path["partition"], call.body.get("offsets", []), keys)
        return Answer({"offsets": (await self._gateway.ask(request)).offsets})

    async def produce_batch(self, call: Call) -> Answer:
        known = (call.query["topic_id"], call.query["partition_count"])
        request = Produce(call.path["topic"], call.path["partition"], call.body, *known)
        produced = await self._gateway.ask(request)
        shown: dict[str, Any] = {"base_offset": produced.base_offset, "duplicate": produced.duplicate}
        if produced.known:
            shown["known"] = [{"position": position, "offset": offset} for position, offset in produced.known]
        return Answer(shown, 201)

    async def fetch_batches(self, call: Call) -> Response:
        fetched = await self._fetch(call)
        headers = {LOG_START_HEADER: str(fetched.log_start), NEXT_OFFSET_HEADER: str(fetched.next_offset)}
        if fetched.reached:
            headers[RESUME_OFFSET_HEADER] = str(fetched.reached)
        return Response(b"".join(fetched.batches), BATCH_TYPE, headers=headers)


def _shown(query: dict[str, Any], fetched: Fetched, batches: Sequence[bytes | memoryview]) -> dict[str, Any]:
    """The records of these batches, which are the first or all of what was fetched."""
    offset: int = query["offset"]
    until: int = query.get("until", OFFSET_MAX)
    shown: list[dict[str, Any]] = []
    for batch in batches:
        shown += [record for record in show_batch(batch, offset) if record["offset"] < until]
        if len(shown) >= query["limit"]:
            break
    is_cut = len(shown) >= query["limit"] or len(batches) < len(fetched.batches)
    shown = shown[: query["limit"]]
    following = shown[-1]["offset"] + 1 if shown else offset
    if not is_cut:
        # With a filter the broker may have looked further than the last match.
        following = max(following, min(fetched.reached, until))
    return {
        "records": shown,
        "next": following,
        "looked": following - offset,
        "log_start": fetched.log_start,
        "end": fetched.next_offset,
    }
