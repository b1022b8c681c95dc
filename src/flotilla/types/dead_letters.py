"""Names of dead-letter topics and of the headers of dead letters. Brokers write them, clients read them."""

from hashlib import blake2b
from typing import Final

from flotilla.types.topics import NAME_LENGTH_MAX

PREFIX: Final = "dlq."
#: Of the headers that a dead letter gets on top of its own.
HEADER_PREFIX: Final = "flotilla-dead-"
#: Kept as headers, because as settings they would make the dead letter expire or die again.
MAX_DELIVERIES_HEADER: Final = HEADER_PREFIX + "max-deliveries"
TTL_HEADER: Final = HEADER_PREFIX + "ttl-ms"
#: The group that redrives a dead-letter topic.
REDRIVE_GROUP: Final = "flotilla.redrive"
_DIGEST_LENGTH: Final = 16


def is_dead_letter_topic(topic: str) -> bool:
    return topic.startswith(PREFIX)


def dead_letter_topic(group: str, topic: str) -> str:
    """`dlq.<group>.<topic>`; a name that gets too long ends with a digest of all of it instead."""
    name = f"{PREFIX}{group}.{topic}"
    if len(name) <= NAME_LENGTH_MAX:
        return name
    digest = blake2b(name.encode(), digest_size=_DIGEST_LENGTH // 2).hexdigest()
    return f"{name[: NAME_LENGTH_MAX - _DIGEST_LENGTH - 1]}-{digest}"
