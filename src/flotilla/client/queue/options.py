"""The options of a queue consumer: as `queue` takes them, and as its core uses them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, TypeAlias, TypedDict

from flotilla.client._duration import Duration, milliseconds
from flotilla.client._options import TIMEOUT_MS_DEFAULT, Subscription, checked_time, read_filter, read_timeout, time_ms
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.filters import NO_FILTER, MessageFilter, WantedHeaders
from flotilla.types.limits import MIB
from flotilla.types.operations import EARLIEST, LATEST
from flotilla.types.operations.queue import FROM_EARLIEST, FROM_OFFSET, FROM_TIME, Start
from flotilla.types.slotted import frozen

#: Where a group begins: an offset, a time, or one of two places that move.
StartAt: TypeAlias = int | datetime | Literal["earliest", "latest"]

#: What a broker hands out in one poll at the most.
POLL_MESSAGES_MAX = 1_024
#: Until a broker has said how long the leases of a group last.
VISIBILITY_MS_DEFAULT = 30_000
#: How long a broker waits for news before it answers that there are none.
LONG_POLL_MS = 5_000
#: How long leases are renewed automatically: a handler that takes longer is taken for stuck.
LEASE_MS_DEFAULT = 3_600_000
FETCH_BYTES_DEFAULT = 8 * MIB


class QueueSettings(TypedDict, total=False):
    """The keyword arguments of `queue`, for callers that pass them on."""

    start: StartAt | None
    timestamp_ms: int | None
    partitions: Sequence[int] | None
    types: Sequence[str] | None
    headers: WantedHeaders | None
    visibility_ms: Duration | None
    prefetch: int | None
    push: bool
    ack_mode: Literal["manual", "auto"]
    ordered: Literal["none", "key"]
    lease_ms_max: Duration
    fetch_bytes: int
    timeout_ms: Duration | None


@frozen
class QueueOptions:
    start: Start = FROM_EARLIEST
    partitions: tuple[int, ...] | None = None
    #: Only messages that it takes.
    wanted: MessageFilter = NO_FILTER
    #: 0: as the group is set.
    visibility_ms: int = 0
    #: None: follows the handler.
    prefetch: int | None = None
    is_push: bool = True
    is_auto_ack: bool = False
    is_ordered_by_key: bool = False
    lease_ms_max: int = LEASE_MS_DEFAULT
    bytes_max: int = FETCH_BYTES_DEFAULT
    timeout_ms: int = 30_000
    long_poll_ms: int = LONG_POLL_MS


def queue_parameters(
    topic: str,
    group: str | None,
    *,
    start: StartAt | None = None,
    timestamp_ms: int | None = None,
    partitions: Sequence[int] | None = None,
    types: Sequence[str] | None = None,
    headers: WantedHeaders | None = None,
    visibility_ms: Duration | None = None,
    prefetch: int | None = None,
    push: bool = True,
    ack_mode: Literal["manual", "auto"] = "manual",
    ordered: Literal["none", "key"] = "none",
    lease_ms_max: Duration = LEASE_MS_DEFAULT,
    fetch_bytes: int = FETCH_BYTES_DEFAULT,
    timeout_ms: Duration | None = None,
) -> Subscription[QueueOptions]:
    """A member of a queue group: its members share the messages of the topic.

    Each message is leased to one member until it is settled, and delivered again if it is not. Other groups get every
    message, too.

    group: None: a new group for this consumer alone. It begins at "latest" unless `start` says otherwise, and is
        deleted when it has not been used for five minutes.
    start: where a new group begins: an offset, a datetime with a time zone, "earliest" (the default) or "latest". An
        offset counts for every partition: one that is shorter is begun at its end. A
        group that exists goes on where it was.
    timestamp_ms: the same as a time in milliseconds since 1970.
    partitions: the partitions to take messages from. None: all.
    types: only messages of these types: the value of their header `flotilla-task-type`, "" for those without one. The
        broker passes over others, which wait for a member that asks for them. Not with `ordered`. None: all messages.
    headers: only messages that have all of these headers, names with values: {"region": "eu"}. As with `types`, and
        beside it.
    visibility_ms: how long a lease lasts without a renewal. None: as the group is set, 30 s by default.
    prefetch: unsettled messages that an iteration may hold, those in handlers included. None: adapts to the speed of
        the handler, from 16 on.
    push: False: an iteration asks for messages only when it has none left, not ahead of that.
    ack_mode: "auto": the broker acknowledges a message before it sends it, and never delivers it twice. Messages that
        were sent ahead and are not taken before the process ends are lost.
    ordered: "key": messages of one key go to one member at a time, in their order. That is a setting of the group, for
        all its members: this sets it, or raises GroupModeError if it was set to 0. "none": as the group is set.
    lease_ms_max: for how long unsettled messages are renewed by themselves; one hour.
    fetch_bytes: of one answer; 8 MiB.
    timeout_ms: of each request. None: the client's.
    """
    if group == "":
        raise InvalidArgumentError("a queue is read by a group: queue(topic, group=...)")
    if group is None and start is None and timestamp_ms is None:
        start = "latest"
    if ack_mode not in ("manual", "auto"):
        raise InvalidArgumentError(f"ack_mode is manual or auto, not {ack_mode!r}")
    if ordered not in ("none", "key"):
        raise InvalidArgumentError(f"ordered is none or key, not {ordered!r}")
    wanted = read_filter(types, headers)
    if ordered == "key" and not wanted.takes_all:
        raise InvalidArgumentError("a consumer has a filter or orders by key, not both")
    options = QueueOptions(
        start=read_start(start, timestamp_ms),
        partitions=None if partitions is None else tuple(dict.fromkeys(partitions)),
        wanted=wanted,
        visibility_ms=0 if visibility_ms is None else _at_least(1, "visibility_ms", milliseconds(visibility_ms)),
        prefetch=None if prefetch is None else _at_least(1, "prefetch", prefetch),
        is_push=push,
        is_auto_ack=ack_mode == "auto",
        is_ordered_by_key=ordered == "key",
        lease_ms_max=_at_least(1, "lease_ms_max", milliseconds(lease_ms_max)),
        bytes_max=_at_least(1, "fetch_bytes", fetch_bytes),
        timeout_ms=read_timeout(timeout_ms, TIMEOUT_MS_DEFAULT),
    )
    return Subscription(topic, group or "", options)


def read_start(start: StartAt | None, timestamp_ms: int | None = None) -> Start:
    """Where a group begins. Raises InvalidArgumentError."""
    if timestamp_ms is not None:
        if start is not None:
            raise InvalidArgumentError("a group begins at an offset or at a time, not at both")
        return Start(FROM_TIME, checked_time(timestamp_ms))
    if start is None or start == "earliest":
        return Start(EARLIEST)
    if start == "latest":
        return Start(LATEST)
    if isinstance(start, datetime):
        return Start(FROM_TIME, time_ms(start))
    if isinstance(start, str | bool) or start < 0:
        raise InvalidArgumentError(f"a group begins at an offset, a time, earliest or latest, not at {start!r}")
    return Start(FROM_OFFSET, start)


def _at_least(least: int, name: str, value: int) -> int:
    if value < least:
        raise InvalidArgumentError(f"{name} is at least {least}")
    return value
