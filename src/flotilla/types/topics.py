"""Names and settings of topics, and the limits on their number.

The same functions check a request before it is proposed and the command when it is applied, so a command that was
accepted cannot fail later. Every setting is an integer: no floats enter replicated state. A topic stores only what was
set; the rest follows the table. Zero means "no limit" where a row says so.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from flotilla.types.errors import InvalidArgumentError
from flotilla.types.limits import KIB, MIB
from flotilla.types.setting_kinds import UNBOUNDED, duration, size, whole
from flotilla.types.setting_table import Setting, SettingTable
from flotilla.types.slotted import frozen

NAME_LENGTH_MAX: Final = 200
#: A note that a consumer keeps beside its committed offset.
COMMIT_METADATA_BYTES_MAX: Final = 4 * KIB
#: Groups in one partition, of both kinds.
GROUP_COUNT_MAX: Final = 10_000
PARTITION_COUNT_MAX: Final = 1_024
REPLICATION_FACTOR_MAX: Final = 7
TOPIC_COUNT_MAX: Final = 100_000
#: Replicas on one node, on average: each has a Raft group, files and memory. New partitions are refused beyond it.
NODE_REPLICA_COUNT_MAX: Final = 8_192
BROKER_COUNT_MAX: Final = 1_000
#: Partitions of deleted topics that some node has not confirmed; beyond that no topic is created.
TOMBSTONE_COUNT_MAX: Final = 1_000_000
#: Shorter than the time for which decisions about transactions are remembered.
TRANSACTION_TIMEOUT_MS_MAX: Final = 15 * 60_000

_SECOND_MS = 1_000
_MINUTE_MS = 60 * _SECOND_MS
_HOUR_MS = 60 * _MINUTE_MS
_DAY_MS = 24 * _HOUR_MS

_NAME = re.compile(r"[A-Za-z0-9._-]{1,200}", re.ASCII)

#: Chosen when a topic is created and kept beside its settings; partitions can only grow afterwards.
PARTITIONS: Final = Setting("partitions", whole(1, PARTITION_COUNT_MAX), 1, "The number of partitions.")
REPLICATION_FACTOR: Final = Setting(
    "replication_factor", whole(1, REPLICATION_FACTOR_MAX), 3, "Replicas of each partition; never more than brokers."
)

_ROWS: Final = (
    Setting(
        "max_deliveries", whole(1, 1_000), 5, "Move a message to the dead-letter topic after this many failed attempts."
    ),
    Setting("visibility_ms", duration(100, 12 * _HOUR_MS), 30 * _SECOND_MS, "How long a lease lasts unless renewed."),
    Setting(
        "nack_backoff_ms",
        duration(0, _DAY_MS),
        1 * _SECOND_MS,
        "Delay after the first failure; doubles with each more.",
    ),
    Setting("nack_backoff_max_ms", duration(0, _DAY_MS), 5 * _MINUTE_MS, "The longest delay that doubling leads to."),
    Setting(
        "retention_ms",
        duration(0, UNBOUNDED),
        7 * _DAY_MS,
        "Delete messages older than this (one that waits for its delivery or its next attempt ages from that time). "
        "0 keeps them for ever.",
    ),
    Setting(
        "retention_bytes",
        size(0, UNBOUNDED),
        0,
        "Delete the oldest messages of a partition beyond this size. 0 sets no limit.",
    ),
    Setting(
        "retention_bytes_hard",
        size(0, UNBOUNDED),
        0,
        "Delete the oldest messages of a partition beyond this size although a group owes them. 0 sets no limit.",
    ),
    Setting(
        "retention_messages",
        whole(0, UNBOUNDED),
        0,
        "Delete the oldest messages of a partition beyond this number. 0 sets no limit.",
    ),
    Setting(
        "delay_max_ms",
        duration(0, 100 * 365 * _DAY_MS),
        365 * _DAY_MS,
        "The longest delay of a message that is accepted, by its producer or by a nack.",
    ),
    Setting("payload_bytes_max", size(1, 16 * MIB), 1 * MIB, "The largest payload that is accepted."),
    Setting("rate_limit_per_minute", whole(0, 10**12), 0, "Deliveries per minute to each group. 0 sets no limit."),
    Setting("rate_limit_burst", whole(1, 10**9), 1, "Deliveries that a rate limit allows at once."),
    Setting(
        "dedup_window_entries",
        whole(1_000, 1_000_000),
        100_000,
        "Batches remembered per partition, so that a repeated one is stored once.",
    ),
    Setting("dedup_window_ms", duration(_MINUTE_MS, 30 * _DAY_MS), _DAY_MS, "How long they are remembered."),
    Setting(
        "holds_dead_letters",
        whole(0, 1),
        0,
        "1: dead letters stay until someone deals with them; failures never end a message of a group that does not "
        "set max_deliveries itself. Brokers set it for the dead-letter topics that they create.",
    ),
    Setting(
        "transaction_timeout_ms",
        duration(1_000, TRANSACTION_TIMEOUT_MS_MAX),
        _MINUTE_MS,
        "Abort a transaction that is not decided this long after its first stage here.",
    ),
)
#: What can be set at creation and altered at any time.
SETTINGS: Final = SettingTable("topic", _ROWS)


@frozen
class TopicSettings:
    """The settings in force, one field for each row of SETTINGS and in its order."""

    max_deliveries: int
    visibility_ms: int
    nack_backoff_ms: int
    nack_backoff_max_ms: int
    retention_ms: int
    retention_bytes: int
    retention_bytes_hard: int
    retention_messages: int
    delay_max_ms: int
    payload_bytes_max: int
    rate_limit_per_minute: int
    rate_limit_burst: int
    dedup_window_entries: int
    dedup_window_ms: int
    holds_dead_letters: int
    transaction_timeout_ms: int


def resolve_settings(chosen: Iterable[tuple[str, int]]) -> TopicSettings:
    """What is in force when `chosen` was set and everything else was left to the table."""
    values = {name: row.default for name, row in SETTINGS.items()}
    values.update(chosen)
    return TopicSettings(**values)


def check_settings(chosen: Mapping[str, object]) -> tuple[tuple[str, int], ...]:
    """What was set, checked and in the order of the table. Raises InvalidArgumentError."""
    checked = SETTINGS.check(chosen)
    settings = resolve_settings(checked)
    if settings.nack_backoff_max_ms < settings.nack_backoff_ms:
        raise InvalidArgumentError("nack_backoff_max_ms is below nack_backoff_ms")
    if 0 < settings.retention_bytes_hard < settings.retention_bytes:
        raise InvalidArgumentError("retention_bytes_hard is below retention_bytes")
    return checked


def show_settings(settings: TopicSettings) -> dict[str, str]:
    """Every setting in force as people read it; `SETTINGS.parse` takes it back."""
    return SETTINGS.show((name, getattr(settings, name)) for name in SETTINGS)


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
