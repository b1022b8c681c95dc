"""Topics as users name and tune them: names, and the one table of settings with their bounds.

The same functions check a request before it is proposed and the command when it is applied, so what
passes the door cannot fail behind it. Every setting is an integer: no floats enter replicated state.
A topic stores only what was set; the rest follows the table. Zero means "no limit" where a row says so.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from flotilla.types.errors import InvalidArgumentError
from flotilla.types.limits import KIB, MIB
from flotilla.types.notation import format_duration, format_size, parse_duration, parse_size

NAME_LENGTH_MAX: Final = 200
#: What a consumer may leave beside its committed offset.
COMMIT_METADATA_BYTES_MAX: Final = 4 * KIB
#: Groups in one partition, of both kinds.
GROUP_COUNT_MAX: Final = 10_000
PARTITION_COUNT_MAX: Final = 1_024
REPLICATION_FACTOR_MAX: Final = 7
TOPIC_COUNT_MAX: Final = 100_000
BROKER_COUNT_MAX: Final = 1_000

_SECOND_MS = 1_000
_MINUTE_MS = 60 * _SECOND_MS
_HOUR_MS = 60 * _MINUTE_MS
_DAY_MS = 24 * _HOUR_MS
#: As large as an integer can be in JSON without losing digits.
_UNBOUNDED = 2**53 - 1

_NAME = re.compile(r"[A-Za-z0-9._-]{1,200}", re.ASCII)
_COUNT = re.compile(r"[0-9]{1,18}", re.ASCII)


class Setting(NamedTuple):
    """One row of the table."""

    name: str
    #: How the integer reads: "count", "ms" or "bytes".
    kind: str
    default: int
    minimum: int
    maximum: int
    help: str


#: Chosen when a topic is created and kept beside its settings; partitions can only grow afterwards.
PARTITIONS: Final = Setting("partitions", "count", 1, 1, PARTITION_COUNT_MAX, "Partitions of the topic.")
REPLICATION_FACTOR: Final = Setting(
    "replication_factor", "count", 3, 1, REPLICATION_FACTOR_MAX, "Replicas of each partition, as far as brokers go."
)

#: What can be set at creation and altered at any time.
SETTINGS: Final[tuple[Setting, ...]] = (
    Setting("max_deliveries", "count", 5, 1, 1_000, "Attempts before a message goes to the dead-letter topic."),
    Setting("visibility_ms", "ms", 30 * _SECOND_MS, 100, 12 * _HOUR_MS, "How long a lease lasts unless renewed."),
    Setting("nack_backoff_ms", "ms", 1 * _SECOND_MS, 0, _DAY_MS, "Delay after the first failure; doubles each time."),
    Setting("nack_backoff_max_ms", "ms", 5 * _MINUTE_MS, 0, _DAY_MS, "Where the doubling of the delay stops."),
    Setting("retention_ms", "ms", 7 * _DAY_MS, 0, _UNBOUNDED, "Age, behind any delay, of what is removed; 0: never."),
    Setting("retention_bytes", "bytes", 0, 0, _UNBOUNDED, "Bytes kept per partition; 0: no limit."),
    Setting("retention_messages", "count", 0, 0, _UNBOUNDED, "Messages kept per partition; 0: no limit."),
    Setting("payload_bytes_max", "bytes", 1 * MIB, 1, 16 * MIB, "The largest payload that is accepted."),
    Setting("rate_limit_per_minute", "count", 0, 0, 10**12, "Deliveries per minute and group; 0: no limit."),
    Setting("rate_limit_burst", "count", 1, 1, 10**9, "Deliveries that may come at once under a rate limit."),
    Setting("dedup_window_entries", "count", 100_000, 1_000, 1_000_000, "Batches remembered against repetition."),
    Setting("dedup_window_ms", "ms", _DAY_MS, _MINUTE_MS, 30 * _DAY_MS, "How long they are remembered."),
)
SETTING_BY_NAME: Final[dict[str, Setting]] = {row.name: row for row in SETTINGS}


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """The settings in force, one field for each row of SETTINGS and in its order."""

    max_deliveries: int
    visibility_ms: int
    nack_backoff_ms: int
    nack_backoff_max_ms: int
    retention_ms: int
    retention_bytes: int
    retention_messages: int
    payload_bytes_max: int
    rate_limit_per_minute: int
    rate_limit_burst: int
    dedup_window_entries: int
    dedup_window_ms: int


def resolve_settings(chosen: Iterable[tuple[str, int]]) -> TopicSettings:
    """What is in force when `chosen` was set and everything else was left to the table."""
    values = {row.name: row.default for row in SETTINGS}
    values.update(chosen)
    return TopicSettings(**values)


def check_setting(row: Setting, value: object) -> int:
    """`value` when it is an integer inside the row's bounds. Raises InvalidArgumentError."""
    # A bool is an int to Python and a mistake to everybody else.
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidArgumentError(f"{row.name} is an integer, not {type(value).__name__}")
    if not row.minimum <= value <= row.maximum:
        raise InvalidArgumentError(f"{row.name} is between {row.minimum} and {row.maximum}, not {value}")
    return value


