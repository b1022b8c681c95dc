"""Dead letters in the gRPC contract."""

from collections.abc import Iterable
from typing import Any, Protocol

from flotilla.codec.generated import flotilla_pb2 as pb
from flotilla.codec.grpc.values import DeadLettersAsked
from flotilla.types.records import Headers

_LIMIT_TO_SEE = 100
_LIMIT = 1_000

#: Numbers of a letter with the maximum of their fields. They come from headers, which clients can write, too.
_NUMBERS = {
    "partition": 2**32 - 1,
    "offset": 2**64 - 1,
    "origin_partition": 2**32 - 1,
    "origin_offset": 2**64 - 1,
    "attempts": 2**32 - 1,
    "died_ms": 2**64 - 1,
    "redriven": 2**32 - 1,
}


class Letter(Protocol):
    """A dead letter, beside its numbers."""

    @property
    def payload(self) -> bytes: ...

    @property
    def key(self) -> bytes | None: ...

    @property
    def headers(self) -> Headers: ...

    @property
    def topic(self) -> str: ...

    @property
    def reason(self) -> str: ...


class Counts(Protocol):
    """The result of a redrive or a purge."""

    @property
    def done(self) -> int: ...

    @property
    def refused(self) -> int: ...

    @property
    def skipped(self) -> int: ...


def read_list(body: pb.DeadLettersRequest) -> DeadLettersAsked:
    return _read(body, _LIMIT_TO_SEE)


def read_change(body: pb.DeadLettersRequest) -> DeadLettersAsked:
    return _read(body, _LIMIT)


def _read(body: pb.DeadLettersRequest, limit: int) -> DeadLettersAsked:
    return DeadLettersAsked(
        body.topic,
        body.group,
        body.limit or limit,
        reason=body.reason,
        since_ms=body.since_ms,
        until_ms=body.until_ms,
        is_dry_run=body.dry_run,
        is_forced=body.force,
    )


def write_letters(asked: DeadLettersAsked, letters: Iterable[Letter]) -> pb.DeadLettersReply:
    reply = pb.DeadLettersReply()
    for letter in letters:
        numbers: dict[str, Any] = {name: min(max(getattr(letter, name), 0), most) for name, most in _NUMBERS.items()}
        found = reply.dead_letters.add(
            payload=letter.payload, key=letter.key, topic=letter.topic, reason=letter.reason, **numbers
        )
        for name, value in letter.headers:
            found.headers.add(name=name, value=value)
    return reply


def write_done(asked: DeadLettersAsked, counts: Counts) -> pb.DeadLettersDone:
    return pb.DeadLettersDone(done=counts.done, refused=counts.refused, skipped=counts.skipped)
