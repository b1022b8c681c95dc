"""Join tokens in the metadata: good once, for a while, and for the same node again."""

from unittest.mock import patch

import pytest

from flotilla.metadata.machine import MetadataMachine
from flotilla.metadata.security.join_tokens import PutJoinToken, UseJoinToken
from flotilla.types.errors import FlotillaError, InvalidArgumentError, OverloadedError, PermissionDeniedError
from tests.unit.metadata.entries import Log, cluster

ONE, TWO = b"1" * 32, b"2" * 32


@pytest.fixture
def log() -> Log:
    made = cluster(1)
    assert not isinstance(made.command(PutJoinToken(ONE, 1_000, 100)), FlotillaError)
    return made


def use(log: Log, digest: bytes, node: int, now_ms: int, incarnation: int = 7) -> object:
    return log.command(UseJoinToken(digest, node, incarnation, now_ms))


def test_a_token_is_good_for_one_node(log: Log) -> None:
    assert use(log, ONE, 4, 200) is None
    # The answer may have been lost.
    assert use(log, ONE, 4, 201) is None
    assert isinstance(use(log, ONE, 5, 202), PermissionDeniedError)
    assert isinstance(use(log, ONE, 4, 203, incarnation=8), PermissionDeniedError)
    # Making it again does not free it.
    assert log.command(PutJoinToken(ONE, 2_000, 204)) is None
    assert isinstance(use(log, ONE, 5, 205), PermissionDeniedError)


def test_a_token_expires(log: Log) -> None:
    assert isinstance(use(log, ONE, 4, 1_000), PermissionDeniedError)
    assert isinstance(use(log, TWO, 4, 200), PermissionDeniedError)
    log.command(PutJoinToken(TWO, 3_000, 1_500))
    assert list(log.machine.state.join_tokens.tokens) == [TWO]


@pytest.mark.parametrize(
    "command",
    [
        PutJoinToken(b"short", 1_000, 100),
        PutJoinToken(TWO, 100, 100),
        PutJoinToken(TWO, 100 + 86_400_001, 100),
    ],
)
def test_what_is_no_token_is_refused(log: Log, command: PutJoinToken) -> None:
    assert isinstance(log.command(command), InvalidArgumentError)


def test_there_are_not_too_many(log: Log) -> None:
    with patch("flotilla.metadata.security.join_tokens.JOIN_TOKEN_COUNT_MAX", 1):
        assert isinstance(log.command(PutJoinToken(TWO, 1_000, 999)), OverloadedError)
        assert log.command(PutJoinToken(TWO, 2_000, 1_000)) is None


def test_a_snapshot_has_them(log: Log) -> None:
    use(log, ONE, 4, 200)
    restored = MetadataMachine()
    restored.restore(log.machine.snapshot())
    assert restored.state.join_tokens.tokens == log.machine.state.join_tokens.tokens
