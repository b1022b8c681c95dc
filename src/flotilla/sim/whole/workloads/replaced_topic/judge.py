"""What clients of a replaced topic may expect, judged by what they saw of each of its lives.

A life is known by the id of the topic, which is never used again. What clients did to one life shows in no other one.
"""

from collections import defaultdict
from typing import Any, Final

from flotilla.sim.checkers.violation import Violation
from flotilla.sim.whole.history import DONE, NOT_DONE, Call, History
from flotilla.sim.whole.workloads.contents import judge_order
from flotilla.sim.whole.workloads.replaced_topic.scene import (
    ALERTS,
    BEGIN,
    COPY,
    EXPLAIN,
    FAREWELL,
    GROW,
    LEASE,
    LEDGER,
    MAILING,
    ORDER,
    PACKING,
    READ,
    REDRIVE,
    SETTLE,
    TOPIC,
    Stored,
    records_of,
)
from flotilla.types.dead_letters import redriven_count

#: Partition and offset.
Place = tuple[int, int]

#: States of messages that have ended because a member settled them.
_SETTLED: Final = ("acked", "dead")


def judge_replaced(history: History, final_id: int) -> None:
    """Raises Violation. `final_id`: the last life, of which every group has come to the end."""
    orders = [call for call in history.of(ORDER) if call.outcome == DONE]
    copies = [call for call in history.of(COPY) if call.outcome == DONE]
    for copy in copies:
        judge_copy(copy, orders)
    judge_keys(orders)
    judge_growth(history, orders)
    judge_deliveries(history, copies)
    judge_states(history)
    judge_redrives(history)
    final = next(copy for copy in reversed(copies) if copy.arguments["topic_id"] == final_id)
    judge_ends(history, final)
    judge_read(history, final)


def judge_copy(copy: Call, orders: list[Call]) -> None:
    """A life holds what was stored in it before, and an idempotency key once."""
    records = records_of(copy)
    for call in orders:
        result = call.result
        if result["topic_id"] != copy.arguments["topic_id"] or call.ended_us > copy.began_us:
            continue
        found = records.get((result["partition"], result["offset"]))
        if found is None or found.payload != call.arguments["payload"]:
            raise Violation("a topic holds what was stored in this life", f"{call}: {found}")
    places: dict[bytes, Place] = {}
    for place, stored in records.items():
        if stored.idempotency_key and places.setdefault(stored.idempotency_key, place) != place:
            text = f"{stored} at {places[stored.idempotency_key]} and {place}, {_about(copy)}"
            raise Violation("an idempotency key is stored once", text)


def judge_keys(orders: list[Call]) -> None:
    """Within a life keys keep their partition and their order, also when the topic grows."""
    lives: dict[int, list[Call]] = defaultdict(list)
    for call in orders:
        lives[call.result["topic_id"]].append(call)
    for topic_id, calls in lives.items():
        # One that was known already has the offset of the first one.
        judge_order(f"{TOPIC} {topic_id}", [call for call in calls if not call.result["is_duplicate"]])


def judge_growth(history: History, orders: list[Call]) -> None:
    """A producer hears of new partitions: its records without a key go there, too."""
    for grow in history.of(GROW):
        if grow.outcome != DONE:
            continue
        later: dict[str, list[int]] = defaultdict(list)
        for call in orders:
            is_free = not any(name in call.arguments for name in ("key", "idempotency_key", "partition"))
            if is_free and call.began_us > grow.ended_us and call.result["topic_id"] == grow.result["topic_id"]:
                later[call.client].append(call.result["partition"])
        for client, partitions in later.items():
            # The first one may have been cut for the partitions of before.
            if len(partitions) >= FAREWELL and max(partitions[1:]) < grow.arguments["before"]:
                raise Violation("a producer hears of new partitions", f"{client} stored in {partitions} after {grow}")


def judge_deliveries(history: History, copies: list[Call]) -> None:
    """Members get what is stored in the life that they are told."""
    records: dict[int, dict[Place, Stored]] = defaultdict(dict)
    for copy in copies:
        records[copy.arguments["topic_id"]].update(records_of(copy))
    for call in (*history.of(LEASE), *history.of(READ)):
        for topic_id, partition, offset, payload in call.result.get("messages", ()):
            stored = records[topic_id].get((partition, offset)) if topic_id in records else None
            if stored is not None and stored.payload != payload:
                text = f"{call.client} got {payload} at {partition}/{offset} of {topic_id}: {stored}"
                raise Violation("members get what is stored in this life", text)


