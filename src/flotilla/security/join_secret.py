"""The secret that nodes without TLS share: who knows it may found, enter and join the cluster, and play a node.

Nobody tells it. Over TCP it is the password of a SCRAM exchange (`JOIN_MECHANISM`), and on links both sides answer a
challenge with an HMAC over all that was said before. Both can be guessed at by somebody who has listened, so a secret
is long and random. It keeps strangers out, not those who can change what is on its way: that takes TLS.
"""

import hmac
from functools import cached_property
from hashlib import sha256
from typing import Final

from flotilla.machine import here
from flotilla.security import scram
from flotilla.security.secret_file import read_secret
from flotilla.types.access import ITERATIONS_MIN, Verifier
from flotilla.types.errors import InvalidArgumentError

#: How a node, or a command that founds a cluster, logs in with the secret. It is never offered, only accepted.
JOIN_MECHANISM: Final = "JOIN-SCRAM-SHA-256"
SECRET_CHARS_MIN: Final = 24
NONCE_BYTES: Final = 16
PROOF_BYTES: Final = 32
_SALT: Final = b"flotilla join secret"


class JoinSecret:
    def __init__(self, text: str, *, is_optional: bool = False) -> None:
        """With `is_optional` links to nodes without a secret are accepted. Raises InvalidArgumentError."""
        if len(text) < SECRET_CHARS_MIN:
            raise InvalidArgumentError(
                f"a join secret has at least {SECRET_CHARS_MIN} characters; `openssl rand -hex 32` makes one"
            )
        self._text = text
        self.is_optional = is_optional
        self._link_key = sha256(b"flotilla link\n" + text.encode()).digest()

    def __repr__(self) -> str:
        return "JoinSecret(...)"

    @cached_property
    def verifier(self) -> Verifier:
        # A few milliseconds, once: the secret is random, and needs no more rounds.
        return scram.derive(self._text, _SALT, ITERATIONS_MIN)

    @cached_property
    def keys(self) -> scram.PasswordKeys:
        return scram.PasswordKeys(self._text)

    def nonce(self) -> bytes:
        """What the other side has to prove the secret about."""
        return here().secret(NONCE_BYTES)

    def proof(self, *said: bytes) -> bytes:
        """Of one side of a link, about everything that both have said."""
        code = hmac.new(self._link_key, digestmod=sha256)
        for each in said:
            code.update(len(each).to_bytes(4, "big") + each)
        return code.digest()

    def is_proof(self, proof: bytes, *said: bytes) -> bool:
        return hmac.compare_digest(proof, self.proof(*said))


def read_join_secret(path: str, *, is_optional: bool = False) -> JoinSecret | None:
    """None: there is no path. Raises InvalidArgumentError."""
    return JoinSecret(read_secret(path), is_optional=is_optional) if path else None
