"""Schedules in the metadata: bounds, versions, lives, and runs that commit a transaction."""

import pytest

from flotilla.metadata.machine import MetadataMachine
from flotilla.metadata.scheduling.commands import PauseSchedule, PutSchedule, RemoveSchedule, RunSchedule
from flotilla.metadata.scheduling.schedules import Schedule
from flotilla.metadata.transactions import COMMITTED
from flotilla.types import limits
from flotilla.types.errors import (
    AlreadyExistsError,
    InvalidArgumentError,
    NotFoundError,
    OverloadedError,
    TransactionEndedError,
    UnavailableError,
)
from tests.unit.metadata.entries import Log, cluster
from tests.unit.metadata.plans import plan


@pytest.fixture
def log() -> Log:
    log = cluster()
    log.create("reports", 2)
    return log


def put(log: Log, name: str = "nightly", next_ms: int = 1_000, schedule_id: int = 0, **changes) -> Schedule:
    made = log.command(PutSchedule(name, schedule_id, plan(**changes), next_ms, 100))
    assert isinstance(made, Schedule), made
    return made


def run(schedule: Schedule, transaction_id: str = "x", *, next_ms: int = 2_000, group: int = 16) -> RunSchedule:
    return RunSchedule(
        schedule.schedule_id, schedule.version, schedule.next_ms, False, next_ms, transaction_id, group, 1_000, 1_001
    )


def test_a_run_commits_its_message_and_moves_the_schedule_on(log):
    schedule = put(log)
    ran = log.command(run(schedule))
    assert (ran.runs, ran.last_ms, ran.produced_ms, ran.next_ms) == (1, 1_000, 1_001, 2_000)
    decided = log.machine.state.transactions.awaited["x"]
    assert (decided.state, decided.waiting) == (COMMITTED, (16,))


def test_a_second_stage_of_a_run_is_never_committed(log):
    schedule = put(log)
    log.command(run(schedule))
    assert isinstance(log.command(run(schedule, "y")), UnavailableError)
    assert log.machine.state.transactions.get("y") is None
    assert log.machine.state.schedules.schedules[1].runs == 1


def test_an_ended_transaction_is_no_run(log):
    first, second = put(log, "a"), put(log, "b")
    log.command(run(first))
    assert isinstance(log.command(run(second)), TransactionEndedError)
    assert log.machine.state.schedules.schedules[2].runs == 0


def test_a_run_to_a_partition_that_is_gone_is_refused(log):
    assert isinstance(log.command(run(put(log), group=99)), NotFoundError)


@pytest.mark.parametrize(
    "change",
    [
        lambda schedule: PutSchedule("nightly", 1, plan(cron="0 4 * * *"), 3_000, 200),
        lambda schedule: PauseSchedule(1, True, 0, 200),
        lambda schedule: RemoveSchedule(1, 200),
    ],
)
def test_a_change_ends_the_run_that_began_before_it(log, change):
    schedule = put(log)
    log.command(change(schedule))
    assert isinstance(log.command(run(schedule)), UnavailableError | NotFoundError)
    assert log.machine.state.transactions.awaited == {}


def test_a_schedule_made_anew_is_another_one(log):
    schedule = put(log)
    log.command(RemoveSchedule(schedule.schedule_id, 150))
    again = put(log)
    assert again.schedule_id == 2
    assert isinstance(log.command(run(schedule)), NotFoundError)


def test_skipping_moves_on_without_a_message(log):
    schedule = put(log)
    ran = log.command(RunSchedule(1, schedule.version, 0, True, 5_000, "", 0, 0, 1_500))
    assert (ran.runs, ran.last_ms, ran.skipped_ms, ran.next_ms) == (0, 0, 1_500, 5_000)


def test_those_that_wait_are_in_the_order_of_time(log):
    put(log, "b", 3_000)
    put(log, "a", 2_000)
    put(log, "c", 0)
    table = log.machine.state.schedules
    assert table.waiting == [(2_000, 2), (3_000, 1)]
    log.command(PauseSchedule(2, True, 0, 200))
    assert table.waiting == [(3_000, 1)]
    log.command(PauseSchedule(2, False, 9_000, 300))
    log.command(RemoveSchedule(1, 400))
    assert table.waiting == [(9_000, 2)]
    assert table.find("a") is table.schedules[2]
    assert table.find("b") is None


def test_a_snapshot_holds_them(log):
    put(log, headers=(("h", b"\xff\x00"),), key=b"k")
    put(log, "gone")
    log.command(RemoveSchedule(2, 150))
    log.command(run(log.machine.state.schedules.schedules[1]))
    restored = MetadataMachine()
    restored.restore(log.machine.snapshot())
    before, after = log.machine.state.schedules, restored.state.schedules
    assert after.schedules == before.schedules
    assert (after.next_id, after.waiting, after.size_bytes) == (3, before.waiting, before.size_bytes)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"name": "no/name"}, InvalidArgumentError),
        ({"topic": "no topic"}, InvalidArgumentError),
        ({"cron": ""}, InvalidArgumentError),
        ({"cron": "0 3 * * *", "every_ms": 5_000}, InvalidArgumentError),
        ({"cron": "x" * 201}, InvalidArgumentError),
        ({"cron": "0 3 * * *\n"}, InvalidArgumentError),
        ({"every_ms": 999}, InvalidArgumentError),
        ({"every_ms": 10**12}, InvalidArgumentError),
        ({"time_zone": "x" * 65}, InvalidArgumentError),
        ({"missed": "some"}, InvalidArgumentError),
        ({"missed_max": 0}, InvalidArgumentError),
        ({"missed_max": 1_001}, InvalidArgumentError),
        ({"priority": 8}, InvalidArgumentError),
        ({"content_type": 256}, InvalidArgumentError),
        ({"payload": b"x" * (limits.SCHEDULE_MESSAGE_BYTES_MAX + 1)}, InvalidArgumentError),
        ({"name": "taken"}, AlreadyExistsError),
        ({"schedule_id": 9}, NotFoundError),
        ({"schedule_id": 1, "name": "other"}, InvalidArgumentError),
        ({"start_ms": 2**63}, InvalidArgumentError),
    ],
)
def test_bad_plans_are_refused_and_change_nothing(log, changes, error):
    put(log, "taken")
    before = log.machine.snapshot()
    name, schedule_id = changes.pop("name", "nightly"), changes.pop("schedule_id", 0)
    command = PutSchedule(name, schedule_id, plan(**changes), 1_000, 100)
    assert isinstance(log.machine.check(command), error)
    assert isinstance(log.command(command), error)
    assert log.machine.snapshot()[8:] == before[8:] or log.machine.state.schedules.by_name == {"taken": 1}


def test_all_messages_together_are_bounded(log, monkeypatch):
    monkeypatch.setattr("flotilla.metadata.scheduling.schedules.SCHEDULE_BYTES_MAX", 10)
    put(log, "a", payload=b"123456")
    assert isinstance(log.command(PutSchedule("b", 0, plan(payload=b"12345"), 1, 1)), OverloadedError)
    put(log, "a", schedule_id=1, payload=b"1234567890")
    log.command(RemoveSchedule(1, 5))
    put(log, "b", payload=b"12345")


def test_their_number_is_bounded(log, monkeypatch):
    monkeypatch.setattr("flotilla.metadata.scheduling.schedules.SCHEDULE_COUNT_MAX", 1)
    put(log, "a")
    assert isinstance(log.command(PutSchedule("b", 0, plan(), 1, 1)), OverloadedError)
    put(log, "a", schedule_id=1)
