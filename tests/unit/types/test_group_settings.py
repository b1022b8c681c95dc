"""Settings of a group: its own, and what it takes from its topic."""

import pytest

from flotilla.types.errors import InvalidArgumentError
from flotilla.types.group_settings import (
    GROUP_SETTINGS,
    GroupRules,
    check_group_settings,
    read_group_settings,
    resolve_rules,
    show_group_settings,
)
from flotilla.types.topics import resolve_settings


def test_a_group_follows_its_topic_where_nothing_was_set():
    topic = resolve_settings((("max_deliveries", 9), ("visibility_ms", 5_000)))
    rules = resolve_rules(topic, (("visibility_ms", 700), ("paused", 1)))
    assert (rules.max_deliveries, rules.visibility_ms, rules.paused, rules.dead_letters) == (9, 700, 1, 1)


def test_there_is_a_field_for_each_row():
    assert [row.name for row in GROUP_SETTINGS] == list(GroupRules.__slots__)


def test_what_is_shown_can_be_read_back():
    chosen = (("visibility_ms", 90_000), ("rate_limit_per_minute", 30), ("holds_retention", 1))
    shown = show_group_settings(chosen)
    assert shown["visibility_ms"] == "90s"
    assert check_group_settings(read_group_settings(shown)) == chosen


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("retention_ms", "1d", "there is no group setting"),
        ("paused", "2", "between 0 and 1"),
        ("visibility_ms", "soon", "visibility_ms"),
    ],
)
def test_what_cannot_be_set_is_refused(name, text, says):
    with pytest.raises(InvalidArgumentError, match=says):
        check_group_settings(read_group_settings({name: text}))
