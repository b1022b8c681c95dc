"""Queue groups over several partitions and nodes: all that a node leads, and what a change of leaders does."""

import pytest

from flotilla.types.operations import LATEST, AlterTopic, TransferLeadership
from flotilla.types.operations.queue import FAIL, Extend, Poll, Settled, Start, Subscribe
from flotilla.types.timing import Timing
from tests.unit.broker.fleet import Fleet, Node, single_node, three
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
    node.fleet.create(TOPIC, partitions=3)
    for partition in range(3):
        node.fleet.leader(TOPIC, partition)
    return node


def test_a_poll_takes_from_all_partitions_and_in_changing_order(node: Node) -> None:
    for partition in range(3):
        store(node, *(b"%d" % partition for _ in range(50)), partition=partition)
    assert sorted({delivery.partition for delivery in polled(node, poll(150, group="once"))}) == [0, 1, 2]
    # Polls smaller than what one partition has do not all begin with the same one.
    assert {polled(node, poll(1))[0].partition for _ in range(40)} == {0, 1, 2}


@pytest.mark.parametrize(("count", "size_bytes"), [(1, 2_500), (4, 1_700)])
def test_a_poll_over_several_partitions_keeps_to_its_bytes(node: Node, count: int, size_bytes: int) -> None:
    for partition in range(3):
        for _ in range(count):
            store(node, b"x" * size_bytes, partition=partition)
    left = 3 * count
    while left:
        found = polled(node, poll(100, max_bytes=6_000))
        assert 0 < sum([len(delivery.batch) for delivery in found]) <= 6_000
        left -= len(found)


def test_a_poll_gets_one_message_in_all_whatever_its_bytes(node: Node) -> None:
    for partition in range(3):
        store(node, b"x" * 1_700, partition=partition)
    brought = [polled(node, poll(max_bytes=1)) for _ in range(4)]
    assert [len(found) for found in brought] == [1, 1, 1, 0]
    assert {found[0].partition for found in brought[:3]} == {0, 1, 2}
    # What was looked at and left is ready, and no attempt of it was counted.
    assert {found[0].attempt for found in brought[:3]} == {1}


def test_messages_that_do_not_fit_are_left_for_the_next_waiter(node: Node) -> None:
    for partition in range(3):
        store(node, b"x" * 1_700, partition=partition)
    assert len(polled(node, poll(max_bytes=2_000))) == 1
    assert sum(describe(node, partition=number).leased for number in range(3)) == 1
    assert sum(describe(node, partition=number).ready for number in range(3)) == 2


def test_polls_prefer_the_partition_with_the_highest_priority(node: Node) -> None:
    for partition, priority in ((0, 1), (1, 7), (2, 3)):
        for _ in range(200):
            store(node, b"%d" % priority, partition=partition, priority=priority)
    first = [polled(node, poll(1))[0].partition for _ in range(120)]
    # One poll in four begins with any of them: about 100 of 120 with the highest.
    assert 85 <= first.count(1) < 120
    # Nothing starves.
    assert {0, 2} <= set(first)


def test_a_partition_with_nothing_ready_is_asked_behind_the_others(node: Node) -> None:
    polled(node)
    store(node, b"later", partition=1, priority=7, deliver_at_ms=node.now_ms() + 60_000)
    store(node, b"low", partition=2, priority=1)
    assert node.partition(TOPIC, 0).queue().best_priority(GROUP) == -1
    assert node.partition(TOPIC, 1).queue().best_priority(GROUP) == -1
    assert node.partition(TOPIC, 2).queue().best_priority(GROUP) == 1
    assert node.partition(TOPIC, 2).queue().best_priority("absent") == -1
    node.fleet.advance(60_000)
    assert node.partition(TOPIC, 1).queue().best_priority(GROUP) == 7
    assert values(polled(node)) in ([b"later", b"low"], [b"low", b"later"])


def test_a_poll_of_named_partitions_takes_from_no_other(node: Node) -> None:
    for partition in range(3):
        store(node, b"x", partition=partition)
    assert [delivery.partition for delivery in polled(node, poll(partitions=[2, 0, 2]))] in ([0, 2], [2, 0])
    waiting = node.ask(poll(partitions=[1], wait_ms=10_000))
    assert [delivery.partition for delivery in deliveries(waiting)] == []
    node.fleet.settle()
    assert [delivery.partition for delivery in deliveries(waiting)] == [1]


