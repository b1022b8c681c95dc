"""What those who make and delete topics may expect, judged by what they did to a name and what was seen of it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from flotilla.sim.checkers.violation import Violation
from flotilla.sim.whole.history import DONE, NOT_DONE, OPEN, Call

#: The setting that keepers alter.
SETTING: Final = "max_deliveries"

_CHANGES: Final = ("create", "alter", "delete")
_MISSING: Final = "NotFoundError"
_TAKEN: Final = "AlreadyExistsError"


@dataclass(slots=True)
class _Life:
    """What a keeper knows of the present life of its name."""

    life: int
    facts: dict[str, Any]
    #: Acknowledged records by partition and offset.
    records: dict[int, dict[int, str]] = field(default_factory=dict)
    #: Records that may be there.
    maybe: set[str] = field(default_factory=set)
    #: Committed offsets of the group; None as a whole: it was deleted, or has none.
    offsets: dict[int, int] = field(default_factory=dict)


def judge_admin(calls: Sequence[Call]) -> None:
    ours = [call for call in calls if "name" in call.arguments]
    lives = _lives(ours)
    for call in ours:
        if call.operation == "read" and call.outcome == DONE:
            _judge_read_life(call, lives)
    for name in dict.fromkeys(call.arguments["name"] for call in ours):
        keeper = name.rsplit("-", 1)[0]
        mine = [
            call for call in ours if call.arguments["name"] == name and call.client in (keeper, f"{keeper}-witness")
        ]
        _judge_name(name, mine)


def _lives(calls: Sequence[Call]) -> dict[int, int]:
    """By the id of a topic: which life of its name it is."""
    lives: dict[int, int] = {}
    for call in calls:
        if call.operation == "create" and call.outcome == DONE:
            if call.result["topic_id"] in lives:
                raise Violation("each life of a name has an id of its own", f"{call}")
            lives[call.result["topic_id"]] = call.arguments["life"]
    return lives


def _judge_read_life(call: Call, lives: dict[int, int]) -> None:
    """A client that was told of a life gets nothing of an earlier one."""
    told = lives.get(call.arguments["topic_id"], 0)
    for offset, payload in call.result["records"].items():
        if int(payload.split("/")[1]) < told:
            text = f"{call.client} was told of life {told}: {payload} at {offset}, {call}"
            raise Violation("an earlier life never comes back", text)


def _judge_name(name: str, calls: Sequence[Call]) -> None:
    """The keeper and its witness look at a name one after the other, with what was done before in mind."""
    present: _Life | None = None
    for call in calls:
        if call.operation in _CHANGES:
            if call.outcome not in (DONE, NOT_DONE):
                # The keeper has left the name.
                return
            present = _change(present, call)
        elif call.operation == "store":
            _store(present, call)
        elif call.operation in ("commit offset", "delete group"):
            if not _change_group(present, call):
                return
        else:
            _look(name, present, call)


def _change(present: _Life | None, call: Call) -> _Life | None:
    is_missing, is_taken = call.error.startswith(_MISSING), call.error.startswith(_TAKEN)
    if call.outcome == NOT_DONE:
        if (is_missing and present is not None) or (is_taken and present is None):
            raise Violation("a client sees its own changes", f"{call} with {present}")
        return present
    if call.operation == "delete":
        return None
    facts = call.result
    wanted: dict[str, Any] = {name: call.arguments[name] for name in ("partitions", SETTING) if name in call.arguments}
    if any(facts[name] != value for name, value in wanted.items()):
        raise Violation("a change is what was asked for", f"{call}")
    if call.operation == "create":
        return _Life(call.arguments["life"], dict(facts))
    assert present is not None
    expected: dict[str, Any] = {**present.facts, **wanted}
    if facts != expected:
        raise Violation("a change changes nothing else", f"{call}: not {expected}")
    present.facts = expected
    return present


def _store(present: _Life | None, call: Call) -> None:
    assert present is not None
    if call.outcome == DONE:
        records = present.records.setdefault(call.arguments["partition"], {})
        if call.result["offset"] in records:
            raise Violation("each record has an offset of its own", f"{call}: {records}")
        records[call.result["offset"]] = call.arguments["payload"]
    elif call.outcome == NOT_DONE:
        if call.error.startswith(_MISSING):
            raise Violation("a client sees its own changes", f"{call}")
    else:
        present.maybe.add(call.arguments["payload"])


def _change_group(present: _Life | None, call: Call) -> bool:
    """False: what it has done is not known, and the keeper has left the name."""
    assert present is not None
    if call.operation == "commit offset":
        if call.outcome == DONE:
            present.offsets[call.arguments["partition"]] = call.arguments["offset"]
        elif call.outcome == NOT_DONE and call.error.startswith(_MISSING):
            raise Violation("a client sees its own changes", f"{call}")
        return call.outcome in (DONE, NOT_DONE)
    if call.outcome == NOT_DONE and call.error.startswith(_MISSING):
        if present.offsets:
            raise Violation("a client sees its own changes", f"{call}: {present.offsets}")
        return True
    present.offsets = {}
    return call.outcome == DONE


def _look(name: str, present: _Life | None, call: Call) -> None:
    if call.outcome == OPEN:
        return
    if call.outcome != DONE:
        # Whoever reads has just been told that the topic is there.
        if call.error.startswith(_MISSING) and present is not None:
            raise Violation("a client sees its own changes", f"{call}")
        return
    if call.operation == "describe":
        if present is None or call.result != present.facts:
            raise Violation("a client sees its own changes", f"{call} with {present}")
    elif call.operation == "list":
        if call.result["has"] != (present is not None):
            raise Violation("a client sees its own changes", f"{call} with {present}")
    elif call.operation == "read":
        assert present is not None
        _judge_read(present, call)
    elif call.operation == "committed offset":
        assert present is not None
        if call.result["offset"] != present.offsets.get(call.arguments["partition"]):
            raise Violation("a group is what was made of it in this life", f"{call} with {present.offsets}")
    elif call.operation == "groups":
        assert present is not None
        if bool(call.result["groups"]) != bool(present.offsets):
            raise Violation("a group is what was made of it in this life", f"{call} with {present.offsets}")


def _judge_read(present: _Life, call: Call) -> None:
    expected = present.records.get(call.arguments["partition"], {})
    found = call.result["records"]
    for offset, payload in found.items():
        if expected.get(offset) != payload and payload not in present.maybe:
            raise Violation("a topic holds what was stored in this life", f"{call}: {payload} at {offset}")
    for offset, payload in expected.items():
        if found.get(offset) != payload:
            raise Violation("a topic holds what was stored in this life", f"{call}: no {payload} at {offset}")
