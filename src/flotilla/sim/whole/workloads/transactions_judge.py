"""What clients of transactions may expect, judged by what they were told and what the topics hold at the end."""

from collections.abc import Mapping, Sequence
from typing import Final

from flotilla.sim.checkers.violation import Violation
from flotilla.sim.whole.history import DONE, NOT_DONE, Call
from flotilla.sim.whole.workloads.contents import Contents

COMMITTED: Final = "committed"
ABORTED: Final = "aborted"

#: Topic and partition.
_Place = tuple[str, int]


def split_contents(topic: str, transactions: Sequence[Call], contents: Contents) -> tuple[Contents, Contents]:
    """The records of producers, and those that transactions made."""
    made = {payload for call in transactions for written, _, payload in call.arguments["records"] if written == topic}

    def those(*, are_made: bool) -> Contents:
        return {
            partition: {offset: payload for offset, payload in found.items() if (payload in made) == are_made}
            for partition, found in contents.items()
        }

    return those(are_made=False), those(are_made=True)


def judge_transactions(calls: Sequence[Call], inputs: Contents, outputs: Mapping[str, Contents]) -> None:
    """`inputs` were all taken by workers, one transaction for each attempt. `outputs` are the contents by topic."""
    transactions = {call.arguments["id"]: call for call in calls if call.operation == "transaction"}
    states = _states(calls)
    seen = _seen(outputs)
    for name in seen:
        if name not in transactions:
            raise Violation("nothing is made up", f"no client began {name}")
    for name, call in transactions.items():
        found = seen.get(name, {})
        _judge_whole(call, found)
        state = states.get(name)
        if state == COMMITTED and not found:
            raise Violation("a committed transaction is seen", f"{call}")
        if state == ABORTED and found:
            raise Violation("an aborted transaction is not seen", f"{call}: {found}")
        if call.outcome == DONE and call.result["state"] == COMMITTED:
            _judge_receipts(call, outputs)
    _judge_versions(list(transactions.values()), seen)
    _judge_inputs(list(transactions.values()), inputs, seen)


def _states(calls: Sequence[Call]) -> dict[str, str]:
    """What is known about each transaction. No two may say different things."""
    states: dict[str, str] = {}
    for call in calls:
        if call.operation not in ("transaction", "resolve-transaction"):
            continue
        name = call.arguments["id"]
        if call.outcome == DONE:
            state = call.result["state"]
        elif call.outcome == NOT_DONE and call.operation == "transaction":
            state = ABORTED
        else:
            continue
        if states.setdefault(name, state) != state:
            raise Violation("the first decision stands", f"{name} is {states[name]}, and then {state}")
    return states


def _seen(outputs: Mapping[str, Contents]) -> dict[str, dict[_Place, list[tuple[int, str]]]]:
    """By transaction and place: offsets and payloads, in order."""
    seen: dict[str, dict[_Place, list[tuple[int, str]]]] = {}
    for topic, contents in outputs.items():
        for partition, found in contents.items():
            for offset, payload in sorted(found.items()):
                name = payload.rsplit("/", 2)[0]
                seen.setdefault(name, {}).setdefault((topic, partition), []).append((offset, payload))
    return seen


def _judge_whole(call: Call, found: Mapping[_Place, list[tuple[int, str]]]) -> None:
    """All of it or nothing, in each partition in the order of adding and with nothing in between."""
    if not found:
        return
    expected: dict[_Place, list[str]] = {}
    for topic, partition, payload in call.arguments["records"]:
        expected.setdefault((topic, partition), []).append(payload)
    shown = {place: [payload for _, payload in records] for place, records in found.items()}
    if {place: sorted(payloads) for place, payloads in shown.items()} != {
        place: sorted(payloads) for place, payloads in expected.items()
    }:
        raise Violation("a transaction is seen whole or not at all", f"{call} shows {shown}")
    for place, records in found.items():
        offsets = [offset for offset, _ in records]
        if shown[place] != expected[place] or offsets[-1] - offsets[0] != len(offsets) - 1:
            raise Violation("records of a transaction stand together, in order", f"{call} in {place}: {records}")


def _judge_receipts(call: Call, outputs: Mapping[str, Contents]) -> None:
    for (topic, _, payload), receipt in zip(call.arguments["records"], call.result["receipts"], strict=True):
        if receipt[0] != topic or outputs[topic][receipt[1]].get(receipt[2]) != payload:
            raise Violation("receipts say where records are", f"{call}: {receipt}")


def _judge_versions(transactions: Sequence[Call], seen: Mapping[str, Mapping[_Place, list[tuple[int, str]]]]) -> None:
    """Of all transactions that commit one version of a job, one is seen; none, if no commit was answered."""
    versions: dict[tuple[str, int], list[Call]] = {}
    for call in transactions:
        if "version" in call.arguments:
            versions.setdefault((call.arguments["application_id"], call.arguments["version"]), []).append(call)
    for version, calls in versions.items():
        shown = [call.arguments["id"] for call in calls if call.arguments["id"] in seen]
        if len(shown) > 1 or (not shown and any("receipts" in call.result for call in calls)):
            raise Violation("a version is committed once", f"of {version} are seen: {shown}")


def _judge_inputs(
    transactions: Sequence[Call], inputs: Contents, seen: Mapping[str, Mapping[_Place, list[tuple[int, str]]]]
) -> None:
    """Each input was made into something exactly once: it is acknowledged by one transaction, which is seen."""
    makers: dict[str, list[str]] = {}
    for call in transactions:
        if "input" in call.arguments and call.arguments["id"] in seen:
            makers.setdefault(call.arguments["input"], []).append(call.arguments["id"])
    for found in inputs.values():
        for offset, payload in found.items():
            if len(makers.get(payload, [])) != 1:
                text = f"{payload} at {offset} was taken by {makers.get(payload, [])}"
                raise Violation("each input is taken exactly once", text)
