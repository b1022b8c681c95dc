"""Settings of a group: its own, and what it takes from its topic."""

import pytest

from flotilla.types.errors import InvalidArgumentError
from flotilla.types.group_settings import (
    GROUP_SETTINGS,
    GroupRules,
    resolve_rules,
)
from flotilla.types.topics import resolve_settings


def test_a_group_follows_its_topic_where_nothing_was_set():
    topic = resolve_settings((("max_deliveries", 9), ("visibility_ms", 5_000)))
    rules = resolve_rules(topic, (("visibility_ms", 700), ("paused", 1)))
    assert (rules.max_deliveries, rules.visibility_ms, rules.paused, rules.dead_letters) == (9, 700, 1, 1)


def test_there_is_a_field_for_each_row():
    assert [row.name for row in GROUP_SETTINGS.values()] == list(GroupRules.__slots__)


def test_shown_settings_can_be_parsed():
    chosen = (("visibility_ms", 90_000), ("rate_limit_per_minute", 30), ("holds_retention", 1))
    shown = GROUP_SETTINGS.show(chosen)
    assert shown["visibility_ms"] == "90s"
    assert GROUP_SETTINGS.check(GROUP_SETTINGS.parse(shown)) == chosen


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("retention_ms", "1d", "there is no group setting"),
        ("paused", "2", "paused = 2: expected 0 or 1"),
        ("visibility_ms", "soon", "visibility_ms = 'soon': .*, as in 500ms, 10s or 2m"),
        ("visibility_ms", "1ms", "expected a duration from 100ms to 12h"),
        ("max_deliverys", "4", "did you mean max_deliveries?"),
        ("colour", "4", "there are max_deliveries, visibility_ms, "),
    ],
)
def test_bad_settings_are_refused(name, text, says):
    with pytest.raises(InvalidArgumentError, match=says):
        GROUP_SETTINGS.check(GROUP_SETTINGS.parse({name: text}))
