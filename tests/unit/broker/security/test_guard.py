"""The guard: every operation without, with a wrong and with the right grant; and decisions that follow the metadata."""

from typing import Any

import pytest

from flotilla.broker.catalog import CatalogMachine
from flotilla.broker.security.audit import Audit
from flotilla.broker.security.guard import DECISION_COUNT_MAX, Guard, Session
from flotilla.metadata.scheduling.schedules import Schedule
from flotilla.types import operations as ops
from flotilla.types.access import (
    ALL,
    ANYBODY,
    ANYONE,
    FOUND,
    MANAGE,
    NODES,
    OPERATE,
    PRODUCE,
    SCHEDULE,
    TAKE_PART,
    Grant,
    Principal,
    Verifier,
)
from flotilla.types.errors import NotFoundError, PermissionDeniedError, UnauthenticatedError
from tests.unit.codec.samples import samples
from tests.unit.metadata.plans import plan

VERIFIER = Verifier(b"0123456789abcdef", 4_096, b"s" * 32, b"k" * 32)
ANNA = Principal("user", "anna")
KINDS = [kind for kind in ops.OPERATIONS.values() if not kind.is_for_endpoint]


class Recorded:
    """A service that does nothing, and says what it was asked for."""

    node = 1
    cluster_id = "c"
    metadata_index = 0

    def __init__(self) -> None:
        self.handled: list[Any] = []

    def handle(self, request, done, metadata_index=0):
        self.handled.append(request)
        done(ops.Done())

    def lost(self, members):
        raise AssertionError

    def now_ms(self):
        return 0


class Node:
    def __init__(self) -> None:
        self.machine = CatalogMachine()
        self.service = Recorded()
        self.now_ms = 0
        self.guard = Guard(self.service, self.machine, Audit(lambda: 7), lambda: self.now_ms)

    @property
    def table(self):
        return self.machine.state.security

    def session(
        self, principal: Principal | None = None, *, is_local: bool = False, is_listed: bool = False
    ) -> Session:
        session = Session(self.guard, "tcp", "127.0.0.1:1", is_local=is_local)
        if principal is not None:
            session.authenticated(principal, is_listed=is_listed)
        return session


@pytest.fixture
def node() -> Node:
    return Node()


def asked(node: Node, session: Session, request: ops.Request) -> Any:
    """The answer, and that the service was asked exactly if it is not refused."""
    before = len(node.service.handled)
    answers: list[Any] = []
    session.handle(request, answers.append)
    (answer,) = answers
    assert len(node.service.handled) == before + (not isinstance(answer, Exception))
    return answer


def request_of(kind: type[ops.Request]) -> ops.Request:
    return list(samples(kind))[1]


def grants_for(request: ops.Request, user: str = "anna") -> list[Grant]:
    """Exactly what the request needs."""
    right = request.needs
    if right in (OPERATE, FOUND):
        return [Grant(user, OPERATE)]
    if right == SCHEDULE:
        return [Grant(user, action, resource.topic) for action in (MANAGE, PRODUCE) for resource in request.resources]
    if right == TAKE_PART:
        right = PRODUCE
    group_of = (lambda resource: ALL) if right == PRODUCE else (lambda resource: resource.group or ALL)
    return [Grant(user, right, resource.topic, group_of(resource)) for resource in request.resources]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.operation)
def test_every_operation_without_a_wrong_and_the_right_grant(node, kind, monkeypatch):
    monkeypatch.setattr(kind, "visible", lambda self, reply, may: reply)
    request = request_of(kind)
    node.table.put_user("somebody", VERIFIER, 0)
    assert isinstance(asked(node, node.session(), request), UnauthenticatedError)
    if request.needs == NODES:
        for grant in (Grant("anna", action) for action in ("produce", "consume", "describe", "manage", "operate")):
            node.table.put_grant(grant)
        assert isinstance(asked(node, node.session(ANNA), request), PermissionDeniedError)
    elif request.needs == ANYBODY:
        assert asked(node, node.session(ANNA), request) == ops.Done()
    else:
        refused = asked(node, node.session(ANNA), request)
        assert isinstance(refused, NotFoundError | PermissionDeniedError)
        for action in ("produce", "consume", "describe", "manage"):
            node.table.put_grant(Grant("anna", action, "another-topic", ALL))
        assert type(asked(node, node.session(ANNA), request)) is type(refused)
        for grant in grants_for(request):
            node.table.put_grant(grant)
        assert asked(node, node.session(ANNA), request) == ops.Done()
        # Other users have gained nothing.
        assert isinstance(asked(node, node.session(Principal("user", "ben")), request), type(refused))
    assert asked(node, node.session(Principal("node", "3")), request) == ops.Done()


