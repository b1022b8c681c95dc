"""Tokens: what is refused, whom a good one names, and a file of keys that changes."""

import base64
import itertools
import json
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from flotilla.security.tokens import TokenVerifier
from flotilla.types.access import Principal
from flotilla.types.errors import InvalidArgumentError, UnauthenticatedError

NOW_S = 1_800_000_000
ED = ed25519.Ed25519PrivateKey.generate()
EC = ec.generate_private_key(ec.SECP256R1())


def jwk(key: Any, kid: str) -> dict[str, Any]:
    algorithm = (
        jwt.algorithms.OKPAlgorithm if isinstance(key, ed25519.Ed25519PrivateKey) else jwt.algorithms.ECAlgorithm
    )
    return {**algorithm.to_jwk(key.public_key(), as_dict=True), "kid": kid}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "jwks.json"
    file.write_text(json.dumps({"keys": [jwk(ED, "ed"), jwk(EC, "ec")]}))
    return file


@pytest.fixture
def now() -> list[int]:
    return [NOW_S]


@pytest.fixture
def verifier(path: Path, now: list[int]) -> TokenVerifier:
    return TokenVerifier(str(path), "ships", "https://issuer", lambda: now[0])


def token(key: Any = ED, kid: str | None = "ed", algorithm: str = "EdDSA", **changes: Any) -> str:
    claims = {"sub": "anna", "aud": "ships", "iss": "https://issuer", "exp": NOW_S + 600, **changes}
    claims = {name: value for name, value in claims.items() if value is not None}
    return jwt.encode(claims, key, algorithm, headers=None if kid is None else {"kid": kid})


def test_a_good_token_names_its_user(verifier):
    assert verifier.identity(token()).principal == Principal("user", "anna")
    assert verifier.identity(token(EC, "ec", "ES256", aud=["other", "ships"])).principal == Principal("user", "anna")


def _confused() -> str:
    """Signed with the public key as if it were a shared secret."""
    public = ED.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    return jwt.encode({"sub": "anna", "aud": "ships", "exp": NOW_S + 600}, public * 2, "HS256", headers={"kid": "ed"})


def _unsigned() -> str:
    parts = [{"alg": "none", "kid": "ed"}, {"sub": "anna", "aud": "ships", "exp": NOW_S + 600}]
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts) + "."


@pytest.mark.parametrize(
    "made",
    [
        _unsigned(),
        _confused(),
        token(ed25519.Ed25519PrivateKey.generate()),
        token(EC, "ed", "ES256"),
        token(kid="other"),
        token(kid=None),
        token(aud="other"),
        token(aud=None),
        token(iss="https://other"),
        token(exp=NOW_S - 61),
        token(exp=None),
        token(exp=NOW_S + 90_000),
        token(exp="soon"),
        token(nbf=NOW_S + 120),
        token(sub=None),
        token(sub="node:3"),
        token()[:-4] + "AAAA",
        "",
        "a.b.c",
        "x" * 10_000,
        "é.é.é",
    ],
    # Signatures differ from run to run, and from worker to worker.
    ids=itertools.count(),
)
def test_a_bad_token_is_refused(verifier, made):
    with pytest.raises(UnauthenticatedError):
        verifier.identity(made)


def test_clocks_may_be_off_by_a_minute(verifier, now):
    made = token(exp=NOW_S + 10, nbf=NOW_S + 30)
    assert verifier.identity(made)
    now[0] = NOW_S + 60
    assert verifier.identity(made)
    now[0] = NOW_S + 71
    with pytest.raises(UnauthenticatedError, match="expired"):
        verifier.identity(made)


def look(verifier: TokenVerifier, *, is_forced: bool = False) -> bool:
    """Whether there were new keys."""
    take = verifier.read(is_forced)
    if take is not None:
        take()
    return take is not None


def test_the_file_may_change(verifier, path):
    made = token()
    assert verifier.identity(made)
    assert not look(verifier)
    assert look(verifier, is_forced=True)
    path.write_text("no keys")
    assert not look(verifier)
    assert not look(verifier, is_forced=True)
    assert verifier.identity(made)
    path.write_text(json.dumps({"keys": [jwk(EC, "ec")]}))
    assert look(verifier)
    with pytest.raises(UnauthenticatedError):
        verifier.identity(made)
    assert verifier.identity(token(EC, "ec", "ES256"))


def test_no_log_in_touches_the_file(verifier, monkeypatch):
    def fail(*_: object, **__: object) -> None:
        raise AssertionError("the disk was asked")

    for call in ("stat", "open"):
        monkeypatch.setattr(Path, call, fail)
    assert verifier.identity(token())


@pytest.mark.parametrize(
    "keys",
    [
        [{"kty": "oct", "kid": "x", "k": "c2VjcmV0"}],
        [{"kty": "RSA", "kid": "x", "n": "AQAB", "e": "AQAB"}],
        [{"kty": "EC", "crv": "P-521", "kid": "x", "x": "AA", "y": "AA"}],
        [{**jwk(ED, "ed"), "d": "AA"}],
        [{"kty": "OKP", "crv": "Ed25519", "kid": "x", "x": "AA"}],
        "none",
    ],
)
def test_bad_files_of_keys(tmp_path, keys):
    file = tmp_path / "jwks.json"
    file.write_text(json.dumps({"keys": keys}))
    with pytest.raises(InvalidArgumentError):
        TokenVerifier(str(file), "ships", "", lambda: NOW_S)
    with pytest.raises(InvalidArgumentError):
        TokenVerifier(str(tmp_path / "missing"), "ships", "", lambda: NOW_S)
