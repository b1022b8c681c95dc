"""`flotilla cert`."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from flotilla.cli.app import app


def call(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["cert", *words])
    assert result.exit_code == code, result.output
    return result.output


def test_an_authority_a_node_and_a_user(tmp_path: Path) -> None:
    folder = ("--folder", str(tmp_path / "certificates"))
    call("init", "--cluster", "shop", *folder)
    issued = json.loads(call("issue", "--node", "1", "--host", "node1", "--host", "10.0.0.1", "--json", *folder))
    assert issued["uri"] == "flotilla://shop/node/1"
    shown = json.loads(call("show", issued["certificate"], "--json"))
    assert shown["uris"] == ["flotilla://shop/node/1"]
    assert shown["hosts"] == ["node1", "10.0.0.1"]
    assert "flotilla://shop/user/alice" in call("issue", "--user", "alice", *folder)
    assert "exists already" in call("issue", "--user", "alice", *folder, code=5)
    call("issue", "--user", "alice", "--replace", *folder)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ((), "either a --node or a --user"),
        (("--node", "1", "--user", "alice"), "either a --node or a --user"),
        (("--node", "1"), "--host"),
        (("--user", "alice", "--host", "x"), "--host goes with --node"),
        (("--node", "1", "--host", "a b"), "neither a host name nor an address"),
        (("--user", "a b"), "no name of a user"),
        (("--user", "alice", "--days", "0"), "1 to 36500 days"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, words: tuple[str, ...], reason: str) -> None:
    folder = ("--folder", str(tmp_path))
    call("init", *folder)
    assert reason in call("issue", *words, *folder, code=2)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["ca.crt", "ca.key"]
