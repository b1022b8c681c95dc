"""Errors planted into a good history: a checker that misses one of them is blind, and its verdict is worth nothing.

Each plant changes a copy of the history in one place, as a broken broker would have changed it, and names the rule that
must notice. A plant that finds nothing to change raises LookupError. `good_history` has a place for each.
"""

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from random import Random
from typing import Final, NamedTuple

from flotilla.cli.chaos.judge.history import (
    OK,
    REFUSED,
    Ack,
    Delivery,
    EndRead,
    History,
    OffsetCommit,
    OffsetRead,
    Place,
    Read,
    ReplicaLog,
    Send,
    StreamDelivery,
    TransactionEnd,
)
from flotilla.cli.chaos.judge.rules import HELD_UP_S, RULES


class Plant(NamedTuple):
    rule: str
    put: Callable[[History, Random], None]


class Planted(NamedTuple):
    seen: list[str]
    missed: list[str]


def plant_errors(history: History, random: Random) -> Planted:
    """Plants each error into a copy of this history, which must be a good one. One without a place is left out."""
    planted = Planted([], [])
    for name, plant in PLANTS.items():
        copied = copy_history(history)
        try:
            plant.put(copied, random)
        except LookupError:
            continue
        (planted.seen if any(RULES[plant.rule](copied)) else planted.missed).append(name)
    return planted


def copy_history(history: History) -> History:
    """A copy of everything that plants change: the lists, the sends and the replicas."""
    copied = replace(
        history,
        sends=[copy(send) for send in history.sends],
        replicas=[replace(replica, payloads=list(replica.payloads)) for replica in history.replicas],
    )
    for each in ("reads", "end_reads", "deliveries", "offset_reads", "stream"):
        setattr(copied, each, list(getattr(history, each)))
    return copied


def _sent(history: History, random: Random) -> Send:
    return random.choice([send for send in history.sends if send.outcome == OK])


def _copies(history: History, place: Place) -> list[ReplicaLog]:
    return [replica for replica in history.replicas if replica.place == place]


def _lose(history: History, random: Random) -> None:
    send = _sent(history, random)
    for replica in _copies(history, send.place):
        replica.payloads[send.offset] = "another"


def _lose_at_one(history: History, random: Random) -> None:
    replica = random.choice([replica for replica in history.replicas if replica.payloads])
    replica.payloads.pop()


def _double(history: History, random: Random) -> None:
    send = _sent(history, random)
    for replica in _copies(history, send.place):
        replica.payloads.append(send.payload)


def _swap(history: History, random: Random) -> None:
    """The receipts agree with the log, and only the order is wrong."""
    one = _sent(history, random)
    others = [
        send
        for send in history.sends
        if send.outcome == OK and (send.producer, send.place) == (one.producer, one.place) and send is not one
    ]
    other = random.choice(others)
    for replica in _copies(history, one.place):
        replica.payloads[one.offset], replica.payloads[other.offset] = other.payload, one.payload
    one.offset, other.offset = other.offset, one.offset


def _store_refused(history: History, random: Random) -> None:
    send = _sent(history, random)
    send.outcome = REFUSED


def _read_stale(history: History, random: Random) -> None:
    send = _sent(history, random)
    history.reads.append(Read(1, send.place, send.ended + 0.001, send.offset, [], send.offset))


def _end_stale(history: History, random: Random) -> None:
    send = _sent(history, random)
    history.end_reads.append(EndRead(send.place, send.ended + 0.001, send.offset))


def _settle_again(history: History, random: Random) -> None:
    ack = random.choice([ack for ack in history.acks if ack.outcome == OK])
    late = ack.ended + HELD_UP_S + 1
    history.deliveries.append(Delivery("somebody", ack.place, ack.offset, "", late))


def _commit_back(history: History, random: Random) -> None:
    commit = random.choice([commit for commit in history.commits if commit.outcome == OK and commit.offset > 0])
    history.offset_reads.append(OffsetRead(commit.place, commit.offset - 1, commit.ended + 0.001))


def _halve(history: History, random: Random) -> None:
    each = random.choice([each for each in history.transactions if each.outcome == OK and len(each.records) > 1])
    place, payload = random.choice(each.records)
    for replica in _copies(history, place):
        replica.payloads[replica.payloads.index(payload)] = "another"


def _withhold(history: History, random: Random) -> None:
    gone = random.choice(history.deliveries)
    history.deliveries = [each for each in history.deliveries if (each.place, each.offset) != (gone.place, gone.offset)]


def _skip_in_stream(history: History, random: Random) -> None:
    below = [each for each in history.stream if each.offset < history.stream_commits.get(each.place, 0)]
    gone = random.choice(below)
    history.stream = [each for each in history.stream if (each.place, each.offset) != (gone.place, gone.offset)]


PLANTS: Final[dict[str, Plant]] = {
    "lost": Plant("lost", _lose),
    "lost at one replica": Plant("replicas agree", _lose_at_one),
    "doubled": Plant("doubled", _double),
    "swapped": Plant("swapped", _swap),
    "failed but stored": Plant("failed but stored", _store_refused),
    "stale read": Plant("stale read", _read_stale),
    "stale end": Plant("stale end", _end_stale),
    "settled again": Plant("settled again", _settle_again),
    "commit back": Plant("commit back", _commit_back),
    "half a transaction": Plant("half a transaction", _halve),
    "never delivered": Plant("never delivered", _withhold),
    "stream skipped": Plant("stream skipped", _skip_in_stream),
}


def good_history() -> History:
    """A small history without a fault, on which the rules are tested before a run."""
    books, pairs = Place("books", 0), Place("pairs", 0)
    history = History(queue_topic="books", replication={"books": 3, "pairs": 3})
    log = [f"p.{number}" for number in range(20)]
    for number, payload in enumerate(log):
        history.sends.append(Send("p", number, books, payload, number, number + 0.5, OK, number))
        history.deliveries.append(Delivery("m", books, number, payload, number + 0.6))
        history.acks.append(Ack("m", books, number, number + 0.7, number + 0.8, OK))
        history.reads.append(Read(1, books, number + 0.6, number, [payload], number + 1))
        history.end_reads.append(EndRead(books, number + 0.6, number + 1))
        history.commits.append(OffsetCommit(books, number, number + 0.9, OK))
        history.offset_reads.append(OffsetRead(books, number, number + 0.95))
        history.stream.append(StreamDelivery(books, number, payload))
    history.sends.append(Send("p", 20, books, "p.20", 20, 21, REFUSED))
    history.deliveries.append(Delivery("m", books, 20, "t.1.a", 21))
    history.transactions.append(TransactionEnd("t.1", [(books, "t.1.a"), (pairs, "t.1.b")], OK))
    history.transactions.append(TransactionEnd("t.2", [(books, "t.2.a"), (pairs, "t.2.b")], REFUSED))
    history.stream_commits[books] = 20
    for node in (1, 2, 3):
        history.replicas += [ReplicaLog(node, books, 0, [*log, "t.1.a"]), ReplicaLog(node, pairs, 0, ["t.1.b"])]
    return history
