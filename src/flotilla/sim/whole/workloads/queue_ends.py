"""The ends of messages: every message has one in each group, and one that somebody caused.

A delivery counts as an attempt when its lease ends by itself, also of messages that a consumer had fetched and never
handed to its application. So a message may die of attempts that no application saw.
"""

from collections import Counter, defaultdict
from typing import Final

from flotilla.sim.checkers.violation import Violation
from flotilla.sim.whole.history import DONE, NOT_DONE, Call, History
from flotilla.sim.whole.workloads.queue_audit import Audit, Place
from flotilla.sim.whole.workloads.queue_scene import CANCEL, ENQUEUE, GROUPS, MAX_DELIVERIES, SETTLE

#: States that the messages of a group may end in; retention removes nothing here.
_ENDS: Final = ("acked", "dead", "expired", "cancelled")
#: What an ack and a rejection make of a message.
_END_OF: Final = {"ack": "acked", "reject": "dead"}
#: Reasons that consumers give.
FAILED: Final = "no"
REJECTED: Final = "never"
_HOW: Final = {FAILED: "nack", REJECTED: "reject"}


def judge_ends(history: History, audit: Audit) -> None:
    """Raises Violation."""
    settled = _settlements(history)
    cancels: dict[Place, list[Call]] = defaultdict(list)
    for call in history.of(CANCEL):
        cancels[call.arguments["partition"], call.arguments["offset"]].append(call)
    # Redriven messages keep their time to live.
    mortal = {call.arguments["payloads"][0] for call in history.of(ENQUEUE) if "ttl_ms" in call.arguments}
    for (group, place), state in audit.states.items():
        where = f"{place} is {state} in {group}"
        if state not in _ENDS:
            raise Violation("every message has one end", where)
        if group not in GROUPS:
            continue
        ends = settled.get((group, place), [])
        causes = {
            "acked": _may_be_done([call for call in ends if call.arguments["how"] == "ack"]),
            # Its letter says why.
            "dead": True,
            "cancelled": _may_be_done(cancels[place]),
            "expired": audit.log[place].payload in mortal,
        }
        if not causes[state]:
            raise Violation("what was not done has not happened", f"{where}, and nobody did that")
        _judge_settled(where, state, ends, cancels[place])


def _judge_settled(where: str, state: str, ends: list[Call], cancels: list[Call]) -> None:
    """What a consumer was told is true."""
    for call in ends:
        expected = _END_OF.get(call.arguments["how"])
        if call.outcome != DONE or expected is None or state == expected:
            continue
        # It may be cancelled while it is leased, and settling it has no effect then.
        if state == "cancelled" and any(cancel.began_us < call.ended_us for cancel in cancels):
            continue
        promise = "an acknowledged message is done" if expected == "acked" else "a rejected message is dead"
        raise Violation(promise, f"{where}: {call}")


def judge_results(history: History, audit: Audit) -> None:
    """The result of a message is that of an ack which may have settled it. Raises Violation."""
    settled = _settlements(history)
    for (group, place), found in audit.results.items():
        acks = [call for call in settled.get((group, place), []) if call.arguments["how"] == "ack"]
        given = [call.arguments["result"] for call in acks if call.outcome != NOT_DONE]
        if found is not None and found not in given:
            raise Violation("a result comes with its ack", f"{place} in {group} has {found!r}, and not one of {given}")


def judge_letters(history: History, audit: Audit) -> None:
    """A dead message has one letter with a reason, and a letter is redriven once. Raises Violation."""
    settled = _settlements(history)
    for group, letters in audit.letters.items():
        origins = Counter(letter.origin for letter in letters)
        dead = {place for (each, place), state in audit.states.items() if each == group and state == "dead"}
        if set(origins) != dead or max(origins.values(), default=1) > 1:
            wrong = {place: origins[place] for place in sorted({*origins, *dead}) if origins[place] != (place in dead)}
            raise Violation("a dead message has one letter", f"{group}: letters by message {wrong}")
        for letter in letters:
            how = _HOW.get(letter.reason)
            calls = [call for call in settled.get((group, letter.origin), []) if call.arguments["how"] == how]
            if how is not None and not _may_be_done(calls):
                raise Violation("what was not done has not happened", f"{letter} of {group}, and nobody did that")
            if letter.reason != REJECTED and letter.attempts < MAX_DELIVERIES:
                raise Violation("a message dies of its last attempt", f"{letter} of {group}")
    sent = Counter((stored.payload, stored.redriven) for stored in audit.log.values() if stored.redriven)
    could = Counter((letter.payload, letter.redriven + 1) for letters in audit.letters.values() for letter in letters)
    for redriven, count in sent.items():
        if count > could[redriven]:
            raise Violation("a letter is redriven once", f"{redriven}: {count} times of {could[redriven]}")


def _settlements(history: History) -> dict[tuple[str, Place], list[Call]]:
    found: dict[tuple[str, Place], list[Call]] = defaultdict(list)
    for call in history.of(SETTLE):
        partition, offset = call.arguments["message"][:2]
        found[call.arguments["group"], (partition, offset)].append(call)
    return found


def _may_be_done(calls: list[Call]) -> bool:
    return any(call.outcome != NOT_DONE for call in calls)
