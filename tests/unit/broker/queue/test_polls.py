"""Polling and settling at one node: deliveries, wake-ups, and one answer for each request."""

import pytest

from flotilla.broker.queue.waiters import POLL_WAIT_MS_MAX
from flotilla.types.operations import EARLIEST, LATEST, CommitOffset, DeleteTopic
from flotilla.types.operations.queue import (
    ACK,
    FAIL,
    FROM_OFFSET,
    FROM_TIME,
    REJECT,
    RELEASE,
    Extend,
    LeaseRange,
    Poll,
    Polled,
    Settled,
    Start,
)
from tests.unit.broker.fleet import Node, single_node
from tests.unit.broker.queue_driver import (
    GROUP,
    TOPIC,
    ack,
    deliveries,
    describe,
    held,
    poll,
    polled,
    settle,
    store,
    values,
)


@pytest.fixture
def node() -> Node:
    node = single_node()
    node.fleet.create(TOPIC)
    return node


# Taking.


def test_a_group_springs_into_being_with_its_first_poll_and_gets_everything(node: Node) -> None:
    store(node, b"a", b"b")
    store(node, b"c")
    found = polled(node)
    assert values(found) == [b"a", b"b", b"c"]
    assert [delivery.attempt for delivery in found] == [1, 1]
    assert all(delivery.lease_id > 0 for delivery in found)
    assert polled(node) == []
    # Another group has its own copy.
    assert values(polled(node, poll(group="others"))) == [b"a", b"b", b"c"]


def test_a_whole_batch_is_delivered_as_it_is_stored_and_a_part_is_cut_out(node: Node) -> None:
    store(node, b"a", b"b", b"c")
    first = polled(node, poll(2))
    assert values(first) == [b"a", b"b"]
    assert values(polled(node, poll(2))) == [b"c"]
    whole = polled(node, poll(group="others"))
    log = node.partition(TOPIC).replica.log
    assert whole[0].batch is log.read_from_offset(0, 0, 100)[0].data


def test_a_lease_over_several_batches_is_split_at_their_borders(node: Node) -> None:
    for value in (b"a", b"b", b"c"):
        store(node, value, value)
    found = polled(node, poll(5))
    assert [(delivery.first, delivery.count) for delivery in found] == [(0, 2), (2, 2), (4, 1)]
    assert len({delivery.lease_id for delivery in found}) == 1


def test_messages_that_do_not_fit_into_a_poll_are_there_for_the_next(node: Node) -> None:
    for value in (b"a", b"b", b"c"):
        store(node, value * 1000)
    first = polled(node, poll(max_bytes=2500))
    assert [delivery.first for delivery in first] == [0, 1]
    # However small the bytes are, one message comes.
    assert [delivery.first for delivery in polled(node, poll(max_bytes=1))] == [2]


def test_a_part_of_a_large_batch_fits(node: Node) -> None:
    store(node, *(bytes([65 + number]) * 1000 for number in range(10)))
    found = polled(node, poll(max_bytes=4500))
    assert 1 <= sum(delivery.count for delivery in found) <= 4
    rest = polled(node)
    assert len(values(found)) + len(values(rest)) == 10


def test_a_record_far_above_the_average_does_not_burst_a_poll(node: Node) -> None:
    store(node, b"small")
    store(node, b"x" * 100_000, *[b"y"] * 9)
    found = polled(node, poll(max_bytes=20_000))
    assert values(found) == [b"small"]
    assert len(values(polled(node))) == 10


def test_acked_messages_do_not_come_again_and_the_rest_does(node: Node) -> None:
    store(node, b"a", b"b", b"c")
    found = polled(node)
    lease = found[0].lease_id
    answer = node.call(settle([], kind=ACK))
    assert answer.result == Settled([])
    request = settle(found)
    request.leases = [LeaseRange(lease, 1, 2)]
    assert node.call(request).result == Settled([])
    described = describe(node)
    assert (described.lag, described.leased, described.acked_total) == (2, 2, 1)
    node.fleet.advance(30_200)
    assert values(polled(node)) == []
    node.fleet.advance(2_000)
    again = polled(node)
    assert values(again) == [b"a", b"c"]
    assert {delivery.attempt for delivery in again} == {2}


