"""Records from the arguments of `produce`: payload, key and optional fields."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Final, TypedDict, cast

from flotilla.client._core.broker_clock import AGREED, ClockDifference
from flotilla.client._duration import Duration, milliseconds
from flotilla.client._options import time_ms
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.limits import KEY_BYTES_MAX, PAYLOAD_BYTES_MAX, TIME_MS_MAX
from flotilla.types.records import CONTENT_BYTES, Headers, Record, RecordLimits, check_record

#: The broker enforces the limit of the topic; the client refuses only what no topic can allow.
_LIMITS: Final = RecordLimits(payload_bytes_max=PAYLOAD_BYTES_MAX)
#: Makes a record from its ten fields without calling its Python constructor.
_RECORD: Final[Callable[[Iterable[object]], Record]] = partial(tuple.__new__, Record)


class RecordFields(TypedDict, total=False):
    """The optional fields of a record beside payload and key."""

    #: Ordered; a name may occur more than once. Text is written as UTF-8.
    headers: Mapping[str, bytes | str] | Iterable[tuple[str, bytes | str]]
    #: 0 to 7; a higher one is delivered earlier.
    priority: int
    #: A ContentType, or a code of your own from 128 to 255.
    content_type: int
    #: Not delivered to queue groups before this delay is over, by the clock of the brokers.
    delay_ms: Duration
    #: Or not before this time: a datetime with a time zone, or milliseconds since 1970.
    deliver_at: datetime | int
    #: Expires after this time, counted from now by the clock of the brokers, or from `timestamp_ms` if that is given.
    ttl_ms: Duration
    #: Stored once, however often it is sent within the topic's window.
    idempotency_key: str | bytes
    #: Attempts before the dead-letter topic.
    max_deliveries: int
    #: When it was made; by default now, by the clock of this machine.
    timestamp_ms: int


def make_record(
    payload: bytes, key: bytes | None, fields: RecordFields, now_ms: int, difference: ClockDifference = AGREED
) -> Record:
    """Raises InvalidArgumentError when no broker would take the record.

    `now_ms` is the time of day here, `difference` how far the brokers' clock is ahead of it.
    """
    is_plain = not fields and type(payload) is bytes and len(payload) <= PAYLOAD_BYTES_MAX
    if is_plain and (key is None or (type(key) is bytes and len(key) <= KEY_BYTES_MAX)):
        # The common record needs no other check.
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
        milliseconds(fields.get("ttl_ms", 0)),
        idempotency_key.encode() if isinstance(idempotency_key, str) else idempotency_key,
        fields.get("max_deliveries", 0),
    )
    check_record(record, _LIMITS)
    return record if "timestamp_ms" in fields else _expiring(record, difference)


def check_names(fields: RecordFields) -> None:
    """Raises InvalidArgumentError for a field that does not exist."""
    unknown = sorted(fields.keys() - RecordFields.__annotations__.keys())
    if unknown:
        from difflib import get_close_matches

        near = get_close_matches(unknown[0], (*RecordFields.__annotations__, "key", "partition"), 1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(RecordFields.__annotations__)}"
        raise InvalidArgumentError(f"a record has no {', '.join(unknown)}; {hint}")


def _expiring(record: Record, difference: ClockDifference) -> Record:
    """Corrects the ttl, which counts from the record's timestamp (our clock) and ends by the broker's clock."""
    ahead_ms = difference.likely_ms
    if not record.ttl_ms or not ahead_ms:
        return record
    ttl_ms = record.ttl_ms + ahead_ms
    if ttl_ms > 0:
        return record._replace(ttl_ms=min(ttl_ms, TIME_MS_MAX))
    # Our clock is ahead by more than the ttl, and a ttl cannot be negative: the timestamp is corrected instead.
    return record._replace(timestamp_ms=record.timestamp_ms + ahead_ms)


def _deliver_at_ms(fields: RecordFields, now_ms: int) -> int:
    delay_ms = milliseconds(fields.get("delay_ms", 0))
    if delay_ms < 0:
        raise InvalidArgumentError(f"delay_ms is at least 0, not {delay_ms}")
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
    """The payloads, if they share all other fields and so need not become records; None otherwise."""
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
    """The records to send. A Record that is given as such takes only the time from the call, none of the fields."""
    check_names(fields)
    return [
        _timed(payload, time_ms, difference)
        if isinstance(payload, Record)
        else make_record(payload, key, fields, time_ms, difference)
        for payload in payloads
    ]


def _timed(record: Record, time_ms: int, difference: ClockDifference) -> Record:
    return record if record.timestamp_ms else _expiring(record._replace(timestamp_ms=time_ms), difference)
