"""What can be set for one queue group of a topic: a table like that of topics, and what follows from both.

A group stores only what was set for it; the rest follows its topic. The metadata keeps the settings, so that every
leader of the topic's partitions knows them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from flotilla.types.errors import InvalidArgumentError
from flotilla.types.topics import SETTING_BY_NAME, Setting, TopicSettings, check_setting, format_setting, parse_setting

_HOUR_MS = 3_600_000

#: Of the topic, and again of each group.
_INHERITED: Final = (
    "max_deliveries",
    "visibility_ms",
    "nack_backoff_ms",
    "nack_backoff_max_ms",
    "rate_limit_per_minute",
    "rate_limit_burst",
)
_OWN: Final[tuple[Setting, ...]] = (
    Setting("lease_ms_max", "ms", 12 * _HOUR_MS, 100, 12 * _HOUR_MS, "How long one delivery may be held in all."),
    Setting("dead_letters", "count", 1, 0, 1, "1: the last failure goes to the dead-letter topic; 0: it is dropped."),
    Setting("paused", "count", 0, 0, 1, "1: the group gets nothing until it is set to 0."),
    Setting("holds_retention", "count", 0, 0, 1, "1: retention never removes what the group has not settled."),
)
GROUP_SETTINGS: Final[tuple[Setting, ...]] = tuple(SETTING_BY_NAME[name] for name in _INHERITED) + _OWN
GROUP_SETTING_BY_NAME: Final[dict[str, Setting]] = {row.name: row for row in GROUP_SETTINGS}


@dataclass(frozen=True, slots=True)
class GroupRules:
    """The settings in force for one group, one field for each row of GROUP_SETTINGS and in its order."""

    #: 0, which nobody can set: failures never end a message, whatever bound it has of its own.
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


def check_group_settings(chosen: Mapping[str, object]) -> tuple[tuple[str, int], ...]:
    """What was set, checked and in the order of the table. Raises InvalidArgumentError."""
    for name in chosen:
        if name not in GROUP_SETTING_BY_NAME:
            raise InvalidArgumentError(f"there is no group setting {name!r}")
    return tuple((row.name, check_setting(row, chosen[row.name])) for row in GROUP_SETTINGS if row.name in chosen)


def read_group_settings(texts: Mapping[str, str]) -> dict[str, int]:
    """Settings as people write them to integers, whose bounds nobody has checked. Raises InvalidArgumentError."""
    return {name: parse_setting(GROUP_SETTING_BY_NAME, "group", name, text) for name, text in texts.items()}


def show_group_settings(chosen: Iterable[tuple[str, int]]) -> dict[str, str]:
    """What was set as people read it; `read_group_settings` takes it back."""
    return {name: format_setting(GROUP_SETTING_BY_NAME[name], value) for name, value in chosen}
