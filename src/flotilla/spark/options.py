"""The options of the source in one table: parser, places, default and meaning of each.

All checks are here and run when Spark creates the source, before any job: unknown options, options that do not apply,
and invalid values. Spark passes names in lower case; errors spell them as in the table.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from flotilla.client.app.environment import LogInFiles, environment_log_in
from flotilla.lake.values.value_schema import FORMATS, PROTOBUF
from flotilla.security.client_tls import Tls, read_tls, tls_of_environment
from flotilla.types.address import parse_address
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.limits import KIB, MIB, TIME_MS_MAX
from flotilla.types.notation import parse_size

#: The places of an option.
READ: Final = "read"
READ_STREAM: Final = "readStream"
WRITE: Final = "write"
WRITE_STREAM: Final = "writeStream"
EVERYWHERE: Final = (READ, READ_STREAM, WRITE, WRITE_STREAM)
READING: Final = (READ, READ_STREAM)
WRITING: Final = (WRITE, WRITE_STREAM)

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
#: As in JSON of Spark's Kafka source.
_EARLIEST_NUMBER: Final = -2
_LATEST_NUMBER: Final = -1

TRANSACTIONAL: Final = "transactional"
IDEMPOTENT: Final = "idempotent"
AT_LEAST_ONCE: Final = "atLeastOnce"

#: Before the name of a schema in the schema topic.
IN_TOPIC: Final = b"topic:"

#: Offsets by topic and partition.
OffsetTable: TypeAlias = dict[str, dict[int, int]]
#: `earliest`, `latest`, or an offset for each partition, where -2 is earliest and -1 latest.
OffsetChoice: TypeAlias = str | OffsetTable

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
    """The values of all options, with defaults."""

    servers: tuple[str, ...] = ("localhost:7600",)
    timeout_ms: int = 60_000
    #: Files, on the driver and on every executor. Without any of them the variables for clients count.
    tls_ca: str = ""
    tls_certificate: str = ""
    tls_key: str = ""
    #: The same, for brokers that ask who their clients are.
    user: str = ""
    password_file: str = ""
    token_file: str = ""
    subscribe: tuple[str, ...] = ()
    subscribe_pattern: str = ""
    #: Topics and partition numbers.
    assign: tuple[tuple[str, int], ...] = ()
    #: None: earliest for a batch, latest for a stream.
    starting_offsets: OffsetChoice | None = None
    ending_offsets: OffsetChoice | None = None
    starting_timestamp_ms: int | None = None
    ending_timestamp_ms: int | None = None
    max_offsets_per_trigger: int | None = None
    max_bytes_per_trigger: int | None = None
    min_partitions: int | None = None
    max_records_per_partition: int = 1_000_000
    fail_on_data_loss: bool = True
    include_headers: bool = False
    columns: tuple[str, ...] = ()
    value_format: str = ""
    #: The content, where the option names a file.
    value_schema: bytes = b""
    value_message: str = ""
    bad_value_topic: str = ""
    push_filters: bool = False
    fetch_bytes: int = 4 * MIB
    lake: str = ""
    include_decoded: bool = False
    group: str = ""
    topic: str = ""
    delivery_guarantee: str = TRANSACTIONAL
    application_id: str = ""
    version: int | None = None
    compression: str = "none"
    batch_bytes: int = 512 * KIB

    @property
    def tls(self) -> Tls | None:
        """As of a client. Raises InvalidArgumentError."""
        return read_tls(self.tls_ca, self.tls_certificate, self.tls_key) or tls_of_environment()

    @property
    def log_in(self) -> LogInFiles:
        """Who the job is."""
        chosen = LogInFiles(self.user, self.password_file, self.token_file)
        return chosen if any(chosen) else environment_log_in()

    @property
    def has_decoded_values(self) -> bool:
        """The column `value` is a struct."""
        return not self.include_decoded and (bool(self.value_format) or self.is_schema_in_topic)

    @property
    def is_schema_in_topic(self) -> bool:
        return self.value_schema.startswith(IN_TOPIC)

    @property
    def target(self) -> str:
        """The topic of rows that name none: `topic`, or the one topic of a view that rows are inserted into."""
        return self.topic or (self.subscribe[0] if len(self.subscribe) == 1 else "")

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics of `subscribe` or `assign`."""
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


