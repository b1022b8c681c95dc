"""Settings of one queue group of a topic: a table like that of topics, and the rules that follow from both.

A group stores only what was set for it; the rest follows its topic. The metadata keeps the settings, so that every
leader of the topic's partitions knows them.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from flotilla.types.setting_kinds import duration, whole
from flotilla.types.setting_table import Setting, SettingTable
from flotilla.types.topics import SETTINGS, TopicSettings

_HOUR_MS = 3_600_000

#: Settings of the topic that a group may set for itself.
_INHERITED: Final = (
    "max_deliveries",
    "visibility_ms",
    "nack_backoff_ms",
    "nack_backoff_max_ms",
    "rate_limit_per_minute",
    "rate_limit_burst",
)
_OWN: Final = (
    Setting(
        "lease_ms_max",
        duration(100, 12 * _HOUR_MS),
        12 * _HOUR_MS,
        "How long one delivery may be leased, renewals included.",
    ),
    Setting(
        "dead_letters", whole(0, 1), 1, "1 moves a message to the dead-letter topic after its last attempt; 0 drops it."
    ),
    Setting("paused", whole(0, 1), 0, "1 delivers nothing to the group until it is set to 0."),
    Setting(
        "holds_retention", whole(0, 1), 0, "1 keeps retention from deleting messages that the group has not settled."
    ),
)
GROUP_SETTINGS: Final = SettingTable("group", (*(SETTINGS[name] for name in _INHERITED), *_OWN))


@dataclass(frozen=True, slots=True)
class GroupRules:
    """The settings in force for one group, one field for each row of GROUP_SETTINGS and in its order."""

    #: 0, which cannot be set: failures never end a message, whatever bound it has of its own.
    max_deliveries: int
    visibility_ms: int
    nack_backoff_ms: int
    nack_backoff_max_ms: int
    rate_limit_per_minute: int
    rate_limit_burst: int
    lease_ms_max: int
    dead_letters: int
    paused: int
    holds_retention: int


def resolve_rules(topic: TopicSettings, chosen: Iterable[tuple[str, int]] = ()) -> GroupRules:
    """What is in force when `chosen` was set for the group and everything else was left to its topic."""
    values = {name: getattr(topic, name) for name in _INHERITED}
    values.update((row.name, row.default) for row in _OWN)
    values.update(chosen)
    return GroupRules(**values)
