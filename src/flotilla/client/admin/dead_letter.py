"""One dead letter, read from the headers that the broker added, and the filter that selects dead letters."""

import re
from typing import Any, TypedDict

from flotilla.client.admin.fingerprint import fingerprint_of
from flotilla.client.queue.message import Leased
from flotilla.client.reader.message import Message
from flotilla.types.dead_letters import (
    HEADER_PREFIX,
    MAX_DELIVERIES_HEADER,
    OWN_HEADERS_HEADER,
    REDRIVEN_HEADER,
    TTL_HEADER,
    summary,
)
from flotilla.types.ids import Offset
from flotilla.types.limits import DELIVERY_COUNT_MAX, TIME_MS_MAX
from flotilla.types.records import Headers
from flotilla.types.slotted import frozen

#: Digits of a number in a header; brokers write shorter ones.
_DIGITS_MAX = 20


@frozen
class DeadLetter:
    """A message that failed for the last time in a group."""

    #: Its position in the dead-letter topic.
    partition: int
    offset: Offset
    payload: bytes
    key: bytes | None
    #: As in the original message.
    headers: Headers
    priority: int
    content_type: int
    #: Its origin.
    topic: str
    origin_partition: int
    origin_offset: Offset
    #: The error of the last attempt, and the number of attempts.
    reason: str
    attempts: int
    died_ms: int
    #: How often it was redriven before.
    redriven: int
    #: As in the original message; 0: not set. A dead letter ignores both.
    max_deliveries: int = 0
    ttl_ms: int = 0
    #: In which it died. Groups may share a dead-letter topic.
    group: str = ""


class DeadLetterFilter(TypedDict, total=False):
    """A filter of dead letters; all given conditions must match."""

    #: A part of the reason, or a regular expression that is searched in it.
    reason: str | re.Pattern[str]
    #: Of the reason: the same for reasons that differ only in numbers, ids and quoted texts.
    fingerprint: str
    key: bytes
    #: The time of death: from this time, and before that time, in milliseconds since 1970.
    since_ms: int
    until_ms: int
    #: Offsets in the dead-letter topic.
    partition: int
    offset: Offset


def read_letter(message: Message | Leased[Any]) -> DeadLetter:
    """Tolerates missing and malformed headers: messages that were put into the topic by hand must be readable, too."""
    headers = dict(message.headers)
    return DeadLetter(
        partition=message.partition,
        offset=message.offset,
        payload=message.payload,
        key=message.key,
        headers=_own_headers(message.headers, headers),
        priority=message.priority,
        content_type=message.content_type,
        topic=_text(headers, HEADER_PREFIX + "topic"),
        origin_partition=_number(headers, HEADER_PREFIX + "partition"),
        origin_offset=_number(headers, HEADER_PREFIX + "offset"),
        reason=_text(headers, HEADER_PREFIX + "reason"),
        attempts=_number(headers, HEADER_PREFIX + "attempts"),
        died_ms=_number(headers, HEADER_PREFIX + "died-time") or message.timestamp_ms,
        redriven=_number(headers, REDRIVEN_HEADER),
        max_deliveries=_number_up_to(DELIVERY_COUNT_MAX, headers, MAX_DELIVERIES_HEADER),
        ttl_ms=_number_up_to(TIME_MS_MAX, headers, TTL_HEADER),
        group=_text(headers, HEADER_PREFIX + "group"),
    )


def is_meant(letter: DeadLetter, wanted: DeadLetterFilter) -> bool:
    reason, given = wanted.get("reason", ""), summary(letter.reason)
    has_reason = reason in given if isinstance(reason, str) else reason.search(given) is not None
    return (
        has_reason
        and ("fingerprint" not in wanted or wanted["fingerprint"] == fingerprint_of(letter.reason))
        and wanted.get("key", letter.key) == letter.key
        and wanted.get("since_ms", 0) <= letter.died_ms < wanted.get("until_ms", letter.died_ms + 1)
        and wanted.get("partition", letter.partition) == letter.partition
        and wanted.get("offset", letter.offset) == letter.offset
    )


def _own_headers(headers: Headers, by_name: dict[str, bytes]) -> Headers:
    """They come first, and the letter says how many there are."""
    if OWN_HEADERS_HEADER in by_name:
        return headers[: _number(by_name, OWN_HEADERS_HEADER)]
    return tuple(pair for pair in headers if not _is_ours(pair[0]))


def _is_ours(name: str) -> bool:
    return name == REDRIVEN_HEADER or name.startswith(HEADER_PREFIX)


def _text(headers: dict[str, bytes], name: str) -> str:
    return headers.get(name, b"").decode(errors="replace")


def _number(headers: dict[str, bytes], name: str) -> int:
    text = headers.get(name, b"0")
    return int(text) if text.isdigit() and len(text) <= _DIGITS_MAX else 0


def _number_up_to(most: int, headers: dict[str, bytes], name: str) -> int:
    """0 for a value that brokers refuse: a letter that cannot be redriven would block all others."""
    found = _number(headers, name)
    return found if found <= most else 0
