"""A small history of a queue in which every promise is kept, and its parts to break one of them."""

from typing import Any

from flotilla.sim.devices.world import MS, SECOND, World
from flotilla.sim.whole.history import DONE, Call, History
from flotilla.sim.whole.workloads.queue_audit import Audit, Letter, Stored
from flotilla.sim.whole.workloads.queue_ends import REJECTED
from flotilla.sim.whole.workloads.queue_scene import (
    CANCEL,
    DESCRIBE,
    ENDED,
    ENQUEUE,
    EXTEND,
    GROUPS,
    LEASE,
    LINK_LOST,
    SETTLE,
)

TERM = 1 << 40
GROUP, OTHER = GROUPS
ENDS = ("acked", "dead", "expired", "cancelled", "trimmed")


class Records:
    """Message n of partition 0 is at offset n; times are in seconds."""

    def __init__(self) -> None:
        self.history = History(World(0))
        self.audit = Audit(letters={GROUP: [], OTHER: []})

    def call(
        self, client: str, operation: str, began: float, ended: float, outcome: str = DONE, **arguments: Any
    ) -> Call:
        call = self.history.begin(client, operation, **arguments)
        call.began_us, call.ended_us, call.outcome = int(began * SECOND), int(ended * SECOND), outcome
        return call

    def produce(self, offset: int, at: float, outcome: str = DONE, **fields: Any) -> Call:
        call = self.call("producer", ENQUEUE, at, at + 0.1, outcome, payloads=[f"m{offset}"], **fields)
        if outcome == DONE:
            call.result["places"] = [(0, offset)]
        self.audit.log[0, offset] = Stored(f"m{offset}")
        return call

    def deliver(
        self, client: str, offset: int, at: float, *, group: str = GROUP, attempt: int = 1, lease: int = 1
    ) -> Call:
        call = self.call(client, LEASE, at - 0.1, at, group=group)
        call.result["messages"] = [_seen(offset, attempt, lease, self.audit.log[0, offset].payload)]
        return call

    def settle(
        self,
        client: str,
        offset: int,
        at: float,
        how: str = "ack",
        outcome: str = DONE,
        *,
        group: str = GROUP,
        attempt: int = 1,
        lease: int = 1,
    ) -> Call:
        message = _seen(offset, attempt, lease)
        given = {"result": result_of(client, offset, attempt)} if how == "ack" else {}
        return self.call(client, SETTLE, at, at + 0.1, outcome, group=group, message=message, how=how, **given)

    def extend(self, client: str, offset: int, at: float, for_s: int, *, lease: int = 1) -> Call:
        message = _seen(offset, 1, lease)
        return self.call(
            client, EXTEND, at, at + 0.1, group=GROUP, message=message, how="extend", visibility_ms=for_s * SECOND // MS
        )

    def cancel(self, offset: int, at: float, outcome: str = DONE) -> Call:
        call = self.call("operator", CANCEL, at, at + 0.1, outcome, partition=0, offset=offset)
        call.result["places"] = [(0, offset)]
        return call

    def describe(self, at: float, **counts: int) -> Call:
        totals = [f"{end}_total" for end in ENDS]
        call = self.call("operator", DESCRIBE, at, at + 0.1, group=GROUP)
        call.result["partitions"] = {0: dict.fromkeys((*totals, "lag", "produced", "dying"), 0) | counts}
        return call

    def died(self, client: str, at: float) -> Call:
        return self.call(client, ENDED, at, at)

    def lost_link(self, client: str, at: float) -> Call:
        return self.call(client, LINK_LOST, at, at)

    def end(self, offset: int, state: str, group: str = GROUP) -> None:
        self.audit.states[group, (0, offset)] = state
        counted = self.audit.counted.setdefault((group, 0), dict.fromkeys(ENDS, 0))
        counted[state] = counted.get(state, 0) + 1

    def letter(self, offset: int, reason: str = REJECTED, attempts: int = 1) -> None:
        self.audit.letters[GROUP].append(Letter((0, offset), f"m{offset}", reason, attempts))


def result_of(client: str, offset: int, attempt: int = 1) -> str:
    return f"m{offset} by {client}, attempt {attempt}"


def _seen(offset: int, attempt: int, lease: int, payload: str = "") -> tuple[int, int, str, int, int]:
    return (0, offset, payload or f"m{offset}", attempt, TERM + lease)


def good_records() -> Records:
    """Seven messages of one group, each with another fate."""
    records = Records()
    # 0 is acknowledged, 1 after a failure, 2 after its consumer died.
    records.produce(0, 1)
    records.deliver("a", 0, 2)
    records.settle("a", 0, 3)
    records.end(0, "acked")
    records.audit.results[GROUP, (0, 0)] = result_of("a", 0)
    records.produce(1, 1)
    records.deliver("a", 1, 2, lease=2)
    records.settle("a", 1, 3, "nack", lease=2)
    records.deliver("b", 1, 20, attempt=2, lease=3)
    records.settle("b", 1, 21, attempt=2, lease=3)
    records.end(1, "acked")
    records.produce(2, 1)
    records.deliver("c", 2, 2, lease=4)
    records.extend("c", 2, 2.5, 4, lease=4)
    records.died("c", 3)
    records.deliver("b", 2, 22, attempt=2, lease=5)
    records.settle("b", 2, 23, attempt=2, lease=5)
    records.end(2, "acked")
    records.audit.results[GROUP, (0, 2)] = None
    # 3 is rejected and redriven as 4, which is acknowledged.
    records.produce(3, 1)
    records.deliver("b", 3, 4, lease=6)
    records.settle("b", 3, 5, "reject", lease=6)
    records.end(3, "dead")
    records.letter(3)
    records.audit.log[0, 4] = Stored("m3", redriven=1)
    records.deliver("b", 4, 24, lease=7)
    records.settle("b", 4, 25, lease=7)
    records.end(4, "acked")
    # 5 is cancelled before its time, 6 expires.
    records.produce(5, 1, delay_ms=8_000)
    records.cancel(5, 2)
    records.end(5, "cancelled")
    records.produce(6, 1, ttl_ms=1_000)
    records.end(6, "expired")
    records.describe(4, acked_total=1, cancelled_total=1, lag=4, produced=6)
    return records
