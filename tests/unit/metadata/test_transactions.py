"""Decisions about transactions: once, for all, and remembered long enough."""

import pytest

from flotilla.metadata.applications import APPLICATION_COUNT_MAX, APPLICATION_REMEMBERED_MS, Used
from flotilla.metadata.commands import (
    CommitTogether,
    ConfirmTransaction,
    DecideTransaction,
    DeleteTopic,
    ForgetTransaction,
)
from flotilla.metadata.ended_transactions import DECISION_COUNT_MAX, FORGOTTEN_MS_MIN, REMEMBERED_MS
from flotilla.metadata.queries import TransactionById
from flotilla.metadata.transactions import (
    ABORTED,
    AWAITED_PER_PARTITION_MAX,
    COMMITTED,
    MEMBER_COUNT_MAX,
    TransactionTable,
)
from flotilla.types.errors import (
    ForgottenError,
    InvalidArgumentError,
    NotFoundError,
    OverloadedError,
    PermissionDeniedError,
    TransactionEndedError,
)
from flotilla.types.topics import SETTINGS
from tests.unit.metadata.entries import Log, cluster


def decide(transaction_id="x", *, application_id="", version=0, groups=(16,), is_commit=True, begun_ms=50, now_ms=100):
    return DecideTransaction(transaction_id, application_id, version, groups, is_commit, begun_ms, "", now_ms)


#: Of transactions in the tests of the table alone.
BEGUN_MS = 1_700_000_000_000


def check(
    table, transaction_id, *, groups=(16,), application_id="", version=0, is_commit=True, begun_ms=BEGUN_MS
) -> None:
    table.check(transaction_id, application_id, version, groups, is_commit=is_commit, begun_ms=begun_ms)


def commit(table, transaction_id, *, groups=(), application_id="", version=0, is_commit=True, now_ms=BEGUN_MS) -> None:
    table.decide(transaction_id, application_id, version, groups, is_commit=is_commit, now_ms=now_ms)


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
    repeated = log.command(decide("second", application_id="app", version=version))
    assert (repeated.state, repeated.is_repeated) == (again.state, again.is_repeated)
    assert log.command(decide("third", application_id="other", version=1)).state == COMMITTED


def test_decisions_survive_a_snapshot_in_their_order(log):
    log.command(decide("b", application_id="app", version=5))
    log.command(decide("a", is_commit=False))
    restored = Log()
    restored.machine.restore(log.machine.snapshot())
    table = restored.machine.state.transactions
    assert [table.get(name) for name in "ab"] == [log.machine.state.transactions.get(name) for name in "ab"]
    assert restored.machine.state_hash() == log.machine.state_hash()
    assert table.applications.get("app") == Used(5, 100)
    assert list(table.waiting_for(16)) == ["b"]


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


def test_a_transaction_that_waits_for_a_partition_is_known_for_ever():
    table = TransactionTable()
    commit(table, "waited", groups=(16,))
    commit(table, "over")
    commit(table, "new", now_ms=BEGUN_MS + 100 * REMEMBERED_MS)
    assert table.get("waited").state == COMMITTED
    assert table.get("over") is None
    table.confirm("waited", 16, BEGUN_MS + 100 * REMEMBERED_MS)
    assert (table.get("waited").state, table.get("waited").waiting) == (COMMITTED, ())


@pytest.mark.parametrize("is_commit", [True, False])
def test_what_may_be_forgotten_is_not_decided_again(is_commit):
    """An aborted transaction must not be committed when its decision is forgotten, nor the other way round."""
    table = TransactionTable()
    commit(table, "first", is_commit=is_commit)
    assert table.get("first") is not None
    commit(table, "tick", now_ms=BEGUN_MS + 2 * REMEMBERED_MS)
    assert table.get("first") is None
    for repeated in (True, False):
        with pytest.raises(ForgottenError):
            check(table, "first", is_commit=repeated)
    # A transaction that began since is decided as ever.
    check(table, "second", begun_ms=BEGUN_MS + 2 * REMEMBERED_MS)


