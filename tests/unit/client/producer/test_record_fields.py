"""A word that no record has is refused, whichever way it comes, and before any broker is asked."""

import pytest

from flotilla import InvalidArgumentError, Record

#: What people write, and what they meant.
SLIPS = [
    ("idempotencykey", "did you mean idempotency_key"),
    ("priorty", "did you mean priority"),
    ("delayms", "did you mean delay_ms"),
    ("keys", "did you mean key"),
    ("colour", "there are headers, priority, "),
]
WAYS = {
    "produce": lambda client, words: client.produce("orders", b"x", **words),
    "produce with a key": lambda client, words: client.produce("orders", b"x", key=b"k", **words),
    "produce_many": lambda client, words: client.produce_many("orders", [b"x", b"y"], **words),
    "produce_many with a key": lambda client, words: client.produce_many("orders", [b"x"], key=b"k", **words),
    "produce_many of records": lambda client, words: client.produce_many("orders", [Record(b"x")], **words),
    "produce_many of nothing": lambda client, words: client.produce_many("orders", [], key=b"k", **words),
    "send": lambda client, words: client.producer("orders").send(b"x", **words),
    "send beside a good one": lambda client, words: client.producer("orders").send(b"x", priority=1, **words),
    "transaction": lambda client, words: client.transaction().produce("orders", b"x", **words),
    "stage": lambda client, words: client.transaction().stage("orders", [Record(b"x")], **words),
}


@pytest.mark.parametrize("way", WAYS)
def test_an_unknown_word_is_refused_and_the_nearest_is_named(connect, servers, way):
    servers.cluster.create("orders")
    client = connect()
    for word, hint in SLIPS:
        with pytest.raises(InvalidArgumentError, match=f"a record has no {word}; {hint}"):
            WAYS[way](client, {word: 1})
    assert servers.cluster.requests == []
    assert servers.cluster.stored("orders") == []
