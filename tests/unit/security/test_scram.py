"""SCRAM-SHA-256 against the vectors of RFC 7677, against changed messages, and both sides against each other."""

from base64 import b64decode, b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flotilla.security.scram import (
    ClientExchange,
    PasswordKeys,
    ServerExchange,
    derive,
    fake_verifier,
    is_password,
    prepared,
)
from flotilla.types.errors import InvalidArgumentError, UnauthenticatedError

# RFC 7677, section 3.
USER, PASSWORD = "user", "pencil"
CLIENT_NONCE = b64decode("rOprNGfwEbeRWgbNEkqO")
SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
SALT = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
CLIENT_FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
CLIENT_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="

VERIFIER = derive(PASSWORD, SALT, 4096)


def test_the_client_of_the_rfc():
    client = ClientExchange(USER, PasswordKeys(PASSWORD), CLIENT_NONCE)
    assert client.first() == CLIENT_FIRST
    assert client.answer(SERVER_FIRST) == CLIENT_FINAL
    client.check(SERVER_FINAL)


def test_the_server_of_the_rfc():
    server = ServerExchange(b"")
    server._nonce = SERVER_NONCE
    assert server.read_first(CLIENT_FIRST) == USER
    assert server.challenge(VERIFIER) == SERVER_FIRST
    assert server.verdict(CLIENT_FINAL) == SERVER_FINAL


def log_in(user: str, password: str, verifier=VERIFIER) -> str:
    client, server = ClientExchange(user, PasswordKeys(password), b"c" * 18), ServerExchange(b"s" * 18)
    found = server.read_first(client.first())
    client.check(server.verdict(client.answer(server.challenge(verifier))))
    return found


@pytest.mark.parametrize("user", ["anna", "node:3", "a=b,c", "=2C", "é"])
def test_both_sides_agree(user):
    assert log_in(user, PASSWORD) == user


@pytest.mark.parametrize("password", ["Pencil", "pencil ", "", "p" * 2000, "a\nb"])
def test_a_wrong_password_is_refused(password):
    with pytest.raises((UnauthenticatedError, InvalidArgumentError)):
        log_in(USER, password)
    assert not is_password(VERIFIER, password)


def test_a_password_is_recognised():
    assert is_password(VERIFIER, PASSWORD)
    # The same text in another form: a ligature.
    assert prepared("ﬁne") == "fine"


def test_an_unknown_user_gets_a_challenge_like_any_other_and_never_in():
    fake = fake_verifier("nobody", b"secret")
    assert fake == fake_verifier("nobody", b"secret")
    assert fake.salt != fake_verifier("somebody", b"secret").salt
    with pytest.raises(UnauthenticatedError, match="unknown or the password is wrong"):
        log_in("nobody", PASSWORD, fake)


def test_a_server_that_does_not_know_the_verifier_is_found_out():
    client = ClientExchange(USER, PasswordKeys(PASSWORD), CLIENT_NONCE)
    client.first()
    client.answer(SERVER_FIRST)
    for verdict in (b"v=" + b64encode(bytes(32)), b"e=other-error", b""):
        with pytest.raises(UnauthenticatedError):
            client.check(verdict)


@pytest.mark.parametrize(
    "challenge",
    [
        b"r=other,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        b"r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        b"r=rOprNGfwEbeRWgbNEkqOxx,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=1",
        b"r=rOprNGfwEbeRWgbNEkqOxx,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=99999999",
        b"r=rOprNGfwEbeRWgbNEkqOxx,s=,i=4096",
        b"\xff",
    ],
)
def test_a_client_refuses_strange_challenges(challenge):
    client = ClientExchange(USER, PasswordKeys(PASSWORD), CLIENT_NONCE)
    client.first()
    with pytest.raises(UnauthenticatedError):
        client.answer(challenge)


@given(st.binary(max_size=60), st.binary(max_size=120))
def test_a_server_takes_any_bytes(first, final):
    with pytest.raises(UnauthenticatedError):
        ServerExchange(b"s" * 18).read_first(first)
    server = ServerExchange(b"s" * 18)
    server.read_first(b"n,,n=user,r=abc")
    server.challenge(VERIFIER)
    with pytest.raises(UnauthenticatedError):
        server.verdict(final)


@given(st.integers(0, len(CLIENT_FINAL) - 1), st.integers(1, 255))
def test_a_changed_proof_is_refused(at, change):
    server = ServerExchange(b"")
    server._nonce = SERVER_NONCE
    server.read_first(CLIENT_FIRST)
    server.challenge(VERIFIER)
    changed = bytearray(CLIENT_FINAL)
    changed[at] ^= change
    with pytest.raises(UnauthenticatedError):
        server.verdict(bytes(changed))
