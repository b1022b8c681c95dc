"""Names and settings of topics: one table, one check."""

from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flotilla.types import topics
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.limits import ENTRY_BYTES_MAX, MIB
from flotilla.types.setting_table import Setting
from flotilla.types.topics import (
    PARTITIONS,
    REPLICATION_FACTOR,
    SETTINGS,
    TopicSettings,
    check_group_name,
    check_settings,
    check_topic_name,
    resolve_settings,
    show_settings,
)

DAY_MS = 24 * 60 * 60 * 1000


@pytest.mark.parametrize("name", ["a", "orders", "A-z_0.9", "dlq.workers.orders", "_x", "a" * 200, "..."])
def test_good_names(name):
    check_topic_name(name)
    check_group_name(name)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a b", "a/b", "a\n", "\n", "ä", "a\x00", "a" * 201, "\u0661", "\uff41", "a:b", "../x"]
)
def test_bad_names(name):
    with pytest.raises(InvalidArgumentError):
        check_topic_name(name)
    with pytest.raises(InvalidArgumentError):
        check_group_name(name)


def test_two_underscores_are_kept_for_the_system():
    with pytest.raises(InvalidArgumentError):
        check_topic_name("__offsets")
    check_group_name("__replicator")


def test_the_typed_view_has_a_field_for_every_row():
    assert [field.name for field in fields(TopicSettings)] == [row.name for row in SETTINGS.values()]


@pytest.mark.parametrize("row", [PARTITIONS, REPLICATION_FACTOR, *SETTINGS.values()], ids=lambda row: row.name)
def test_every_row_makes_sense(row: Setting):
    assert row.kind.minimum <= row.default <= row.kind.maximum
    assert row.help.endswith(".")
    assert row.name.endswith("_ms") == (row.kind.shape == "DURATION")
    assert ("bytes" in row.name) == (row.kind.shape == "SIZE")
    for value in (row.kind.minimum, row.default, row.kind.maximum):
        assert row.check(value) == value
    for value in (row.kind.minimum - 1, row.kind.maximum + 1, True, "1", 1.0, None):
        with pytest.raises(InvalidArgumentError, match=row.name):
            row.check(value)


def test_the_promised_defaults():
    settings = resolve_settings(())
    assert (PARTITIONS.default, REPLICATION_FACTOR.default) == (1, 3)
    assert settings.visibility_ms == 30_000
    assert settings.max_deliveries == 5
    assert (settings.nack_backoff_ms, settings.nack_backoff_max_ms) == (1_000, 300_000)
    assert settings.payload_bytes_max == MIB
    assert (settings.dedup_window_entries, settings.dedup_window_ms) == (100_000, DAY_MS)
    assert settings.retention_ms == 7 * DAY_MS


def test_the_largest_payload_fits_into_an_entry():
    assert topics.SETTINGS["payload_bytes_max"].kind.maximum + 64 < ENTRY_BYTES_MAX


def test_chosen_settings_come_back_in_the_order_of_the_table():
    chosen = {"retention_bytes": 5, "max_deliveries": 9}
    assert check_settings(chosen) == (("max_deliveries", 9), ("retention_bytes", 5))
    settings = resolve_settings(check_settings(chosen))
    assert (settings.retention_bytes, settings.max_deliveries, settings.visibility_ms) == (5, 9, 30_000)


@pytest.mark.parametrize(
    "chosen",
    [
        {"colour": 1},
        {"partitions": 1},
        {"max_deliveries": 0},
        {"payload_bytes_max": 16 * MIB + 1},
        {"nack_backoff_ms": 2_000, "nack_backoff_max_ms": 1_000},
        {"retention_bytes": 2_000, "retention_bytes_hard": 1_999},
        {"nack_backoff_ms": 600_000},
    ],
)
def test_bad_settings_are_refused(chosen):
    with pytest.raises(InvalidArgumentError):
        check_settings(chosen)


def test_settings_are_read_as_people_write_them():
    texts = {"visibility_ms": "45s", "payload_bytes_max": "2MiB", "max_deliveries": "7", "retention_ms": "9"}
    assert SETTINGS.parse(texts) == {
        "visibility_ms": 45_000,
        "payload_bytes_max": 2 * MIB,
        "max_deliveries": 7,
        "retention_ms": 9,
    }


@pytest.mark.parametrize(
    "texts",
    [
        {"colour": "1"},
        {"max_deliveries": "5s"},
        {"max_deliveries": "\u0663"},
        {"visibility_ms": ""},
    ],
)
def test_texts_that_are_no_settings_are_refused(texts):
    with pytest.raises(InvalidArgumentError):
        SETTINGS.parse(texts)


@given(
    st.fixed_dictionaries(
        {}, optional={row.name: st.integers(row.kind.minimum, row.kind.maximum) for row in SETTINGS.values()}
    )
)
def test_printed_values_can_be_parsed_again(chosen):
    settings = resolve_settings(chosen.items())
    assert resolve_settings(SETTINGS.parse(show_settings(settings)).items()) == settings
