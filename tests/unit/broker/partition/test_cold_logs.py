"""Requests for messages that are on disk alone: they wait for the disk, within a bound, and nothing else does."""

import pytest

from flotilla.codec.batch.view import BatchView
from flotilla.types.limits import LOAD_MS_MAX
from flotilla.types.operations import Fetch, Fetched, ListOffsets, OffsetFound, Produce, Produced
from flotilla.types.operations.cluster import DISK_STALLED, DescribeNode, NodeDescribed, NodeWarning
from flotilla.types.operations.queue import FROM_TIME, Poll, Polled, Start
from tests.unit.broker.fleet import Answer, Fleet, Node, batch

TOPIC = "orders"


@pytest.fixture
def node() -> Node:
    """One broker with messages in segments, none of which is in memory."""
    fleet = Fleet(1).form()
    leader = fleet.create(TOPIC)
    for number in range(8):
        assert leader.call(Produce(TOPIC, 0, batch(b"%d" % number * 100, time_ms=number))).code == Produced.__name__
    job = leader.store.plan_maintenance(flush=True)
    assert job is not None
    job.run()
    leader.store.finish_maintenance(job)
    leader.disk.is_cold = True
    return leader


def values_of(answer: Answer) -> list[bytes]:
    result = answer.result
    assert isinstance(result, Fetched), result
    return [bytes(value)[:1] for data in result.batches for value in BatchView(data).payloads()]


def warnings_of(node: Node) -> list[NodeWarning]:
    described = node.call(DescribeNode()).result
    assert isinstance(described, NodeDescribed)
    return described.warnings


def test_a_fetch_waits_for_the_disk(node: Node) -> None:
    asked = node.ask(Fetch(TOPIC, 0, 2, 1 << 20))
    assert asked.is_waiting
    node.fleet.settle()
    assert values_of(asked) == [b"2", b"3", b"4", b"5", b"6", b"7"]


def test_a_linearizable_fetch_waits_for_the_disk_as_well(node: Node) -> None:
    assert values_of(node.call(Fetch(TOPIC, 0, 6, 1 << 20, is_linearizable=True))) == [b"6", b"7"]


def test_a_time_is_looked_up_on_disk(node: Node) -> None:
    found = node.call(ListOffsets(TOPIC, 0, 5)).result
    assert found == OffsetFound(5)


@pytest.mark.parametrize("auto", [False, True])
def test_a_poll_without_a_wait_still_gets_messages_from_disk(node: Node, auto: bool) -> None:
    asked = node.ask(Poll(TOPIC, "group", "me", max_messages=3, is_auto_ack=auto))
    node.fleet.settle()
    polled = asked.result
    assert isinstance(polled, Polled), polled
    assert [(one.first, one.count) for one in polled.deliveries] == [(0, 1), (1, 1), (2, 1)]


def test_a_group_begins_at_a_time_that_is_looked_up_on_disk(node: Node) -> None:
    polled = node.call(Poll(TOPIC, "late", "me", max_messages=1, start=Start(FROM_TIME, 6))).result
    assert isinstance(polled, Polled), polled
    assert [one.first for one in polled.deliveries] == [6]


def test_a_disk_that_hangs_costs_requests_their_time_and_no_more(node: Node) -> None:
    node.is_reading_stuck = True
    fetch = node.ask(Fetch(TOPIC, 0, 0, 1 << 20))
    node.fleet.settle()
    poll = node.ask(Poll(TOPIC, "group", "me", max_messages=1))
    assert node.call(Produce(TOPIC, 0, batch(b"8"))).code == Produced.__name__
    assert values_of(node.call(Fetch(TOPIC, 0, 8, 1 << 20))) == [b"8"]
    assert fetch.is_waiting
    node.fleet.advance(LOAD_MS_MAX + 200)
    assert (fetch.code, poll.code) == ("UNAVAILABLE", "UNAVAILABLE")
    [warning] = warnings_of(node)
    assert (warning.code, warning.node, warning.partitions) == (DISK_STALLED, 1, [f"{TOPIC}/0"])
    assert ".seg" in warning.message, "which file"
    node.is_reading_stuck = False
    node.fleet.settle()
    assert len(values_of(node.call(Fetch(TOPIC, 0, 0, 1 << 20)))) == 9
    assert warnings_of(node) == []
