"""SCRAM-SHA-256 against another implementation of it, scramp, as client and as server."""

import pytest

from flotilla.security.scram import ClientExchange, PasswordKeys, ServerExchange, derive
from flotilla.types.errors import UnauthenticatedError
from tests.unit.security.test_scram import PASSWORD, SALT, USER, VERIFIER

scramp = pytest.importorskip("scramp")
MECHANISM = scramp.ScramMechanism("SCRAM-SHA-256")


@pytest.mark.parametrize("user", ["anna", "a=b,c", "é"])
@pytest.mark.parametrize("password", [PASSWORD, "pässword", "ﬁne \u00a0", "a, b=c"])
def test_our_client_logs_in_at_another_server(user, password):
    info = MECHANISM.make_auth_info(password, iteration_count=4096, salt=SALT)
    server = MECHANISM.make_server({user: info}.__getitem__)
    client = ClientExchange(user, PasswordKeys(password), b"c" * 18)
    server.set_client_first(client.first().decode())
    server.set_client_final(client.answer(server.get_server_first().encode()).decode())
    client.check(server.get_server_final().encode())


@pytest.mark.parametrize("user", ["anna", "a=b,c", "é"])
@pytest.mark.parametrize("password", [PASSWORD, "pässword", "ﬁne \u00a0", "a, b=c"])
def test_another_client_logs_in_at_our_server(user, password):
    client = scramp.ScramClient(["SCRAM-SHA-256"], user, password)
    server = ServerExchange(b"s" * 18)
    assert server.read_first(client.get_client_first().encode()) == user
    client.set_server_first(server.challenge(derive(password, SALT, 4096)).decode())
    client.set_server_final(server.verdict(client.get_client_final().encode()).decode())


def test_a_wrong_password_is_refused_by_both():
    client = scramp.ScramClient(["SCRAM-SHA-256"], USER, "wrong")
    server = ServerExchange(b"s" * 18)
    server.read_first(client.get_client_first().encode())
    client.set_server_first(server.challenge(VERIFIER).decode())
    with pytest.raises(UnauthenticatedError):
        server.verdict(client.get_client_final().encode())
    other = MECHANISM.make_server(lambda _: MECHANISM.make_auth_info(PASSWORD, iteration_count=4096, salt=SALT))
    ours = ClientExchange(USER, PasswordKeys("wrong"), b"c" * 18)
    other.set_client_first(ours.first().decode())
    with pytest.raises(scramp.ScramException):
        other.set_client_final(ours.answer(other.get_server_first().encode()).decode())


def test_our_verifier_is_the_one_of_another_implementation():
    salt, stored, server, iterations = MECHANISM.make_auth_info(PASSWORD, iteration_count=4096, salt=SALT)
    assert (VERIFIER.salt, VERIFIER.iterations, VERIFIER.stored_key, VERIFIER.server_key) == (
        salt,
        iterations,
        stored,
        server,
    )
