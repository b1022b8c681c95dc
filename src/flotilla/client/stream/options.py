"""The options of a stream consumer: as `stream` takes them, and as its core uses them."""

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any, Literal, TypeAlias

from flotilla.client._duration import Duration, milliseconds
from flotilla.client._options import TIMEOUT_MS_DEFAULT, Subscription, read_filter, read_timeout
from flotilla.client.queue.options import StartAt, read_start
from flotilla.client.reader._core import ReaderOptions
from flotilla.client.reader.options import BUFFER_BYTES_DEFAULT, FETCH_BYTES_DEFAULT, ReadFrom, fetch_options
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.filters import WantedHeaders
from flotilla.types.operations.queue import FROM_EARLIEST, Start
from flotilla.types.operations.stream import SESSION_MS_MAX, SESSION_MS_MIN, STRATEGIES
from flotilla.types.slotted import frozen

#: How long an application may take with what it was given before its partitions go to others that ask for them.
POLL_MS_DEFAULT = 300_000

#: Called with partitions that are read from now on. It may seek.
OnAssign: TypeAlias = Callable[[list[int]], Any]
#: Called with partitions before they are given up, and False: it may commit. Or, when they were taken away without
#: asking, with True: others may work on them already, and nothing can be committed.
OnRevoke: TypeAlias = Callable[[list[int], bool], Any]


@frozen
class StreamOptions:
    start: Start = FROM_EARLIEST
    #: Empty and 0: as the group has it.
    strategy: str = ""
    session_ms: int = 0
    on_assign: OnAssign | None = None
    on_revoke: OnRevoke | None = None
    #: 0: never.
    auto_commit_ms: int = 0
    poll_ms_max: int = POLL_MS_DEFAULT
    reader: ReaderOptions = field(default_factory=ReaderOptions)
    timeout_ms: int = 30_000


def stream_parameters(
    topic: str,
    group: str,
    *,
    start: StartAt | None = None,
    timestamp_ms: int | None = None,
    types: Sequence[str] | None = None,
    headers: WantedHeaders | None = None,
    strategy: Literal["sticky", "round-robin"] | None = None,
    session_ms: Duration | None = None,
    on_assign: OnAssign | None = None,
    on_revoke: OnRevoke | None = None,
    auto_commit_ms: Duration | None = None,
    poll_ms_max: Duration = POLL_MS_DEFAULT,
    skip_removed: bool = False,
    read_from: ReadFrom = "leader",
    fetch_bytes: int = FETCH_BYTES_DEFAULT,
    buffer_bytes_max: int = BUFFER_BYTES_DEFAULT,
    timeout_ms: Duration | None = None,
) -> Subscription[StreamOptions]:
    """A member of a stream group: its members share the partitions of the topic.

    Each partition is read by one member, in order, from where the group last committed. Partitions move when members
    come and go; a member keeps the others without an interruption.

    start: where the group begins in a partition without a commit: an offset, a datetime with a time zone, "earliest"
        (the default) or "latest".
    timestamp_ms: the same as a time in milliseconds since 1970.
    types: only records of these types: the value of their header `flotilla-task-type`, "" for those without one. The
        broker sends no others, and commits include them. All members of a group ask for the same. None: all.
    headers: only records that have all of these headers, names with values: {"region": "eu"}. As with `types`, and
        beside it.
    strategy: how partitions are spread: "sticky" or "round-robin". The first member decides; None: as the group has
        it, else sticky.
    session_ms: a member that is silent for this long leaves the group. The first member decides; None: as the group
        has it, else 30 s.
    on_assign: called with the partitions that are read from now on; it may seek. It runs in the thread or task that
        polls; for an AsyncClient it may be a coroutine function.
    on_revoke: called with partitions before they are given up, and False: it may commit. When the group took them
        without asking, with True: another member may read them already, and a commit is refused.
    auto_commit_ms: how often to commit what was handled, and whenever partitions are given up. None: only `commit`
        does.
    poll_ms_max: a member that does not poll for this long loses partitions that others wait for; five minutes.
    skip_removed: True: go on with the oldest record left when retention has removed the next one.
        False: raise OffsetOutOfRangeError.
    read_from: which replica answers: "leader", "nearest" to the client, or "spread", another one for each reader.
    fetch_bytes: of one answer; 1 MiB.
    buffer_bytes_max: fetched ahead of the application, in all; 32 MiB.
    timeout_ms: of each request. None: the client's.
    """
    if not group:
        raise InvalidArgumentError("a stream is shared by a group: stream(topic, group=...)")
    if strategy is not None and strategy not in STRATEGIES:
        raise InvalidArgumentError(f"a strategy is {' or '.join(STRATEGIES)}, not {strategy!r}")
    silent_ms = None if session_ms is None else milliseconds(session_ms)
    commit_ms = None if auto_commit_ms is None else milliseconds(auto_commit_ms)
    if silent_ms is not None and not SESSION_MS_MIN <= silent_ms <= SESSION_MS_MAX:
        raise InvalidArgumentError(f"session_ms is between {SESSION_MS_MIN} and {SESSION_MS_MAX}")
    if (commit_ms is not None and commit_ms < 1) or milliseconds(poll_ms_max) < 1:
        raise InvalidArgumentError("auto_commit_ms and poll_ms_max are at least 1")
    options = StreamOptions(
        start=read_start(start, timestamp_ms),
        strategy=strategy or "",
        session_ms=silent_ms or 0,
        on_assign=on_assign,
        on_revoke=on_revoke,
        auto_commit_ms=commit_ms or 0,
        poll_ms_max=milliseconds(poll_ms_max),
        reader=fetch_options(
            fetch_bytes, buffer_bytes_max, read_from, read_filter(types, headers), skip_removed=skip_removed
        ),
        timeout_ms=read_timeout(timeout_ms, TIMEOUT_MS_DEFAULT),
    )
    return Subscription(topic, group, options)
