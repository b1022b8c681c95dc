"""A lease as clients of HTTP and gRPC hold it: one opaque text per message, `<partition>.<lease id>.<offset>`."""

from collections.abc import Iterable

from flotilla.types.errors import InvalidArgumentError
from flotilla.types.queue_operations import Held

#: Larger numbers than the wire carries are not read.
_NUMBER_MAX = 2**63 - 1
_QUOTED_CHARS_MAX = 80


def lease_token(partition: int, lease_id: int, offset: int) -> str:
    return f"{partition}.{lease_id}.{offset}"


def read_lease_token(token: str) -> tuple[int, int, int]:
    """Partition, lease and offset. Raises InvalidArgumentError."""
    parts = token.split(".")
    if len(parts) == 3 and token.isascii() and all(map(str.isdigit, parts)):
        partition, lease_id, offset = map(int, parts)
        if lease_id and max(partition, lease_id, offset) <= _NUMBER_MAX:
            return partition, lease_id, offset
    raise InvalidArgumentError(f"{token[:_QUOTED_CHARS_MAX]!r} is no lease")


def held_by_partition(tokens: Iterable[str]) -> dict[int, list[Held]]:
    """The same leases in as few runs as possible. Raises InvalidArgumentError."""
    found: dict[int, list[Held]] = {}
    for partition, lease_id, offset in sorted(map(read_lease_token, tokens)):
        runs = found.setdefault(partition, [])
        last = runs[-1] if runs else None
        if last is not None and last.lease_id == lease_id and offset <= last.end:
            runs[-1] = last._replace(end=max(last.end, offset + 1))
        else:
            runs.append(Held(lease_id, offset, offset + 1))
    return found


def tokens_of(partition: int, held: Iterable[Held]) -> list[str]:
    """One for each message."""
    return [lease_token(partition, run.lease_id, offset) for run in held for offset in range(run.first, run.end)]
