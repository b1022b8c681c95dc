"""Several issuers of tokens: each is verified by its own keys, audience and users."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from flotilla.security.token_issuers import TokenIssuers
from flotilla.types.access import Principal
from flotilla.types.errors import InvalidArgumentError, UnauthenticatedError
from tests.unit.security.test_tokens import EC, ED, NOW_S, jwk, token

FILE = """
[[issuer]]
name = "https://issuer"
keys = "one.jwks"

[[issuer]]
name = "https://partner"
keys = "two.jwks"
audience = "boats"
user_prefix = "partner-"
"""
#: What a token of the partner differs in.
PARTNER: dict[str, Any] = {"iss": "https://partner", "aud": "boats", "sub": "partner-anna"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    # Both name their key alike.
    (tmp_path / "one.jwks").write_text(json.dumps({"keys": [jwk(ED, "k")]}))
    (tmp_path / "two.jwks").write_text(json.dumps({"keys": [jwk(EC, "k")]}))
    file = tmp_path / "issuers.toml"
    file.write_text(FILE)
    return file


def issuers(path: Path) -> TokenIssuers:
    return TokenIssuers(str(path), "ships", lambda: NOW_S)


def partner(**changes: Any) -> str:
    return token(EC, "k", "ES256", **{**PARTNER, **changes})


def test_each_issuer_names_its_users(path: Path) -> None:
    found = issuers(path)
    assert found.identity(token(kid="k")).principal == Principal("user", "anna")
    assert found.identity(partner()).principal == Principal("user", "partner-anna")


@pytest.mark.parametrize(
    "made",
    [
        lambda: token(kid="k", **PARTNER),
        lambda: partner(iss="https://issuer"),
        lambda: partner(iss="https://issuer", aud="ships", sub="anna"),
        lambda: partner(aud="ships"),
        lambda: token(kid="k", aud="boats"),
        lambda: partner(sub="anna"),
        lambda: partner(iss="https://nobody"),
        lambda: partner(iss=None),
        lambda: partner(exp=NOW_S - 600),
        lambda: "x" * 10_000,
        lambda: "a.b.c",
        lambda: "",
    ],
)
def test_what_is_not_of_the_issuer_that_it_names_is_refused(path: Path, made: Any) -> None:
    with pytest.raises(UnauthenticatedError):
        issuers(path).identity(made())


def look(found: TokenIssuers) -> bool:
    take = found.read(False)
    if take is not None:
        take()
    return take is not None


def test_the_file_is_read_again_and_a_bad_one_changes_nothing(path: Path) -> None:
    found = issuers(path)
    path.write_text(FILE.partition("[[issuer]]")[2].partition("[[issuer]]")[0] + "nonsense")
    os.utime(path, ns=(1, 1))
    assert not look(found)
    assert found.identity(partner()).principal.name == "partner-anna"
    path.write_text("[[issuer]]" + FILE.split("[[issuer]]")[1])
    os.utime(path, ns=(2, 2))
    assert look(found)
    assert found.identity(token(kid="k")).principal.name == "anna"
    with pytest.raises(UnauthenticatedError, match="not known here"):
        found.identity(partner())


def test_the_keys_of_one_issuer_change(path: Path) -> None:
    found = issuers(path)
    assert not look(found)
    keys = path.parent / "two.jwks"
    keys.write_text(json.dumps({"keys": [jwk(EC, "other")]}))
    os.utime(keys, ns=(1, 1))
    assert found.identity(partner()).principal.name == "partner-anna"
    assert look(found)
    with pytest.raises(UnauthenticatedError, match="a key that is not known here"):
        found.identity(partner())
    assert found.identity(token(kid="k")).principal.name == "anna"


def test_no_log_in_touches_a_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = issuers(path)

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("the disk was asked")

    for call in ("stat", "open"):
        monkeypatch.setattr(Path, call, fail)
    assert found.identity(partner()).principal.name == "partner-anna"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "no file of issuers"),
        ("issuer = []", "names 0 issuers"),
        ("issuer = 3", "no file of issuers"),
        (FILE + FILE, "names an issuer twice"),
        (FILE.replace("audience", "autience"), "an issuer has no 'autience'"),
        (FILE.replace('"boats"', '""'), "none is empty"),
        (FILE.replace("two.jwks", "missing.jwks"), "no file of public keys"),
        (FILE.replace("two.jwks", "issuers.toml"), "no file of public keys"),
        (FILE.replace('name = "https://partner"', ""), "no file of issuers"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused(path: Path, text: str, complaint: str) -> None:
    path.write_text(text)
    with pytest.raises(InvalidArgumentError, match=complaint):
        issuers(path)


def test_a_file_that_is_missing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="no file of issuers"):
        issuers(tmp_path / "missing")
