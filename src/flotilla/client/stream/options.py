"""How a member of a stream group is to work, as people write it and as its core reads it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, TypedDict, cast

from flotilla.client._options import ReadFrom, ReadSettings, read_timeout, reader_options
from flotilla.client.queue.options import StartAt, read_start
from flotilla.client.reader._core import ReaderOptions
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.operations.queue import FROM_EARLIEST, Start
from flotilla.types.operations.stream import SESSION_MS_MAX, SESSION_MS_MIN, STRATEGIES

#: How long an application may take with what it was given before its partitions go to others that ask for them.
POLL_MS_DEFAULT = 300_000

#: Called with partitions that are read from now on. It may seek.
OnAssign: TypeAlias = Callable[[list[int]], Any]
#: Called with partitions before they are given up, and False: it may commit. Or, when they were taken away without
#: asking, with True: others may work on them already, and nothing can be committed.
OnRevoke: TypeAlias = Callable[[list[int], bool], Any]


class StreamSettings(TypedDict, total=False):
    """What may be said of a member of a stream group beside its topic and group."""

    #: Where the group begins in a partition of which it has committed nothing.
    start: StartAt
    #: The same by a time of day in milliseconds.
    timestamp_ms: int
    #: How partitions are spread; the group's first member decides.
    strategy: Literal["sticky", "round-robin"]
    #: A member that is silent for so long is taken out of the group; the group's first member decides.
    session_ms: int
    #: Called in the thread or task that polls; for AsyncClient they may be coroutine functions.
    on_assign: OnAssign | None
    on_revoke: OnRevoke | None
    #: Commit so often what was handled, and whenever partitions are given up. None: only `commit` does.
    auto_commit_ms: int | None
    #: An application that does not ask for more for so long loses the partitions that others shall have.
    max_poll_ms: int
    #: Go on with what is left when retention has removed what would be next, instead of raising.
    skip_removed: bool
    #: Who answers: whoever leads a partition, the nearest replica, or for each reader another one.
    read_from: ReadFrom
    fetch_bytes: int
    buffer_bytes_max: int
    timeout_ms: int | None


@dataclass(frozen=True, slots=True)
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


#: Settings that a member shares with a manual reader.
_READING = ("skip_removed", "read_from", "fetch_bytes", "buffer_bytes_max")


def read_stream_settings(settings: dict[str, Any], timeout_ms: int) -> tuple[str, StreamOptions]:
    """The group, and how to work for it; `timeout_ms` holds unless another is said. Raises InvalidArgumentError."""
    others = dict(settings)
    group = others.pop("group", "")
    if not group:
        raise InvalidArgumentError(
            'a member of a stream group needs a group: consumer(topic, group=..., mode="stream")'
        )
    return group, stream_options(cast(StreamSettings, others), timeout_ms)


def stream_options(settings: StreamSettings, timeout_ms: int) -> StreamOptions:
    """Raises InvalidArgumentError."""
    unknown = sorted(settings.keys() - StreamSettings.__annotations__.keys())
    if unknown:
        raise InvalidArgumentError(f"a member of a stream group knows no {', '.join(unknown)}")
    strategy = settings.get("strategy", "")
    if strategy and strategy not in STRATEGIES:
        raise InvalidArgumentError(f"a strategy is {' or '.join(STRATEGIES)}, not {strategy!r}")
    session_ms = settings.get("session_ms", 0)
    if session_ms and not SESSION_MS_MIN <= session_ms <= SESSION_MS_MAX:
        raise InvalidArgumentError(f"session_ms is between {SESSION_MS_MIN} and {SESSION_MS_MAX}")
    auto_commit_ms = settings.get("auto_commit_ms")
    poll_ms_max = settings.get("max_poll_ms", POLL_MS_DEFAULT)
    if (auto_commit_ms is not None and auto_commit_ms < 1) or poll_ms_max < 1:
        raise InvalidArgumentError("auto_commit_ms and max_poll_ms are at least 1")
    return StreamOptions(
        start=read_start(settings.get("start"), settings.get("timestamp_ms")),
        strategy=strategy,
        session_ms=session_ms,
        on_assign=settings.get("on_assign"),
        on_revoke=settings.get("on_revoke"),
        auto_commit_ms=auto_commit_ms or 0,
        poll_ms_max=poll_ms_max,
        reader=reader_options(
            cast(ReadSettings, {name: value for name, value in settings.items() if name in _READING})
        ),
        timeout_ms=read_timeout(settings.get("timeout_ms"), timeout_ms),
    )