def check_settings(chosen: Mapping[str, object]) -> tuple[tuple[str, int], ...]:
    """What was set, checked and in the order of the table. Raises InvalidArgumentError."""
    for name in chosen:
        if name not in SETTING_BY_NAME:
            raise InvalidArgumentError(f"there is no topic setting {name!r}")
    checked = tuple((row.name, check_setting(row, chosen[row.name])) for row in SETTINGS if row.name in chosen)
    settings = resolve_settings(checked)
    if settings.nack_backoff_max_ms < settings.nack_backoff_ms:
        raise InvalidArgumentError("nack_backoff_max_ms is below nack_backoff_ms")
    return checked


def read_settings(texts: Mapping[str, str]) -> dict[str, int]:
    """Settings as people write them (`30s`, `1MiB`, `5`) to integers; bounds are `check_settings`' matter.

    Raises InvalidArgumentError.
    """
    return {name: parse_setting(SETTING_BY_NAME, "topic", name, text) for name, text in texts.items()}


def show_settings(settings: TopicSettings) -> dict[str, str]:
    """Every setting in force as people read it; `read_settings` takes it back."""
    return {row.name: format_setting(row, getattr(settings, row.name)) for row in SETTINGS}


def parse_setting(table: Mapping[str, Setting], noun: str, name: str, text: str) -> int:
    """Raises InvalidArgumentError."""
    row = table.get(name)
    if row is None:
        raise InvalidArgumentError(f"there is no {noun} setting {name!r}")
    try:
        return _PARSE[row.kind](text)
    except ValueError as error:
        raise InvalidArgumentError(f"{name}: {error}") from error


def format_setting(row: Setting, value: int) -> str:
    return _FORMAT[row.kind](value)


def _parse_count(text: str) -> int:
    if _COUNT.fullmatch(text) is None:
        raise ValueError("not a whole number")
    return int(text)


_PARSE: Final[dict[str, Callable[[str], int]]] = {
    "count": _parse_count,
    "ms": parse_duration,
    "bytes": parse_size,
}
_FORMAT: Final[dict[str, Callable[[int], str]]] = {"count": str, "ms": format_duration, "bytes": format_size}


def check_topic_name(name: str) -> None:
    """Raises InvalidArgumentError. Names that begin with two underscores are kept for the system."""
    _check_name("topic", name)
    if name.startswith("__"):
        raise InvalidArgumentError("topic names that begin with __ are reserved")


def check_group_name(name: str) -> None:
    """Raises InvalidArgumentError."""
    _check_name("group", name)


def _check_name(noun: str, name: str) -> None:
    # Dots alone would be a way out of a folder wherever a name becomes part of a path.
    if _NAME.fullmatch(name) is None or name in (".", ".."):
        raise InvalidArgumentError(f"a {noun} name has 1 to {NAME_LENGTH_MAX} letters, digits, dots, _ or -")
