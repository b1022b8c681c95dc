"""Settings of one queue group of a topic: a table like that of topics, and the rules that follow from both.

A group stores only what was set for it; the rest follows its topic. The metadata keeps the settings, so that every
leader of the topic's partitions knows them.
"""

from collections.abc import Iterable
from typing import Any, Final

from flotilla.types.dead_letters import PREFIX, is_redrive_group
from flotilla.types.setting_kinds import duration, text, whole
from flotilla.types.setting_table import Setting, SettingTable
from flotilla.types.slotted import frozen
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
        "lost_ms",
        duration(100, _HOUR_MS),
        1_000,
        "How long a consumer whose connection is lost has to come back before its messages are given to others.",
    ),
    Setting(
        "dead_letters", whole(0, 1), 1, "1 moves a message to the dead-letter topic after its last attempt; 0 drops it."
    ),
    Setting(
        "dead_letter_topic",
        text(f"the name of a topic, or nothing for {PREFIX}<group>.<topic>", "[A-Za-z0-9._-]{0,200}"),
        "",
        "The topic of the group's dead letters; empty: `dlq.<group>.<topic>`. Several groups may share one.",
    ),
    Setting(
        "result_ttl_ms",
        duration(0, 30 * 24 * _HOUR_MS),
        _HOUR_MS,
        "How long the results of acked messages are kept; 0 keeps none.",
    ),
    Setting("ordered", whole(0, 1), 0, "1 delivers messages of one key one at a time and in order, to all members."),
    Setting("paused", whole(0, 1), 0, "1 delivers nothing to the group until it is set to 0."),
    Setting(
        "holds_retention", whole(0, 1), 1, "1 keeps retention from deleting messages that the group has not settled."
    ),
    Setting(
        "single_active",
        whole(0, 1),
        0,
        "1 gives the messages of each partition to one consumer at a time; others wait until it is gone.",
    ),
    Setting(
        "expires_after_ms",
        duration(0, 366 * 24 * _HOUR_MS),
        0,
        "A group that nobody has used for this long is deleted, with its state and its settings; 0 keeps it. "
        "A group whose name begins with `ephemeral.` is given 5m by its first member.",
    ),
)
#: A group of one consumer that never comes back under this name begins with it, and expires unless it is set not to.
EPHEMERAL_PREFIX: Final = "ephemeral."
EPHEMERAL_EXPIRES_MS: Final = 300_000
GROUP_SETTINGS: Final = SettingTable("group", (*(SETTINGS[name] for name in _INHERITED), *_OWN))


def is_ephemeral(group: str) -> bool:
    return group.startswith(EPHEMERAL_PREFIX)


@frozen
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
    lost_ms: int
    dead_letters: int
    #: Empty: that of its name.
    dead_letter_topic: str
    #: 0: none is kept.
    result_ttl_ms: int
    ordered: int
    paused: int
    #: By default a queue group holds what it owes. A group that commits offsets holds only if this was chosen for it.
    holds_retention: int
    #: Of all members one at a time gets messages, in each partition.
    single_active: int
    #: 0: never.
    expires_after_ms: int


def resolve_rules(topic: TopicSettings, chosen: Iterable[tuple[str, int | str]] = (), group: str = "") -> GroupRules:
    """What is in force when `chosen` was set for the group and everything else was left to its topic.

    Dead letters stay until someone deals with them: their topic has no last attempt, unless the group sets one. A
    redrive fails because it was stopped, not because of the message: its next attempt need not wait. And it owes nobody
    the letters that it leaves: those go by the retention of their topic.
    """
    values: dict[str, Any] = {name: getattr(topic, name) for name in _INHERITED}
    values.update((row.name, row.default) for row in _OWN)
    if topic.holds_dead_letters or is_redrive_group(group):
        values.update(max_deliveries=0, dead_letters=0)
    if is_redrive_group(group):
        values.update(nack_backoff_ms=0, holds_retention=0)
    values.update(chosen)
    return GroupRules(**values)
