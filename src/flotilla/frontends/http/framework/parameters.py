"""Schemas that many operations share: names, numbers, and where a group starts."""

from typing import Any, Final

from flotilla.frontends.http.framework.operation import Parameter, integer, obj, text
from flotilla.frontends.http.framework.schema import Schema
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.limits import TIME_MS_MAX
from flotilla.types.operations import EARLIEST, LATEST
from flotilla.types.operations.queue import FROM_OFFSET, FROM_TIME, Start

#: Wider than any name: the cluster checks names, with the same errors at every endpoint.
_NAME_CHARS_MAX: Final = 1_000
OFFSET_MAX: Final = 2**64 - 1
_PARTITION_MAX: Final = 2**32 - 1

#: Of answers that describe topics or nodes.
IS_STALE: Final[Schema] = {
    "type": "boolean",
    "description": "No quorum of the metadata confirmed the answer in time: recent changes may be missing.",
}
TOPIC: Final[Schema] = text(1, _NAME_CHARS_MAX, "Name of the topic: letters, digits, dots, _ and -.")
GROUP: Final[Schema] = text(1, _NAME_CHARS_MAX, "Name of the group: letters, digits, dots, _ and -.")
PARTITION: Final[Schema] = integer(0, _PARTITION_MAX, "Number of the partition.")
OFFSET: Final[Schema] = integer(0, OFFSET_MAX, "Position in the partition.")
TOPIC_ID: Final = Parameter(
    "topic_id",
    integer(0, 2**53 - 1, "Id of the topic that is meant: a later one of its name is refused. 0: any.", default=0),
)
MEMBER: Final[Schema] = text(1, 256, "The consumer's name: unique, and unchanged while it holds leases.")
VISIBILITY: Final[Schema] = integer(100, 12 * 3_600_000, "How long leases last; by default the group's setting.")
WAIT: Final[Schema] = integer(0, 300_000, "How long to wait for the first message.", default=0)
SETTINGS: Final[Schema] = {
    "type": "object",
    "additionalProperties": text(0, 100),
    "maxProperties": 100,
    "description": "Values as text: `30s`, `1MiB`, `5`.",
}
START: Final[Schema] = obj(
    at={"type": "string", "enum": ["earliest", "latest"], "description": "Instead of `offset` or `timestamp_ms`."},
    offset=integer(0, 2**63 - 1),
    timestamp_ms=integer(0, TIME_MS_MAX, "The first message at or after this time."),
)

OF_TOPIC: Final = {"topic": TOPIC}
OF_PARTITION: Final = {"topic": TOPIC, "partition": PARTITION}
OF_GROUP: Final = {"topic": TOPIC, "group": GROUP}


def read_start(given: dict[str, Any]) -> Start:
    """Where a group starts. Raises InvalidArgumentError."""
    if len(given) > 1:
        raise InvalidArgumentError("a start is one of at, offset and timestamp_ms")
    if "offset" in given:
        return Start(FROM_OFFSET, given["offset"])
    if "timestamp_ms" in given:
        return Start(FROM_TIME, given["timestamp_ms"])
    return Start(LATEST if given.get("at") == "latest" else EARLIEST)