def judge_states(history: History) -> None:
    """A message is settled by a member that got it in this life, and by no other."""
    settled = _settlements(history)
    for look in history.of(EXPLAIN):
        if look.outcome != DONE:
            continue
        topic_id, group = look.arguments["topic_id"], look.arguments["group"]
        for partition, offset, state in look.result["states"]:
            place = (partition, offset)
            calls = settled.get((topic_id, group, place), [])
            acks = [call for call in calls if call.arguments["how"] == "ack"]
            if state == "acked" and all(call.outcome == NOT_DONE for call in acks):
                text = f"{place} of {topic_id} is acked in {group}, and nobody did that: {calls}"
                raise Violation("a message is settled in its own life only", text)
            if state not in _SETTLED and any(call.outcome == DONE and call.ended_us < look.began_us for call in acks):
                text = f"{place} of {topic_id} is {state} in {group}: {acks}"
                raise Violation("an acknowledged message is done", text)


def judge_redrives(history: History) -> None:
    """A letter that was redriven is in the topic."""
    for call in history.of(REDRIVE):
        stored = [(each.payload, redriven_count(each.idempotency_key)) for each in records_of(call).values()]
        for sent in call.result.get("sent", ()):
            if sent not in stored:
                raise Violation("a redriven letter is stored again", f"{sent} is not in {TOPIC} after {_about(call)}")


def judge_ends(history: History, final: Call) -> None:
    """In the last life every message has ended in the queue groups, but those before the begin of a later group."""
    topic_id = final.arguments["topic_id"]
    for look in history.of(EXPLAIN):
        if look.outcome != DONE or look.arguments["topic_id"] != topic_id or look.began_us < final.began_us:
            continue
        group = look.arguments["group"]
        begins = {} if group == PACKING else _begins(history, group, final)
        for partition, offset, state in look.result["states"]:
            if group == MAILING and offset < begins.get(partition, offset + 1):
                continue
            if state not in _SETTLED:
                text = f"{partition}/{offset} of {topic_id} is {state} in {group}, which began at {begins}"
                raise Violation("nothing of a life is passed over", text)


def judge_read(history: History, final: Call) -> None:
    """In the last life every record is read by the stream groups, from where they began."""
    topic_id = final.arguments["topic_id"]
    for group in (LEDGER, ALERTS):
        read = {
            (partition, offset)
            for call in history.of(READ)
            if call.arguments["group"] == group
            for life, partition, offset, _ in call.result.get("messages", ())
            if life == topic_id
        }
        begins = {} if group == LEDGER else _begins(history, group, final)
        for (partition, offset), stored in records_of(final).items():
            begin = 0 if group == LEDGER else begins.get(partition, offset + 1)
            if offset >= begin and (partition, offset) not in read:
                text = f"{stored} at {partition}/{offset} of {topic_id} was not read by {group}, from {begins} on"
                raise Violation("nothing of a life is passed over", text)


def _begins(history: History, group: str, final: Call) -> dict[int, int]:
    """Where a group that begins at `latest` began for certain in the last life, or earlier, by partition.

    In a partition that is younger than the group that is the start.
    """
    topic_id = final.arguments["topic_id"]
    begins: dict[int, int] = {}
    first_us: int | None = None
    for partition, offset, time_us in _sights(history, group, topic_id):
        begins[partition] = min(begins.get(partition, offset), offset)
        first_us = time_us if first_us is None else min(first_us, time_us)
    for grow in history.of(GROW):
        if grow.outcome != DONE or first_us is None or grow.began_us < first_us:
            continue
        # The change may have met a later life than it was told of.
        if grow.arguments["topic_id"] == grow.result["topic_id"] == topic_id:
            begins.update(dict.fromkeys(range(grow.arguments["before"], grow.result["partitions"]), 0))
    return begins


def _sights(history: History, group: str, topic_id: int) -> list[tuple[int, int, int]]:
    """Partition, offset and time: the group had begun there, at this offset or before it."""
    if group == ALERTS:
        return [
            (call.arguments["partition"], call.arguments["position"], call.ended_us)
            for call in history.of(BEGIN)
            if call.arguments["group"] == group and call.arguments["topic_id"] == topic_id
        ]
    return [
        (partition, offset, call.ended_us)
        for call in history.of(LEASE)
        if call.arguments["group"] == group
        for life, partition, offset, _ in call.result.get("messages", ())
        if life == topic_id
    ]


def _settlements(history: History) -> dict[tuple[int, str, Place], list[Call]]:
    found: dict[tuple[int, str, Place], list[Call]] = defaultdict(list)
    for call in history.of(SETTLE):
        told = call.arguments
        found[told["topic_id"], told["group"], (told["partition"], told["offset"])].append(call)
    return found


def _about(call: Call) -> str:
    """Without what it found, which may be long."""
    arguments: dict[str, Any] = call.arguments
    return f"{call.operation} {arguments} of {call.client}, {call.began_us} to {call.ended_us} us"
