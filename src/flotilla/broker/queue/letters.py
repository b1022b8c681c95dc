"""One dead letter: a dead message as a record for its dead-letter topic, and the batch that holds it.

Nothing of the message is lost: payload, key and all headers are kept, and what the broker adds comes after them. So a
letter may exceed the limits of its topic, which do not apply to it (`types/dead_letters`).
"""

from hashlib import blake2b

from flotilla.metadata.values import Topic
from flotilla.partition.state.group import Death
from flotilla.types.dead_letters import (
    HEADER_PREFIX,
    LETTER_PRODUCER_BIT,
    MAX_DELIVERIES_HEADER,
    OWN_HEADERS_HEADER,
    REDRIVEN_HEADER,
    TTL_HEADER,
    redriven_count,
)
from flotilla.types.records import Headers, Record


def letter_of(record: Record, topic: Topic, partition: int, group: str, death: Death) -> Record:
    """The message with its details in headers. Its time is that of its death, so retention counts from then."""
    own = tuple([header for header in record.headers if header[0] != REDRIVEN_HEADER])
    details = {
        HEADER_PREFIX + "reason": death.reason,
        HEADER_PREFIX + "attempts": str(death.attempts),
        HEADER_PREFIX + "topic": topic.name,
        HEADER_PREFIX + "partition": str(partition),
        HEADER_PREFIX + "offset": str(death.offset),
        HEADER_PREFIX + "group": group,
        HEADER_PREFIX + "first-time": str(record.timestamp_ms),
        HEADER_PREFIX + "died-time": str(death.died_ms),
        OWN_HEADERS_HEADER: str(len(own)),
    }
    if record.max_deliveries:
        details[MAX_DELIVERIES_HEADER] = str(record.max_deliveries)
    if record.ttl_ms:
        details[TTL_HEADER] = str(record.ttl_ms)
    redriven = redriven_count(record.idempotency_key) or _counted(record.headers)
    if redriven:
        details[REDRIVEN_HEADER] = str(redriven)
    return Record(
        payload=record.payload,
        key=record.key,
        headers=(*own, *[(name, text.encode()) for name, text in details.items()]),
        timestamp_ms=death.died_ms,
        priority=record.priority,
        content_type=record.content_type,
    )


def producer_of(topic: Topic, partition: int, group: str, born: int, number: int) -> int:
    """The same for the same death, at every leader; another one for every other death."""
    name = f"{topic.topic_id}/{partition}/{group}/{born}/{number}"
    return LETTER_PRODUCER_BIT | int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little") >> 1


def _counted(headers: Headers) -> int:
    """Redrives as the pipelines count them, in a header."""
    text = next((value for name, value in reversed(headers) if name == REDRIVEN_HEADER), b"")
    return int(text) if text.isdigit() and len(text) <= 9 else 0
