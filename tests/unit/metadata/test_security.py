"""Users and grants in the metadata: what each command does, what is refused, and that the version moves."""

from unittest.mock import patch

import pytest

from flotilla.metadata.machine import MetadataMachine
from flotilla.metadata.security.commands import (
    PutAdministrator,
    PutGrant,
    PutSecret,
    PutUser,
    RemoveGrant,
    RemoveUser,
)
from flotilla.types.access import ACTIONS, ALL, CONSUME, MANAGE, OPERATE, PRODUCE, Grant, Verifier
from flotilla.types.errors import (
    AlreadyExistsError,
    FlotillaError,
    InvalidArgumentError,
    NotFoundError,
    OverloadedError,
)
from tests.unit.metadata.entries import Log, cluster

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
