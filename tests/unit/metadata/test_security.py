"""Users and grants in the metadata: what each command does, what is refused, and that the version moves."""

from dataclasses import replace
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flotilla.metadata.commands import AlterTopic, CreateOwnedTopic, CreateTopic, DeleteTopic, SetClusterVersion
from flotilla.metadata.machine import MetadataMachine
from flotilla.metadata.security.commands import (
    PutAdministrator,
    PutGrant,
    PutQuota,
    PutRole,
    PutSecret,
    PutUser,
    RemoveGrant,
    RemoveQuota,
    RemoveRole,
    RemoveUser,
)
from flotilla.metadata.security.users import SecurityTable
from flotilla.types.access import (
    ACTIONS,
    ALL,
    CONSUME,
    MANAGE,
    OPERATE,
    PRODUCE,
    Grant,
    Principal,
    Resource,
    Verifier,
    allows,
)
from flotilla.types.errors import (
    AlreadyExistsError,
    ConfigurationChangeError,
    FlotillaError,
    InvalidArgumentError,
    NotFoundError,
    OverloadedError,
    QuotaExceededError,
)
from flotilla.types.operations.quotas import Quota
from flotilla.types.version import TOPIC_OWNERS
from tests.unit.metadata.entries import Log, cluster
from tests.unit.types.test_access import GRANTS, says

VERIFIER = Verifier(b"0123456789abcdef", 4_096, b"s" * 32, b"k" * 32)
OTHER = VERIFIER._replace(iterations=9_999)


@pytest.fixture
def log() -> Log:
    return cluster(1)


def table(log: Log):
    return log.machine.state.security


def version_after(log: Log, command: object) -> int:
    reply = log.command(command)  # type: ignore[arg-type]
    assert not isinstance(reply, FlotillaError), reply
    return table(log).version


def test_the_first_administrator_may_do_everything_and_there_is_one(log):
    assert version_after(log, PutAdministrator("root", VERIFIER, 5)) > 0
    assert {grant.action for grant in table(log).granted("root")} == {*ACTIONS}
    assert isinstance(log.command(PutAdministrator("other", VERIFIER, 6)), AlreadyExistsError)
    assert list(table(log).users) == ["root"]


def test_a_grant_alone_ends_the_time_of_the_first_administrator(log):
    version_after(log, PutGrant(Grant("cert", OPERATE), 5))
    assert isinstance(log.command(PutAdministrator("root", VERIFIER, 6)), AlreadyExistsError)


def test_users_come_change_and_go(log):
    versions = [
        version_after(log, PutUser("anna", VERIFIER, True, 5)),
        version_after(log, PutUser("anna", OTHER, False, 6)),
        version_after(log, PutGrant(Grant("anna", PRODUCE, "orders"), 7)),
    ]
    assert table(log).users["anna"].verifier == OTHER
    assert (table(log).users["anna"].created_ms, table(log).users["anna"].password_ms) == (5, 6)
    versions.append(version_after(log, RemoveUser("anna", 8)))
    assert versions == sorted(set(versions))
    assert table(log).users == {}
    assert table(log).grants == {}


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        (PutUser("anna", VERIFIER, True, 1), AlreadyExistsError),
        (PutUser("ben", VERIFIER, False, 1), NotFoundError),
        (PutUser("", VERIFIER, True, 1), InvalidArgumentError),
        (PutUser("ben", VERIFIER._replace(salt=b""), True, 1), InvalidArgumentError),
        (PutUser("ben", VERIFIER._replace(stored_key=b"k"), True, 1), InvalidArgumentError),
        (PutUser("ben", VERIFIER._replace(iterations=1), True, 1), InvalidArgumentError),
        (PutUser("ben", VERIFIER._replace(iterations=10**9), True, 1), InvalidArgumentError),
        (RemoveUser("ben", 1), NotFoundError),
        (RemoveUser("root", 1), InvalidArgumentError),
        (PutGrant(Grant("anna", "eat"), 1), InvalidArgumentError),
        (PutGrant(Grant("anna", OPERATE, "orders"), 1), InvalidArgumentError),
        (RemoveGrant(Grant("anna", MANAGE), 1), NotFoundError),
        (RemoveGrant(Grant("root", OPERATE), 1), InvalidArgumentError),
        (PutSecret(b"short", 1), InvalidArgumentError),
    ],
)
def test_what_is_refused_changes_nothing(log, command, kind):
    version_after(log, PutAdministrator("root", VERIFIER, 0))
    version_after(log, PutUser("anna", VERIFIER, True, 0))
    before = table(log).freeze()
    assert isinstance(log.machine.check(command), kind)
    assert isinstance(log.command(command), kind)
    assert table(log).freeze() == before


