"""The client's side of a log-in: steps to send, for what the broker answers."""

from typing import Final

from flotilla.client.credentials import Credentials, JoinCredentials, Token
from flotilla.machine import here
from flotilla.security import scram
from flotilla.security.join_secret import JOIN_MECHANISM
from flotilla.types.errors import UnauthenticatedError
from flotilla.types.operations import Authenticate, Challenge

BEARER: Final = "BEARER"


class LogIn:
    __slots__ = ("_exchange", "_is_answered", "_mechanism", "_token")

    def __init__(self, credentials: Credentials) -> None:
        self._exchange: scram.ClientExchange | None = None
        self._token = ""
        self._is_answered = False
        self._mechanism = scram.MECHANISM
        if isinstance(credentials, JoinCredentials):
            self._mechanism = JOIN_MECHANISM
        if isinstance(credentials, Token):
            self._token = credentials.text
            self._mechanism = BEARER
        else:
            nonce = here().secret(scram.NONCE_BYTES)
            self._exchange = scram.ClientExchange(credentials.user, credentials.keys, nonce)

    def begin(self, mechanisms: list[str]) -> Authenticate:
        """Raises UnauthenticatedError when the broker does not offer it."""
        mechanism = self._mechanism
        if mechanism not in mechanisms and mechanism != JOIN_MECHANISM:
            offered = ", ".join(mechanisms)
            raise UnauthenticatedError(
                f"the broker offers {offered} here, and the client's credentials need {mechanism}"
            )
        data = self._token.encode() if self._exchange is None else self._exchange.first()
        return Authenticate(mechanism, data)

    def answer(self, challenge: Challenge) -> Authenticate | None:
        """The next step; None: the client is in. Raises UnauthenticatedError."""
        exchange = self._exchange
        if exchange is None:
            if not challenge.is_done:
                raise UnauthenticatedError("the broker asks for more than a token")
            return None
        if challenge.is_done:
            exchange.check(challenge.data)
            return None
        if self._is_answered:
            raise UnauthenticatedError("the broker asks for a second proof")
        self._is_answered = True
        return Authenticate(self._mechanism, exchange.answer(challenge.data))
