"""Fetches with a filter: what is sent, how far they get, and that every one ends within its limit."""

from random import Random

import pytest

from flotilla.broker.partition import filtered_fetches
from flotilla.codec.batch.compression import ZSTD
from flotilla.codec.batch.records import encode_batch
from flotilla.codec.batch.view import BatchView
from flotilla.types.operations import DeleteTopic, Fetch, Fetched, Produce
from flotilla.types.records import Record
from flotilla.types.tasks import TASK_TYPE_HEADER
from tests.unit.broker.fleet import Answer, Node, single_node, three

TOPIC = "orders"
EU = [("region", b"eu")]


@pytest.fixture
def node() -> Node:
    node = single_node()
    node.fleet.create(TOPIC)
    return node


def produce(node: Node, *regions: str) -> None:
    """One batch; the payload of each record is its region."""
    records = [Record(region.encode(), headers=(("region", region.encode()),)) for region in regions]
    assert node.call(Produce(TOPIC, 0, encode_batch(records))).result


def fetch(offset: int = 0, wait_ms: int = 0, max_bytes: int = 1 << 20) -> Fetch:
    return Fetch(TOPIC, 0, offset, max_bytes, wait_ms, headers=EU)


def found(answer: Answer) -> tuple[list[int], int]:
    """The offsets that were sent, and how far the look has reached."""
    fetched = answer.result
    assert isinstance(fetched, Fetched)
    views = [BatchView(data) for data in fetched.batches]
    assert all(value == b"eu" for view in views for value in view.payloads())
    return [view.offset(place) for view in views for place in range(len(view))], fetched.reached


def test_only_matching_records_are_sent(node: Node) -> None:
    produce(node, "us", "eu", "eu", "us")
    produce(node, "us", "us")
    produce(node, "eu", "eu")
    assert found(node.call(fetch())) == ([1, 2, 6, 7], 8)
    assert found(node.call(fetch(2))) == ([2, 6, 7], 8)
    assert found(node.call(fetch(3))) == ([6, 7], 8)
    assert found(node.call(fetch(8))) == ([], 8)


def test_types_and_headers_go_together(node: Node) -> None:
    records = [
        Record(b"", headers=((TASK_TYPE_HEADER, kind), ("region", region)))
        for kind, region in ((b"a", b"eu"), (b"b", b"eu"), (b"a", b"us"))
    ]
    node.call(Produce(TOPIC, 0, encode_batch(records)))
    for types, headers, sent in ((["a"], EU, [0]), (["a"], [], [0, 2]), (["a", "b"], EU, [0, 1])):
        fetched = node.call(Fetch(TOPIC, 0, 0, 1 << 20, types=types, headers=headers)).result
        assert isinstance(fetched, Fetched)
        views = [BatchView(data) for data in fetched.batches]
        assert [view.offset(place) for view in views for place in range(len(view))] == sent


def test_a_fetch_that_does_not_wait_says_how_far_it_has_looked(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filtered_fetches, "LOOKS_MAX", 3)
    produce(node, *["us"] * 4, "eu")
    assert found(node.call(fetch())) == ([], 3)
    assert found(node.call(fetch(3))) == ([4], 5)


def test_a_fetch_is_cut_where_it_is_full_and_goes_on_there(node: Node) -> None:
    produce(node, "eu", "us", "eu", "us", "eu")
    assert found(node.call(fetch(max_bytes=1))) == ([0], 2)
    assert found(node.call(fetch(2, max_bytes=1))) == ([2], 4)


def test_an_answer_has_a_bounded_number_of_pieces(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filtered_fetches, "PIECES_MAX", 2)
    produce(node, "eu", "us", "eu", "us", "us", "eu")
    assert found(node.call(fetch())) == ([0, 2], 5)
    assert found(node.call(fetch(5))) == ([5], 6)


def test_a_long_poll_looks_on_until_something_matches(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filtered_fetches, "LOOKS_MAX", 2)
    produce(node, *["us"] * 7, "eu")
    assert found(node.call(fetch(wait_ms=1_000))) == ([7], 8)


def test_a_long_poll_waits_for_the_first_that_matches(node: Node) -> None:
    produce(node, "us")
    answer = node.call(fetch(wait_ms=1_000))
    produce(node, "us", "us")
    assert answer.is_waiting
    produce(node, "us", "eu")
    assert found(answer) == ([4], 5)


def test_a_long_poll_ends_in_time_past_what_it_has_skipped(node: Node) -> None:
    produce(node, "us")
    answer = node.call(fetch(wait_ms=1_000))
    node.fleet.advance(600)
    produce(node, "us", "us")
    node.fleet.advance(300)
    assert answer.is_waiting
    node.fleet.advance(200)
    assert found(answer) == ([], 3)


def test_a_filter_that_is_too_large_is_refused(node: Node) -> None:
    request = fetch()
    request.headers = [("region", b"x" * 5_000)]
    assert node.call(request).code == "INVALID_ARGUMENT"


def test_a_deleted_topic_ends_the_wait(node: Node) -> None:
    answer = node.call(fetch(wait_ms=1_000))
    node.call(DeleteTopic(TOPIC))
    node.fleet.settle()
    assert answer.code == "NOT_FOUND"


def test_a_fetch_that_is_given_up_is_never_answered(node: Node) -> None:
    produce(node, "us")
    answer = node.call(fetch(wait_ms=1_000))
    answer.cancel()
    produce(node, "eu")
    node.fleet.advance(2_000)
    assert answer.is_waiting


def test_a_leader_that_is_cut_off_answers_so() -> None:
    fleet = three()
    fleet.create(TOPIC)
    leader = fleet.leader(TOPIC)
    answer = leader.call(fetch(wait_ms=60_000))
    fleet.isolate(leader.node)
    fleet.wait(lambda: not answer.is_waiting)
    assert answer.code in ("NOT_LEADER", "UNAVAILABLE")


def packed(size_bytes: int, seed: int) -> bytes:
    """Two records, compressed."""
    noise = Random(seed).randbytes(size_bytes // 150)
    record = Record(noise + bytes(size_bytes // 2 - len(noise)), headers=(("region", b"us"),))
    return encode_batch([record] * 2, compression=ZSTD)


@pytest.mark.parametrize(("size_bytes", "is_aside"), [(600_000, False), (1_500_000, True)])
def test_a_look_opens_a_bounded_part_and_large_batches_aside(
    node: Node, monkeypatch: pytest.MonkeyPatch, size_bytes: int, *, is_aside: bool
) -> None:
    for number in range(3):
        assert node.call(Produce(TOPIC, 0, packed(size_bytes, number))).result
    asides: list[object] = []
    run = node.aside
    monkeypatch.setattr(node, "aside", lambda work, done: [asides.append(work), run(work, done)])
    assert found(node.call(fetch())) == ([], 2)
    assert len(asides) == is_aside
    assert found(node.call(fetch(2))) == ([], 4)
    # One that waits looks on.
    asides.clear()
    produce(node, "eu")
    assert found(node.call(fetch(wait_ms=10_000))) == ([6], 7)
    assert len(asides) == 3 * is_aside