def test_an_operator_may_go_when_another_one_stays(log):
    version_after(log, PutAdministrator("root", VERIFIER, 0))
    version_after(log, PutGrant(Grant("anna", OPERATE), 1))
    version_after(log, RemoveUser("root", 2))
    assert isinstance(log.command(RemoveGrant(Grant("anna", OPERATE), 3)), InvalidArgumentError)


def test_a_grant_that_is_there_stays_and_the_version_with_it(log):
    grant = Grant("anna", CONSUME, "orders", "b*")
    version = version_after(log, PutGrant(grant, 1))
    assert version_after(log, PutGrant(grant, 2)) == version
    assert version_after(log, RemoveGrant(grant, 3)) > version
    assert table(log).grants == {}


def test_the_first_secret_stands_and_is_no_change_of_rights(log):
    version_after(log, PutSecret(b"a" * 32, 1))
    assert version_after(log, PutSecret(b"b" * 32, 2)) == 0
    assert table(log).secret == b"a" * 32


def test_bounds(log):
    with patch("flotilla.metadata.security.users.USER_COUNT_MAX", 1):
        version_after(log, PutUser("anna", VERIFIER, True, 1))
        assert isinstance(log.command(PutUser("ben", VERIFIER, True, 2)), OverloadedError)
        version_after(log, PutUser("anna", OTHER, False, 3))
    with patch("flotilla.metadata.security.users.USER_GRANT_COUNT_MAX", 1):
        version_after(log, PutGrant(Grant("anna", PRODUCE, "a"), 4))
        assert isinstance(log.command(PutGrant(Grant("anna", PRODUCE, "b"), 5)), OverloadedError)
        version_after(log, PutGrant(Grant("anna", PRODUCE, "a"), 6))
    with patch("flotilla.metadata.security.users.GRANT_COUNT_MAX", 1):
        assert isinstance(log.command(PutGrant(Grant("ben", PRODUCE, "b"), 7)), OverloadedError)


def test_a_snapshot_has_all_of_it(log):
    version_after(log, PutAdministrator("root", VERIFIER, 1))
    version_after(log, PutUser("anna", OTHER, True, 2))
    version_after(log, PutGrant(Grant("anna", CONSUME, "orders", ALL), 3))
    version_after(log, PutSecret(b"a" * 32, 4))
    restored = MetadataMachine()
    restored.restore(log.machine.snapshot())
    assert restored.state.security.freeze() == table(log).freeze()
    assert restored.snapshot() == log.machine.snapshot()
    # Counts are restored, too.
    version_after(log, RemoveUser("anna", 5))
    assert restored.state.security._grant_count == 6


def test_a_user_has_the_grants_of_its_roles(log):
    own, shared = Grant("anna", PRODUCE, "orders"), Grant("role:readers", CONSUME, "team-a.*")
    version_after(log, PutGrant(own, 1))
    version = version_after(log, PutGrant(shared, 2))
    assert version_after(log, PutRole("anna", "readers", 3)) > version
    version_after(log, PutRole("ben", "readers", 4))
    assert table(log).in_force("anna") == (own, shared)
    assert table(log).in_force("ben") == (shared,)
    version_after(log, RemoveRole("anna", "readers", 5))
    assert table(log).in_force("anna") == (own,)
    version_after(log, RemoveUser("role:readers", 6))
    assert table(log).in_force("ben") == ()
    assert table(log).roles == {}
    assert isinstance(log.command(RemoveUser("role:readers", 7)), NotFoundError)


def test_the_last_operator_may_be_one_by_a_role(log):
    version_after(log, PutGrant(Grant("root", OPERATE), 1))
    version_after(log, PutGrant(Grant("role:operators", OPERATE), 2))
    # A role that nobody has operates nothing.
    assert isinstance(log.command(RemoveGrant(Grant("root", OPERATE), 3)), InvalidArgumentError)
    version_after(log, PutRole("anna", "operators", 4))
    version_after(log, RemoveGrant(Grant("root", OPERATE), 5))
    for last in (
        RemoveRole("anna", "operators", 6),
        RemoveUser("anna", 6),
        RemoveUser("role:operators", 6),
        RemoveGrant(Grant("role:operators", OPERATE), 6),
    ):
        assert isinstance(log.command(last), InvalidArgumentError), last
    version_after(log, PutRole("ben", "operators", 7))
    version_after(log, RemoveUser("anna", 8))


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        (PutRole("", "readers", 1), InvalidArgumentError),
        (PutRole("anna", "role:readers", 1), InvalidArgumentError),
        (PutRole("role:x", "readers", 1), InvalidArgumentError),
        (RemoveRole("anna", "readers", 1), NotFoundError),
        (PutGrant(Grant("role:", PRODUCE), 1), InvalidArgumentError),
        (PutGrant(Grant("role:role:x", PRODUCE), 1), InvalidArgumentError),
        (PutUser("role:x", VERIFIER, True, 1), InvalidArgumentError),
        (RemoveQuota("anna", "", 1), NotFoundError),
        (RemoveQuota("", "", 1), InvalidArgumentError),
        (PutQuota(Quota("anna"), 1), InvalidArgumentError),
    ],
)
def test_what_is_refused_of_roles_and_quotas(log, command, kind):
    assert isinstance(log.command(command), kind)
    assert table(log).version == 0


