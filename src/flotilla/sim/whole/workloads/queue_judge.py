"""What producers, consumers and operators of a queue may expect, judged by what they saw.

Deliveries are at least once, under leases that a leader keeps in its memory. So two consumers may have a message at
once when the leader changes or a connection is lost; nothing else may cause it. What is settled stays settled.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Final

from flotilla.sim.checkers.violation import Violation
from flotilla.sim.devices.world import MS, SECOND
from flotilla.sim.whole.history import DONE, NOT_DONE, Call, History
from flotilla.sim.whole.workloads.queue_audit import Audit, Place
from flotilla.sim.whole.workloads.queue_ends import judge_ends, judge_letters, judge_results
from flotilla.sim.whole.workloads.queue_leases import Delivery, deliveries_of, judge_leases
from flotilla.sim.whole.workloads.queue_scene import (
    CANCEL,
    DESCRIBE,
    ENDED,
    ENQUEUE,
    GROUPS,
    LEASE,
    MAX_DELIVERIES,
    ONCE,
    SETTLE,
)

#: Counters of messages that have ended; with the lag they are all messages.
_ENDED: Final = ("acked_total", "dead_total", "expired_total", "cancelled_total", "trimmed_total")
#: Clocks of clients and brokers drift.
_EARLY_US: Final = 100 * MS
_LATE_US: Final = 5 * SECOND


def judge_queue(history: History, audit: Audit, *, is_quiet: bool) -> None:
    """Raises Violation. `is_quiet`: nothing but consumers failed in this run."""
    deliveries = deliveries_of(history, is_quiet=is_quiet)
    judge_producing(history, audit)
    judge_payloads(deliveries, audit)
    judge_times(history, deliveries)
    judge_leases(history, deliveries, is_quiet=is_quiet)
    judge_settled(history, deliveries)
    judge_cancelled(history, deliveries)
    judge_once(deliveries)
    judge_attempts(history, deliveries)
    if is_quiet:
        judge_unseen_attempts(history, deliveries)
    judge_ends(history, audit)
    judge_results(history, audit)
    judge_letters(history, audit)
    judge_counts(history, audit)


def judge_producing(history: History, audit: Audit) -> None:
    """What was acknowledged is stored once, at its place; what was refused is nowhere."""
    first = [stored.payload for stored in audit.log.values() if not stored.redriven]
    for payload, count in Counter(first).items():
        if count > 1:
            raise Violation("no message is doubled", f"{payload} is stored {count} times")
    stored = set(first)
    known: set[str] = set()
    for call in history.of(ENQUEUE):
        payloads = call.arguments["payloads"]
        known.update(payloads)
        if call.outcome == DONE:
            for payload, place in zip(payloads, call.result["places"], strict=True):
                found = audit.log.get(place)
                if found is None or found.payload != payload:
                    raise Violation("every acknowledged message is stored", f"{call}: {found}")
        # A failed batch may be stored in part, and under a key another call may have stored it.
        is_alone = len(payloads) == 1 and "idempotency_key" not in call.arguments
        if call.outcome == NOT_DONE and is_alone and payloads[0] in stored:
            raise Violation("what was not done has not happened", f"{call}: the message is stored")
    for place, message in audit.log.items():
        if message.payload not in known:
            raise Violation("nothing comes from nowhere", f"{message.payload} at {place}")


def judge_payloads(deliveries: Iterable[Delivery], audit: Audit) -> None:
    """Consumers get what is stored at the offset of the message."""
    for delivery in deliveries:
        stored = audit.log.get(delivery.place)
        if stored is not None and delivery.payload != stored.payload:
            raise Violation("a message is delivered as it is stored", f"{delivery}: {stored.payload} is stored there")


def judge_times(history: History, deliveries: Iterable[Delivery]) -> None:
    """No message comes before its time or long after it has expired."""
    made: dict[Place, Call] = {}
    for call in history.of(ENQUEUE):
        for place in call.result.get("places", ()):
            made.setdefault(place, call)
    for delivery in deliveries:
        if delivery.place not in made:
            continue
        call = made[delivery.place]
        due_us = call.began_us + call.arguments.get("delay_ms", 0) * MS
        if delivery.came_us < due_us - _EARLY_US - (due_us - call.began_us) // 50:
            raise Violation("no message comes early", f"{delivery}: {call}")
        ttl_ms = call.arguments.get("ttl_ms")
        if ttl_ms and delivery.asked_us > call.ended_us + ttl_ms * MS + _LATE_US:
            raise Violation("an expired message is not delivered", f"{delivery}: {call}")


def judge_settled(history: History, deliveries: Iterable[Delivery]) -> None:
    """Nothing is delivered again after its acknowledgement returned."""
    acked: dict[tuple[str, Place], int] = {}
    for call in history.of(SETTLE):
        if call.outcome == DONE and call.arguments["how"] in ("ack", "reject"):
            key = (call.arguments["group"], tuple(call.arguments["message"][:2]))
            acked[key] = min(acked.get(key, call.ended_us), call.ended_us)
    for delivery in deliveries:
        done_us = acked.get((delivery.group, delivery.place))
        if delivery.group in GROUPS and done_us is not None and delivery.given_us > done_us:
            raise Violation("what is settled is not delivered again", f"settled at {done_us} us: {delivery}")


def judge_cancelled(history: History, deliveries: Iterable[Delivery]) -> None:
    """No group gets a message after it was cancelled."""
    cancelled = {
        place: call.ended_us
        for call in history.of(CANCEL)
        if call.outcome == DONE
        for place in map(tuple, call.result["places"])
    }
    for delivery in deliveries:
        done_us = cancelled.get(delivery.place)
        if done_us is not None and delivery.given_us > done_us:
            raise Violation("a cancelled message is not delivered", f"cancelled at {done_us} us: {delivery}")


def judge_once(deliveries: Iterable[Delivery]) -> None:
    """A group that acknowledges before it delivers gets nothing twice."""
    counts = Counter(delivery.place for delivery in deliveries if delivery.group == ONCE)
    for place, count in counts.items():
        if count > 1:
            raise Violation("at most once", f"the message at {place} came {count} times")


def judge_attempts(history: History, deliveries: list[Delivery]) -> None:
    """Every failed attempt is counted, whichever leader it was told, and none follows the last one."""
    failed: dict[tuple[str, Place], list[tuple[int, int]]] = defaultdict(list)
    for call in history.of(SETTLE):
        if call.outcome == DONE and call.arguments["how"] == "nack":
            partition, offset, _, attempt, _ = call.arguments["message"]
            failed[call.arguments["group"], (partition, offset)].append((call.ended_us, attempt))
    for delivery in deliveries:
        if delivery.group not in GROUPS:
            continue
        if delivery.attempt > MAX_DELIVERIES:
            raise Violation("a message dies of its last attempt", f"{delivery}")
        for ended_us, attempt in failed.get((delivery.group, delivery.place), ()):
            if delivery.given_us > ended_us and delivery.attempt <= attempt:
                raise Violation("every failed attempt counts", f"attempt {attempt} failed at {ended_us} us: {delivery}")


def judge_unseen_attempts(history: History, deliveries: list[Delivery]) -> None:
    """An attempt counts only if a consumer got the message, or a consumer of the group ended that was about to."""
    groups = {call.client: call.arguments["group"] for call in history.of(LEASE)}
    ended = [(groups[call.client], call.began_us) for call in history.of(ENDED) if call.client in groups]
    made_us = {place: call.began_us for call in history.of(ENQUEUE) for place in call.result.get("places", ())}
    seen: dict[tuple[str, Place], tuple[int, int]] = {}
    for delivery in sorted(deliveries, key=lambda each: each.came_us):
        key = (delivery.group, delivery.place)
        attempt, since_us = seen.get(key, (0, made_us.get(delivery.place, 0)))
        is_unseen = delivery.group in GROUPS and delivery.attempt > attempt + 1
        if is_unseen and not any(
            group == delivery.group and since_us < at_us < delivery.came_us for group, at_us in ended
        ):
            raise Violation("only deliveries count as attempts", f"{delivery} after attempt {attempt}")
        seen[key] = (delivery.attempt, delivery.came_us)


def judge_counts(history: History, audit: Audit) -> None:
    """At any time a group has counted as many messages as the log has offsets."""
    for call in history.of(DESCRIBE):
        for number, part in call.result.get("partitions", {}).items():
            ended = sum(part[name] for name in _ENDED)
            if ended + part["lag"] != part["produced"]:
                raise Violation("a group counts every message once", f"partition {number}: {part}")
            due = _acked_before(history, audit, call.arguments["group"], number, call.began_us)
            if part["acked_total"] < due:
                raise Violation("a description shows what was done before", f"{due} were acknowledged: {part}")
    for (group, number), counted in audit.counted.items():
        if group in GROUPS:
            found = Counter(
                state for (each, place), state in audit.states.items() if each == group and place[0] == number
            )
            if any(count != found[name] for name, count in counted.items()):
                raise Violation("a group counts every message once", f"{group}/{number}: {counted}, {dict(found)}")


def _acked_before(history: History, audit: Audit, group: str, partition: int, before_us: int) -> int:
    """Messages that were acknowledged by then, without those whose ack had no effect: they were cancelled."""
    return len(
        {
            call.arguments["message"][1]
            for call in history.of(SETTLE)
            if call.outcome == DONE
            and call.arguments["how"] == "ack"
            and call.arguments["group"] == group
            and call.arguments["message"][0] == partition
            and call.ended_us < before_us
            and audit.states[group, tuple(call.arguments["message"][:2])] == "acked"
        }
    )
