"""The rules that a history must keep, each in one pass over it.

| rule | what must hold |
| --- | --- |
| lost | an acknowledged record is where its receipt says |
| replicas agree | every replica of a partition holds the same records from offset 0 on, and there are enough of them |
| doubled | no record is stored twice |
| swapped | acknowledged records of one producer are stored in the order in which they were sent |
| failed but stored | a record that was refused is nowhere |
| stale read | a linearizable read shows every record that was acknowledged before, and what the log holds |
| stale end | so does the end of the log |
| settled again | no message is acknowledged or delivered long after its acknowledgement |
| commit back | a group's offset never goes back |
| half a transaction | a transaction is stored as a whole or not at all, a committed one as a whole |
| never delivered | the queue group got every record |
| stream skipped | the stream group got every record below its committed offset |
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from flotilla.cli.chaos.judge.history import OK, REFUSED, UNKNOWN, History, Place

#: A poll may return what the broker leased this long before it, when an answer was held up on its way.
HELD_UP_S: Final = 10.0


class Finding(NamedTuple):
    """A broken rule."""

    rule: str
    text: str


Rule = Callable[[History], Iterator[str]]


def judge(history: History) -> list[Finding]:
    """Every violation."""
    return [Finding(name, text) for name, rule in RULES.items() for text in rule(history)]


class _Highest:
    """The highest value that was answered before a time, by place."""

    def __init__(self, answers: Iterable[tuple[Place, float, int]]) -> None:
        self._times: dict[Place, list[float]] = defaultdict(list)
        self._values: dict[Place, list[int]] = defaultdict(list)
        for place, ended, value in sorted(answers, key=lambda each: each[1]):
            values = self._values[place]
            self._times[place].append(ended)
            values.append(max(value, values[-1]) if values else value)

    def before(self, place: Place, time: float) -> int:
        """-1: nothing was answered yet."""
        at = bisect_left(self._times[place], time)
        return self._values[place][at - 1] if at else -1


def _lost(history: History) -> Iterator[str]:
    logs = history.logs()
    for send in history.sends:
        if send.outcome != OK:
            continue
        log = logs.get(send.place, [])
        found = log[send.offset] if send.offset < len(log) else "nothing"
        if found != send.payload:
            yield f"{send.place}@{send.offset} was acknowledged as {send.payload} and holds {found or 'nothing'}"


def _replicas_agree(history: History) -> Iterator[str]:
    logs = history.logs()
    copies = Counter(replica.place for replica in history.replicas)
    for place in logs:
        asked = history.replication.get(place.topic, 0)
        if copies[place] < asked:
            yield f"{place} has {copies[place]} replicas of {asked}"
    for replica in history.replicas:
        log = logs[replica.place]
        if replica.start:
            yield f"{replica.place} at node {replica.node} begins at {replica.start}"
        elif replica.payloads != log:
            pairs = zip(replica.payloads, log, strict=False)
            at = next((at for at, (one, other) in enumerate(pairs) if one != other), len(replica.payloads))
            yield (
                f"{replica.place} at node {replica.node} has {len(replica.payloads)} records of {len(log)}, "
                f"and differs from offset {at} on"
            )


def _doubled(history: History) -> Iterator[str]:
    stored = Counter(payload for log in history.logs().values() for payload in log if payload)
    for payload, count in stored.items():
        if count > 1:
            yield f"{payload} is stored {count} times"


def _swapped(history: History) -> Iterator[str]:
    last: dict[tuple[str, Place], tuple[int, int]] = {}
    for send in sorted(history.sends, key=lambda each: each.number):
        if send.outcome != OK:
            continue
        lane = (send.producer, send.place)
        number, offset = last.get(lane, (-1, -1))
        if send.offset <= offset:
            yield f"{send.place}: {send.producer} sent {number} before {send.number}, stored at {offset}, {send.offset}"
        last[lane] = (send.number, send.offset)


def _failed_but_stored(history: History) -> Iterator[str]:
    stored = {payload for log in history.logs().values() for payload in log}
    for send in history.sends:
        if send.outcome == REFUSED and send.payload in stored:
            yield f"{send.place}: {send.payload} was refused and is stored"


def _stale_read(history: History) -> Iterator[str]:
    logs = history.logs()
    acknowledged = _acknowledged(history)
    for read in history.reads:
        due = acknowledged.before(read.place, read.began)
        end = max(read.end, read.first + len(read.payloads))
        if end <= due:
            yield f"{read.place} at node {read.node} ended at {end} when {due} was acknowledged"
        stored = logs.get(read.place, [])[read.first : read.first + len(read.payloads)]
        if stored != read.payloads:
            yield f"{read.place} at node {read.node} showed from {read.first} on what the log does not hold"


def _stale_end(history: History) -> Iterator[str]:
    acknowledged = _acknowledged(history)
    for read in history.end_reads:
        due = acknowledged.before(read.place, read.began)
        if read.offset <= due:
            yield f"{read.place} ended at {read.offset} when {due} was acknowledged"


def _acknowledged(history: History) -> _Highest:
    return _Highest((send.place, send.ended, send.offset) for send in history.sends if send.outcome == OK)


def _settled_again(history: History) -> Iterator[str]:
    settled: dict[tuple[Place, int], float] = {}
    for ack in sorted(history.acks, key=lambda each: each.ended):
        if ack.outcome != OK:
            continue
        message = (ack.place, ack.offset)
        # Two that have it may both be told that it is settled, when the answer to one was lost; later nobody has it.
        late = ack.began - settled.setdefault(message, ack.ended)
        if late > HELD_UP_S:
            yield f"{ack.place}@{ack.offset} was acknowledged again {late:.1f} s later, by {ack.member}"
    for delivery in history.deliveries:
        ended = settled.get((delivery.place, delivery.offset))
        if ended is not None and delivery.asked > ended + HELD_UP_S:
            late = delivery.asked - ended
            yield f"{delivery.place}@{delivery.offset} was delivered {late:.1f} s after its acknowledgement"


def _commit_back(history: History) -> Iterator[str]:
    committed = _Highest(
        (commit.place, commit.ended, commit.offset) for commit in history.commits if commit.outcome == OK
    )
    for read in history.offset_reads:
        due = committed.before(read.place, read.began)
        if read.offset < due:
            yield f"{read.place}: the offset was {read.offset} after {due} was committed"


def _half_a_transaction(history: History) -> Iterator[str]:
    stored = {place: set(log) for place, log in history.logs().items()}
    for each in history.transactions:
        there = sum(payload in stored.get(place, ()) for place, payload in each.records)
        allowed = {OK: (len(each.records),), REFUSED: (0,), UNKNOWN: (0, len(each.records))}[each.outcome]
        if there not in allowed:
            share = f"{there} of {len(each.records)} records are stored"
            yield f"transaction {each.name} ended as {each.outcome}, and {share}"


def _never_delivered(history: History) -> Iterator[str]:
    delivered = {(delivery.place, delivery.offset): delivery.payload for delivery in history.deliveries}
    for place, log in history.logs().items():
        if place.topic != history.queue_topic:
            continue
        for offset, payload in enumerate(log):
            if delivered.get((place, offset)) != payload:
                yield f"{place}@{offset} ({payload}) never reached the queue group"


def _stream_skipped(history: History) -> Iterator[str]:
    logs = history.logs()
    read = {(each.place, each.offset): each.payload for each in history.stream}
    for place, end in history.stream_commits.items():
        for offset, payload in enumerate(logs.get(place, [])[:end]):
            if read.get((place, offset)) != payload:
                yield f"{place}@{offset} ({payload}) never reached the stream group, which committed {end}"


RULES: Final[dict[str, Rule]] = {
    "lost": _lost,
    "replicas agree": _replicas_agree,
    "doubled": _doubled,
    "swapped": _swapped,
    "failed but stored": _failed_but_stored,
    "stale read": _stale_read,
    "stale end": _stale_end,
    "settled again": _settled_again,
    "commit back": _commit_back,
    "half a transaction": _half_a_transaction,
    "never delivered": _never_delivered,
    "stream skipped": _stream_skipped,
}


def held_by_two(history: History) -> int:
    """Messages that a second member got before the first was done with them: allowed, and rare."""
    acked = {(ack.place, ack.offset, ack.member): ack.ended for ack in history.acks}
    holders: dict[tuple[Place, int], set[str]] = defaultdict(set)
    for delivery in history.deliveries:
        holders[delivery.place, delivery.offset].add(delivery.member)
    return sum(
        sum((place, offset, member) in acked for member in members) > 1 for (place, offset), members in holders.items()
    )


def unknown_but_stored(history: History) -> int:
    stored = {payload for log in history.logs().values() for payload in log}
    return sum(send.outcome == UNKNOWN and send.payload in stored for send in history.sends)
