"""What readers of any replica may expect, judged by what they got and what the replicas hold at the end."""

from collections.abc import Mapping, Sequence

from flotilla.codec.batch.view import BatchView
from flotilla.sim.checkers.violation import Violation
from flotilla.sim.whole.history import DONE, Call
from flotilla.sim.whole.workloads.contents import Contents

#: Batches by their first offset, by partition and node.
Copies = dict[int, dict[int, dict[int, bytes]]]
#: The times of records by offset, by partition.
Times = Mapping[int, Mapping[int, int]]


def judge_copies(topic: str, copies: Copies) -> None:
    """Replicas agree byte for byte."""
    for partition, nodes in copies.items():
        (first, expected), *others = nodes.items()
        for node, copy in others:
            for offset in sorted({*expected, *copy}):
                if copy.get(offset) != expected.get(offset):
                    text = f"{topic}/{partition}, offset {offset}: nodes {first} and {node} differ"
                    raise Violation("replicas agree byte for byte", text)


def contents_of(batches: Mapping[int, bytes]) -> tuple[dict[int, str], dict[int, int]]:
    """Payloads and times by offset."""
    payloads: dict[int, str] = {}
    times: dict[int, int] = {}
    for batch in batches.values():
        view = BatchView(batch)
        stamps = view.columns.timestamps
        for place in range(view.count):
            payloads[view.offset(place)] = view.payload(place).decode()
            times[view.offset(place)] = view.header.first_time_ms if stamps is None else stamps[place]
    return payloads, times


def judge_readers(
    topic: str, calls: Sequence[Call], contents: Contents, times: Times, *, is_end_known: bool = True
) -> None:
    """`is_end_known`: whoever asks where the log ends is told what a quorum has confirmed."""
    ours = [call for call in calls if call.arguments.get("topic") == topic]
    acknowledged = [call for call in ours if call.operation == "produce" and call.outcome == DONE]
    for call in ours:
        if call.operation in ("read", "fetch") and "messages" in call.result:
            _judge_messages(call, contents[call.arguments["partition"]])
        if call.outcome != DONE:
            continue
        if call.operation == "fetch" and call.arguments["is_linearizable"]:
            _judge_end(call, call.result["end"], acknowledged)
        elif not is_end_known:
            continue
        elif call.operation == "read" and call.arguments["time_ms"] is not None:
            _judge_start(call, times[call.arguments["partition"]], acknowledged)
        elif call.operation == "find" and call.arguments["time_ms"] is None:
            _judge_end(call, call.result["offset"], acknowledged)
        elif call.operation == "find":
            _judge_time(call, call.result["offset"], times[call.arguments["partition"]], acknowledged)


def _judge_messages(call: Call, contents: Mapping[int, str]) -> None:
    """Each record once, at its offset, none left out."""
    messages = call.result["messages"]
    if not messages:
        return
    first = messages[0][0]
    if call.operation == "read" and first != call.result["start"]:
        raise Violation("a reader begins where it says", f"{call}")
    if call.operation == "fetch" and first > call.arguments["offset"]:
        raise Violation("a replica leaves nothing out", f"{call}")
    for place, (offset, payload) in enumerate(messages):
        if offset != first + place:
            raise Violation("a reader gets one record after the other", f"{call}: {offset}, not {first + place}")
        if contents.get(offset) != payload:
            raise Violation("every replica has the same records", f"{call}: {offset} is {contents.get(offset)}")


def _judge_start(call: Call, times: Mapping[int, int], acknowledged: Sequence[Call]) -> None:
    """A reader by time begins at the first record of that time or later, or at the end."""
    start = call.result["start"]
    time_ms = call.arguments["time_ms"]
    if start in times and times[start] >= time_ms:
        _judge_time(call, start, times, acknowledged)
        return
    _judge_time(call, -1, times, acknowledged)
    _judge_end(call, start, acknowledged)


def _judge_time(call: Call, offset: int, times: Mapping[int, int], acknowledged: Sequence[Call]) -> None:
    """`offset` is the first record at or after the time; -1: there was none."""
    time_ms = call.arguments["time_ms"]
    if offset >= 0 and times.get(offset, -1) < time_ms:
        raise Violation("a time leads to a record of that time", f"{call}: {times.get(offset)}")
    for before in _before(call, acknowledged):
        place = before.result["offset"]
        if (offset < 0 or place < offset) and times[place] >= time_ms:
            text = f"{call}: record {place} of {times[place]} is younger, and was there: {before}"
            raise Violation("a time leads to the first record of that time", text)


def _judge_end(call: Call, end: int, acknowledged: Sequence[Call]) -> None:
    """What was acknowledged before the call began lies before the end that it found."""
    for before in _before(call, acknowledged):
        if before.result["offset"] >= end:
            raise Violation("a linearizable read shows what was acknowledged", f"{call}: {end} after {before}")


def _before(call: Call, acknowledged: Sequence[Call]) -> list[Call]:
    """Records of its partition that were acknowledged before the call began."""
    partition = call.arguments["partition"]
    return [each for each in acknowledged if each.ended_us < call.began_us and each.result["partition"] == partition]
