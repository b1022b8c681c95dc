"""What a dead letter says of itself, in the headers that the broker gave it, and which ones are meant."""

import re
from dataclasses import dataclass
from typing import Any, TypedDict

from flotilla.client.queue.message import Leased
from flotilla.client.reader.message import Message
from flotilla.types.dead_letters import HEADER_PREFIX, MAX_DELIVERIES_HEADER, TTL_HEADER
from flotilla.types.ids import Offset
from flotilla.types.limits import DELIVERY_COUNT_MAX, TIME_MS_MAX
from flotilla.types.records import Headers

#: How often a message was sent again from the dead letters, counted by the client that does it.
REDRIVEN_HEADER = "flotilla-redriven"
#: Of a number in a header; any that a broker writes is shorter.
_DIGITS_MAX = 20


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message that a group gave up."""

    #: In the dead-letter topic, where it is offset `offset` of `partition`.
    partition: int
    offset: Offset
    payload: bytes
    key: bytes | None
    #: As the message had them at first.
    headers: Headers
    priority: int
    content_type: int
    #: Where it came from.
    topic: str
    origin_partition: int
    origin_offset: Offset
    #: Of the last attempt, and how many there were.
    reason: str
    attempts: int
    died_ms: int
    #: How often it was sent again from here before.
    redriven: int
    #: As the message had them at first; 0: none of its own. Here it neither expires nor fails for the last time.
    max_deliveries: int = 0
    ttl_ms: int = 0


class DeadLetterFilter(TypedDict, total=False):
    """Which dead letters are meant; everything that is said must hold."""

    #: A piece of the reason, or a pattern that is searched in it.
    reason: str | re.Pattern[str]
    key: bytes
    #: When they died: from this time on, and before that time, in milliseconds since 1970.
    since_ms: int
    until_ms: int
    #: In the dead-letter topic.
    partition: int
    offset: Offset


def read_letter(message: Message | Leased[Any]) -> DeadLetter:
    """Tolerates headers that are missing or strange: what people put into the topic by hand must be readable, too."""
    told = dict(message.headers)
    return DeadLetter(
        partition=message.partition,
        offset=message.offset,
        payload=message.payload,
        key=message.key,
        headers=tuple(pair for pair in message.headers if not _is_ours(pair[0])),
        priority=message.priority,
        content_type=message.content_type,
        topic=_text(told, HEADER_PREFIX + "topic"),
        origin_partition=_number(told, HEADER_PREFIX + "partition"),
        origin_offset=_number(told, HEADER_PREFIX + "offset"),
        reason=_text(told, HEADER_PREFIX + "reason"),
        attempts=_number(told, HEADER_PREFIX + "attempts"),
        died_ms=_number(told, HEADER_PREFIX + "died-time") or message.timestamp_ms,
        redriven=_number(told, REDRIVEN_HEADER),
        max_deliveries=_number_up_to(DELIVERY_COUNT_MAX, told, MAX_DELIVERIES_HEADER),
        ttl_ms=_number_up_to(TIME_MS_MAX, told, TTL_HEADER),
    )


def is_meant(letter: DeadLetter, wanted: DeadLetterFilter) -> bool:
    reason = wanted.get("reason", "")
    if isinstance(reason, str):
        has_reason = reason in letter.reason
    else:
        has_reason = reason.search(letter.reason) is not None
    return (
        has_reason
        and wanted.get("key", letter.key) == letter.key
        and wanted.get("since_ms", 0) <= letter.died_ms < wanted.get("until_ms", letter.died_ms + 1)
        and wanted.get("partition", letter.partition) == letter.partition
        and wanted.get("offset", letter.offset) == letter.offset
    )


def _is_ours(name: str) -> bool:
    return name == REDRIVEN_HEADER or name.startswith(HEADER_PREFIX)


def _text(told: dict[str, bytes], name: str) -> str:
    return told.get(name, b"").decode(errors="replace")


def _number(told: dict[str, bytes], name: str) -> int:
    text = told.get(name, b"0")
    return int(text) if text.isdigit() and len(text) <= _DIGITS_MAX else 0


def _number_up_to(most: int, told: dict[str, bytes], name: str) -> int:
    """0 for one that no broker would take: a letter that cannot be sent again would keep all others from it, too."""
    found = _number(told, name)
    return found if found <= most else 0
