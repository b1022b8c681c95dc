"""Records as JSON, in both directions. Bytes are base64; a new record may have text or JSON instead."""

import json
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from flotilla.codec.batch.view import BatchView
from flotilla.frontends.http.framework.operation import INTEGER, TEXT, array, integer, obj, text
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.ids import Offset
from flotilla.types.limits import (
    DELIVERY_COUNT_MAX,
    IDEMPOTENCY_KEY_BYTES_MAX,
    KEY_BYTES_MAX,
    PAYLOAD_BYTES_MAX,
    PRIORITY_MAX,
    RECORD_HEADER_BYTES_MAX,
    RECORD_HEADER_COUNT_MAX,
    TIME_MS_MAX,
)
from flotilla.types.records import CONTENT_BYTES, CONTENT_JSON, CONTENT_TEXT, CONTENT_TYPE_MAX, Record

_YEAR_MS: Final = 365 * 24 * 3_600_000


def base64_text(bytes_max: int, description: str = "") -> dict[str, Any]:
    # Four characters for three bytes.
    return text(0, bytes_max * 4 // 3 + 4, description) | {"contentEncoding": "base64"}


HEADER = obj(("name", "value"), name=text(0, RECORD_HEADER_BYTES_MAX), value=base64_text(RECORD_HEADER_BYTES_MAX))
#: A new record: one of the payloads, and at most one of the keys.
NEW_RECORD = obj(
    payload=base64_text(PAYLOAD_BYTES_MAX, "Bytes, in base64."),
    payload_text=text(0, PAYLOAD_BYTES_MAX, "Or text."),
    payload_json={"description": "Or any JSON."},
    key=base64_text(KEY_BYTES_MAX),
    key_text=text(0, KEY_BYTES_MAX),
    headers=array(HEADER, 0, RECORD_HEADER_COUNT_MAX),
    priority=integer(0, PRIORITY_MAX, default=0),
    content_type=integer(0, CONTENT_TYPE_MAX, "By default as the payload says: 0 bytes, 1 text, 2 JSON."),
    timestamp_ms=integer(0, TIME_MS_MAX, "By default now."),
    delay_ms=integer(0, _YEAR_MS, "Queue groups get the message no earlier.", default=0),
    deliver_at_ms=integer(0, TIME_MS_MAX, "The same, as a time.", default=0),
    ttl_ms=integer(0, TIME_MS_MAX, "The message expires this long after its timestamp; 0: never.", default=0),
    idempotency_key=text(1, IDEMPOTENCY_KEY_BYTES_MAX, "Stored once, however often it is sent."),
    max_deliveries=integer(0, DELIVERY_COUNT_MAX, "0: as the topic says.", default=0),
)
_SHOWN: Final[dict[str, Any]] = {
    "offset": INTEGER,
    "payload": {"type": "string", "contentEncoding": "base64"},
    "key": {"type": "string", "contentEncoding": "base64"},
    "headers": {"type": "array", "items": obj(("name", "value"), name=TEXT, value=TEXT)},
    "timestamp_ms": INTEGER,
    "priority": INTEGER,
    "content_type": INTEGER,
    "deliver_at_ms": INTEGER,
    "ttl_ms": INTEGER,
    "idempotency_key": {"type": "string", "contentEncoding": "base64"},
    "max_deliveries": INTEGER,
}
RECORD = obj(("offset", "payload", "timestamp_ms"), **_SHOWN)
MESSAGE = obj(
    ("partition", "offset", "payload", "timestamp_ms", "attempt"),
    partition=INTEGER,
    **_SHOWN,
    attempt={"type": "integer", "description": "1 at the first delivery."},
    lease={"type": "string", "description": "Settles the message; missing with at-most-once."},
)


def read_headers(given: Iterable[Mapping[str, str]], where: str) -> list[tuple[str, bytes]]:
    """Raises InvalidArgumentError."""
    return [
        (pair["name"], read_base64(pair["value"], f"{where}.headers[{place}].value"))
        for place, pair in enumerate(given)
    ]


def read_record(given: dict[str, Any], where: str, now_ms: int) -> Record:
    """A record from what NEW_RECORD has checked. Raises InvalidArgumentError."""
    payload, content_type = _read_payload(given, where)
    if "key" in given and "key_text" in given:
        raise InvalidArgumentError(f"{where} has key or key_text, not both")
    key = given["key_text"].encode() if "key_text" in given else None
    if "key" in given:
        key = read_base64(given["key"], f"{where}.key")
    if given["delay_ms"] and given["deliver_at_ms"]:
        raise InvalidArgumentError(f"{where} has delay_ms or deliver_at_ms, not both")
    return Record(
        payload,
        key,
        tuple(read_headers(given.get("headers", ()), where)),
        given.get("timestamp_ms", 0) or now_ms,
        given["priority"],
        given.get("content_type", content_type),
        now_ms + given["delay_ms"] if given["delay_ms"] else given["deliver_at_ms"],
        given["ttl_ms"],
        given.get("idempotency_key", "").encode(),
        given["max_deliveries"],
    )


def _read_payload(given: dict[str, Any], where: str) -> tuple[bytes, int]:
    if len(given.keys() & {"payload", "payload_text", "payload_json"}) != 1:
        raise InvalidArgumentError(f"{where} needs one of payload, payload_text and payload_json")
    if "payload" in given:
        return read_base64(given["payload"], f"{where}.payload"), CONTENT_BYTES
    if "payload_text" in given:
        return given["payload_text"].encode(), CONTENT_TEXT
    return json.dumps(given["payload_json"], ensure_ascii=False, separators=(",", ":")).encode(), CONTENT_JSON


def read_base64(given: str, where: str) -> bytes:
    try:
        return b64decode(given, validate=True)
    except (Base64Error, ValueError):
        raise InvalidArgumentError(f"{where} is not base64") from None


def show_record(offset: Offset, record: Record) -> dict[str, Any]:
    """The record without its empty fields."""
    shown: dict[str, Any] = {
        "offset": offset,
        "payload": b64encode(record.payload).decode(),
        "timestamp_ms": record.timestamp_ms,
    }
    if record.key is not None:
        shown["key"] = b64encode(record.key).decode()
    if record.headers:
        shown["headers"] = [{"name": name, "value": b64encode(value).decode()} for name, value in record.headers]
    if record.idempotency_key:
        shown["idempotency_key"] = b64encode(record.idempotency_key).decode()
    for name in ("priority", "content_type", "deliver_at_ms", "ttl_ms", "max_deliveries"):
        value = getattr(record, name)
        if value:
            shown[name] = value
    return shown


def show_batch(batch: bytes | memoryview, from_offset: Offset = 0) -> Iterator[dict[str, Any]]:
    """The records of a stored batch, from an offset on."""
    view = BatchView(batch)
    first = view.header.base_offset
    for into, record in enumerate(view.records()):
        if first + into >= from_offset:
            yield show_record(first + into, record)