def _content(text: str) -> bytes:
    """Of the file, if it is one."""
    path = Path(_text(text))
    try:
        return path.read_bytes() if path.is_file() else text.encode()
    except OSError:
        # Too long for a name, for example.
        return text.encode()


def _lake(text: str) -> str:
    """Absolute, because workers may have another working directory."""
    return _text(text) if "://" in text else str(Path(_text(text)).expanduser().resolve())


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
    """Milliseconds since 1970, or a time in ISO 8601; without a zone it is UTC."""
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


def _offsets(text: str) -> OffsetChoice:
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
        "servers", "servers", _servers, "host:port, separated by commas", EVERYWHERE, "Brokers to ask first."
    ),
    Option(
        "timeoutMs", "timeout_ms", _integer(100, 86_400_000), "100 to 86400000", EVERYWHERE,
        "Time limit of one request, failovers included; then the task fails.",
    ),
    Option(
        "tlsCa", "tls_ca", _text, "a path", EVERYWHERE,
        "Speak TLS with brokers whose certificates are of the authorities in this file, on every executor, too.",
    ),
    Option(
        "tlsCertificate", "tls_certificate", _text, "a path", EVERYWHERE,
        "The certificate that says who the job is, for brokers that ask for one.",
    ),
    Option("tlsKey", "tls_key", _text, "a path", EVERYWHERE, "The key of the certificate."),
    Option("user", "user", _text, "a name", EVERYWHERE, "The user who runs the job, for brokers that ask."),
    Option(
        "passwordFile", "password_file", _text, "a path", EVERYWHERE,
        "The file with the user's password in its first line, on every executor, too.",
    ),
    Option("tokenFile", "token_file", _text, "a path", EVERYWHERE, "The same with a token, in place of a user."),
    Option(
        "subscribe", "subscribe", _texts, "names of topics, separated by commas", (*READING, WRITE),
        "Topics to read. Rows that are inserted into a view of one topic are written to it.",
    ),
    Option(
        "subscribePattern", "subscribe_pattern", _pattern, "a regular expression", READING,
        "Topics to read: all whose whole name matches, also those that are created later.",
    ),
    Option(
        "assign", "assign", _assigned, 'JSON such as {"orders": [0, 2]}', READING,
        "Partitions to read, and no others.",
    ),
    Option(
        "startingOffsets", "starting_offsets", _offsets, _OFFSETS_ALLOWED, READING,
        "Where to begin; default: earliest for a batch, latest for a stream. A stream with a checkpoint continues from "
        "there.",
    ),
    Option(
        "endingOffsets", "ending_offsets", _offsets, _OFFSETS_ALLOWED, (READ,),
        "Where a batch ends; the record at the offset itself is not read.",
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
        "Records of one micro-batch, shared among the partitions in proportion to their backlog.",
    ),
    Option(
        "maxBytesPerTrigger", "max_bytes_per_trigger", _size(1, _ROW_COUNT_MAX), "a size such as 64MiB", (READ_STREAM,),
        "Approximate bytes of one micro-batch, estimated from the next records of each partition.",
    ),
    Option(
        "minPartitions", "min_partitions", _integer(1, 1_000_000), "1 to 1000000", READING,
        "Minimum number of tasks: partitions are split by offsets, the longest first.",
    ),
    Option(
        "maxRecordsPerPartition", "max_records_per_partition", _ROWS, "a number from 1 on", READING,
        "Records of one task; a larger partition is split.",
    ),
    Option(
        "failOnDataLoss", "fail_on_data_loss", _flag, "true or false", READING,
        "Fail when records to read are gone, and name them; false: warn, and continue with the rest.",
    ),
    Option("includeHeaders", "include_headers", _flag, "true or false", READING, "Adds the column headers."),
    Option(
        "columns", "columns", _texts, "names of columns, separated by commas", (*READING, WRITE),
        "Only these columns. Spark does not pass the columns of a query to the source, so this saves work.",
    ),
    Option(
        "valueFormat", "value_format", _one_of(*FORMATS), "json, avro or protobuf", READING,
        "Decode values: the column value is a struct, and bytes that do not fit stand in the column _corrupt_record.",
    ),
    Option(
        "valueSchema", "value_schema", _content, "text, a path, or topic:NAME[@VERSION]", READING,
        "The fields of values: columns as in SQL (json), a schema (avro), a file with a descriptor set (protobuf). A "
        "file is read on the driver. Of a schema in the schema topic, the newest version counts, or the named one.",
    ),
    Option(
        "valueMessage", "value_message", _text, "the full name of a message", READING,
        "The type of values in the descriptor set.",
    ),
    Option(
        "badValueTopic", "bad_value_topic", _text, "the name of a topic", READING,
        "Values that do not fit go to this topic, with their place and the reason in headers, and not into the table.",
    ),
    Option(
        "pushFilters", "push_filters", _flag, "true or false", (READ,),
        "Fetch only what filters on partition, offset and timestamp allow. Needs the session setting "
        "spark.sql.python.filterPushdown.enabled=true.",
    ),
    Option(
        "fetchBytes", "fetch_bytes", _size(1, 8 * MIB), "1 to 8MiB", READING, "Maximum size of one fetch."
    ),
    Option(
        "lake", "lake", _lake, "a path or a URI", READING,
        "The lake of an archive of the topics: offsets that are in its tables are read there, later ones in the log, "
        "each once. The earliest offset is then that of the lake.",
    ),
    Option(
        "includeDecoded", "include_decoded", _flag, "true or false", READING,
        "Adds the columns decoded and _corrupt_record of a topic that is archived with a schema: archived rows have "
        "what the lake stores, and later ones are decoded with the same schema. Needs lake.",
    ),
    Option(
        "group", "group", _text, "the name of a group", (READ_STREAM,),
        "Commit the progress of the query as offsets of this group, so that its lag is visible.",
    ),
    Option("topic", "topic", _text, "the name of a topic", WRITING, "The topic of rows without a column topic."),
    Option(
        "deliveryGuarantee", "delivery_guarantee", _one_of(TRANSACTIONAL, IDEMPOTENT, AT_LEAST_ONCE),
        f"{TRANSACTIONAL}, {IDEMPOTENT} or {AT_LEAST_ONCE}", WRITING,
        "How often a row may be stored when tasks or the driver fail.",
    ),
    Option(
        "applicationId", "application_id", _text, "a name of up to 200 characters", (WRITE,),
        "With version: a repeated batch write is done once, as in foreachBatch.",
    ),
    Option("version", "version", _integer(0, 2**62), "a number from 0 on", (WRITE,), "See applicationId."),
    Option(
        "compression", "compression", _one_of("none", "lz4", "zstd"), "none, lz4 or zstd", WRITING,
        "Compression of the written batches.",
    ),
    Option(
        "batchBytes", "batch_bytes", _size(1 * KIB, 8 * MIB), "1KiB to 8MiB", WRITING,
        "Size at which a batch is sent. A larger record is sent alone.",
    ),
)  # fmt: skip
assert [row.field for row in TABLE] == [field.name for field in fields(Options)]

