"""The tokens by which nodes join: each is good once, for some minutes. Only their digests are kept.

A token that was used stays until it expires, together with the node and the data directory that used it: that node may
ask again, because the answer can be lost, and no other may.
"""

from dataclasses import dataclass, replace
from typing import Final

from flotilla.types.errors import InvalidArgumentError, OverloadedError, PermissionDeniedError
from flotilla.types.ids import NO_NODE, NodeId
from flotilla.types.limits import JOIN_TOKEN_COUNT_MAX, JOIN_TOKEN_MS_MAX

#: Of SHA-256.
DIGEST_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class PutJoinToken:
    digest: bytes
    expires_ms: int
    now_ms: int


@dataclass(frozen=True, slots=True)
class UseJoinToken:
    digest: bytes
    node: NodeId
    #: The number of its data directory.
    incarnation: int
    now_ms: int


@dataclass(frozen=True, slots=True)
class JoinToken:
    digest: bytes
    expires_ms: int
    #: Who used it; NO_NODE: nobody yet.
    node: NodeId = NO_NODE
    incarnation: int = 0


class JoinTokenTable:
    __slots__ = ("tokens",)

    def __init__(self) -> None:
        self.tokens: dict[bytes, JoinToken] = {}

    def check_put(self, command: PutJoinToken) -> None:
        if len(command.digest) != DIGEST_BYTES:
            raise InvalidArgumentError(f"the digest of a token has {DIGEST_BYTES} bytes")
        if not 0 < command.expires_ms - command.now_ms <= JOIN_TOKEN_MS_MAX:
            raise InvalidArgumentError(f"a token is good for 1 to {JOIN_TOKEN_MS_MAX} ms")
        live = sum(token.expires_ms > command.now_ms for token in self.tokens.values())
        if command.digest not in self.tokens and live >= JOIN_TOKEN_COUNT_MAX:
            raise OverloadedError(f"at most {JOIN_TOKEN_COUNT_MAX} tokens are good at a time")

    def check_use(self, command: UseJoinToken) -> None:
        token = self.tokens.get(command.digest)
        if token is None or token.expires_ms <= command.now_ms:
            raise PermissionDeniedError("the join token is unknown or has expired; `flotilla cluster token` makes one")
        if token.node != NO_NODE and (token.node, token.incarnation) != (command.node, command.incarnation):
            raise PermissionDeniedError("the join token was used already; `flotilla cluster token` makes another one")

    # Changes. Callers have checked the command.

    def put(self, command: PutJoinToken) -> None:
        """A token that is there already stays as it is: the request was repeated."""
        for digest in [each.digest for each in self.tokens.values() if each.expires_ms <= command.now_ms]:
            del self.tokens[digest]
        self.tokens.setdefault(command.digest, JoinToken(command.digest, command.expires_ms))

    def use(self, command: UseJoinToken) -> None:
        token = self.tokens[command.digest]
        self.tokens[command.digest] = replace(token, node=command.node, incarnation=command.incarnation)

    # Snapshots.

    def freeze(self) -> tuple[JoinToken, ...]:
        return tuple([token for _, token in sorted(self.tokens.items())])

    def restore(self, frozen: tuple[JoinToken, ...]) -> None:
        """Raises AssertionError for tables that no commands make."""
        for token in frozen:
            assert token.digest not in self.tokens, "a token is there once"
            assert len(token.digest) == DIGEST_BYTES, "a digest has its length"
            self.tokens[token.digest] = token
