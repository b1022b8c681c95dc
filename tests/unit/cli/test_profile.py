"""Profiles: clusters by name, and what counts more than they."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from flotilla.cli.app import app
from flotilla.cli.profile import complete_profiles
from flotilla.cli.terminal.profiles import FIELDS, apply_profile, profiles_file
from flotilla.types.errors import InvalidArgumentError, NotFoundError


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for variable in ("FLOTILLA_PROFILE", *FIELDS.values()):
        # Set first, so that it is as before at the end also when a profile sets it.
        monkeypatch.setenv(variable, "")


@pytest.fixture
def profile() -> Callable[..., Any]:
    def run(*args: str, code: int = 0) -> Any:
        result = CliRunner().invoke(app, ["profile", *args])
        assert result.exit_code == code, result.output
        return result

    return run


def test_a_profile_stands_for_the_variables_of_a_client(profile, tmp_path: Path) -> None:
    profile("set", "work", "--servers", "node1:7600", "--user", "ann", "--tls-ca", str(tmp_path / "ca.crt"))
    apply_profile()
    assert os.environ["FLOTILLA_SERVERS"] == "node1:7600"
    assert os.environ["FLOTILLA_USER"] == "ann"
    assert os.environ["FLOTILLA_CLIENT_CA"] == str(tmp_path / "ca.crt")


def test_the_first_profile_is_chosen_until_another_is(profile) -> None:
    profile("set", "work", "--servers", "node1:7600")
    profile("set", "home", "--servers", "node2:7600")
    assert json.loads(profile("list", "--json").stdout)["chosen"] == "work"
    profile("use", "home")
    apply_profile()
    assert os.environ["FLOTILLA_SERVERS"] == "node2:7600"
    assert complete_profiles("h") == ["home"]
    profile("remove", "home")
    assert json.loads(profile("list", "--json").stdout) == {
        "chosen": "",
        "profiles": {"work": {"servers": "node1:7600"}},
    }


def test_a_variable_counts_more_than_the_chosen_profile_and_less_than_a_named_one(
    profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile("set", "work", "--servers", "node1:7600")
    monkeypatch.setenv("FLOTILLA_SERVERS", "node9:7600")
    apply_profile()
    assert os.environ["FLOTILLA_SERVERS"] == "node9:7600"
    apply_profile("work")
    assert os.environ["FLOTILLA_SERVERS"] == "node1:7600"


def test_the_option_in_front_of_a_command_names_a_profile(profile) -> None:
    profile("set", "nowhere", "--servers", "127.0.0.1:1")
    missing = CliRunner().invoke(app, ["--profile", "elsewhere", "topic", "list"])
    assert "no profile 'elsewhere'" in missing.stderr
    found = CliRunner().invoke(app, ["--profile", "nowhere", "topic", "list", "--timeout", "50ms"])
    assert "127.0.0.1:1" in found.stderr


def test_an_unknown_profile_and_a_damaged_file_are_errors(profile) -> None:
    with pytest.raises(NotFoundError):
        apply_profile("gone")
    assert "no profile 'gone'" in profile("use", "gone", code=3).stderr
    profiles_file().parent.mkdir(parents=True)
    profiles_file().write_text("{")
    with pytest.raises(InvalidArgumentError, match="damaged"):
        apply_profile()


def test_addresses_are_checked_before_they_are_kept(profile) -> None:
    profile("set", "work", "--servers", "node1:port", code=2)
    assert not profiles_file().exists()