def test_a_poll_waits_at_all_partitions_and_takes_once(node: Node) -> None:
    polled(node)
    waiting = node.ask(poll(wait_ms=10_000))
    store(node, b"two", partition=2)
    store(node, b"one", partition=1)
    assert values(deliveries(waiting)) == [b"two"]
    assert values(polled(node)) == [b"one"]
    node.fleet.check_answers()


def test_a_poll_goes_on_waiting_at_the_partitions_that_are_left(node: Node) -> None:
    polled(node)
    waiting = node.ask(poll(wait_ms=10_000))
    node.partition(TOPIC, 1)._end_leading()
    assert waiting.is_waiting
    store(node, b"two", partition=2)
    assert values(deliveries(waiting)) == [b"two"]


def test_polls_for_different_partitions_do_not_stand_in_each_others_way(node: Node) -> None:
    polled(node)
    waiting = [node.ask(poll(member=str(number), partitions=[number], wait_ms=10_000)) for number in range(3)]
    store(node, b"x", partition=1)
    assert [answer.is_waiting for answer in waiting] == [True, False, True]


def test_waiting_polls_and_subscriptions_get_partitions_that_come_later(node: Node) -> None:
    polled(node)
    pushed = node.ask(Subscribe(TOPIC, GROUP, "s", credit=10))
    waiting = node.ask(poll(wait_ms=60_000, group="others"))
    node.call(AlterTopic(TOPIC, partitions=4))
    node.fleet.leader(TOPIC, 3)
    node.fleet.advance(1_000)
    store(node, b"new", partition=3)
    assert values(deliveries(pushed)) == [b"new"]
    assert values(deliveries(waiting)) == [b"new"]


# Several nodes.


@pytest.fixture
def fleet() -> Fleet:
    fleet = three()
    fleet.create(TOPIC)
    return fleet


def fail_over(fleet: Fleet) -> Node:
    old = fleet.leader(TOPIC)
    fleet.isolate(old.node)
    fleet.wait(lambda: any(is_leading(box) for box in fleet.nodes.values() if box is not old))
    return next(box for box in fleet.nodes.values() if box is not old and is_leading(box))


def is_leading(box: Node) -> bool:
    return box.catalog.find_topic(TOPIC) is not None and box.partition(TOPIC).replica.is_serving()


def test_a_follower_names_the_leader(fleet: Fleet) -> None:
    leader = fleet.leader(TOPIC)
    other = next(box for box in fleet.nodes.values() if box is not leader)
    fleet.advance(500)
    for request in (poll(), settle([]), Extend(TOPIC, 0, GROUP, "a", [], 1_000)):
        answer = other.call(request)
        assert answer.code == "NOT_LEADER"
        assert answer.result.address == f"node{leader.node}:7600"  # type: ignore[union-attr]


def test_a_waiting_poll_is_sent_on_when_leadership_moves(fleet: Fleet) -> None:
    old = fleet.leader(TOPIC)
    polled(old)
    waiting = old.ask(poll(wait_ms=300_000))
    pushed = old.ask(Subscribe(TOPIC, GROUP, "s", credit=10))
    idle = old.ask(Subscribe(TOPIC, GROUP, "t", credit=0))
    fail_over(fleet)

    def last_codes() -> list[str]:
        return [getattr(answer.results[-1], "code", "") for answer in (waiting, pushed, idle) if answer.results]

    fleet.wait(lambda: last_codes() == ["NOT_LEADER"] * 3)


def test_a_subscriber_is_told_which_partitions_have_moved() -> None:
    fleet = three()
    fleet.create(TOPIC, partitions=2)
    old = fleet.leader(TOPIC, 0)
    if fleet.leader(TOPIC, 1) is not old:
        fleet.leader(TOPIC, 1).call(TransferLeadership(TOPIC, 1, old.node))
        fleet.wait(lambda: fleet.leader(TOPIC, 1) is old)
    answer = old.ask(Subscribe(TOPIC, GROUP, "s", credit=10, partitions=[0, 1]))
    fleet.wait(lambda: not answer.is_waiting)
    old.call(TransferLeadership(TOPIC, 1))
    fleet.wait(lambda: len(answer.results) == 2)
    assert [(push.deliveries, push.left_partitions) for push in answer.results] == [([], []), ([], [1])]  # type: ignore[union-attr]


