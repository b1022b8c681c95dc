"""Decisions about transactions: once, for all, and remembered long enough."""

import pytest

from flotilla.metadata.commands import CommitTogether, ConfirmTransaction, DecideTransaction, DeleteTopic
from flotilla.metadata.queries import TransactionById
from flotilla.metadata.transactions import (
    ABORTED,
    COMMITTED,
    MEMBER_COUNT_MAX,
    REMEMBERED_COUNT_MAX,
    REMEMBERED_MS,
    TransactionTable,
)
from flotilla.types.errors import InvalidArgumentError, NotFoundError, TransactionEndedError
from tests.unit.metadata.entries import Log, cluster


def decide(transaction_id="x", *, application_id="", version=0, groups=(16,), is_commit=True, now_ms=100):
    return DecideTransaction(transaction_id, application_id, version, groups, is_commit, now_ms)


@pytest.fixture
def log():
    log = cluster()
    log.create("t", 3)
    return log


def test_the_first_decision_stands(log):
    first = log.command(decide(groups=(17, 16)))
    assert (first.state, first.waiting) == (COMMITTED, (16, 17))
    assert log.command(decide(now_ms=999)) == first
    assert isinstance(log.command(decide(is_commit=False)), TransactionEndedError)
    assert log.machine.read(TransactionById("x")) == first


def test_an_aborted_transaction_cannot_be_committed(log):
    assert log.command(decide(is_commit=False, groups=())).state == ABORTED
    assert isinstance(log.command(decide()), TransactionEndedError)


def test_a_transaction_ends_when_every_partition_has_confirmed(log):
    log.command(decide(groups=(16, 17)))
    log.command(ConfirmTransaction((("x", 16), ("x", 99), ("unknown", 16)), 100))
    assert log.machine.read(TransactionById("x")).waiting == (17,)
    log.command(ConfirmTransaction((("x", 17), ("x", 17)), 100))
    assert log.machine.read(TransactionById("x")).waiting == ()


def test_a_deleted_topic_counts_as_confirmed(log):
    log.command(decide(groups=(16, 17, 18)))
    log.command(DeleteTopic("t", 0, 100))
    assert log.machine.read(TransactionById("x")).waiting == ()


@pytest.mark.parametrize(("version", "state"), [(4, ABORTED), (5, ABORTED), (6, COMMITTED)])
def test_a_committed_version_is_not_committed_again(log, version, state):
    log.command(decide("first", application_id="app", version=5))
    again = log.command(decide("second", application_id="app", version=version))
    # The stages of the second one are dropped, and the answer says that the version is committed.
    assert (again.state, again.is_repeated) == (state, state == ABORTED)
    assert log.command(decide("second", application_id="app", version=version)) == again
    assert log.command(decide("third", application_id="other", version=1)).state == COMMITTED


def test_decisions_survive_a_snapshot_in_their_order(log):
    log.command(decide("b", application_id="app", version=5))
    log.command(decide("a", is_commit=False))
    restored = Log()
    restored.machine.restore(log.machine.snapshot())
    assert list(restored.machine.state.transactions.transactions) == ["b", "a"]
    assert restored.machine.state_hash() == log.machine.state_hash()
    assert restored.machine.state.transactions.applications == {"app": 5}


@pytest.mark.parametrize(
    ("command", "error"),
    [
        (decide(groups=(99,)), NotFoundError),
        (decide(groups=(16, 16)), InvalidArgumentError),
        (decide(transaction_id=""), InvalidArgumentError),
        (decide(transaction_id="a b"), InvalidArgumentError),
        (decide(version=3), InvalidArgumentError),
        (decide(application_id="x" * 201), InvalidArgumentError),
    ],
)
def test_invalid_commands_are_refused(log, command, error):
    assert isinstance(log.machine.check(command), error)
    assert isinstance(log.command(command), error)


def test_ended_transactions_expire_but_not_before_all_have_confirmed():
    table = TransactionTable()
    table.decide("waited", "", 0, (16,), is_commit=True, now_ms=0)
    table.decide("over", "", 0, (), is_commit=True, now_ms=0)
    table.decide("young", "", 0, (), is_commit=True, now_ms=REMEMBERED_MS - 1)
    assert len(table.transactions) == 3
    table.decide("new", "", 0, (), is_commit=True, now_ms=REMEMBERED_MS)
    assert list(table.transactions) == ["waited", "young", "new"]


def test_room_is_made_when_there_are_many():
    table = TransactionTable()
    for number in range(REMEMBERED_COUNT_MAX + 100):
        table.decide(str(number), "", 0, (), is_commit=True, now_ms=0)
    assert len(table.transactions) == REMEMBERED_COUNT_MAX + 1


def together(transaction_id="all", *, application_id="app", version=1, members=(("a", (17, 16)), ("b", (16,)))):
    return CommitTogether(transaction_id, application_id, version, members, 100)


def test_several_are_committed_by_one_decision(log):
    decided = log.command(together())
    assert (decided.state, decided.waiting, decided.is_repeated) == (COMMITTED, (), False)
    found = [log.machine.read(TransactionById(name)) for name in "ab"]
    assert [(each.state, each.waiting) for each in found] == [(COMMITTED, (16, 17)), (COMMITTED, (16,))]
    assert log.command(together()) == decided
    log.command(ConfirmTransaction((("a", 16), ("b", 16)), 100))
    assert [log.machine.read(TransactionById(name)).waiting for name in "ab"] == [(17,), ()]


def test_a_version_that_is_done_drops_all_members(log):
    log.command(together())
    again = log.command(together("again", members=(("c", (16,)), ("d", (17,)))))
    assert (again.state, again.is_repeated) == (ABORTED, True)
    found = [log.machine.read(TransactionById(name)) for name in "cd"]
    assert [(each.state, each.is_repeated, each.waiting) for each in found] == [
        (ABORTED, True, (16,)),
        (ABORTED, True, (17,)),
    ]
    assert log.command(together("next", version=2, members=(("e", (16,)),))).state == COMMITTED


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_member_that_is_over_keeps_the_others_from_being_committed(log, is_commit):
    log.command(decide("b", is_commit=is_commit))
    assert isinstance(log.command(together()), TransactionEndedError)
    assert log.machine.read(TransactionById("a")) is None
    # The version is free: the job may stage again and commit.
    assert log.command(together("again", members=(("c", (16,)),))).is_repeated is False


@pytest.mark.parametrize(
    ("command", "error"),
    [
        (together(members=(("a", (99,)),)), NotFoundError),
        (together(members=(("a", (16, 16)),)), InvalidArgumentError),
        (together(members=(("a", (16,)), ("a", (17,)))), InvalidArgumentError),
        (together("a"), InvalidArgumentError),
        (together(members=(("", (16,)),)), InvalidArgumentError),
        (together(application_id=""), InvalidArgumentError),
        (together(members=tuple([(str(number), ()) for number in range(MEMBER_COUNT_MAX + 1)])), InvalidArgumentError),
    ],
)
def test_an_invalid_joint_commit_is_refused_whole(log, command, error):
    assert isinstance(log.machine.check(command), error)
    assert isinstance(log.command(command), error)
    assert log.machine.state.transactions.transactions == {}
