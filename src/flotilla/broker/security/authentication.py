"""Log-ins at a broker: who a caller is, by a password (SCRAM), by the cluster's secret (nodes), or by a token.

One `LogIn` per connection. It never sees a password and does only a few HMACs, so it runs on the loop. An unknown user
gets a challenge like any other, and is refused with the same words as a wrong password.
"""

from collections.abc import Callable
from typing import Final, Protocol

from flotilla.broker.catalog import CatalogMachine
from flotilla.machine import here
from flotilla.security import scram
from flotilla.security.join_secret import JOIN_MECHANISM, JoinSecret
from flotilla.security.tokens import Identity
from flotilla.types.access import ITERATIONS_MIN, NODE, NODE_PREFIX, USER, Principal, Verifier
from flotilla.types.errors import UnauthenticatedError
from flotilla.types.operations import Authenticate, Challenge

BEARER: Final = "BEARER"
_SECRET_SALT: Final = b"flotilla nodes"


class Tokens(Protocol):
    """Reads bearer tokens: security.tokens.TokenVerifier."""

    def identity(self, token: str) -> Identity:
        """Whom the token names, and until when. Raises UnauthenticatedError."""


class Authentication:
    """What all log-ins of a node share."""

    def __init__(
        self, machine: CatalogMachine, tokens: Tokens | None = None, join_secret: JoinSecret | None = None
    ) -> None:
        self._machine = machine
        self.tokens = tokens
        self.join_secret = join_secret
        #: Makes up challenges for users who do not exist.
        self._fakes = here().secret(32)
        self._node_verifier: tuple[bytes, Verifier] | None = None

    @property
    def mechanisms(self) -> list[str]:
        return [scram.MECHANISM] if self.tokens is None else [scram.MECHANISM, BEARER]

    def verifier(self, name: str) -> Verifier:
        """Of a user, or of a node that proves itself by the cluster's secret; a fake one for all others."""
        security = self._machine.state.security
        if name.startswith(NODE_PREFIX) and security.secret:
            return self._verifier_of_nodes(security.secret)
        user = security.users.get(name)
        return scram.fake_verifier(name, self._fakes) if user is None else user.verifier

    def known_verifier(self, name: str) -> Verifier | None:
        user = self._machine.state.security.users.get(name)
        return None if user is None else user.verifier

    def principal(self, name: str) -> Principal:
        """Who has proved the password of this name."""
        if not name.startswith(NODE_PREFIX):
            return Principal(USER, name)
        return Principal(NODE, name[len(NODE_PREFIX) :])

    def _verifier_of_nodes(self, secret: bytes) -> Verifier:
        if self._node_verifier is None or self._node_verifier[0] != secret:
            # A few milliseconds, once in the life of a process: the secret is random, and needs no more rounds.
            self._node_verifier = (secret, scram.derive(node_password(secret), _SECRET_SALT, ITERATIONS_MIN))
        return self._node_verifier[1]


def node_password(secret: bytes) -> str:
    return secret.hex()


class LogIn:
    """One connection's way from Welcome to its principal. Raises UnauthenticatedError, which ends it."""

    def __init__(self, shared: Authentication, done: Callable[[Principal, bool, int], None]) -> None:
        """`done` gets the principal, whether it is one of the users with a password, and when its log-in ends.

        The end is in seconds since 1970; 0: it has none.
        """
        self._shared = shared
        self._done = done
        self._exchange: scram.ServerExchange | None = None
        self._join = JoinLogIn(shared.join_secret)
        #: Who says to log in, for the audit log.
        self.name = ""

    def step(self, request: Authenticate) -> Challenge:
        if request.mechanism == BEARER and self._shared.tokens is not None:
            principal, expires_s = self._shared.tokens.identity(request.data.decode("utf-8", "replace"))
            self.name = principal.name
            self._done(principal, False, expires_s)
            return Challenge(b"", True)
        if request.mechanism == JOIN_MECHANISM:
            return self._step_of_join(request.data)
        if request.mechanism != scram.MECHANISM:
            offered = " and ".join(self._shared.mechanisms)
            raise UnauthenticatedError(f"this broker offers {offered}, not {request.mechanism[:32]!r}")
        exchange = self._exchange
        if exchange is None:
            exchange = self._exchange = scram.ServerExchange(here().secret(scram.NONCE_BYTES))
            self.name = exchange.read_first(request.data)
            return Challenge(exchange.challenge(self._shared.verifier(self.name)))
        self._exchange = None
        verdict = exchange.verdict(request.data)
        principal = self._shared.principal(self.name)
        self._done(principal, principal.kind == USER, 0)
        return Challenge(verdict, True)

    def _step_of_join(self, data: bytes) -> Challenge:
        challenge = self._join.step(data)
        self.name = self._join.name
        if challenge.is_done:
            self._done(Principal(NODE, self.name), False, 0)
        return challenge


class JoinLogIn:
    """A proof that the caller knows the join secret. Raises UnauthenticatedError."""

    def __init__(self, secret: JoinSecret | None) -> None:
        self._secret = secret
        self._exchange: scram.ServerExchange | None = None
        self.name = ""
        self.is_done = False

    def step(self, data: bytes) -> Challenge:
        if self._secret is None:
            raise UnauthenticatedError("this broker has no join secret")
        exchange, self._exchange = self._exchange, None
        if exchange is None:
            exchange = self._exchange = scram.ServerExchange(here().secret(scram.NONCE_BYTES))
            self.name = exchange.read_first(data)
            return Challenge(exchange.challenge(self._secret.verifier))
        try:
            verdict = exchange.verdict(data)
        except UnauthenticatedError:
            raise UnauthenticatedError("the join secret is another one than that of this broker") from None
        self.is_done = True
        return Challenge(verdict, True)
