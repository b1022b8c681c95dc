"""Deliveries as the consumers saw them, and the rule of leases: nobody gets what another one holds.

A lease is certain to be held where its holder was told so. Without faults that is until it settles the message,
if it ever does, or dies. With faults it is what an extension has confirmed: as long as the same leader leads and the
holder has kept its connections.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Final, NamedTuple

from flotilla.partition.leader.leases import NUMBER_BITS
from flotilla.sim.checkers.violation import Violation
from flotilla.sim.devices.world import MS
from flotilla.sim.whole.history import DONE, Call, History
from flotilla.sim.whole.workloads.queue_scene import (
    ENDED,
    EXTEND,
    GROUPS,
    LEASE,
    LEASE_MS_MAX,
    LINK_LOST,
    SETTLE,
    TIMEOUT_MS,
    VISIBILITY_MS,
)

#: A consumer may have a message for half of a lease before its application asks for it. With faults the answer was on
#: its way for as long as the request was waited for.
_KEPT_QUIET_US: Final = (VISIBILITY_MS // 2 + 100) * MS
_KEPT_US: Final = (VISIBILITY_MS + TIMEOUT_MS) * MS
_DRIFT_PART: Final = 100


class Delivery(NamedTuple):
    client: str
    group: str
    place: tuple[int, int]
    payload: str
    attempt: int
    lease: int
    asked_us: int
    came_us: int
    #: The leader leased it no earlier.
    given_us: int

    @property
    def term(self) -> int:
        return self.lease >> NUMBER_BITS


class _Hold(NamedTuple):
    delivery: Delivery
    until_us: int


def deliveries_of(history: History, *, is_quiet: bool) -> list[Delivery]:
    kept_us = _KEPT_QUIET_US if is_quiet else _KEPT_US
    return [
        Delivery(
            client=call.client,
            group=call.arguments["group"],
            place=(partition, offset),
            payload=payload,
            attempt=attempt,
            lease=lease,
            asked_us=call.began_us,
            came_us=call.ended_us,
            given_us=call.began_us - kept_us,
        )
        for call in history.of(LEASE)
        for partition, offset, payload, attempt, lease in call.result.get("messages", ())
    ]


def judge_leases(history: History, deliveries: list[Delivery], *, is_quiet: bool) -> None:
    """A message of a group is leased to one consumer at a time."""
    by_message: dict[tuple[str, tuple[int, int]], list[Delivery]] = defaultdict(list)
    for delivery in deliveries:
        if delivery.group in GROUPS:
            by_message[delivery.group, delivery.place].append(delivery)
    holds = _quiet_holds(history, deliveries) if is_quiet else _confirmed_holds(history, deliveries)
    for hold in holds:
        held = hold.delivery
        for other in by_message.get((held.group, held.place), ()):
            if other is held or (other.client, other.lease) == (held.client, held.lease):
                continue
            is_later = other.lease > held.lease and (is_quiet or other.term == held.term)
            if is_later and other.came_us < hold.until_us:
                raise Violation("a message has one lease at a time", f"{held} until {hold.until_us} us, and {other}")


def _quiet_holds(history: History, deliveries: list[Delivery]) -> Iterable[_Hold]:
    settled = _first_settled(history)
    ended = _times(history, ENDED)
    for delivery in deliveries:
        settled_us = settled.get((delivery.client, delivery.group, delivery.place, delivery.lease))
        # A message that its handler has dropped is not renewed.
        if settled_us is not None:
            until_us = min(delivery.asked_us + LEASE_MS_MAX * MS, settled_us)
            yield _Hold(delivery, _before(ended, delivery, until_us))


def _confirmed_holds(history: History, deliveries: list[Delivery]) -> Iterable[_Hold]:
    settled = _first_settled(history)
    ended, lost = _times(history, ENDED), _times(history, LINK_LOST)
    by_lease = {(each.client, each.group, each.place, each.lease): each for each in deliveries}
    for call in history.of(EXTEND):
        if call.outcome != DONE:
            continue
        key = _key(call)
        delivery = by_lease[key]
        if any(time_us >= delivery.came_us for time_us in lost.get(delivery.client, ())):
            continue
        confirmed_us = call.arguments["visibility_ms"] * MS
        until_us = call.began_us + confirmed_us - confirmed_us // _DRIFT_PART
        # A lease ends for good after its longest time.
        until_us = min(until_us, settled.get(key, until_us))
        yield _Hold(delivery, _before(ended, delivery, until_us))


def _key(call: Call) -> tuple[str, str, tuple[int, int], int]:
    partition, offset, _, _, lease = call.arguments["message"]
    return call.client, call.arguments["group"], (partition, offset), lease


def _first_settled(history: History) -> dict[tuple[str, str, tuple[int, int], int], int]:
    """When a consumer began to give a message away."""
    found: dict[tuple[str, str, tuple[int, int], int], int] = {}
    for call in history.of(SETTLE):
        found.setdefault(_key(call), call.began_us)
    return found


def _times(history: History, operation: str) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for call in history.of(operation):
        found[call.client].append(call.began_us)
    return found


def _before(ended: dict[str, list[int]], delivery: Delivery, until_us: int) -> int:
    """No later than the end of the consumer that got it."""
    ends = [time_us for time_us in ended.get(delivery.client, ()) if time_us >= delivery.came_us]
    return min([until_us, *ends])
