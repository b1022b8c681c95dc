"""`flotilla user`, `flotilla acl` and the first administrator, at a broker that asks who is there."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from flotilla.cli.app import app
from flotilla.testing import LocalBroker
from flotilla.types.address import Address
from tests.integration.ports import free_ports


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalBroker]:
    for name in ("FLOTILLA_USER", "FLOTILLA_PASSWORD_FILE", "FLOTILLA_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    # The command passes the address on, so it must be a real one.
    peers = Address("127.0.0.1", free_ports(1)[0])
    with LocalBroker(authentication=True, peer_listen=peers) as started:
        monkeypatch.setenv("FLOTILLA_SERVERS", started.address)
        yield started


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
    assert "already" in run("cluster", "init", broker.address, "--admin-out", str(secret))
    assert secret.read_text().strip() == password
    assert "already" in run("cluster", "init", broker.address, "--admin-out", str(tmp_path / "other"))
    assert not (tmp_path / "other").exists()
    run("user", "create", "anna", typed="pencil\npencil\n")
    mistyped = tmp_path / "empty"
    mistyped.touch()
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