def test_a_log_in_that_ends_is_watched_while_its_caller_is_there(node):
    node.table.put_grant(Grant("anna", PRODUCE, "mine"))
    session, other = node.session(), node.session(ANNA)
    session.authenticated(ANNA, expires_s=100)
    for each in (session, other):
        each.enter()
    assert node.guard.expiring == {session: None}
    node.now_ms = 99_999
    assert not node.guard.expire()
    assert asked(node, session, ops.Produce("mine", 0, b"")) == ops.Done()
    node.now_ms = 100_000
    assert node.guard.expire()
    assert isinstance(asked(node, session, ops.Produce("mine", 0, b"")), UnauthenticatedError)
    assert asked(node, other, ops.Produce("mine", 0, b"")) == ops.Done()
    node.now_ms = 1_000_000
    assert not node.guard.expire()
    left = node.session()
    left.authenticated(ANNA, expires_s=100)
    left.leave(left.enter())
    assert not node.guard.expiring


def test_what_may_not_be_described_is_not_found_whether_it_exists_or_not(node):
    node.table.put_grant(Grant("anna", PRODUCE, "mine"))
    session = node.session(ANNA)
    assert isinstance(asked(node, session, ops.Produce("other", 0, b"")), NotFoundError)
    assert isinstance(asked(node, session, ops.DeleteTopic("other")), NotFoundError)
    assert isinstance(asked(node, session, ops.DeleteTopic("mine")), PermissionDeniedError)
    assert isinstance(asked(node, session, ops.CreateTopic("other")), PermissionDeniedError)
    assert isinstance(asked(node, session, ops.PauseSchedule("x")), NotFoundError)


def test_a_schedule_belongs_to_its_topic(node):
    node.machine.state.schedules.put(Schedule(1, "nightly", plan(topic="other"), 0, 0))
    for action in (MANAGE, PRODUCE):
        node.table.put_grant(Grant("anna", action, "mine"))
    session = node.session(ANNA)
    mine, other = ops.ScheduleDefinition("mine"), ops.ScheduleDefinition("other")
    assert asked(node, session, ops.CreateSchedule("new", mine)) == ops.Done()
    assert isinstance(asked(node, session, ops.CreateSchedule("new", other)), NotFoundError)
    # Nor is the schedule of another topic taken over.
    taken = asked(node, session, ops.CreateSchedule("nightly", mine, is_update=True))
    assert isinstance(taken, PermissionDeniedError)
    assert "other" not in str(taken).split()
    for request in (ops.PauseSchedule("nightly"), ops.DeleteSchedule("nightly"), ops.RunSchedule("nightly")):
        refused = asked(node, session, request)
        assert isinstance(refused, NotFoundError)
        assert str(refused) == "there is no schedule 'nightly'"
    node.table.put_grant(Grant("anna", MANAGE, "other"))
    assert asked(node, session, ops.PauseSchedule("nightly")) == ops.Done()
    assert asked(node, session, ops.DeleteSchedule("nightly")) == ops.Done()
    assert isinstance(asked(node, session, ops.RunSchedule("nightly")), PermissionDeniedError)
    node.table.put_grant(Grant("anna", PRODUCE, "other"))
    assert asked(node, session, ops.RunSchedule("nightly")) == ops.Done()
    assert asked(node, session, ops.CreateSchedule("nightly", mine, is_update=True)) == ops.Done()


def test_a_commit_says_for_whom_it_is_whatever_the_caller_says(node):
    node.table.put_grant(Grant("anna", PRODUCE, "mine"))
    request = ops.CommitTransaction("x", [("mine", 0)], "app", 1, owner="ben")
    assert asked(node, node.session(ANNA), request) == ops.Done()
    assert node.service.handled[-1].owner == "anna"
    assert node.session(ANNA).checked(request).owner == "anna"
    # A node asks for somebody else, and those who may operate commit for any application.
    asked(node, node.session(Principal("node", "3")), request)
    assert node.service.handled[-1].owner == "ben"
    node.table.put_grant(Grant("anna", OPERATE))
    asked(node, node.session(ANNA), request)
    assert node.service.handled[-1].owner == ""


def test_transactions_and_producers_are_the_users_own(node):
    node.table.put_grant(Grant("anna", PRODUCE, "mine"))
    session, others = node.session(ANNA), "ben~x"
    batch = ops.Stage("mine", 0, "x", b"")
    # The second time by the decision that is remembered.
    for _ in range(2):
        assert asked(node, session, batch) == ops.Done()
        assert node.service.handled[-1].transaction_id == session.checked(batch).transaction_id == "anna~x"
    assert batch.transaction_id == "x"
    asked(node, session, ops.CommitTransaction("x", [("mine", 0)], members=[("y", [0])]))
    assert (node.service.handled[-1].transaction_id, node.service.handled[-1].members) == ("anna~x", [("anna~y", [0])])
    asked(node, session, ops.Produce("mine", 0, b""))
    assert node.service.handled[-1].owner == "anna"
    for request in (
        ops.Stage("mine", 0, others, b""),
        ops.CommitTransaction(others, [("mine", 0)]),
        ops.CommitTransaction("x", [("mine", 0)], members=[(others, [0])]),
        ops.AbortTransaction(others, [("mine", 0)]),
        ops.TransactionOutcome("mine", 0, others),
    ):
        assert isinstance(asked(node, session, request), PermissionDeniedError), request
        with pytest.raises(PermissionDeniedError):
            session.checked(request)
    # A node asks for somebody else, and those who may operate name anybody's.
    asked(node, node.session(Principal("node", "3")), ops.AbortTransaction(others))
    assert node.service.handled[-1].transaction_id == others
    node.table.put_grant(Grant("anna", OPERATE))
    asked(node, session, ops.AbortTransaction(others, [("mine", 0)]))
    assert node.service.handled[-1].transaction_id == others