def test_a_transaction_can_wait_for_its_decision_as_long_as_any_may():
    table = TransactionTable()
    for minute in range(240):
        now_ms = BEGUN_MS + minute * 60_000
        commit(table, f"tick {minute}".replace(" ", "-"), now_ms=now_ms)
        check(table, "slow", begun_ms=now_ms - 15 * 60_000 + 1 if minute >= 15 else BEGUN_MS)


def test_a_full_memory_says_what_it_has_forgotten():
    """At 10,000 decisions a second it holds those of 100 s. Nobody is refused; what is older is told."""
    table = TransactionTable()
    for number in range(DECISION_COUNT_MAX + 200_000):
        table.ended.add(str(number), ABORTED, BEGUN_MS + number // 10)
    now_ms = BEGUN_MS + (DECISION_COUNT_MAX + 200_000) // 10
    assert len(table.ended) == DECISION_COUNT_MAX
    assert table.get("0") is None
    with pytest.raises(ForgottenError):
        check(table, "0", begun_ms=BEGUN_MS)
    with pytest.raises(ForgottenError):
        check(table, "old", begun_ms=now_ms - 101_000)
    # Clocks may differ by 60 s, and decisions of 10 s are forgotten together: 30 s are left, half of the default limit.
    check(table, "new", begun_ms=now_ms - 30_000)
    with pytest.raises(ForgottenError):
        check(table, "slow", begun_ms=now_ms - SETTINGS["transaction_timeout_ms"].default)


def test_a_commit_says_when_its_transaction_began():
    table = TransactionTable()
    with pytest.raises(InvalidArgumentError):
        check(table, "x", begun_ms=0)
    # Nothing is staged, so there is nothing to lose.
    check(table, "x", groups=(), begun_ms=0)
    # Only a decision that was made is wanted.
    with pytest.raises(ForgottenError):
        check(table, "x", begun_ms=FORGOTTEN_MS_MIN)


def test_a_version_that_is_done_is_repeated_however_old_its_transaction_is():
    table = TransactionTable()
    commit(table, "first", application_id="app", version=7)
    commit(table, "tick", now_ms=BEGUN_MS + 2 * REMEMBERED_MS)
    table.check("first", "app", 7, (16,), is_commit=True, begun_ms=BEGUN_MS)
    again = table.decide("first", "app", 7, (16,), is_commit=True, now_ms=BEGUN_MS + 2 * REMEMBERED_MS)
    assert again.is_repeated


@pytest.mark.slow
def test_a_million_transactions_pass_a_partition_that_is_away():
    """Commits wait for partition 99, which never answers. Those of other partitions are not held up."""
    table = TransactionTable()
    refused = 0
    now_ms = BEGUN_MS
    for number in range(1_000_000):
        name = str(number)
        if number % 100 == 0:
            now_ms += 10_000
            check(table, name, begun_ms=now_ms)
            try:
                check(table, f"{name}/99", groups=(16, 99), begun_ms=now_ms)
            except OverloadedError:
                refused += 1
            else:
                commit(table, f"{name}/99", groups=(99,), now_ms=now_ms)
        commit(table, name, groups=(16,), now_ms=now_ms)
        table.confirm(name, 16, now_ms)
    assert len(table.awaited) == AWAITED_PER_PARTITION_MAX
    assert refused == 10_000 - AWAITED_PER_PARTITION_MAX
    # Aborting what was staged there needs no room.
    check(table, "stuck", groups=(), is_commit=False, begun_ms=now_ms)
    table.release(99, now_ms)
    check(table, "again", groups=(99,), begun_ms=now_ms)


def test_many_applications_hold_up_no_other_transaction():
    table = TransactionTable()
    for number in range(APPLICATION_COUNT_MAX):
        table.applications.commit(str(number), 1, BEGUN_MS)
    check(table, "plain")
    check(table, "aborted", is_commit=False)
    check(table, "known", application_id="7", version=2)
    with pytest.raises(OverloadedError):
        check(table, "new", application_id="new", version=1)
    # They are idle for long: then there is room.
    later_ms = BEGUN_MS + APPLICATION_REMEMBERED_MS
    table.decide("known", "7", 2, (), is_commit=True, now_ms=later_ms)
    check(table, "new", application_id="new", version=1, begun_ms=later_ms)
    with pytest.raises(ForgottenError):
        check(table, "old", application_id="0", version=1, begun_ms=later_ms)
    table.forget("", "0", later_ms)
    check(table, "old", application_id="0", version=1, begun_ms=later_ms)


def test_an_operator_gives_up_partitions_and_applications(log):
    log.command(decide("lost", application_id="app", version=5, groups=(16, 17)))
    assert log.command(ForgetTransaction("lost", "", 200)) is None
    # The decision stands; no partition is waited for, so one that comes back drops its part.
    assert (log.machine.read(TransactionById("lost")).state, log.machine.read(TransactionById("lost")).waiting) == (
        COMMITTED,
        (),
    )
    assert log.command(decide("again", application_id="app", version=5)).is_repeated
    assert log.command(ForgetTransaction("", "app", 200)) is None
    assert not log.command(decide("anew", application_id="app", version=5)).is_repeated
    for command in (ForgetTransaction("lost", "", 200), ForgetTransaction("", "unknown", 200)):
        assert isinstance(log.command(command), NotFoundError)
    for command in (ForgetTransaction("", "", 200), ForgetTransaction("anew", "app", 200)):
        assert isinstance(log.command(command), InvalidArgumentError)


def together(transaction_id="all", *, application_id="app", version=1, members=(("a", (17, 16)), ("b", (16,)))):
    return CommitTogether(transaction_id, application_id, version, members, 50, "", 100)


def test_several_are_committed_by_one_decision(log):
    decided = log.command(together())
    assert (decided.state, decided.waiting, decided.is_repeated) == (COMMITTED, (), False)
    found = [log.machine.read(TransactionById(name)) for name in "ab"]
    assert [(each.state, each.waiting) for each in found] == [(COMMITTED, (16, 17)), (COMMITTED, (16,))]
    assert log.command(together()).state == COMMITTED
    log.command(ConfirmTransaction((("a", 16), ("b", 16)), 100))
    assert [log.machine.read(TransactionById(name)).waiting for name in "ab"] == [(17,), ()]


def test_a_version_that_is_done_drops_all_members(log):
    log.command(together())
    again = log.command(together("again", members=(("c", (16,)), ("d", (17,)))))
    assert (again.state, again.is_repeated) == (ABORTED, True)
    found = [log.machine.read(TransactionById(name)) for name in "cd"]
    assert [(each.state, each.is_repeated, each.waiting) for each in found] == [
        (ABORTED, True, ()),
        (ABORTED, True, ()),
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
    assert not log.machine.state.transactions.awaited
    assert not len(log.machine.state.transactions.ended)


def owned(table: TransactionTable, transaction_id: str, version: int, owner: str) -> None:
    """Checks and commits for an application on behalf of a user."""
    table.check(transaction_id, "app", version, (), is_commit=True, begun_ms=0, owner=owner)
    table.decide(transaction_id, "app", version, (), is_commit=True, now_ms=BEGUN_MS, owner=owner)


def test_an_application_belongs_to_the_user_who_committed_first():
    table = TransactionTable()
    # Before there were users, and before they logged in: it belongs to nobody yet.
    owned(table, "a", 1, "")
    owned(table, "a2", 1, "anonymous")
    owned(table, "b", 2, "anna")
    for other in ("ben", "anonymous"):
        with pytest.raises(PermissionDeniedError):
            owned(table, "c", 3, other)
    # Not even whether a version was committed is told to others.
    with pytest.raises(PermissionDeniedError):
        owned(table, "c", 1, "ben")
    with pytest.raises(PermissionDeniedError):
        table.check_together("t", "app", 3, (("m", ()),), begun_ms=0, owner="ben")
    owned(table, "d", 3, "")
    assert table.applications.get("app") == Used(3, BEGUN_MS, "anna")
    owned(table, "e", 4, "anna")
    # Forgotten with the application.
    table.forget("", "app", BEGUN_MS)
    owned(table, "f", 1, "ben")
    assert table.applications.get("app") == Used(1, BEGUN_MS, "ben")
