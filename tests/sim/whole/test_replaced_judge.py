"""The judges of replaced and trimmed topics find what they are there to find."""

from typing import Any

import pytest

from flotilla.sim.checkers.violation import Violation
from flotilla.sim.devices.world import World
from flotilla.sim.whole.history import History
from flotilla.sim.whole.workloads.replaced_topic import scene
from flotilla.sim.whole.workloads.replaced_topic.judge import judge_replaced
from flotilla.sim.whole.workloads.trimmed_topic import judge as trimmed

LIFE = 7


def record(history: History, operation: str, arguments: dict[str, Any], **result: Any) -> None:
    history._world.now_us += 1_000
    call = history.begin("c", operation, **arguments)
    history._world.now_us += 1_000
    history.done(call, **result)


def replaced_book(*, acked_life: int = LIFE, stored: int = 1, read: bool = True) -> History:
    """One record of one life, which its groups have come to the end of."""
    history = History(World(1))
    receipt = {"topic_id": LIFE, "partition": 0, "offset": 0, "is_duplicate": False}
    record(history, scene.ORDER, {"payload": "p", "idempotency_key": "p"}, **receipt)
    for group in scene.QUEUES:
        place = {"topic_id": acked_life, "partition": 0, "offset": 0}
        record(history, scene.SETTLE, {"group": group, "how": "ack", **place})
    for group in scene.STREAMS:
        record(history, scene.BEGIN, {"group": group, "topic_id": LIFE, "partition": 0, "position": 0})
        record(history, scene.READ, {"group": group}, messages=[(LIFE, 0, 0, "p")] if read else [])
    records = [(0, offset, "p", "", b"p") for offset in range(stored)]
    record(history, scene.COPY, {"topic_id": LIFE, "partitions": 1}, records=records)
    for group in scene.QUEUES:
        record(history, scene.EXPLAIN, {"topic_id": LIFE, "group": group}, states=[(0, 0, "acked")])
    return history


def test_a_life_in_which_all_went_well_is_good() -> None:
    judge_replaced(replaced_book(), LIFE)


@pytest.mark.parametrize(
    ("wrong", "promise"),
    [
        ({"acked_life": LIFE - 1}, "a message is settled in its own life only"),
        ({"stored": 0}, "a topic holds what was stored in this life"),
        ({"stored": 2}, "an idempotency key is stored once"),
        ({"read": False}, "nothing of a life is passed over"),
    ],
)
def test_what_crosses_lives_is_found(wrong: dict[str, Any], promise: str) -> None:
    with pytest.raises(Violation, match=promise):
        judge_replaced(replaced_book(**wrong), LIFE)


@pytest.mark.parametrize(("trimmed_total", "is_good"), [(3, True), (2, False)])
def test_what_was_trimmed_is_in_the_sum(trimmed_total: int, is_good: bool) -> None:
    history = History(World(1))
    part = {**dict.fromkeys(trimmed.COUNTED, 0), "acked_total": 1, "trimmed_total": trimmed_total}
    part |= {"lag": 1, "next_offset": 5, "log_start": 3}
    record(history, trimmed.DESCRIBE, {"group": "loose"}, partitions={0: part})
    if is_good:
        trimmed.judge_counts(history, "holder")
    else:
        with pytest.raises(Violation, match="counts every message once"):
            trimmed.judge_counts(history, "holder")
