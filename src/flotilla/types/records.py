"""A record as users write and read it, and its bounds. How records become bytes is the codec's.

A record is a named tuple rather than a dataclass because clients make one per message: in bulk it takes 150 ns against
210 for a plain slotted dataclass and 3,000 for a frozen one, and the codec turns a list of tuples into columns with one
`zip`. Zero and empty always mean "not set", so that the common record costs nothing.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias

from flotilla.types.errors import InvalidArgumentError, WrongTypeError
from flotilla.types.limits import (
    BATCH_RECORD_COUNT_MAX,
    DELIVERY_COUNT_MAX,
    ENTRY_BYTES_MAX,
    IDEMPOTENCY_KEY_BYTES_MAX,
    KEY_BYTES_MAX,
    PAYLOAD_BYTES_DEFAULT,
    PRIORITY_MAX,
    RECORD_HEADER_BYTES_MAX,
    RECORD_HEADER_COUNT_MAX,
    TIME_MS_MAX,
)

#: Ordered; a name may occur more than once.
Headers: TypeAlias = tuple[tuple[str, bytes], ...]


class ContentType(IntEnum):
    """Content types that every SDK knows by code. Codes from 128 on belong to the user."""

    BYTES = 0
    TEXT = 1
    JSON = 2
    PROTOBUF = 3
    AVRO = 4
    ARROW = 5


#: Plain numbers, because a record of the most common type must not cost the look-up of an enum's member.
CONTENT_BYTES: Final = 0
CONTENT_TEXT: Final = 1
CONTENT_JSON: Final = 2
CONTENT_PROTOBUF: Final = 3
CONTENT_AVRO: Final = 4
CONTENT_ARROW: Final = 5
CONTENT_TYPE_MAX: Final = 255

MEDIA_TYPES: Final[dict[int, str]] = {
    CONTENT_BYTES: "application/octet-stream",
    CONTENT_TEXT: "text/plain",
    CONTENT_JSON: "application/json",
    CONTENT_PROTOBUF: "application/x-protobuf",
    CONTENT_AVRO: "application/avro",
    CONTENT_ARROW: "application/vnd.apache.arrow.stream",
}


class Record(NamedTuple):
    """One message. Positions and defaults are the codec's contract: change both together."""

    payload: bytes
    #: None is no key; the empty key is a key like any other.
    key: bytes | None = None
    headers: Headers = ()
    #: When the producer made it.
    timestamp_ms: int = 0
    #: 0 to PRIORITY_MAX; a higher one is delivered earlier.
    priority: int = 0
    content_type: int = CONTENT_BYTES
    #: Not delivered to queue groups before this time; 0: at once.
    deliver_at_ms: int = 0
    #: Expires this long after `timestamp_ms`; 0: never.
    ttl_ms: int = 0
    #: Stored once however often it is sent inside the window; empty: not deduplicated.
    idempotency_key: bytes = b""
    #: Attempts before the dead-letter topic; 0: as the topic says.
    max_deliveries: int = 0


@dataclass(slots=True)
class Span:
    """The offsets and the time of a stored entry, by which storage indexes it.

    `count` records from `base_offset` on, the newest of `timestamp_ms`. Made for every entry: frozen is slower.
    """

    base_offset: int
    count: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class RecordLimits:
    """What one topic accepts. The defaults are those of a topic without settings."""

    payload_bytes_max: int = PAYLOAD_BYTES_DEFAULT
    key_bytes_max: int = KEY_BYTES_MAX
    idempotency_key_bytes_max: int = IDEMPOTENCY_KEY_BYTES_MAX
    header_count_max: int = RECORD_HEADER_COUNT_MAX
    header_bytes_max: int = RECORD_HEADER_BYTES_MAX
    record_count_max: int = BATCH_RECORD_COUNT_MAX
    #: Of the batch as sent, and again of its columns when decompressed.
    batch_bytes_max: int = ENTRY_BYTES_MAX


DEFAULT_LIMITS: Final = RecordLimits()
#: Ends the error about a payload that is too large: the setting that raises the limit.
PAYLOAD_SETTING: Final = " (topic setting payload_bytes_max)"


def check_record(record: Record, limits: RecordLimits = DEFAULT_LIMITS) -> None:
    """Raises InvalidArgumentError when no broker with these limits would take the record.

    For producers, so that a bad record fails alone and not with the batch it would have travelled in.
    """
    if not isinstance(record.payload, bytes):
        raise WrongTypeError(f"a payload is bytes, not {type(record.payload).__name__}")
    if record.key is not None and not isinstance(record.key, bytes):
        raise WrongTypeError(f"a key is bytes or None, not {type(record.key).__name__}")
    if not isinstance(record.idempotency_key, bytes):
        raise WrongTypeError(f"an idempotency key is bytes, not {type(record.idempotency_key).__name__}")
    if len(record.payload) > limits.payload_bytes_max:
        raise InvalidArgumentError(
            f"a payload of {len(record.payload)} bytes is above {limits.payload_bytes_max}{PAYLOAD_SETTING}"
        )
    _within("key bytes", len(record.key or b""), limits.key_bytes_max)
    _within("idempotency key bytes", len(record.idempotency_key), limits.idempotency_key_bytes_max)
    _within("priority", record.priority, PRIORITY_MAX)
    _within("content_type", record.content_type, CONTENT_TYPE_MAX)
    _within("max_deliveries", record.max_deliveries, DELIVERY_COUNT_MAX)
    _within("timestamp_ms", record.timestamp_ms, TIME_MS_MAX)
    _within("deliver_at_ms", record.deliver_at_ms, TIME_MS_MAX)
    _within("ttl_ms", record.ttl_ms, TIME_MS_MAX)
    if record.headers:
        _check_headers(record.headers, limits)


def _check_headers(headers: Headers, limits: RecordLimits) -> None:
    _within("headers", len(headers), limits.header_count_max)
    size_bytes = 0
    for name, value in headers:
        if not isinstance(name, str):
            raise WrongTypeError(f"the name of a header is str, not {type(name).__name__}")
        if not isinstance(value, bytes):
            raise WrongTypeError(f"the value of a header is bytes, not {type(value).__name__}")
        try:
            size_bytes += len(name.encode()) + len(value)
        except UnicodeEncodeError as error:
            raise InvalidArgumentError(f"the header name {name!r} is not Unicode text") from error
    _within("header bytes", size_bytes, limits.header_bytes_max)


def _within(what: str, value: int, limit: int) -> None:
    if not isinstance(value, int):
        raise InvalidArgumentError(f"{what}: {value!r} is no integer")
    if not 0 <= value <= limit:
        raise InvalidArgumentError(f"{what}: {value} is not within 0 to {limit}")
