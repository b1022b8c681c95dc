"""What members of a stream group may expect, judged by what they were given and what they committed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from flotilla.sim.checkers.violation import Violation
from flotilla.sim.whole.history import DONE, Call
from flotilla.sim.whole.workloads.contents import Contents

#: With these calls an application says that it has handled what it was given before.
_HANDLING: Final = ("poll", "commit", "close")
_NEVER: Final = 1 << 62


@dataclass(slots=True)
class _Sight:
    """The position of the group in a partition, known at some time in [began_us, ended_us]."""

    offset: int
    began_us: int
    ended_us: int
    call: Call


def judge_stream(group: str, calls: Sequence[Call], contents: Contents) -> None:
    """`contents` is what the topic holds at the end, when the group has committed all of it."""
    ours = [call for call in calls if call.arguments.get("group") == group]
    _judge_deliveries(ours, contents)
    _judge_owners(ours)
    _judge_order(ours)
    sights = _sights(ours)
    _judge_positions(sights)
    _judge_skipped(sights, _handled(ours))


def _judge_deliveries(calls: Sequence[Call], contents: Contents) -> None:
    """Members get what is stored, and all of it."""
    delivered: set[tuple[int, int]] = set()
    for call in _done(calls, "poll"):
        for partition, _, offset, payload in call.result["messages"]:
            delivered.add((partition, offset))
            if contents[partition].get(offset) != payload:
                text = f"{call.client} got {payload} at {partition}/{offset}: {contents[partition].get(offset)}"
                raise Violation("members get what is stored", text)
    for partition, found in contents.items():
        for offset, payload in found.items():
            if (partition, offset) not in delivered:
                raise Violation("every record is read by the group", f"{payload} at {partition}/{offset} is not")


def _judge_owners(calls: Sequence[Call]) -> None:
    """An epoch of a partition is given to one member and once; commits after the claim of a later one are refused."""
    owners: dict[tuple[int, int], str] = {}
    #: By partition: when the application of a new owner learned of it, and its epoch.
    claims: dict[int, list[tuple[int, int]]] = {}
    for call in _done(calls, "assign"):
        place = (call.arguments["partition"], call.arguments["epoch"])
        if place in owners:
            text = f"partition {place[0]}, epoch {place[1]}: {owners[place]}, and then {call}"
            raise Violation("an epoch is given once" if owners[place] == call.client else "one owner per epoch", text)
        owners[place] = call.client
        claims.setdefault(place[0], []).append((call.ended_us, place[1]))
    for call in _done(calls, "commit"):
        for partition in call.result["offsets"]:
            epoch = call.arguments["epochs"][partition]
            for claimed_us, later in claims.get(partition, []):
                if later > epoch and claimed_us < call.began_us:
                    text = f"partition {partition}: {call} after epoch {later} was claimed at {claimed_us}"
                    raise Violation("late commits are refused", text)


def _judge_order(calls: Sequence[Call]) -> None:
    """An owner gets one record after the other, from the position on that it was given."""
    expected: dict[tuple[str, int, int], int] = {}
    for call in sorted(calls, key=lambda call: call.ended_us):
        if call.outcome != DONE:
            continue
        if call.operation == "assign":
            name = (call.client, call.arguments["partition"], call.arguments["epoch"])
            expected[name] = call.result["position"]
        elif call.operation == "poll":
            for partition, epoch, offset, _ in call.result["messages"]:
                name = (call.client, partition, epoch)
                if expected.get(name) != offset:
                    text = f"{call.client}, partition {partition}, epoch {epoch}: {offset}, not {expected.get(name)}"
                    raise Violation("an owner reads in order, without a gap", text)
                expected[name] = offset + 1


def _judge_positions(sights: dict[int, list[_Sight]]) -> None:
    """The position of a group never moves back."""
    for partition, seen in sights.items():
        ended = sorted(seen, key=lambda sight: sight.ended_us)
        at = 0
        highest: _Sight | None = None
        for sight in sorted(seen, key=lambda sight: sight.began_us):
            while ended[at].ended_us < sight.began_us:
                if highest is None or ended[at].offset > highest.offset:
                    highest = ended[at]
                at += 1
            if highest is not None and sight.offset < highest.offset:
                text = f"partition {partition}: {sight.call} after {highest.call}"
                raise Violation("positions never go back", text)


def _judge_skipped(sights: dict[int, list[_Sight]], handled: dict[int, dict[int, int]]) -> None:
    """No record behind a position is one that no member has handled."""
    for partition, seen in sights.items():
        checked, latest_us = 0, 0
        times = handled.get(partition, {})
        for sight in sorted(seen, key=lambda sight: sight.offset):
            while checked < sight.offset:
                latest_us = max(latest_us, times.get(checked, _NEVER))
                checked += 1
            if latest_us > sight.ended_us:
                first = next(offset for offset in range(sight.offset) if times.get(offset, _NEVER) > sight.ended_us)
                text = f"partition {partition}: {first} was handled by nobody before {sight.call}"
                raise Violation("nothing is skipped behind a position", text)


def _sights(calls: Sequence[Call]) -> dict[int, list[_Sight]]:
    """Where the group stood, as far as anybody was told."""
    sights: dict[int, list[_Sight]] = {}
    for call in calls:
        if call.outcome != DONE:
            continue
        if call.operation == "committed":
            seen = {call.arguments["partition"]: (call.result["offset"], call.began_us)}
        elif call.operation == "commit":
            seen = {partition: (offset, call.began_us) for partition, offset in call.result["offsets"].items()}
        elif call.operation == "assign":
            # Claimed at some time before the application asked for it.
            seen = {call.arguments["partition"]: (call.result["position"], 0)}
        else:
            continue
        for partition, (offset, began_us) in seen.items():
            sights.setdefault(partition, []).append(_Sight(offset, began_us, call.ended_us, call))
    return sights


def _handled(calls: Sequence[Call]) -> dict[int, dict[int, int]]:
    """By partition and offset: when a member first had handled a record."""
    handled: dict[int, dict[int, int]] = {}
    #: By client: what it has in hand.
    in_hand: dict[str, list[tuple[int, int]]] = {}
    for call in calls:
        if call.operation not in _HANDLING:
            continue
        for partition, offset in in_hand.pop(call.client, []):
            times = handled.setdefault(partition, {})
            times[offset] = min(times.get(offset, _NEVER), call.began_us)
        if call.operation == "poll" and call.outcome == DONE:
            in_hand[call.client] = [(partition, offset) for partition, _, offset, _ in call.result["messages"]]
    return handled


def _done(calls: Sequence[Call], operation: str) -> list[Call]:
    return [call for call in calls if call.operation == operation and call.outcome == DONE]