def test_whoever_does_not_say_who_they_are_has_no_ids_of_users(node):
    node.guard.stranger = ANYONE
    node.table.put_grant(Grant("anonymous", PRODUCE, "mine"))
    session = node.session(ANYONE)
    asked(node, session, ops.Produce("mine", 0, b""))
    assert node.service.handled[-1].owner == ""
    asked(node, session, ops.Stage("mine", 0, "x", b""))
    assert node.service.handled[-1].transaction_id == "x"
    assert isinstance(asked(node, session, ops.Stage("mine", 0, "ben~x", b"")), PermissionDeniedError)


def test_a_decision_is_remembered_until_users_or_grants_change(node, monkeypatch):
    grant = Grant("anna", PRODUCE, "mine")
    node.table.put_grant(grant)
    session = node.session(ANNA)
    request = ops.Produce("mine", 0, b"")
    assert asked(node, session, request) == ops.Done()
    monkeypatch.setattr("flotilla.broker.security.guard.allows", None)
    assert asked(node, session, request) == ops.Done()
    monkeypatch.undo()
    node.table.remove_grant(grant)
    assert isinstance(asked(node, session, request), NotFoundError)
    node.table.put_grant(grant)
    assert asked(node, session, request) == ops.Done()


def test_decisions_are_bounded(node):
    node.table.put_grant(Grant("anna", PRODUCE))
    session = node.session(ANNA)
    for number in range(DECISION_COUNT_MAX + 10):
        asked(node, session, ops.Produce(f"t{number}", 0, b""))
    assert len(session._allowed) <= DECISION_COUNT_MAX


def test_a_removed_user_is_nobody(node):
    node.table.put_user("anna", VERIFIER, 0)
    node.table.put_grant(Grant("anna", PRODUCE, "mine"))
    session = node.session(ANNA, is_listed=True)
    assert session.is_open
    node.table.remove_user("anna")
    assert not session.is_open
    assert isinstance(asked(node, session, ops.Produce("mine", 0, b"")), UnauthenticatedError)


def test_a_user_of_a_certificate_needs_no_row(node):
    node.table.put_grant(Grant("anna", PRODUCE, "mine"))
    assert asked(node, node.session(ANNA), ops.Produce("mine", 0, b"")) == ops.Done()


def test_whoever_is_on_the_machine_founds_until_there_is_a_user(node):
    session = node.session(is_local=True)
    assert asked(node, session, ops.InitCluster({})) == ops.Done()
    assert asked(node, session, ops.CreateAdministrator("root", VERIFIER)) == ops.Done()
    assert isinstance(asked(node, session, ops.Produce("mine", 0, b"")), UnauthenticatedError)
    assert isinstance(asked(node, session, ops.CreateUser("anna", VERIFIER)), UnauthenticatedError)
    assert not node.session().is_open
    node.table.put_administrator("root", VERIFIER, 0)
    for each in (session, node.session(is_local=True)):
        assert isinstance(asked(node, each, ops.InitCluster({})), UnauthenticatedError)
        assert not each.is_open


def test_metadata_show_what_may_be_described(node):
    node.table.put_grant(Grant("anna", PRODUCE, "mine"))
    topics = [ops.TopicInfo(name, 1, [], {}) for name in ("mine", "other")]
    node.service.handle = lambda request, done, metadata_index=0: done(ops.Metadata("c", 1, [], topics))
    answers: list[Any] = []
    node.session(ANNA).handle(ops.GetMetadata(), answers.append)
    node.session(Principal("node", "2")).handle(ops.GetMetadata(), answers.append)
    assert [[topic.name for topic in answer.topics] for answer in answers] == [["mine"], ["mine", "other"]]


def test_changes_and_denials_are_in_the_audit_log(node, caplog):
    caplog.set_level("INFO", logger="flotilla.audit")
    node.table.put_grant(Grant("anna", MANAGE, "mine"))
    session = node.session(ANNA)
    asked(node, session, ops.DeleteTopic("mine"))
    for _ in range(100):
        asked(node, session, ops.Produce("other", 0, b"secret payload"))
    events = [(record.message, record.fields["operation"], record.fields["outcome"]) for record in caplog.records]
    assert events[0] == ("change", "delete_topic", "done")
    assert events[1] == ("denied", "produce", "NOT_FOUND")
    assert len(events) <= 12
    fields = caplog.records[0].fields
    assert (fields["principal"], fields["address"], fields["topic"]) == ("user anna", "127.0.0.1:1", "mine")
    assert fields["metadata_index"] == 7
    assert "secret" not in caplog.text