@pytest.mark.parametrize(("kind", "comes_at_once"), [(RELEASE, True), (FAIL, False), (REJECT, False)])
def test_ways_to_end_a_lease(node: Node, kind: int, comes_at_once: bool) -> None:
    store(node, b"a")
    found = polled(node)
    assert node.call(settle(found, kind, "why not")).result == Settled([])
    again = polled(node)
    assert bool(again) == comes_at_once
    if comes_at_once:
        assert again[0].attempt == 1


def test_a_stale_lease_is_refused_by_name_and_a_late_ack_is_honoured(node: Node) -> None:
    store(node, b"a")
    mine = polled(node, poll(visibility_ms=1000))
    node.fleet.advance(4_000)
    theirs = polled(node, poll(member="b"))
    assert theirs
    assert node.call(settle(mine)).result == Settled(held(mine))
    node.call(settle(theirs, RELEASE))
    assert node.call(settle(theirs)).result == Settled([])
    assert describe(node).lag == 0


def test_an_extended_lease_lasts(node: Node) -> None:
    store(node, b"a")
    mine = polled(node, poll(visibility_ms=1000))
    for _ in range(5):
        node.fleet.advance(800)
        assert node.call(Extend(TOPIC, 0, GROUP, "a", held(mine), 1000)).result == Settled([], term=1)
    assert polled(node, poll(member="b")) == []
    ack(node, mine)


# Where a group begins.


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (Start(EARLIEST), [b"a", b"b", b"c"]),
        (Start(LATEST), []),
        (Start(FROM_OFFSET, 2), [b"c"]),
        # An offset counts for every partition: this one is shorter.
        (Start(FROM_OFFSET, 7), []),
        (Start(FROM_TIME, 1_010_000), [b"b", b"c"]),
        (Start(FROM_TIME, 9_000_000), []),
    ],
)
def test_a_new_group_begins_where_its_first_poll_says(node: Node, start: Start, expected: list[bytes]) -> None:
    for value in (b"a", b"b", b"c"):
        node.fleet.clock.now_ms = {b"a": 1_005_000, b"b": 1_010_000, b"c": 1_020_000}[value]
        store(node, value)
    assert values(polled(node, poll(start=start))) == expected
    store(node, b"new")
    # The start means nothing to a group that is there.
    assert values(polled(node, poll(start=start))) == [b"new"]


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (poll(start=Start(FROM_OFFSET, -1)), "OFFSET_OUT_OF_RANGE"),
        (poll(start=Start(99)), "INVALID_ARGUMENT"),
        (poll(0), "INVALID_ARGUMENT"),
        (poll(max_bytes=0), "INVALID_ARGUMENT"),
        (poll(member=""), "INVALID_ARGUMENT"),
        (poll(group="no/name"), "INVALID_ARGUMENT"),
        (poll(visibility_ms=1), "INVALID_ARGUMENT"),
        (poll(partitions=[3]), "NOT_FOUND"),
        (Poll("nowhere", GROUP, "a"), "NOT_FOUND"),
    ],
)
def test_polls_that_make_no_sense_are_refused(node: Node, request_: Poll, code: str) -> None:
    assert node.call(request_).code == code


def test_a_group_that_commits_offsets_is_no_queue_group(node: Node) -> None:
    store(node, b"a")
    node.call(CommitOffset(GROUP, TOPIC, 0, 1))
    assert node.call(poll()).code == "GROUP_MODE"


def test_concurrent_first_polls_open_the_group_once(node: Node) -> None:
    store(node, b"a", b"b")
    node.is_disk_stuck = True
    answers = [node.ask(poll(1, member)) for member in ("a", "b", "c")]
    node.fleet.settle()
    applied = node.partition(TOPIC).replica.raft.log.last_index
    assert all(answer.is_waiting for answer in answers)
    node.is_disk_stuck = False
    node.fleet.settle()
    assert sorted([value for answer in answers for value in values(deliveries(answer))]) == [b"a", b"b"]
    assert node.partition(TOPIC).replica.raft.log.last_index == applied + 1, "the names of all members in one entry"


