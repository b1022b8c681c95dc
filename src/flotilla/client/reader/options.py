"""The options of a reader: as `reader` takes them, and as its shells use them."""

from collections.abc import Sequence
from typing import Literal, TypeAlias

from flotilla.client._core.positions import Start
from flotilla.client._duration import Duration
from flotilla.client._options import TIMEOUT_MS_DEFAULT, Subscription, read_filter, read_timeout
from flotilla.client.reader._core import ReaderOptions
from flotilla.client.reader._replica_choice import READ_FROM
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.filters import MessageFilter, WantedHeaders
from flotilla.types.limits import MIB
from flotilla.types.slotted import frozen

ReadFrom: TypeAlias = Literal["leader", "nearest", "spread"]

FETCH_BYTES_DEFAULT = 1 * MIB
BUFFER_BYTES_DEFAULT = 32 * MIB


@frozen
class ReaderPlan:
    """Where a reader begins, and how it fetches."""

    offset: Start | None
    timestamp_ms: int | None
    partitions: Sequence[int] | None
    options: ReaderOptions
    timeout_ms: int


def reader_parameters(
    topic: str,
    *,
    offset: Start | None = None,
    timestamp_ms: int | None = None,
    group: str | None = None,
    partitions: Sequence[int] | None = None,
    types: Sequence[str] | None = None,
    headers: WantedHeaders | None = None,
    key: bytes | str | None = None,
    contains: str = "",
    skip_removed: bool = False,
    read_from: ReadFrom = "leader",
    linearizable: bool = False,
    fetch_bytes: int = FETCH_BYTES_DEFAULT,
    buffer_bytes_max: int = BUFFER_BYTES_DEFAULT,
    timeout_ms: Duration | None = None,
) -> Subscription[ReaderPlan]:
    """A reader of a topic that keeps its own position: it shares messages with no other reader.

    It begins at `offset` or at `timestamp_ms`; without either where `group` last committed, else at the oldest record.

    offset: a number, "earliest" or "latest".
    timestamp_ms: the first record at or after this time, in milliseconds since 1970.
    group: whose committed offsets are read and written. None: `commit` is refused.
    partitions: the partitions to read. None: all.
    types: only records of these types: the value of their header `flotilla-task-type`, "" for those without one. The
        broker sends no others, and the position moves past them. None: all.
    headers: only records that have all of these headers, names with values: {"region": "eu"}. As with `types`, and
        beside it.
    key: only records with this key. As with `types`, and beside it.
    contains: only records that have this text in their payload, key or headers; upper and lower case are the same. As
        with `types`, and beside it.
    skip_removed: True: go on with the oldest record left when retention has removed the next one.
        False: raise OffsetOutOfRangeError.
    read_from: which replica answers: "leader", "nearest" to the client, or "spread", another one for each reader.
    linearizable: see every record that was acknowledged before, at the price of a round trip to a quorum a fetch.
    fetch_bytes: of one answer; 1 MiB.
    buffer_bytes_max: fetched ahead of the application, in all; 32 MiB.
    timeout_ms: of each request. None: the client's.
    """
    if offset is not None and timestamp_ms is not None:
        raise InvalidArgumentError("a reader begins at an offset or at a time, not at both")
    options = fetch_options(
        fetch_bytes,
        buffer_bytes_max,
        read_from,
        read_filter(types, headers, key, contains),
        skip_removed=skip_removed,
        linearizable=linearizable,
    )
    plan = ReaderPlan(offset, timestamp_ms, partitions, options, read_timeout(timeout_ms, TIMEOUT_MS_DEFAULT))
    return Subscription(topic, group or "", plan)


def fetch_options(
    fetch_bytes: int,
    buffer_bytes_max: int,
    read_from: str,
    wanted: MessageFilter,
    *,
    skip_removed: bool,
    linearizable: bool = False,
) -> ReaderOptions:
    """How to fetch. Raises InvalidArgumentError."""
    if fetch_bytes < 1 or buffer_bytes_max < 1:
        raise InvalidArgumentError("fetch_bytes and buffer_bytes_max are at least 1")
    if read_from not in READ_FROM:
        raise InvalidArgumentError(f"read_from is {', '.join(READ_FROM[:-1])} or {READ_FROM[-1]}, not {read_from!r}")
    return ReaderOptions(
        fetch_bytes,
        buffer_bytes_max,
        skip_removed=skip_removed,
        read_from=read_from,
        is_linearizable=linearizable,
        wanted=wanted,
    )
