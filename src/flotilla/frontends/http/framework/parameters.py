"""What stands in paths, and what many operations have in common: names, numbers, places to start at."""

from typing import Any, Final

from flotilla.frontends.http.framework.operation import integer, obj, text
from flotilla.frontends.http.framework.schema import Schema
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.limits import TIME_MS_MAX
from flotilla.types.operations import EARLIEST, LATEST
from flotilla.types.operations.queue import FROM_OFFSET, FROM_TIME, Start

#: Wider than any name: whether it is one, and whether it is there, the cluster says, at every door in the same way.
_NAME_CHARS_MAX: Final = 1_000
OFFSET_MAX: Final = 2**64 - 1
_PARTITION_MAX: Final = 2**32 - 1

TOPIC: Final[Schema] = text(1, _NAME_CHARS_MAX, "Name of the topic: letters, digits, dots, _ and -.")
GROUP: Final[Schema] = text(1, _NAME_CHARS_MAX, "Name of the group: letters, digits, dots, _ and -.")
PARTITION: Final[Schema] = integer(0, _PARTITION_MAX, "Number of the partition.")
OFFSET: Final[Schema] = integer(0, OFFSET_MAX, "Position in the partition.")
MEMBER: Final[Schema] = text(1, 256, "A name of the consumer's own, which stays the same while it holds messages.")
VISIBILITY: Final[Schema] = integer(100, 12 * 3_600_000, "How long leases last; by default as the group says.")
WAIT: Final[Schema] = integer(0, 300_000, "How long to wait for the first one.", default=0)
SETTINGS: Final[Schema] = {
    "type": "object",
    "additionalProperties": text(0, 100),
    "maxProperties": 100,
    "description": "As people write them: `30s`, `1MiB`, `5`.",
}
START: Final[Schema] = obj(
    at={"type": "string", "enum": ["earliest", "latest"], "description": "Or one of the others."},
    offset=integer(0, 2**63 - 1),
    timestamp_ms=integer(0, TIME_MS_MAX, "The first message at or after this time."),
)

OF_TOPIC: Final = {"topic": TOPIC}
OF_PARTITION: Final = {"topic": TOPIC, "partition": PARTITION}
OF_GROUP: Final = {"topic": TOPIC, "group": GROUP}


def read_start(given: dict[str, Any]) -> Start:
    """Where a group begins. Raises InvalidArgumentError."""
    if len(given) > 1:
        raise InvalidArgumentError("a start is one of at, offset and timestamp_ms")
    if "offset" in given:
        return Start(FROM_OFFSET, given["offset"])
    if "timestamp_ms" in given:
        return Start(FROM_TIME, given["timestamp_ms"])
    return Start(LATEST if given.get("at") == "latest" else EARLIEST)
