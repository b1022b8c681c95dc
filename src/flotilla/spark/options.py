"""What `option(...)` takes, in one table: how each option is read, where it belongs, and what it is when not given.

Everything is checked here and only here, when Spark makes the source and so before any job: an option that nobody
knows, one that means nothing where it is given, and a value that cannot be. Spark hands names over in lower case, so
they are compared that way, and told back the way this page spells them.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Any, Final, NamedTuple, TypeAlias

from flotilla.types.address import parse_address
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.limits import KIB, MIB, TIME_MS_MAX
from flotilla.types.notation import parse_size

#: Where an option means something.
READ: Final = "read"
READ_STREAM: Final = "readStream"
WRITE: Final = "write"
WRITE_STREAM: Final = "writeStream"
EVERYWHERE: Final = (READ, READ_STREAM, WRITE, WRITE_STREAM)
READING: Final = (READ, READ_STREAM)
WRITING: Final = (WRITE, WRITE_STREAM)

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
#: As Spark's Kafka source writes them inside of JSON.
_EARLIEST_NUMBER: Final = -2
_LATEST_NUMBER: Final = -1

TRANSACTIONAL: Final = "transactional"
IDEMPOTENT: Final = "idempotent"
AT_LEAST_ONCE: Final = "atLeastOnce"

#: Offsets by topic and partition.
OffsetTable: TypeAlias = dict[str, dict[int, int]]
#: `earliest`, `latest`, or an offset for each partition, in which -2 and -1 mean the same two.
OffsetWish: TypeAlias = str | OffsetTable

_OFFSET_MAX: Final = 2**63 - 1
_ROW_COUNT_MAX: Final = 2**53 - 1


class Option(NamedTuple):
    """One row of the table."""

    name: str
    #: The field that holds its value.
    field: str
    read: Callable[[str], Any]
    allowed: str
    places: tuple[str, ...]
    help: str


@dataclass(frozen=True, slots=True)
class Options:
    """Everything that was said, and the default where nothing was."""

    servers: tuple[str, ...] = ("localhost:7600",)
    timeout_ms: int = 60_000
    subscribe: tuple[str, ...] = ()
    subscribe_pattern: str = ""
    #: Topics and numbers.
    assign: tuple[tuple[str, int], ...] = ()
    #: None: the beginning for a batch, the end for a stream.
    starting_offsets: OffsetWish | None = None
    ending_offsets: OffsetWish | None = None
    starting_timestamp_ms: int | None = None
    ending_timestamp_ms: int | None = None
    max_offsets_per_trigger: int | None = None
    max_bytes_per_trigger: int | None = None
    min_partitions: int | None = None
    max_records_per_partition: int = 1_000_000
    fail_on_data_loss: bool = True
    include_headers: bool = False
    columns: tuple[str, ...] = ()
    push_filters: bool = False
    fetch_bytes: int = 4 * MIB
    group: str = ""
    topic: str = ""
    delivery_guarantee: str = TRANSACTIONAL
    application_id: str = ""
    version: int | None = None
    compression: str = "none"
    batch_bytes: int = 512 * KIB
    #: Spark's own, which comes along with those of a streaming write.
    checkpoint_location: str = ""

    @property
    def topics(self) -> tuple[str, ...]:
        """Those that are named, whole or by some of their partitions."""
        return self.subscribe or tuple(dict.fromkeys(topic for topic, _ in self.assign))


def _texts(text: str) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    if not all(found):
        raise ValueError
    return found


def _servers(text: str) -> tuple[str, ...]:
    found = _texts(text)
    for server in found:
        parse_address(server)
    return found


def _text(text: str) -> str:
    if not text.strip():
        raise ValueError
    return text.strip()


def _pattern(text: str) -> str:
    re.compile(_text(text))
    return text


def _flag(text: str) -> bool:
    return {"true": True, "false": False}[text.strip().lower()]


def _integer(minimum: int, maximum: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        number = int(text)
        if not minimum <= number <= maximum:
            raise ValueError
        return number

    return read


def _size(minimum: int, maximum: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        number = int(text) if text.strip().isdecimal() else parse_size(text)
        if not minimum <= number <= maximum:
            raise ValueError
        return number

    return read


def _one_of(*names: str) -> Callable[[str], str]:
    spelled = {name.lower(): name for name in names}
    return lambda text: spelled[text.strip().lower()]


def _time(text: str) -> int:
    """Milliseconds since 1970, or a date and time as ISO 8601 has it; without a zone it is UTC."""
    if text.strip().isdecimal():
        time_ms = int(text)
    else:
        moment = datetime.fromisoformat(text.strip())
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        time_ms = round(moment.timestamp() * 1000)
    if not 0 <= time_ms <= TIME_MS_MAX:
        raise ValueError
    return time_ms


def _offsets(text: str) -> OffsetWish:
    if text.strip().lower() in (EARLIEST, LATEST):
        return text.strip().lower()
    table = json.loads(text)
    found: OffsetTable = {}
    for topic, partitions in table.items():
        found[topic] = {}
        for number, offset in partitions.items():
            if type(offset) is not int or not _EARLIEST_NUMBER <= offset <= _OFFSET_MAX or int(number) < 0:
                raise ValueError
            found[topic][int(number)] = offset
    return found


def _assigned(text: str) -> tuple[tuple[str, int], ...]:
    found = {(topic, number): None for topic, numbers in json.loads(text).items() for number in numbers}
    if not found or not all(type(number) is int and number >= 0 for _, number in found):
        raise ValueError
    return tuple(found)


_OFFSETS_ALLOWED: Final = 'earliest, latest, or JSON such as {"orders": {"0": 23, "1": -2}} (-2: earliest, -1: latest)'
_TIME_ALLOWED: Final = "milliseconds since 1970, or a time such as 2026-05-04T12:00:00Z"
_ROWS = _integer(1, _ROW_COUNT_MAX)

TABLE: Final[tuple[Option, ...]] = (
    Option(
        "servers", "servers", _servers, "host:port, several by commas", EVERYWHERE, "Brokers to begin with."
    ),
    Option(
        "timeoutMs", "timeout_ms", _integer(100, 86_400_000), "100 to 86400000", EVERYWHERE,
        "How long one request may take, failovers included, before the task fails.",
    ),
    Option("subscribe", "subscribe", _texts, "names of topics, by commas", READING, "Topics to read."),
    Option(
        "subscribePattern", "subscribe_pattern", _pattern, "a regular expression", READING,
        "Topics to read: all whose whole name matches, also those that come to be later.",
    ),
    Option(
        "assign", "assign", _assigned, 'JSON such as {"orders": [0, 2]}', READING,
        "Partitions to read, and no others, also not those that come to be later.",
    ),
    Option(
        "startingOffsets", "starting_offsets", _offsets, _OFFSETS_ALLOWED, READING,
        "Where to begin: a batch at earliest, a stream at latest unless this says otherwise. A stream that has a "
        "checkpoint goes on from there.",
    ),
    Option(
        "endingOffsets", "ending_offsets", _offsets, _OFFSETS_ALLOWED, (READ,),
        "Where a batch ends; what stands at the offset itself is not read.",
    ),
    Option(
        "startingTimestamp", "starting_timestamp_ms", _time, _TIME_ALLOWED, READING,
        "Begin at the first record of this time or later, in place of startingOffsets.",
    ),
    Option(
        "endingTimestamp", "ending_timestamp_ms", _time, _TIME_ALLOWED, (READ,),
        "End before the first record of this time or later, in place of endingOffsets.",
    ),
    Option(
        "maxOffsetsPerTrigger", "max_offsets_per_trigger", _ROWS, "a number from 1 on", (READ_STREAM,),
        "Records of one micro-batch, shared out among the partitions by how much each has.",
    ),
    Option(
        "maxBytesPerTrigger", "max_bytes_per_trigger", _size(1, _ROW_COUNT_MAX), "a size such as 64MiB", (READ_STREAM,),
        "About so many bytes for one micro-batch, judged by the size of the next records of each partition.",
    ),
    Option(
        "minPartitions", "min_partitions", _integer(1, 1_000_000), "1 to 1000000", READING,
        "At least so many tasks: partitions are split by offsets, the longest first.",
    ),
    Option(
        "maxRecordsPerPartition", "max_records_per_partition", _ROWS, "a number from 1 on", READING,
        "Records of one task; a partition that has more is split.",
    ),
    Option(
        "failOnDataLoss", "fail_on_data_loss", _flag, "true or false", READING,
        "Fail when something that should be read is gone, and name it; false: warn, and go on with what is left.",
    ),
    Option("includeHeaders", "include_headers", _flag, "true or false", READING, "Adds the column headers."),
    Option(
        "columns", "columns", _texts, "names of columns, by commas", READING,
        "Only these columns. Spark does not tell a source which ones a query needs, so saying it saves work.",
    ),
    Option(
        "pushFilters", "push_filters", _flag, "true or false", (READ,),
        "Filters on partition, offset and timestamp decide what is fetched. Takes the session's setting "
        "spark.sql.python.filterPushdown.enabled=true.",
    ),
    Option(
        "fetchBytes", "fetch_bytes", _size(1, 8 * MIB), "1 to 8MiB", READING, "What one request brings."
    ),
    Option(
        "group", "group", _text, "the name of a group", (READ_STREAM,),
        "Progress of the query is committed as that of this group, so that its lag is seen like any other's.",
    ),
    Option("topic", "topic", _text, "the name of a topic", WRITING, "Where rows go that have no column topic."),
    Option(
        "deliveryGuarantee", "delivery_guarantee", _one_of(TRANSACTIONAL, IDEMPOTENT, AT_LEAST_ONCE),
        f"{TRANSACTIONAL}, {IDEMPOTENT} or {AT_LEAST_ONCE}", WRITING,
        "How often a row may be there when tasks or the driver fail.",
    ),
    Option(
        "applicationId", "application_id", _text, "a name of up to 200 characters", (WRITE,),
        "With version: a batch write that is repeated under both is done once, as in foreachBatch.",
    ),
    Option("version", "version", _integer(0, 2**62), "a number from 0 on", (WRITE,), "See applicationId."),
    Option(
        "compression", "compression", _one_of("none", "lz4", "zstd"), "none, lz4 or zstd", WRITING,
        "Of the batches that are written.",
    ),
    Option(
        "batchBytes", "batch_bytes", _size(1 * KIB, 8 * MIB), "1KiB to 8MiB", WRITING,
        "A batch that has so much leaves. A record that is larger leaves alone.",
    ),
    Option("checkpointLocation", "checkpoint_location", _text, "a path", (WRITE_STREAM,), "Spark's own."),
)  # fmt: skip
assert [row.field for row in TABLE] == [field.name for field in fields(Options)]

_BY_NAME: Final = {row.name.lower(): row for row in TABLE}


class OptionError(ValueError):
    """An option that cannot be, by name, and what could."""


def read_options(given: Mapping[str, str]) -> Options:
    """All options, wherever they belong. Raises OptionError."""
    values: dict[str, Any] = {}
    for name, text in given.items():
        row = _BY_NAME.get(name.lower())
        if row is None:
            near = get_close_matches(name.lower(), _BY_NAME, 1)
            hint = f"; did you mean {_BY_NAME[near[0]].name}?" if near else ""
            raise OptionError(f"there is no option {name!r}{hint}; there are {', '.join(row.name for row in TABLE)}")
        try:
            values[row.field] = row.read(text)
        except (ValueError, KeyError, TypeError, AttributeError, re.error, InvalidArgumentError):
            raise OptionError(f"option {row.name} takes {row.allowed}, not {text!r}") from None
    return Options(**values)


def check_place(given: Mapping[str, str], options: Options, place: str) -> None:
    """Whether all that was given means something for a read or a write. Raises OptionError."""
    for name in given:
        row = _BY_NAME[name.lower()]
        if place not in row.places:
            raise OptionError(f"option {row.name} is not for {place}, only for {', '.join(row.places)}")
    if place in READING:
        _check_reading(options)
    elif (options.version is None) != (not options.application_id):
        raise OptionError("options applicationId and version are given together or not at all")


def _check_reading(options: Options) -> None:
    if sum(map(bool, (options.subscribe, options.subscribe_pattern, options.assign))) != 1:
        raise OptionError("what to read is said by one of the options subscribe, subscribePattern and assign")
    for side in ("starting", "ending"):
        if getattr(options, f"{side}_offsets") is not None and getattr(options, f"{side}_timestamp_ms") is not None:
            raise OptionError(f"give one of the options {side}Offsets and {side}Timestamp, not both")
    if options.ending_offsets == EARLIEST:
        raise OptionError("option endingOffsets cannot be earliest: nothing would be read")
    for side in ("starting", "ending"):
        wish = getattr(options, f"{side}_offsets")
        if isinstance(wish, dict) and not options.subscribe_pattern:
            for topic in wish:
                if topic not in options.topics:
                    option = "subscribe" if options.subscribe else "assign"
                    raise OptionError(f"option {side}Offsets names topic {topic!r}, which {option} does not")