_BY_NAME: Final = {row.name.lower(): row for row in TABLE}

#: Names that Spark itself passes to a source or sink, of queries and of tables in SQL.
_SPARKS_OWN: Final = (
    *("checkpointlocation", "queryname", "outputmode", "path"),
    *("provider", "owner", "comment", "collation", "location", "external", "is_managed_location", "table_type"),
)
#: With this prefix Spark repeats the options of CREATE TABLE.
_REPEATED: Final = "option."
#: What options of Spark's Kafka source are called here.
_KAFKAS: Final = {
    "kafka.bootstrap.servers": "servers",
    "kafka.group.id": "group",
    "groupidprefix": "group",
    "startingoffsetsbytimestamp": "startingTimestamp",
    "endingoffsetsbytimestamp": "endingTimestamp",
    "kafkaconsumer.polltimeoutms": "timeoutMs",
}


class OptionError(ValueError):
    """An invalid option, with what is allowed."""


def own_options(given: Mapping[str, str]) -> dict[str, str]:
    """The options without those that Spark itself passes."""
    return {
        name: text
        for name, text in given.items()
        if name.lower() not in _SPARKS_OWN and not name.lower().startswith(_REPEATED)
    }


def read_options(given: Mapping[str, str]) -> Options:
    """All options, whatever their place. Raises OptionError."""
    values: dict[str, Any] = {}
    for name, text in own_options(given).items():
        row = _BY_NAME.get(name.lower())
        if row is None:
            raise OptionError(f"there is no option {name!r}{_hint(name)}")
        try:
            values[row.field] = row.read(text)
        except (ValueError, KeyError, TypeError, AttributeError, re.error, InvalidArgumentError):
            raise OptionError(f"option {row.name} takes {row.allowed}, not {text!r}") from None
    return Options(**values)


