"""`flotilla user`, `flotilla acl` and the first administrator, at a broker that asks who is there."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from flotilla.cli import cluster
from flotilla.cli.app import app
from flotilla.cli.terminal import first_administrator
from flotilla.client.admin.users import Users
from flotilla.security.scram import derive
from flotilla.testing import LocalBroker
from flotilla.types.address import Address
from tests.integration.ports import free_ports


@contextmanager
def started(monkeypatch: pytest.MonkeyPatch, **settings: Any) -> Iterator[LocalBroker]:
    for name in ("FLOTILLA_USER", "FLOTILLA_PASSWORD_FILE", "FLOTILLA_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    # The command passes the address on, so it must be a real one.
    peers = Address("127.0.0.1", free_ports(1)[0])
    with LocalBroker(peer_listen=peers, **settings) as broker:
        monkeypatch.setenv("FLOTILLA_SERVERS", broker.address)
        yield broker


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalBroker]:
    with started(monkeypatch, authentication=True) as broker:
        yield broker


def run(*words: str, code: int = 0, typed: str | None = None) -> str:
    found = CliRunner().invoke(app, list(words), input=typed)
    assert found.exit_code == code, found.output
    return found.output


def test_from_the_first_administrator_to_a_revoked_grant(
    broker: LocalBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tmp_path / "admin.secret"
    assert "nowhere else" in run("cluster", "init", broker.address, "--admin-out", str(secret))
    assert secret.stat().st_mode & 0o777 == 0o600
    password = secret.read_text().strip()
    assert len(password) > 30
    assert "log in first" in run("user", "list", code=8)
    monkeypatch.setenv("FLOTILLA_USER", "admin")
    monkeypatch.setenv("FLOTILLA_PASSWORD_FILE", str(secret))
    # A second time: the file of before stays, and a new one does not.
    assert "nowhere else" in run("cluster", "init", broker.address, "--admin-out", str(secret))
    assert secret.read_text().strip() == password
    assert "already" in run("cluster", "init", broker.address, "--admin-out", str(tmp_path / "other"))
    assert not (tmp_path / "other").exists()
    run("user", "create", "anna", typed="pencil\npencil\n")
    mistyped = tmp_path / "empty"
    mistyped.write_text("pencil\n")
    mistyped.chmod(0o644)
    for verb in ("create", "password"):
        assert "chmod 600" in run("user", verb, "anna", "--password-file", str(mistyped), code=2)
    mistyped.write_text("")
    mistyped.chmod(0o600)
    assert "is empty" in run("user", "password", "anna", "--password-file", str(mistyped), code=2)
    assert [each["name"] for each in json.loads(run("user", "list", "--json"))] == ["admin", "anna"]
    run("acl", "grant", "anna", "consume", "orders*", "--group", "billing")
    assert "anna consume orders* group billing" in run("acl", "why", "anna", "consume", "orders2", "--group", "billing")
    assert "may not" in run("acl", "why", "anna", "consume", "orders2", "--group", "other", code=1)
    assert json.loads(run("acl", "list", "anna", "--json")) == [
        {"user": "anna", "action": "consume", "topic": "orders*", "group": "billing"}
    ]
    assert "an action is one of" in run("acl", "grant", "anna", "eat", "orders", code=2)
    run("acl", "revoke", "anna", "consume", "orders*", "--group", "billing")
    assert "there is no grant" in run("acl", "revoke", "anna", "consume", "orders*", "--group", "billing", code=3)
    run("user", "delete", "anna")
    assert "last user" in run("user", "delete", "admin", code=2)


def test_a_file_that_others_may_read_is_no_place_for_a_password(broker: LocalBroker, tmp_path: Path) -> None:
    open_to_all = tmp_path / "admin.secret"
    open_to_all.write_text("x" * 43 + "\n")
    open_to_all.chmod(0o644)
    assert "others may read it" in run("cluster", "init", broker.address, "--admin-out", str(open_to_all), code=2)
    # An attempt that was cut off after the file was written is repeated.
    open_to_all.chmod(0o600)
    assert "nowhere else" in run("cluster", "init", broker.address, "--admin-out", str(open_to_all))
    assert open_to_all.read_text() == "x" * 43 + "\n"


class Killed(BaseException):
    """The process ends here."""


def killed_before_the_file(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(first_administrator, "mkstemp", killed)


def killed_before_the_file_has_its_name(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(os, "link", killed)


def killed_before_the_user(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Users, "create_administrator", killed)


def killed_before_the_answer(patch: pytest.MonkeyPatch) -> None:
    create = Users.create_administrator

    def created(*asked: str) -> None:
        create(*asked)
        raise Killed

    patch.setattr(Users, "create_administrator", created)


def killed(*_: object, **__: object) -> None:
    raise Killed


@pytest.mark.parametrize(
    ("kill", "authentication"),
    [
        (killed_before_the_file, True),
        (killed_before_the_file_has_its_name, True),
        (killed_before_the_user, True),
        (killed_before_the_answer, True),
        (killed_before_the_answer, False),
    ],
)
def test_an_init_that_was_killed_is_repeated_and_there_is_one_password(
    kill: Callable[[pytest.MonkeyPatch], None], authentication: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tmp_path / "admin.secret"
    with started(monkeypatch, authentication=authentication) as broker:
        words = ["cluster", "init", broker.address, "--admin-out", str(secret)]
        with pytest.MonkeyPatch.context() as patch:
            kill(patch)
            with pytest.raises(Killed):
                CliRunner().invoke(app, words)
        is_written = secret.exists()
        password = secret.read_text() if is_written else ""
        for _ in range(2):
            assert "nowhere else" in run(*words)
            if is_written:
                assert secret.read_text() == password
        if authentication:
            assert "log in first" in run("user", "list", code=8)
        verifier = broker._server.catalog.machine.state.security.users["admin"].verifier
        assert derive(secret.read_text().strip(), verifier.salt, verifier.iterations) == verifier
        # With another file: whoever has no password gets none.
        other = tmp_path / "other"
        told = run(*words[:-1], str(other), code=8 if authentication else 0)
        assert ("log in first" if authentication else "no administrator was created") in told
        assert not other.exists()


def test_an_init_that_loses_the_race_leaves_no_password(
    broker: LocalBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    winner, loser = tmp_path / "winner", tmp_path / "loser"
    found = cluster._wait_formed

    def wait_formed(*asked: Any) -> Any:
        monkeypatch.setattr(cluster, "_wait_formed", found)
        run("cluster", "init", broker.address, "--admin-out", str(winner))
        return found(*asked)

    monkeypatch.setattr(cluster, "_wait_formed", wait_formed)
    run("cluster", "init", broker.address, "--admin-out", str(loser), code=8)
    assert [path.name for path in tmp_path.iterdir()] == ["winner"]
    monkeypatch.setenv("FLOTILLA_USER", "admin")
    monkeypatch.setenv("FLOTILLA_PASSWORD_FILE", str(winner))
    assert "admin" in run("user", "list")


def test_a_process_that_is_killed_while_it_writes_the_password(broker: LocalBroker, tmp_path: Path) -> None:
    """As soon as the file is there: whether the user is, too, differs from run to run."""
    secret = tmp_path / "admin.secret"
    words = ["cluster", "init", broker.address, "--admin-out", str(secret)]
    with subprocess.Popen([sys.executable, "-m", "flotilla.cli", *words], stderr=subprocess.DEVNULL) as process:
        while not secret.exists():
            assert process.poll() is None
        process.kill()
    assert "nowhere else" in run(*words)
    verifier = broker._server.catalog.machine.state.security.users["admin"].verifier
    assert derive(secret.read_text().strip(), verifier.salt, verifier.iterations) == verifier
