"""Operations on messages that wait in a partition: for their time, or for another message of their key."""

from collections.abc import Mapping
from typing import Final

from flotilla.types.access import CONSUME, DESCRIBE
from flotilla.types.ids import Offset
from flotilla.types.operations.request import PARTITION_LEADER, READ, Reply, Request
from flotilla.types.slotted import slotted

_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 60 * _MINUTE_MS
_DAY_MS: Final = 24 * _HOUR_MS
#: The upper ends of the buckets of a histogram of due times, from now on. The last bucket has no end.
DUE_EDGES_MS: Final = (
    *(10_000, _MINUTE_MS, 5 * _MINUTE_MS, 15 * _MINUTE_MS),
    *(_HOUR_MS, 3 * _HOUR_MS, 6 * _HOUR_MS, 12 * _HOUR_MS),
    *(_DAY_MS, 3 * _DAY_MS, 7 * _DAY_MS, 30 * _DAY_MS),
)
BLOCKED_KEYS_SHOWN_MAX: Final = 1_000


@slotted
class DueTimes(Reply):
    #: Delayed messages, by the buckets of DUE_EDGES_MS.
    counts: list[int]
    #: So many are delayed that only some were looked at, and the counts extrapolated.
    is_estimated: bool = False


@slotted
class ReadDueTimes(Request[DueTimes], to=PARTITION_LEADER, effect=READ, needs=DESCRIBE):
    """When the delayed messages of a partition come due; those of a queue group with its retries."""

    topic: str
    partition: int
    #: Empty: whatever groups have done.
    group: str = ""


@slotted
class BlockedKey:
    key: bytes
    #: The message that has to be settled first, and its state.
    offset: Offset
    state: str
    #: Of a leased message, and how long its lease, or the pause before its next attempt, still lasts.
    holder: str
    remaining_ms: int
    attempts: int
    #: Why its last attempt failed.
    reason: str
    #: Messages behind it.
    blocked: int


@slotted
class BlockedKeys(Reply):
    #: Those with the most messages behind them, the most first.
    keys: list[BlockedKey]
    #: All that polls have met so far.
    key_count: int
    message_count: int


def most_blocked(found: Mapping[int, BlockedKeys], limit: int) -> list[tuple[int, BlockedKey]]:
    """Of all partitions, each with its number: the keys with the most messages behind them, the most first."""
    keys = [(number, key) for number, each in found.items() for key in each.keys]
    return sorted(keys, key=lambda row: -row[1].blocked)[:limit]


@slotted
class ListBlockedKeys(Request[BlockedKeys], to=PARTITION_LEADER, effect=READ, needs=CONSUME):
    """Keys of a queue group in order by key whose next messages wait for one that is leased or retried.

    Keys are a part of messages: only callers who may read those see them.
    """

    topic: str
    partition: int
    group: str
    limit: int = 100