# Waiting.


def test_a_poll_waits_for_the_first_message_and_one_message_wakes_one_poll(node: Node) -> None:
    polled(node)
    waiting = [node.ask(poll(member=name, wait_ms=20_000)) for name in "abc"]
    node.fleet.advance(5_000)
    assert all(answer.is_waiting for answer in waiting)
    store(node, b"one")
    assert [answer.is_waiting for answer in waiting] == [False, True, True]
    store(node, b"two")
    assert values(deliveries(waiting[1])) == [b"two"]
    node.fleet.advance(20_000)
    assert waiting[2].result == Polled([], lag=2)
    node.fleet.check_answers()


def test_idle_polls_and_groups_write_nothing_to_the_log(node: Node) -> None:
    store(node, b"a")
    ack(node, polled(node))
    node.fleet.advance(1_000)
    last = node.partition(TOPIC).replica.raft.log.last_index
    for _ in range(3):
        node.ask(poll(wait_ms=10_000))
        node.fleet.advance(11_000)
    assert node.partition(TOPIC).replica.raft.log.last_index == last


def test_a_poll_that_is_given_up_takes_nothing(node: Node) -> None:
    polled(node)
    gone = node.ask(poll(member="gone", wait_ms=20_000))
    assert gone.cancel is not None
    gone.cancel()
    store(node, b"a")
    assert values(polled(node)) == [b"a"]
    assert gone.is_waiting
    gone.cancel()


def test_a_waiting_poll_gets_what_another_member_releases(node: Node) -> None:
    store(node, b"a")
    mine = polled(node)
    waiting = node.ask(poll(member="b", wait_ms=20_000))
    node.call(settle(mine, RELEASE))
    assert values(deliveries(waiting)) == [b"a"]


def test_a_waiting_poll_gets_expired_leases_and_due_messages(node: Node) -> None:
    store(node, b"leased")
    polled(node, poll(visibility_ms=1_000))
    store(node, b"later", deliver_at_ms=node.now_ms() + 10_000)
    waiting = [node.ask(poll(1, "b", wait_ms=60_000)) for _ in range(2)]
    node.fleet.advance(4_000)
    assert [values(deliveries(answer)) for answer in waiting] == [[b"leased"], []]
    node.fleet.advance(5_900)
    assert waiting[1].is_waiting
    node.fleet.advance(200)
    assert values(deliveries(waiting[1])) == [b"later"]


@pytest.mark.parametrize("delay_ms", [10_130, 10_330, 10_570, 10_790])
def test_due_messages_come_within_a_tenth_of_a_second(node: Node, delay_ms: int) -> None:
    polled(node)
    store(node, b"later", deliver_at_ms=node.now_ms() + delay_ms)
    waiting = node.ask(poll(wait_ms=60_000))
    node.fleet.advance(delay_ms // 100 * 100)
    assert waiting.is_waiting
    node.fleet.advance(100)
    assert values(deliveries(waiting)) == [b"later"]


def test_waits_have_a_bound(node: Node) -> None:
    polled(node)
    answer = node.ask(poll(wait_ms=10**9))
    node.fleet.advance(POLL_WAIT_MS_MAX + 100)
    assert answer.result == Polled([], lag=0)


def test_waiting_polls_end_with_their_topic_and_with_the_node(node: Node) -> None:
    polled(node)
    waiting = node.ask(poll(wait_ms=60_000))
    node.call(DeleteTopic(TOPIC))
    node.fleet.advance(1_000)
    assert waiting.code == "NOT_FOUND"
    node.fleet.create(TOPIC)
    polled(node)
    waiting = node.ask(poll(wait_ms=60_000))
    node.broker.close()
    assert waiting.code == "UNAVAILABLE"
    assert node.call(poll()).code == "UNAVAILABLE"
