"""Lease tokens of HTTP and gRPC: one opaque text per message, `<topic id>.<partition>.<lease id>.<offset>`.

The only place that knows the format. An endpoint remembers no tokens: any node reads one that comes back, and refuses
numbers that could not travel between nodes. The topic's id tells the leases of a topic from those of an earlier one of
its name, in which partitions, lease ids and offsets may have been the same.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from flotilla.types.errors import InvalidArgumentError
from flotilla.types.ids import Offset
from flotilla.types.operations.queue import LeaseRange

#: Of topic id, partition, lease id and offset, as they travel between nodes.
_MAXIMA: Final = (2**63 - 1, 2**32 - 1, 2**64 - 1, 2**63 - 1)
#: A longer number is refused before it is converted.
_DIGITS_MAX: Final = 20
_QUOTED_CHARS_MAX: Final = 80


class LeasePlace(NamedTuple):
    """Where leases are held: a partition of a topic that is not its successor of the same name."""

    topic_id: int
    partition: int


class LeaseToken(NamedTuple):
    topic_id: int
    partition: int
    lease_id: int
    offset: Offset

    @property
    def place(self) -> LeasePlace:
        return LeasePlace(self.topic_id, self.partition)


def lease_token(topic_id: int, partition: int, lease_id: int, offset: Offset) -> str:
    return f"{topic_id}.{partition}.{lease_id}.{offset}"


def read_lease_token(token: str) -> LeaseToken:
    """Raises InvalidArgumentError."""
    parts = token.split(".")
    if len(parts) == 4 and token.isascii() and all(part.isdigit() and len(part) <= _DIGITS_MAX for part in parts):
        found = LeaseToken(*map(int, parts))
        is_complete = found.topic_id and found.lease_id
        if is_complete and all(number <= largest for number, largest in zip(found, _MAXIMA, strict=True)):
            return found
    raise InvalidArgumentError(f"{token[:_QUOTED_CHARS_MAX]!r} is no lease")


def leases_by_place(tokens: Iterable[str]) -> dict[LeasePlace, list[LeaseRange]]:
    """The leases of these tokens in as few runs as possible. Raises InvalidArgumentError."""
    found: dict[LeasePlace, list[LeaseRange]] = {}
    for token in sorted(map(read_lease_token, tokens)):
        runs = found.setdefault(token.place, [])
        last = runs[-1] if runs else None
        if last is not None and last.lease_id == token.lease_id and token.offset <= last.end:
            runs[-1] = last._replace(end=max(last.end, token.offset + 1))
        else:
            runs.append(LeaseRange(token.lease_id, token.offset, token.offset + 1))
    return found


def tokens_of(place: LeasePlace, leases: Iterable[LeaseRange]) -> list[str]:
    """One token for each message."""
    return [lease_token(*place, run.lease_id, offset) for run in leases for offset in range(run.first, run.end)]
