"""The times of schedules: expressions, zones, daylight saving, intervals, and what is due."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flotilla.broker.schedules.occurrences import Due, check_times, due_now, next_after
from flotilla.types.errors import InvalidArgumentError
from tests.unit.metadata.plans import plan

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
BERLIN = "Europe/Berlin"


def at(text: str, zone: str = "UTC", fold: int = 0) -> int:
    time = datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold)
    return int(time.timestamp() * 1000)


def local(time_ms: int, zone: str) -> str:
    found = datetime.fromtimestamp(time_ms / 1000, UTC).astimezone(ZoneInfo(zone))
    return found.strftime("%m-%d %H:%M %z")


def following(count: int, after_ms: int, **changes) -> list[int]:
    times = []
    for _ in range(count):
        after_ms = next_after(plan(**changes), after_ms)
        times.append(after_ms)
    return times


@pytest.mark.parametrize(
    ("cron", "zone", "after", "expected"),
    [
        ("0 3 * * *", "", "2026-05-01T00:00", ["05-01 03:00 +0000", "05-02 03:00 +0000"]),
        ("0 3 * * *", BERLIN, "2026-05-01T00:00", ["05-01 03:00 +0200", "05-02 03:00 +0200"]),
        ("*/20 9 * * MON-FRI", "", "2026-05-01T09:30", ["05-01 09:40 +0000", "05-04 09:00 +0000"]),
        ("0 0 L * *", "", "2026-02-01T00:00", ["02-28 00:00 +0000", "03-31 00:00 +0000"]),
        ("0 0 29 2 *", "", "2026-01-01T00:00", ["02-29 00:00 +0000"]),
        ("30 0 12 * * *", "", "2026-05-01T12:00", ["05-01 12:00 +0000", "05-02 12:00 +0000"]),
        ("@daily", BERLIN, "2026-05-01T12:00", ["05-02 00:00 +0200", "05-03 00:00 +0200"]),
        ("@Hourly", "", "2026-05-01T12:01", ["05-01 13:00 +0000"]),
        # Clocks are set forward from 2 to 3: what was to happen in between happens at 3, once.
        ("30 2 * * *", BERLIN, "2026-03-28T12:00", ["03-29 03:00 +0200", "03-30 02:30 +0200"]),
        ("0,15,30 2 * * *", BERLIN, "2026-03-28T12:00", ["03-29 03:00 +0200", "03-30 02:00 +0200"]),
        ("0 3 * * *", BERLIN, "2026-03-28T12:00", ["03-29 03:00 +0200", "03-30 03:00 +0200"]),
        # They are set back from 3 to 2: a time that exists twice happens once, the first time.
        ("30 2 * * *", BERLIN, "2026-10-24T12:00", ["10-25 02:30 +0200", "10-26 02:30 +0100"]),
        # What happens every few minutes, or every hour, follows the time that passes.
        ("0 * * * *", BERLIN, "2026-10-24T23:30", ["10-25 02:00 +0200", "10-25 02:00 +0100", "10-25 03:00 +0100"]),
        ("0 * * * *", BERLIN, "2026-03-29T00:30", ["03-29 03:00 +0200", "03-29 04:00 +0200"]),
    ],
)
def test_an_expression_names_times(cron, zone, after, expected):
    times = following(len(expected), at(after), cron=cron, time_zone=zone)
    assert [local(time_ms, zone or "UTC") for time_ms in times] == expected


def test_a_time_in_the_repeated_hour_does_not_come_back():
    """Half past two of the second round is later than the occurrence of the first one."""
    second = at("2026-10-25T02:10", BERLIN, fold=1)
    found = next_after(plan(cron="30 2 * * *", time_zone=BERLIN), second)
    assert local(found, BERLIN) == "10-26 02:30 +0100"


def test_an_expression_without_a_time_has_none():
    assert next_after(plan(cron="* * */20 * 1L"), at("2026-01-01T00:00")) == 0
    assert next_after(plan(), 2**62) == 0


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"cron": "0 25 * * *"}, "'0 25 \\* \\* \\*' is not understood: Bad hour"),
        ({"cron": "nightly"}, "five fields"),
        ({"cron": "@fortnightly"}, "five fields"),
        ({"cron": "* * * * * * *"}, "five fields"),
        ({"cron": "L/2 * * * *"}, "Bad minute"),
        ({"cron": "0 0 L/2,1/3 * *"}, None),
        ({"time_zone": "Europe/Atlantis"}, "no time zone 'Europe/Atlantis'"),
        ({"time_zone": "../etc/passwd"}, "no time zone"),
        ({"time_zone": "/etc/passwd"}, "no time zone"),
        ({"time_zone": "Europe"}, "no time zone"),
        ({"every_ms": 5_000, "time_zone": BERLIN}, "belongs to a cron expression"),
    ],
)
def test_what_means_nothing_is_refused(changes, complaint):
    if complaint is None:
        check_times(plan(**changes))
        return
    with pytest.raises(InvalidArgumentError, match=complaint):
        check_times(plan(**changes))


def test_an_interval_keeps_its_beat():
    beat = plan(every_ms=10_000, start_ms=1_003)
    assert [next_after(beat, time_ms) for time_ms in (0, 1_002, 1_003, 11_002, 99_000)] == [
        1_003, 1_003, 11_003, 11_003, 101_003,
    ]  # fmt: skip


@given(st.text("0123456789*/,-L#W MONTUEJAN@?", max_size=30), st.sampled_from(["", BERLIN, "America/New_York"]))
def test_any_text_is_an_expression_or_is_refused(cron, zone):
    try:
        check_times(plan(cron=cron or "x", time_zone=zone))
    except InvalidArgumentError:
        return
    after_ms = at("2026-10-24T12:00")
    found = next_after(plan(cron=cron, time_zone=zone), after_ms)
    assert found == 0 or found > after_ms


def test_a_zone_that_this_node_does_not_know_is_no_end():
    with pytest.raises(InvalidArgumentError):
        next_after(plan(time_zone="Europe/Atlantis"), 0)


NOON = at("2026-05-10T12:00")


@pytest.mark.parametrize(
    ("changes", "next_ms", "expected"),
    [
        # In time, and late by less than a minute: produced, whatever the policy.
        ({}, NOON, Due(NOON, NOON + MINUTE_MS, False)),
        ({"missed": "skip"}, NOON - MINUTE_MS, Due(NOON - MINUTE_MS, NOON, False)),
        # Missed: the oldest stands for all of them.
        ({}, NOON - 2 * MINUTE_MS, Due(NOON - 2 * MINUTE_MS, NOON - MINUTE_MS, False)),
        ({}, NOON - 3 * DAY_MS, Due(NOON - 3 * DAY_MS, NOON - MINUTE_MS, True)),
        ({"missed": "skip"}, NOON - 2 * MINUTE_MS, Due(0, NOON - MINUTE_MS, True)),
        ({"missed": "skip"}, NOON - 300 * DAY_MS, Due(0, NOON - MINUTE_MS, True)),
        ({"missed": "all"}, NOON - HOUR_MS, Due(NOON - HOUR_MS, NOON - HOUR_MS + MINUTE_MS, False)),
        ({"missed": "all", "missed_max": 3}, NOON - HOUR_MS, Due(0, NOON - 4 * MINUTE_MS, True)),
        (
            {"missed": "all", "missed_max": 3},
            NOON - 4 * MINUTE_MS,
            Due(NOON - 4 * MINUTE_MS, NOON - 3 * MINUTE_MS, False),
        ),
        ({"missed": "all", "missed_max": 3}, NOON - 3000 * DAY_MS, Due(0, NOON - 4 * MINUTE_MS, True)),
    ],
)
@pytest.mark.parametrize("kind", [{"cron": "* * * * *"}, {"every_ms": MINUTE_MS}])
def test_missed_occurrences_follow_the_policy(kind, changes, next_ms, expected):
    assert due_now(plan(**kind, **changes), next_ms, NOON) == expected