def _hint(unknown: str) -> str:
    if unknown.lower() in _KAFKAS:
        return f": it is called {_KAFKAS[unknown.lower()]} here"
    near = get_close_matches(unknown.lower(), _BY_NAME, 1)
    meant = f"; did you mean {_BY_NAME[near[0]].name}?" if near else ""
    return f"{meant}; there are {', '.join(row.name for row in TABLE)}"


def check_place(given: Mapping[str, str], options: Options, place: str) -> None:
    """Checks that all given options apply to a place. Raises OptionError."""
    if bool(options.tls_certificate) != bool(options.tls_key):
        raise OptionError("options tlsCertificate and tlsKey go together")
    if bool(options.user) != bool(options.password_file) or (options.user and options.token_file):
        raise OptionError("option user goes with passwordFile, and tokenFile alone")
    for name in own_options(given):
        row = _BY_NAME[name.lower()]
        if place not in row.places:
            raise OptionError(f"option {row.name} is not for {place}, only for {', '.join(row.places)}")
    if place in READING:
        _check_reading(options)
    elif (options.version is None) != (not options.application_id):
        raise OptionError("options applicationId and version go together")


def _check_reading(options: Options) -> None:
    chosen = sum(map(bool, (options.subscribe, options.subscribe_pattern, options.assign)))
    if chosen != 1:
        # Spark passes a Python source none of the options of a table in its catalog.
        table = "" if chosen else "; a table of CREATE TABLE needs them in the query: SELECT ... FROM it WITH (...)"
        raise OptionError(f"give exactly one of the options subscribe, subscribePattern and assign{table}")
    for side in ("starting", "ending"):
        if getattr(options, f"{side}_offsets") is not None and getattr(options, f"{side}_timestamp_ms") is not None:
            raise OptionError(f"give one of the options {side}Offsets and {side}Timestamp, not both")
    if options.lake and (
        options.push_filters or options.starting_timestamp_ms is not None or options.ending_timestamp_ms
    ):
        raise OptionError(
            "option lake goes with offsets, not with times or pushFilters: filter by timestamp in the query"
        )
    if options.include_decoded:
        if not options.lake or len(options.topics) != 1:
            raise OptionError("option includeDecoded goes with lake and with one topic")
        if options.value_format or options.value_schema or options.bad_value_topic:
            raise OptionError("option includeDecoded takes the schema of the archive, not valueFormat or badValueTopic")
    if options.is_schema_in_topic:
        if options.value_message:
            raise OptionError("option valueMessage goes with a descriptor set, not with a schema of the schema topic")
    else:
        if bool(options.value_format) != bool(options.value_schema):
            raise OptionError("options valueFormat and valueSchema go together")
        if (options.value_format == PROTOBUF) != bool(options.value_message):
            raise OptionError("option valueMessage goes with valueFormat=protobuf, and with it alone")
    if options.bad_value_topic and not options.has_decoded_values:
        raise OptionError("option badValueTopic goes with valueFormat")
    if options.ending_offsets == EARLIEST:
        raise OptionError("option endingOffsets cannot be earliest: nothing would be read")
    for side in ("starting", "ending"):
        chosen = getattr(options, f"{side}_offsets")
        if isinstance(chosen, dict) and not options.subscribe_pattern:
            for topic in chosen:
                if topic not in options.topics:
                    option = "subscribe" if options.subscribe else "assign"
                    raise OptionError(f"option {side}Offsets names topic {topic!r}, which {option} does not")
