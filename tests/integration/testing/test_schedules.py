"""Recurring messages at a broker whose clock is turned by hand."""

from datetime import UTC, datetime, timedelta

import pytest

from flotilla import AlreadyExistsError, InvalidArgumentError, NotFoundError
from flotilla.testing import DAY_MS, HOUR_MS, LocalBroker
from tests.integration.testing.waiting import eventually


@pytest.fixture
def broker():
    with LocalBroker() as broker:
        yield broker


@pytest.fixture
def stored(client):
    """Payload and time of occurrence of all messages of a topic, the oldest first."""

    def read(topic="reports"):
        return [
            (message.payload, int(dict(message.headers)["flotilla-scheduled-time"]))
            for message in client.peek(topic, 0, max_messages=1_000)
        ]

    return read


def test_an_occurrence_is_produced_at_its_time(broker, client, stored):
    made = client.schedules.create("beat", "reports", b"tick", every_ms=timedelta(minutes=10), headers={"a": "b"})
    (first_ms,) = made.upcoming_ms
    broker.advance(minutes=9)
    assert stored() == []
    broker.advance(minutes=1)
    assert stored() == [(b"tick", first_ms)]
    (message,) = client.peek("reports", 0)
    assert dict(message.headers)["a"] == b"b"
    assert dict(message.headers)["flotilla-schedule"] == b"beat"
    broker.advance(minutes=10)
    assert stored()[1:] == [(b"tick", first_ms + 600_000)]


def test_a_night_in_berlin(broker, client, stored):
    made = client.schedules.create("nightly", "reports", b"all", cron="0 3 * * *", time_zone="Europe/Berlin")
    night = datetime.fromtimestamp(made.upcoming_ms[0] / 1000, UTC)
    assert night.hour in (1, 2)
    for _ in range(3):
        (next_ms,) = client.schedules.get("nightly", upcoming=1).upcoming_ms
        broker.advance(next_ms - broker.now_ms())
    assert len(stored()) == 3


@pytest.mark.parametrize(("missed", "count"), [("skip", 0), ("one", 1), ("all", 7)])
def test_occurrences_that_were_missed(broker, client, stored, missed, count):
    start_ms = broker.now_ms() + HOUR_MS
    made = client.schedules.create("daily", "reports", every_ms=DAY_MS, start_at=start_ms, missed=missed)
    broker.advance(days=7)
    first_ms = made.upcoming_ms[0]
    assert [time_ms for _, time_ms in stored()] == [first_ms + day * DAY_MS for day in range(count)]
    info = client.schedules.get("daily", upcoming=1)
    assert info.upcoming_ms == [first_ms + 7 * DAY_MS]
    assert bool(info.skipped_ms) == (missed != "all")


def test_all_have_a_bound(broker, client, stored):
    start_ms = broker.now_ms() + HOUR_MS
    client.schedules.create("daily", "reports", every_ms=DAY_MS, start_at=start_ms, missed="all", missed_max=3)
    broker.advance(days=1000)
    assert [time_ms for _, time_ms in stored()] == [start_ms + day * DAY_MS for day in (997, 998, 999)]


def test_a_paused_one_misses_nothing(broker, client, stored):
    client.schedules.create("beat", "reports", every_ms=HOUR_MS, missed="all")
    assert client.schedules.pause("beat").upcoming_ms == []
    broker.advance(days=2)
    assert client.schedules.resume("beat").upcoming_ms[0] > broker.now_ms()
    broker.advance(hours=1)
    assert len(stored()) == 1


def test_run_now_does_not_shift_anything(broker, client, stored):
    (first_ms,) = client.schedules.create("beat", "reports", b"x", every_ms=HOUR_MS).upcoming_ms
    client.schedules.pause("beat")
    assert client.schedules.run("beat").runs == 1
    assert len(stored()) == 1
    client.schedules.resume("beat")
    ran = client.schedules.run("beat")
    assert (ran.runs, ran.upcoming_ms) == (2, [first_ms])
    broker.advance(hours=1)
    assert [time_ms for _, time_ms in stored()][2:] == [first_ms]


def test_an_update_keeps_what_is_the_same(broker, client):
    made = client.schedules.create("beat", "reports", every_ms=HOUR_MS)
    with pytest.raises(AlreadyExistsError):
        client.schedules.create("beat", "reports", every_ms=HOUR_MS)
    broker.advance(minutes=30)
    same = client.schedules.create("beat", "reports", every_ms=HOUR_MS, update=True)
    assert same == made
    other = client.schedules.create("beat", "reports", cron="@hourly", update=True)
    assert (other.schedule_id, other.definition.cron) == (made.schedule_id, "@hourly")
    client.schedules.delete("beat")
    assert client.schedules.create("beat", "reports", every_ms=HOUR_MS).schedule_id > made.schedule_id


def test_names_are_listed_with_their_next_times(broker, client):
    for number in range(101):
        client.schedules.create(f"s{number:03}", "reports", every_ms=HOUR_MS)
    found = client.schedules.list(upcoming=3)
    assert [each.name for each in found] == [f"s{number:03}" for number in range(101)]
    assert all(each.upcoming_ms[2] - each.upcoming_ms[0] == 2 * HOUR_MS for each in found)


def test_a_topic_that_is_gone_is_reported_and_waited_for(broker, client, stored):
    client.schedules.create("beat", "reports", every_ms=HOUR_MS)
    client.delete_topic("reports")
    broker.advance(hours=1)
    assert "no topic" in client.schedules.get("beat").error
    client.create_topic("reports")
    eventually(stored)
    assert client.schedules.get("beat").error == ""


def test_keys_choose_the_partition_as_for_any_producer(broker, client):
    client.create_topic("orders", partitions=3)
    client.alter_topic("orders", partitions=64)
    client.schedules.create("beat", "orders", b"x", every_ms=HOUR_MS, key=b"k")
    broker.advance(hours=1)
    assert client.produce("orders", b"y", key=b"k").offset == 1


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({}, "either a cron expression or an interval"),
        ({"cron": "@daily", "every_ms": 5_000}, "either a cron expression or an interval"),
        ({"cron": "0 25 * * *"}, "Bad hour"),
        ({"cron": "@daily", "time_zone": "Mars/Base"}, "no time zone 'Mars/Base'"),
        ({"cron": "* * */20 * 1L"}, "no time in the next 50 years"),
        ({"every_ms": 10}, "an interval is 1000 to"),
        ({"every_ms": 0}, "an interval is a second"),
        ({"every_ms": 5_000, "time_zone": "Europe/Berlin"}, "belongs to a cron expression"),
        ({"every_ms": 5_000, "missed": "some"}, "missed is one of skip, one, all"),
        ({"every_ms": 5_000, "missed_max": 0}, "missed_max"),
        ({"every_ms": 5_000, "key": b""}, "not empty"),
        ({"every_ms": 5_000, "payload": b"x" * 70_000}, "65536 bytes"),
        ({"every_ms": 5_000, "name": "a/b"}, "name of a schedule"),
    ],
)
def test_bad_input_is_refused_and_changes_nothing(client, arguments, complaint):
    with pytest.raises(InvalidArgumentError, match=complaint):
        client.schedules.create(**{"name": "x", "topic": "reports", **arguments})
    assert client.schedules.list() == []


@pytest.mark.parametrize("verb", ["get", "pause", "resume", "delete", "run"])
def test_a_schedule_that_is_not_there(client, verb):
    with pytest.raises(NotFoundError, match="no schedule 'ghost'"):
        getattr(client.schedules, verb)("ghost")
