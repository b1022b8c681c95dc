"""Lease tokens of HTTP and gRPC: one opaque text per message, `<partition>.<lease id>.<offset>`.

The only place that knows the format. An endpoint remembers no tokens: any node reads one that comes back, and refuses
numbers that could not travel between nodes.
"""

from collections.abc import Iterable
from typing import Final

from flotilla.types.errors import InvalidArgumentError
from flotilla.types.ids import Offset
from flotilla.types.operations.queue import LeaseRange

#: Of partition, lease id and offset, as they travel between nodes.
_MAXIMA: Final = (2**32 - 1, 2**64 - 1, 2**63 - 1)
#: A longer number is refused before it is converted.
_DIGITS_MAX: Final = 20
_QUOTED_CHARS_MAX: Final = 80


def lease_token(partition: int, lease_id: int, offset: Offset) -> str:
    return f"{partition}.{lease_id}.{offset}"


def read_lease_token(token: str) -> tuple[int, int, Offset]:
    """Partition, lease id and offset. Raises InvalidArgumentError."""
    parts = token.split(".")
    if len(parts) == 3 and token.isascii() and all(part.isdigit() and len(part) <= _DIGITS_MAX for part in parts):
        partition, lease_id, offset = map(int, parts)
        numbers = (partition, lease_id, offset)
        if lease_id and all(number <= largest for number, largest in zip(numbers, _MAXIMA, strict=True)):
            return numbers
    raise InvalidArgumentError(f"{token[:_QUOTED_CHARS_MAX]!r} is no lease")


def leases_by_partition(tokens: Iterable[str]) -> dict[int, list[LeaseRange]]:
    """The leases of these tokens in as few runs as possible. Raises InvalidArgumentError."""
    found: dict[int, list[LeaseRange]] = {}
    for partition, lease_id, offset in sorted(map(read_lease_token, tokens)):
        runs = found.setdefault(partition, [])
        last = runs[-1] if runs else None
        if last is not None and last.lease_id == lease_id and offset <= last.end:
            runs[-1] = last._replace(end=max(last.end, offset + 1))
        else:
            runs.append(LeaseRange(lease_id, offset, offset + 1))
    return found


def tokens_of(partition: int, leases: Iterable[LeaseRange]) -> list[str]:
    """One token for each message."""
    return [lease_token(partition, run.lease_id, offset) for run in leases for offset in range(run.first, run.end)]
