"""Dead letters: names of topics, headers and groups, limits, and reasons. Brokers write them, clients read them.

A reason is for people: what a consumer says of a failure. For an exception that is its name and text, followed by the
last lines of its traceback, innermost last. Its summary is what stands before them: lists show it, and comparisons and
selections go by it.
"""

from hashlib import blake2b
from typing import Final

from flotilla.types.limits import (
    KIB,
    PAYLOAD_BYTES_MAX,
    REASON_BYTES_MAX,
    RECORD_HEADER_BYTES_MAX,
    RECORD_HEADER_COUNT_MAX,
)
from flotilla.types.records import RecordLimits
from flotilla.types.topics import NAME_LENGTH_MAX

PREFIX: Final = "dlq."
#: Producers of dead letters have it in their id; ids that clients draw do not.
LETTER_PRODUCER_BIT: Final = 1 << 63
#: Of the headers that a dead letter gets on top of its own.
HEADER_PREFIX: Final = "flotilla-dead-"
#: Kept as headers, because as settings they would make the dead letter expire or die again.
MAX_DELIVERIES_HEADER: Final = HEADER_PREFIX + "max-deliveries"
TTL_HEADER: Final = HEADER_PREFIX + "ttl-ms"
#: How many headers of a dead letter are its own; they come first. A message may have headers that begin like ours.
OWN_HEADERS_HEADER: Final = HEADER_PREFIX + "own-headers"
#: How often the message was redriven before it died.
REDRIVEN_HEADER: Final = "flotilla-redriven"
#: A dead letter that is redriven has this before its idempotency key, with the count: it gets no header for that.
_REDRIVE_KEY: Final = b"flotilla-redrive/"
_COUNT_DIGITS_MAX: Final = 9
#: The group that redrives a dead-letter topic.
REDRIVE_GROUP: Final = "flotilla.redrive"
_DIGEST_LENGTH: Final = 16
#: Begins each line of a traceback in a reason.
TRACED: Final = '\n  File "'
#: A dead letter has the headers of its message and those that the broker adds, which name it and its reason.
LETTER_LIMITS: Final = RecordLimits(
    payload_bytes_max=PAYLOAD_BYTES_MAX,
    header_count_max=RECORD_HEADER_COUNT_MAX + 16,
    header_bytes_max=RECORD_HEADER_BYTES_MAX + REASON_BYTES_MAX + 4 * KIB,
)


def dead_letter_topic(group: str, topic: str) -> str:
    """`dlq.<group>.<topic>`, unless the group's setting names another: no two groups have the same.

    Dots of the group are doubled, so the first single dot ends it. Where that does not tell group from topic, or gets
    too long, the name ends with a digest of both.
    """
    return _join(PREFIX, group, topic)


def redrive_group(name: str, group: str, topic: str) -> str:
    """The group that works off the dead letters of a group in the dead-letter topic `name`.

    Several groups may share a dead-letter topic: each has its own, and none touches the letters of another.
    """
    return REDRIVE_GROUP if name == dead_letter_topic(group, topic) else _join(REDRIVE_GROUP + ".", group, topic)


def is_redrive_group(group: str) -> bool:
    return group == REDRIVE_GROUP or group.startswith(REDRIVE_GROUP + ".")


def redrive_key(count: int, place: str) -> bytes:
    """The idempotency key of a message that is redriven for the count-th time, from that place."""
    return _REDRIVE_KEY + f"{count}/{place}".encode()


def redriven_count(idempotency_key: bytes) -> int:
    """How often a message with this key was redriven."""
    if not idempotency_key.startswith(_REDRIVE_KEY):
        return 0
    count = idempotency_key[len(_REDRIVE_KEY) :].partition(b"/")[0]
    return int(count) if count.isdigit() and len(count) <= _COUNT_DIGITS_MAX else 0


def _join(prefix: str, group: str, topic: str) -> str:
    name = f"{prefix}{group.replace('.', '..')}.{topic}"
    if len(name) <= NAME_LENGTH_MAX and not group.endswith(".") and not topic.startswith("."):
        return name
    digest = blake2b(f"{group}/{topic}".encode(), digest_size=_DIGEST_LENGTH // 2).hexdigest()
    return f"{name[: NAME_LENGTH_MAX - _DIGEST_LENGTH - 1]}-{digest}"


def summary(reason: str) -> str:
    """The reason without a traceback."""
    return reason.partition(TRACED)[0]


def cut_reason(reason: str) -> str:
    """The reason, cut to the length that a broker keeps."""
    encoded = reason.encode("utf-8", "backslashreplace")
    if len(encoded) <= REASON_BYTES_MAX:
        return encoded.decode("utf-8")
    return encoded[: REASON_BYTES_MAX - 3].decode("utf-8", "ignore") + "…"


def with_traceback(text: str, places: list[str]) -> str:
    """The reason of an exception; `places` are lines of its traceback, the innermost last.

    Those that find no room are left out, the outermost first.
    """
    reason, room = cut_reason(text), REASON_BYTES_MAX
    room -= len(reason.encode("utf-8"))
    kept: list[str] = []
    for place in reversed(places):
        room -= len(place.encode("utf-8", "backslashreplace"))
        if room < 0:
            break
        kept.append(place)
    return cut_reason(reason + "".join(reversed(kept)))