def test_leases_that_are_presented_to_the_new_leader_are_kept_and_others_run_out(fleet: Fleet) -> None:
    old = fleet.leader(TOPIC)
    store(old, b"kept")
    store(old, b"lost")
    kept = polled(old, poll(1, "a"))
    polled(old, poll(1, "b"))
    new = fail_over(fleet)
    assert polled(new, poll(member="c")) == []
    assert new.call(Extend(TOPIC, 0, GROUP, "a", held(kept), 30_000)).result == Settled([], term=2)
    fleet.advance(Timing().grace_ms + 200)
    assert values(polled(new, poll(member="c"))) == [b"lost"]
    ack(new, kept)


def test_a_new_leader_waits_for_leases_of_a_node_with_a_longer_election_timeout(fleet: Fleet) -> None:
    """The old leader, cut off, may lease until it notices, by its own election timeout."""
    old = fleet.leader(TOPIC)
    store(old, b"lost")
    polled(old, poll(1, "a"))
    fleet.election_timeouts = {old.node: 5_000}
    new = fail_over(fleet)
    assert polled(new, poll(member="b")) == []
    fleet.advance(Timing().grace_ms + 200)
    assert polled(new, poll(member="b")) == []
    fleet.advance(2 * 5_000)
    assert values(polled(new, poll(member="b"))) == [b"lost"]


@pytest.mark.parametrize("is_presented", [False, True])
def test_the_new_leader_knows_the_bounds_of_messages_that_the_old_one_delivered(
    fleet: Fleet, is_presented: bool
) -> None:
    old = fleet.leader(TOPIC)
    store(old, b"once", max_deliveries=1)
    found = polled(old)
    new = fail_over(fleet)
    if is_presented:
        assert new.call(Extend(TOPIC, 0, GROUP, "a", held(found), 1_000)).result == Settled([], term=2)
        fleet.advance(5_000)
    else:
        assert new.call(settle(found, FAIL)).result == Settled([])
    fleet.wait(lambda: describe(new).dead_total == 1)
    assert polled(new) == []


def test_messages_acked_at_the_old_leader_are_not_delivered_by_the_new_one(fleet: Fleet) -> None:
    old = fleet.leader(TOPIC)
    store(old, b"a", b"b")
    first = polled(old, poll(1))
    ack(old, first)
    new = fail_over(fleet)
    waiting = new.call(poll(wait_ms=60_000))
    fleet.wait(lambda: not waiting.is_waiting)
    assert values(deliveries(waiting)) == [b"b"]


def test_a_settlement_in_flight_when_leadership_is_lost_has_an_unknown_outcome(fleet: Fleet) -> None:
    old = fleet.leader(TOPIC)
    store(old, b"a")
    found = polled(old)
    fleet.isolate(old.node)
    answer = old.call(settle(found))
    fleet.wait(lambda: not answer.is_waiting)
    assert answer.code == "OUTCOME_UNKNOWN"


def test_a_new_group_waits_for_no_grace(fleet: Fleet) -> None:
    new = fail_over(fleet)
    store(new, b"a")
    assert values(polled(new)) == [b"a"]
    assert describe(new).leased == 1


def test_a_poll_over_all_partitions_gets_those_that_a_node_leads(fleet: Fleet) -> None:
    fleet.controller().call(AlterTopic(TOPIC, partitions=3))
    leaders = [fleet.leader(TOPIC, partition) for partition in range(3)]
    fleet.advance(1_000)
    start = Start(LATEST)
    for leader in dict.fromkeys(leaders):
        polled(leader, Poll(TOPIC, GROUP, "a", start=start))
    for partition, leader in enumerate(leaders):
        store(leader, b"x", partition=partition)
    found = [delivery.partition for leader in dict.fromkeys(leaders) for delivery in polled(leader)]
    assert sorted(found) == [0, 1, 2]
