"""What clients of a topic with retention may expect: nothing held or young goes, and every removal is counted."""

from typing import Final

from flotilla.sim.checkers.violation import Violation
from flotilla.sim.whole.history import DONE, NOT_DONE, Call, History

#: Names of operations in the history.
STORE: Final = "store reading"
LEASE: Final = "lease readings"
ACK: Final = "ack reading"
DESCRIBE: Final = "describe readings"
KEPT: Final = "read what is kept"
#: What a group counts of a partition; together they are its messages.
COUNTED: Final = ("acked_total", "dead_total", "expired_total", "cancelled_total", "trimmed_total", "lag")


def judge_trimmed(history: History, holder: str, kept: int) -> None:
    """Raises Violation. `holder` holds retention, and `kept` messages of a partition are kept in any case."""
    final = [call for call in history.of(KEPT) if call.outcome == DONE]
    stored = {
        (call.result["partition"], call.result["offset"]): call for call in history.of(STORE) if call.outcome == DONE
    }
    judge_counts(history, holder)
    judge_payloads(history, stored)
    for call in final:
        judge_kept(call, stored, kept)
    judge_held(history, holder, stored)


def judge_counts(history: History, holder: str) -> None:
    """At any time a group has counted as many messages as the log has offsets, and a holder lost none."""
    for call in history.of(DESCRIBE):
        for number, part in call.result.get("partitions", {}).items():
            if sum(part[name] for name in COUNTED) != part["next_offset"]:
                raise Violation("a group counts every message once", f"partition {number}: {call}")
            if part["trimmed_total"] > part["log_start"]:
                raise Violation("a group counts every message once", f"partition {number}: {call}")
            if call.arguments["group"] == holder and part["trimmed_total"]:
                raise Violation("what a holder is owed stays", f"partition {number}: {call}")


def judge_payloads(history: History, stored: dict[tuple[int, int], Call]) -> None:
    """A message is delivered as it is stored."""
    for call in history.of(LEASE):
        for partition, offset, payload in call.result.get("messages", ()):
            made = stored.get((partition, offset))
            if made is not None and made.arguments["payload"] != payload:
                raise Violation("a message is delivered as it is stored", f"{call.client} got {payload}: {made}")


def judge_kept(call: Call, stored: dict[tuple[int, int], Call], kept: int) -> None:
    """From the start of the log on everything is there, and that is at least as much as retention keeps."""
    partition, start, end = call.arguments["partition"], call.result["start"], call.result["end"]
    records: dict[int, str] = call.result["records"]
    if start > max(0, end - kept):
        raise Violation("what is young is there", f"partition {partition} begins at {start} of {end}")
    if list(records) != list(range(start, end)):
        raise Violation("what is kept is read", f"partition {partition} from {start} to {end}: {list(records)}")
    for (number, offset), made in stored.items():
        if number == partition and start <= offset and records.get(offset) != made.arguments["payload"]:
            raise Violation("every acknowledged message is stored", f"{made}: {records.get(offset)}")


def judge_held(history: History, holder: str, stored: dict[tuple[int, int], Call]) -> None:
    """Everything that was stored was acked in the group that holds."""
    acked = {
        (call.arguments["partition"], call.arguments["offset"])
        for call in history.of(ACK)
        if call.arguments["group"] == holder and call.outcome != NOT_DONE
    }
    for place, made in stored.items():
        if place not in acked:
            raise Violation("what a holder is owed stays", f"{holder} never acked {place}: {made}")
