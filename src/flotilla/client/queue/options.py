"""How a queue consumer is to work, as people write it and as its core reads it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeAlias, TypedDict, cast

from flotilla.types.errors import InvalidArgumentError
from flotilla.types.limits import MIB, TIME_MS_MAX
from flotilla.types.operations import EARLIEST, LATEST
from flotilla.types.operations.queue import FROM_EARLIEST, FROM_OFFSET, FROM_TIME, Start

#: Where a group begins: an offset, a time, or one of two places that move.
StartAt: TypeAlias = int | datetime | Literal["earliest", "latest"]

#: What a broker hands out in one poll at the most.
POLL_MESSAGES_MAX = 1_024
#: Until a broker has said how long the leases of a group last.
VISIBILITY_MS_DEFAULT = 30_000
#: How long a broker waits for news before it answers that there are none.
LONG_POLL_MS = 5_000
#: How long a message may be held by renewals that nobody asked for: a handler that takes longer is taken for stuck.
LEASE_MS_DEFAULT = 3_600_000


class QueueSettings(TypedDict, total=False):
    """What may be said of a queue consumer beside its topic and group."""

    #: Where a group begins that has never been here; one that has goes on where it was.
    start: StartAt
    #: The same by a time of day in milliseconds.
    timestamp_ms: int
    #: All, unless some are named.
    partitions: Sequence[int] | None
    #: How long a lease lasts without a renewal; as the group is set, unless said otherwise.
    visibility_ms: int | None
    #: Iterating: messages that may be here and not settled, those in handlers included. Unless it is said, as many
    #: as are handled in a moment: 16 at first, and more for a quick handler.
    prefetch: int
    #: False: iterating asks for messages only when it has none left, and not ahead of that.
    push: bool
    #: "auto": a message is acknowledged before it leaves the broker, and never delivered twice.
    ack_mode: Literal["manual", "auto"]
    #: "key": messages of one key go to one consumer at a time, in their order.
    ordered: Literal["none", "key"]
    #: For how long leases are renewed by themselves.
    max_lease_ms: int
    #: Of one answer.
    max_bytes: int
    #: Until an attempt to settle, or to reach anybody at all, is given up.
    timeout_ms: int | None


@dataclass(frozen=True, slots=True)
class QueueOptions:
    start: Start = FROM_EARLIEST
    partitions: tuple[int, ...] | None = None
    #: 0: as the group is set.
    visibility_ms: int = 0
    #: None: follows the handler.
    prefetch: int | None = None
    is_push: bool = True
    is_auto_ack: bool = False
    is_ordered_by_key: bool = False
    lease_ms_max: int = LEASE_MS_DEFAULT
    bytes_max: int = 8 * MIB
    timeout_ms: int = 30_000
    long_poll_ms: int = LONG_POLL_MS


def read_queue_settings(settings: dict[str, Any], timeout_ms: int) -> tuple[str, QueueOptions]:
    """The group, and how to work for it; `timeout_ms` holds unless another is said. Raises InvalidArgumentError."""
    others = dict(settings)
    group = others.pop("group", "")
    limit_ms = _at_least(1, "timeout_ms", others.get("timeout_ms")) or timeout_ms
    return group, queue_options(cast(QueueSettings, others), limit_ms)


def queue_options(settings: QueueSettings, timeout_ms: int) -> QueueOptions:
    """Raises InvalidArgumentError."""
    unknown = sorted(settings.keys() - QueueSettings.__annotations__.keys())
    if unknown:
        raise InvalidArgumentError(f"a queue consumer knows no {', '.join(unknown)}")
    ack_mode = settings.get("ack_mode", "manual")
    ordered = settings.get("ordered", "none")
    if ack_mode not in ("manual", "auto"):
        raise InvalidArgumentError(f"ack_mode is manual or auto, not {ack_mode!r}")
    if ordered not in ("none", "key"):
        raise InvalidArgumentError(f"ordered is none or key, not {ordered!r}")
    partitions = settings.get("partitions")
    return QueueOptions(
        start=read_start(settings.get("start"), settings.get("timestamp_ms")),
        partitions=None if partitions is None else tuple(dict.fromkeys(partitions)),
        visibility_ms=_at_least(1, "visibility_ms", settings.get("visibility_ms")) or 0,
        prefetch=_at_least(1, "prefetch", settings.get("prefetch")),
        is_push=settings.get("push", True),
        is_auto_ack=ack_mode == "auto",
        is_ordered_by_key=ordered == "key",
        lease_ms_max=_at_least(1, "max_lease_ms", settings.get("max_lease_ms")) or LEASE_MS_DEFAULT,
        bytes_max=_at_least(1, "max_bytes", settings.get("max_bytes")) or 8 * MIB,
        timeout_ms=timeout_ms,
    )


def read_start(start: StartAt | None, timestamp_ms: int | None = None) -> Start:
    """Where a group begins. Raises InvalidArgumentError."""
    if timestamp_ms is not None:
        if start is not None:
            raise InvalidArgumentError("a group begins at an offset or at a time, not at both")
        return Start(FROM_TIME, _checked_time(timestamp_ms))
    if start is None or start == "earliest":
        return Start(EARLIEST)
    if start == "latest":
        return Start(LATEST)
    if isinstance(start, datetime):
        return Start(FROM_TIME, time_ms(start))
    if isinstance(start, str | bool) or start < 0:
        raise InvalidArgumentError(f"a group begins at an offset, a time, earliest or latest, not at {start!r}")
    return Start(FROM_OFFSET, start)


def time_ms(moment: datetime) -> int:
    """Milliseconds since 1970. Raises InvalidArgumentError for a time without a zone, which could mean anything."""
    if moment.tzinfo is None:
        raise InvalidArgumentError(f"{moment} has no time zone; say which, for example datetime.UTC")
    return _checked_time(int(moment.timestamp() * 1000))


def _checked_time(value: int) -> int:
    if not 0 <= value <= TIME_MS_MAX:
        raise InvalidArgumentError(f"{value} is no time in milliseconds since 1970")
    return value


def _at_least(least: int, name: str, value: int | None) -> int | None:
    if value is not None and value < least:
        raise InvalidArgumentError(f"{name} is at least {least}")
    return value
