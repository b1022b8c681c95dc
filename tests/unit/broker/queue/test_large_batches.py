"""Polls of compressed batches: what an answer opens to is bounded, and large batches are opened on another thread."""

from random import Random

import pytest

from flotilla.codec.batch.columns import size_when_open
from flotilla.codec.batch.compression import ZSTD
from flotilla.codec.batch.records import encode_batch
from flotilla.types.limits import MIB, OPENING_TURN_BYTES_MAX, SHOWN_BYTES_MAX
from flotilla.types.operations import Produce, Produced
from flotilla.types.operations.queue import Polled
from flotilla.types.records import Record
from tests.unit.broker.fleet import Node, single_node
from tests.unit.broker.queue_driver import GROUP, TOPIC, deliveries, poll, polled

COUNT = 4
LARGE = OPENING_TURN_BYTES_MAX + MIB // 2


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Node:
    node = single_node()
    node.fleet.create(TOPIC)
    node.asides = []  # type: ignore[attr-defined]
    run = node.aside
    monkeypatch.setattr(node, "aside", lambda work, done: [node.asides.append(work), run(work, done)])  # type: ignore[attr-defined]
    return node


def stored(node: Node, size_bytes: int, batches: int = 3, count: int = COUNT, **fields: object) -> None:
    """Batches of `count` records, each batch with its number as keys and in headers."""
    for number in range(batches):
        random = Random(number)
        noise_bytes = size_bytes // count // 150
        key = b"%d" % number
        records = [
            Record(
                random.randbytes(noise_bytes) + bytes(size_bytes // count - noise_bytes),
                key,
                (("number", key),),
                timestamp_ms=1,
                **fields,  # type: ignore[arg-type]
            )
            for _ in range(count)
        ]
        batch = encode_batch(records, compression=ZSTD)
        assert len(batch) < size_bytes // 100
        assert isinstance(node.call(Produce(TOPIC, 0, batch)).result, Produced)
    node.asides.clear()  # type: ignore[attr-defined]


def asides(node: Node) -> int:
    return len(node.asides)  # type: ignore[attr-defined]


def spans(node: Node, *given: object, **wanted: object) -> list[tuple[int, int]]:
    return [(each.first, each.count) for each in polled(node, poll(*given, **wanted))]  # type: ignore[arg-type]


def test_an_answer_opens_to_a_bounded_size_or_is_one_batch(node: Node) -> None:
    stored(node, 3 * MIB, 5)
    found = polled(node, poll(100))
    assert [each.first for each in found] == [0, 4]
    assert sum(size_when_open(each.batch) for each in found) <= SHOWN_BYTES_MAX
    assert spans(node, 100) == [(8, 4), (12, 4)]
    assert spans(node, 100) == [(16, 4)]
    # Whole batches are delivered as they are.
    assert asides(node) == 0


def test_a_batch_that_opens_to_more_comes_alone(node: Node) -> None:
    stored(node, SHOWN_BYTES_MAX + MIB, count=16)
    for first in (0, 16, 32):
        assert spans(node, 100) == [(first, 16)]


def test_parts_of_large_batches_are_cut_after_they_were_opened_aside(node: Node) -> None:
    stored(node, LARGE, 2)
    assert spans(node, 3) == [(0, 3)]
    assert asides(node) == 1
    # It stays open. What comes after it is a part of a batch that is not open yet.
    assert spans(node, 3) == [(3, 1)]
    assert spans(node, 3) == [(4, 3)]
    assert asides(node) == 2


def test_small_ones_are_opened_at_once(node: Node) -> None:
    stored(node, OPENING_TURN_BYTES_MAX // 2)
    assert spans(node, 3) == [(0, 3)]
    assert asides(node) == 0


def test_two_groups_at_different_batches_both_get_on(node: Node) -> None:
    stored(node, LARGE)
    polled(node, poll(4))
    answers = [node.ask(poll(3, group=name, wait_ms=1_000)) for name in (GROUP, "others")]
    node.fleet.advance(100)
    assert [[each.first for each in deliveries(answer)] for answer in answers] == [[4], [0]]


def test_a_filter_looks_through_large_batches_one_after_the_other(node: Node) -> None:
    stored(node, LARGE, 5)
    assert spans(node, 100, headers=[("number", b"4")], wait_ms=1_000) == [(16, 4)]
    assert asides(node) == 5
    # What it has looked at is not opened again for the same filter.
    assert spans(node, 100, headers=[("number", b"4")]) == []
    assert asides(node) == 5


def test_ordered_polls_read_the_keys_of_large_batches(node: Node) -> None:
    stored(node, LARGE)
    found = [spans(node, 100, is_ordered_by_key=True, wait_ms=1_000) for _ in range(3)]
    assert [span for each in found for span in each] == [(0, 1), (4, 1), (8, 1)]


def test_expired_records_of_large_batches_are_passed_over(node: Node) -> None:
    stored(node, LARGE, 3, ttl_ms=1)
    stored(node, MIB // 2, 1)
    answer = node.ask(poll(100, wait_ms=1_000))
    node.fleet.advance(500)
    assert [each.first for each in deliveries(answer)] == [12]
    assert isinstance(answer.result, Polled)


def test_a_large_batch_whose_poll_was_given_up_is_there_for_others(node: Node) -> None:
    stored(node, LARGE, 1)
    answer = node.ask(poll(3, wait_ms=1_000))
    answer.cancel()
    assert spans(node, 3) == [(0, 3)]


def test_a_poll_whose_first_batches_have_expired_waits_for_the_next_to_be_opened(node: Node) -> None:
    """What it could not open yet is no reason to end with nothing: no news would wake it."""
    stored(node, MIB // 2, 1, ttl_ms=1)
    stored(node, LARGE, 1)
    taken = node.call(poll(3, wait_ms=0)).result
    assert isinstance(taken, Polled)
    assert [(each.first, each.count) for each in taken.deliveries] == [(4, 3)]
