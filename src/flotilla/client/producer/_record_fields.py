"""A record from what people write: payload, key and the fields that few records have."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from difflib import get_close_matches
from functools import partial
from typing import Final, TypedDict, cast

from flotilla.client._core.broker_clock import AGREED, ClockDifference
from flotilla.client.queue.options import time_ms
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.limits import KEY_BYTES_MAX, TIME_MS_MAX, VALUE_BYTES_MAX
from flotilla.types.records import CONTENT_BYTES, Headers, Record, RecordLimits, check_record

#: A broker knows the limit of the topic; here only what no topic can allow is refused.
_LIMITS: Final = RecordLimits(value_bytes_max=VALUE_BYTES_MAX)
#: A record from its ten fields without the detour over Record's own Python function.
_RECORD: Final[Callable[[Iterable[object]], Record]] = partial(tuple.__new__, Record)


class RecordFields(TypedDict, total=False):
    """What a record may have beside payload and key. Everything may be left out."""

    #: Ordered; a name may occur more than once. Text is written as UTF-8.
    headers: Mapping[str, bytes | str] | Iterable[tuple[str, bytes | str]]
    #: 0 to 7; a higher one is delivered earlier.
    priority: int
    #: A code of `flotilla.types.records`.
    content_type: int
    #: Not delivered to queue groups before so much time has passed, by the clock of the brokers.
    delay_ms: int
    #: Or not before this time: with a time zone, or in milliseconds since 1970.
    deliver_at: datetime | int
    #: Worth nothing after so much time, by the clock of the brokers; or so long after a timestamp that is given.
    ttl_ms: int
    #: Stored once however often it is sent inside the window.
    idempotency_key: str | bytes
    #: Attempts before the dead-letter topic.
    max_deliveries: int
    #: When it was made; now, by the clock of this machine, unless said otherwise.
    timestamp_ms: int


def make_record(
    payload: bytes, key: bytes | None, fields: RecordFields, now_ms: int, difference: ClockDifference = AGREED
) -> Record:
    """Raises InvalidArgumentError when no broker would take it.

    `now_ms` is the time of day here, `difference` how far the brokers' is ahead of it.
    """
    is_plain = not fields and type(payload) is bytes and len(payload) <= VALUE_BYTES_MAX
    if is_plain and (key is None or (type(key) is bytes and len(key) <= KEY_BYTES_MAX)):
        # The common record needs no other look.
        return _RECORD((payload, key, (), now_ms, 0, CONTENT_BYTES, 0, 0, b"", 0))
    check_names(fields)
    idempotency_key = fields.get("idempotency_key", b"")
    record = Record(
        payload,
        key,
        _headers(fields["headers"]) if "headers" in fields else (),
        fields.get("timestamp_ms", now_ms),
        fields.get("priority", 0),
        fields.get("content_type", CONTENT_BYTES),
        _deliver_at_ms(fields, now_ms + difference.most_ms) if "delay_ms" in fields or "deliver_at" in fields else 0,
        fields.get("ttl_ms", 0),
        idempotency_key.encode() if isinstance(idempotency_key, str) else idempotency_key,
        fields.get("max_deliveries", 0),
    )
    check_record(record, _LIMITS)
    return record if "timestamp_ms" in fields else _expiring(record, difference)


def check_names(fields: RecordFields) -> None:
    """Raises InvalidArgumentError for a word that nobody would act on."""
    unknown = sorted(fields.keys() - RecordFields.__annotations__.keys())
    if unknown:
        near = get_close_matches(unknown[0], (*RecordFields.__annotations__, "key", "partition"), 1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(RecordFields.__annotations__)}"
        raise InvalidArgumentError(f"a record has no {', '.join(unknown)}; {hint}")


def _expiring(record: Record, difference: ClockDifference) -> Record:
    """A ttl counts from the record's own time, which is ours, and its end is found by the clock of a broker."""
    ahead_ms = difference.likely_ms
    if not record.ttl_ms or not ahead_ms:
        return record
    ttl_ms = record.ttl_ms + ahead_ms
    if ttl_ms > 0:
        return record._replace(ttl_ms=min(ttl_ms, TIME_MS_MAX))
    # Our clock is ahead by more than the record has to live: no ttl can say that after our time.
    return record._replace(timestamp_ms=record.timestamp_ms + ahead_ms)


def _deliver_at_ms(fields: RecordFields, now_ms: int) -> int:
    delay_ms = fields.get("delay_ms", 0)
    if delay_ms < 0:
        raise InvalidArgumentError(f"delay_ms counts from now on and cannot be {delay_ms}")
    if "deliver_at" not in fields:
        return now_ms + delay_ms if delay_ms else 0
    if delay_ms:
        raise InvalidArgumentError("say either delay_ms or deliver_at")
    moment = fields["deliver_at"]
    return time_ms(moment) if isinstance(moment, datetime) else moment


def _headers(given: Mapping[str, bytes | str] | Iterable[tuple[str, bytes | str]]) -> Headers:
    pairs = given.items() if isinstance(given, Mapping) else given
    return tuple((name, value.encode() if isinstance(value, str) else value) for name, value in pairs)


def plain_values(payloads: Sequence[bytes | Record], key: bytes | None, fields: RecordFields) -> Sequence[bytes] | None:
    """The payloads, if they differ in nothing else and so need not become records; None otherwise."""
    if key is not None or "headers" in fields or "idempotency_key" in fields or Record in set(map(type, payloads)):
        return None
    return cast("Sequence[bytes]", payloads)


def as_records(
    payloads: Iterable[bytes | Record],
    key: bytes | None,
    fields: RecordFields,
    time_ms: int,
    difference: ClockDifference = AGREED,
) -> list[Record]:
    """Records as they are to be sent; one that is given whole takes nothing from the others' fields but the time."""
    check_names(fields)
    return [
        _timed(payload, time_ms, difference)
        if isinstance(payload, Record)
        else make_record(payload, key, fields, time_ms, difference)
        for payload in payloads
    ]


def _timed(record: Record, time_ms: int, difference: ClockDifference) -> Record:
    return record if record.timestamp_ms else _expiring(record._replace(timestamp_ms=time_ms), difference)