def test_roles_and_quotas_have_bounds(log):
    with patch("flotilla.metadata.security.users.USER_ROLE_COUNT_MAX", 1):
        version_after(log, PutRole("anna", "one", 1))
        version_after(log, PutRole("anna", "one", 2))
        assert isinstance(log.command(PutRole("anna", "two", 3)), OverloadedError)
    with patch("flotilla.metadata.security.quotas.QUOTA_COUNT_MAX", 1):
        version_after(log, PutQuota(Quota("anna", connections=1), 4))
        version_after(log, PutQuota(Quota("anna", connections=2), 5))
        assert isinstance(log.command(PutQuota(Quota("ben", connections=1), 6)), OverloadedError)


def test_the_partitions_of_a_users_topics_are_bounded(log):
    of_anna = Quota("anna", partitions=3)
    assert isinstance(log.machine.check(CreateOwnedTopic("a", 1, 1, (), "anna", 1)), ConfigurationChangeError)
    assert isinstance(log.command(PutQuota(of_anna, 1)), ConfigurationChangeError)
    log.command(SetClusterVersion(TOPIC_OWNERS, tuple(log.machine.state.brokers), 2))
    version_after(log, PutQuota(of_anna, 3))
    assert isinstance(log.command(CreateOwnedTopic("a b", 1, 1, (), "anna", 4)), InvalidArgumentError)
    assert isinstance(log.command(CreateOwnedTopic("a", 1, 1, (), "an na", 4)), InvalidArgumentError)
    assert log.command(CreateOwnedTopic("a", 2, 1, (), "anna", 4)).owner == "anna"
    refused = log.command(CreateOwnedTopic("b", 2, 1, (), "anna", 5))
    assert isinstance(refused, QuotaExceededError)
    assert str(refused) == "user anna has 2 of 3 partitions, and cannot get 2 more"
    # It grows for its owner; topics of others and of nobody do not count.
    log.command(CreateOwnedTopic("b", 9, 1, (), "ben", 5))
    log.command(CreateTopic("c", 9, 1, (), 5))
    assert isinstance(log.command(AlterTopic("a", (), (), 4, 6)), QuotaExceededError)
    assert len(log.command(AlterTopic("a", (), (), 3, 6)).partitions) == 3
    assert log.machine.state.partitions_under(of_anna) == 3
    log.command(DeleteTopic("a", 0, 7))
    assert log.command(CreateOwnedTopic("b2", 3, 1, (), "anna", 8)).owner == "anna"


def test_a_quota_alone_leaves_room_for_the_first_administrator(log):
    log.command(PutQuota(Quota(namespace="team-a", partitions=1), 1))
    assert version_after(log, PutAdministrator("root", VERIFIER, 2)) > 0


@given(
    st.lists(st.tuples(st.sampled_from(("anna", "role:a", "role:b")), GRANTS), max_size=6),
    st.sets(st.tuples(st.sampled_from(("anna", "ben")), st.sampled_from(("a", "b"))), max_size=3),
    st.sampled_from(ACTIONS),
    st.sampled_from(("a", "ab", "b.c")),
)
def test_a_second_evaluator_agrees_about_roles(given_to, members, right, topic):
    """By the words of docs/security.md: what a role is granted counts for all who have it, beside their own grants."""
    security = SecurityTable()
    for holder, grant in given_to:
        security.put_grant(replace(grant, user=holder))
    for user, role in members:
        security.put_role(user, role)
    for user in ("anna", "ben"):
        holders = [user, *[f"role:{role}" for member, role in members if member == user]]
        expected = any(
            holder in holders and says(grant.action, grant.topic, grant.group, right, topic, "")
            for holder, grant in given_to
        )
        assert allows(security.in_force(user), Principal("user", user), right, [Resource(topic)]) is expected
