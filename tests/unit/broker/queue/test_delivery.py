"""Ways of delivery: push, at most once, order by key, time to live; and settlements that share a command."""

import pytest

from flotilla.broker.ports import Subscription
from flotilla.broker.queue.polls import LOST_MS
from flotilla.broker.queue.waiters import LAG_MS, PUSHES_BYTES_MAX
from flotilla.partition.commands.partition_commands import SettleRuns, decode_command
from flotilla.partition.leader.leases import MEMBER_LIVE_MS
from flotilla.types.errors import DiskFullError, FlotillaError
from flotilla.types.operations.queue import (
    ACK,
    FAIL,
    REJECT,
    RELEASE,
    AlterGroup,
    CancelRecords,
    Extend,
    LeaseRange,
    LeaveQueue,
    Pushed,
    Settle,
    Settled,
    Subscribe,
)
from tests.unit.broker.fleet import Answer, Node, single_node
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


def subscribe(node: Node, credit: int, member: str = "a", **fields: object) -> Answer:
    answer = node.call(Subscribe(TOPIC, GROUP, member, credit, **fields))  # type: ignore[arg-type]
    assert answer.cancel is not None, answer.results
    return answer


def add_credit(answer: Answer, messages: int) -> None:
    subscription: Subscription = answer.cancel  # type: ignore[assignment]
    subscription.add_credit(messages)


def pushes(answer: Answer) -> list[Pushed]:
    assert all(isinstance(result, Pushed) for result in answer.results)
    return answer.results  # type: ignore[return-value]


def settlements(node: Node) -> list[SettleRuns]:
    """What was settled, as it stands in the log."""
    log = node.partition(TOPIC).replica.log
    found = []
    for entry in log.entries(log.first_index(), log.last_index() + 1, 1 << 30):
        try:
            command = decode_command(entry.data)
        except FlotillaError:
            continue
        if isinstance(command, SettleRuns):
            found.append(command)
    return found


# Push.


def test_a_subscription_gets_as_many_as_it_has_credit_for(node: Node) -> None:
    store(node, b"a", b"b", b"c")
    answer = subscribe(node, 2)
    assert values(deliveries(answer)) == [b"a", b"b"]
    store(node, b"d")
    assert len(values(deliveries(answer))) == 2
    add_credit(answer, 5)
    node.fleet.settle()
    assert values(deliveries(answer)) == [b"a", b"b", b"c", b"d"]
    store(node, b"e")
    store(node, b"f")
    assert values(deliveries(answer))[4:] == [b"e", b"f"]
    assert all(isinstance(result, Pushed) and result.visibility_ms == 30_000 for result in answer.results)


def test_an_ended_subscription_gets_nothing_more_and_keeps_its_leases(node: Node) -> None:
    store(node, b"a")
    answer = subscribe(node, 5)
    assert answer.cancel is not None
    answer.cancel()
    store(node, b"b")
    add_credit(answer, 5)
    node.fleet.settle()
    assert values(deliveries(answer)) == [b"a"]
    assert values(polled(node)) == [b"b"]
    ack(node, deliveries(answer))


def test_subscriptions_take_turns(node: Node) -> None:
    polled(node)
    answers = [subscribe(node, 10, member) for member in "abc"]
    for number in range(6):
        store(node, b"%d" % number)
    assert [len(deliveries(answer)) for answer in answers] == [2, 2, 2]


def test_a_slow_subscriber_is_not_sent_more_bytes_than_it_may_have_waiting(node: Node) -> None:
    size_bytes = 500_000
    count = PUSHES_BYTES_MAX // size_bytes + 10
    for _ in range(count):
        store(node, b"x" * size_bytes)
    answer = subscribe(node, count)
    pushed = len(deliveries(answer))
    assert PUSHES_BYTES_MAX // size_bytes <= pushed < count
    add_credit(answer, 0)
    node.fleet.settle()
    assert len(deliveries(answer)) == count


def test_a_subscriber_is_not_sent_more_bytes_than_it_asks_for(node: Node) -> None:
    for _ in range(4):
        store(node, b"x" * 1_000)
    answer = subscribe(node, 100, max_bytes=2_000)
    assert len(deliveries(answer)) == 2, "the second one exceeds them a little"
    add_credit(answer, 0)
    node.fleet.settle()
    assert len(deliveries(answer)) == 4


def test_the_first_push_says_that_the_subscription_is_open(node: Node) -> None:
    empty = subscribe(node, 0)
    assert [(push.deliveries, push.lag) for push in pushes(empty)] == [([], 0)]
    store(node, b"a", b"b")
    first = subscribe(node, 1, "b")
    assert [(len(push.deliveries), push.lag) for push in pushes(first)] == [(1, 2)]


def test_a_subscriber_learns_the_lag_with_every_push_and_later_if_it_has_changed(node: Node) -> None:
    store(node, b"a", b"b")
    answer = subscribe(node, 10)
    ack(node, deliveries(answer))
    node.fleet.advance(LAG_MS + 100)
    assert [push.lag for push in pushes(answer)] == [2, 0]
    node.fleet.advance(3 * LAG_MS)
    assert len(pushes(answer)) == 2, "it has not changed again"


def test_a_subscriber_that_presents_its_leases_is_known_by_name(node: Node) -> None:
    subscribe(node, 1, "known", presents=True)
    subscribe(node, 1, "unknown")
    leader = node.partition(TOPIC).queue().leader
    assert (leader.is_holder(GROUP, "known"), leader.is_holder(GROUP, "unknown")) == (True, False)


@pytest.mark.parametrize("credit", [-1, 10**9])
def test_credit_has_bounds(node: Node, credit: int) -> None:
    assert node.call(Subscribe(TOPIC, GROUP, "a", credit)).code == "INVALID_ARGUMENT"


# At most once.


def test_at_most_once_is_committed_before_it_leaves(node: Node) -> None:
    store(node, b"a", b"b")
    polled(node, poll(1, group="others"))
    node.call(settle([]))
    polled(node, poll(1))
    node.is_disk_stuck = True
    answer = node.ask(poll(is_auto_ack=True, wait_ms=1_000))
    node.fleet.settle()
    assert answer.is_waiting
    assert polled(node) == []
    node.is_disk_stuck = False
    node.fleet.settle()
    found = deliveries(answer)
    assert values(found) == [b"b"]
    assert [delivery.lease_id for delivery in found] == [0]
    assert (describe(node).acked_total, describe(node).leased) == (1, 1)
    node.fleet.advance(5_000)
    node.fleet.check_answers()


def test_at_most_once_reaches_a_consumer_that_leaves_meanwhile(node: Node) -> None:
    polled(node)
    store(node, b"a")
    node.is_disk_stuck = True
    answer = node.ask(poll(is_auto_ack=True, wait_ms=1_000))
    left = node.ask(LeaveQueue(TOPIC, GROUP, "a", 0))
    node.is_disk_stuck = False
    node.fleet.settle()
    assert left.code == "Done"
    assert values(deliveries(answer)) == [b"a"]


def test_at_most_once_that_cannot_be_committed_is_not_delivered_and_comes_again(node: Node) -> None:
    polled(node)
    store(node, b"a")
    node.driver.storage_error = DiskFullError("full")
    assert node.call(poll(is_auto_ack=True)).code == "DISK_FULL"
    node.driver.storage_error = None
    again = node.call(poll(is_auto_ack=True))
    assert values(deliveries(again)) == [b"a"]
    assert deliveries(again)[0].attempt == 1


def test_at_most_once_by_subscription(node: Node) -> None:
    answer = subscribe(node, 3, is_auto_ack=True)
    for value in (b"a", b"b", b"c", b"d"):
        store(node, value)
    assert values(deliveries(answer)) == [b"a", b"b", b"c"]
    assert describe(node).acked_total == 3


def test_a_subscription_that_is_ended_pushes_what_it_has_acknowledged(node: Node) -> None:
    store(node, b"a", b"b")
    answer = subscribe(node, 0, is_auto_ack=True)
    subscription: Subscription = answer.cancel  # type: ignore[assignment]
    node.is_disk_stuck = True
    add_credit(answer, 1)
    node.fleet.settle()
    ended: list[list[bytes]] = []
    subscription.end(lambda: ended.append(values(deliveries(answer))))
    add_credit(answer, 1)
    node.fleet.settle()
    assert ended == []
    node.is_disk_stuck = False
    node.fleet.settle()
    assert ended == [[b"a"]]
    subscription.end(lambda: ended.append([]))
    assert ended == [[b"a"], []], "an end that has nothing to wait for"
    assert values(polled(node)) == [b"b"]


# Order by key.


def test_messages_of_one_key_go_to_one_member_at_a_time(node: Node) -> None:
    store(node, b"a1", key=b"a")
    store(node, b"b1", key=b"b")
    store(node, b"a2", key=b"a")
    store(node, b"none")
    first = polled(node, poll(1, is_ordered_by_key=True))
    assert values(first) == [b"a1"]
    second = polled(node, poll(member="b", is_ordered_by_key=True))
    assert values(second) == [b"b1", b"none"]
    waiting = node.ask(poll(member="b", is_ordered_by_key=True, wait_ms=10_000))
    node.fleet.settle()
    assert waiting.is_waiting
    ack(node, first)
    assert values(deliveries(waiting)) == [b"a2"]


# Time to live, and bounds of single messages.


def test_expired_messages_are_not_delivered_and_counted(node: Node) -> None:
    store(node, b"old", ttl_ms=1_000)
    store(node, b"good")
    store(node, b"older", b"oldest", ttl_ms=500)
    node.fleet.advance(2_000)
    assert values(polled(node)) == [b"good"]
    described = describe(node)
    assert (described.expired_total, described.lag) == (3, 1)


def test_a_run_of_expired_messages_hides_no_later_one(node: Node) -> None:
    for _ in range(40):
        store(node, b"old", ttl_ms=1_000)
    store(node, b"good")
    node.fleet.advance(2_000)
    answer = node.ask(poll(1, wait_ms=10_000))
    node.fleet.settle()
    assert values(deliveries(answer)) == [b"good"]


def test_a_message_has_its_own_bound_on_deliveries(node: Node) -> None:
    store(node, b"once", max_deliveries=1)
    store(node, b"more")
    found = polled(node)
    node.call(settle(found, FAIL, delay_ms=0))
    assert values(polled(node)) == [b"more"]
    assert describe(node).dead_total == 1
    # Also without a nack.
    store(node, b"again", max_deliveries=1)
    polled(node, poll(visibility_ms=1_000))
    node.fleet.advance(5_000)
    assert describe(node).dead_total == 2


# Settlements.


def test_settlements_that_come_together_share_a_command(node: Node) -> None:
    for _ in range(64):
        store(node, b"x")
    found = polled(node, poll(64))
    answers = [node.ask(settle([delivery])) for delivery in found]
    node.fleet.settle()
    assert {answer.code for answer in answers} == {"Settled"}
    commands = settlements(node)
    assert len(commands) == 1
    assert commands[0].groups[0].acked == ((0, 64),)


def test_settlements_that_arrive_while_commands_are_in_flight_share_the_next(node: Node) -> None:
    for _ in range(30):
        store(node, b"x")
    found = polled(node, poll(30))
    node.is_disk_stuck = True
    answers = []
    for delivery in found:
        answers.append(node.call(settle([delivery])))
    assert all(answer.is_waiting for answer in answers)
    node.is_disk_stuck = False
    node.fleet.settle()
    assert {answer.code for answer in answers} == {"Settled"}
    assert len(settlements(node)) <= 4
    assert describe(node).acked_total == 30


def test_an_ack_of_which_a_part_is_refused_waits_for_the_rest(node: Node) -> None:
    store(node, b"a", b"b", b"c")
    found = polled(node)
    ack(node, polled(node, poll(group="others")), group="others")
    assert node.call(Settle(TOPIC, 0, GROUP, ACK, [LeaseRange(found[0].lease_id, 0, 1)])).code == "Settled"
    node.is_disk_stuck = True
    answer = node.ask(settle(found))
    node.fleet.settle()
    assert answer.is_waiting, "the ends of b and c are not in the log"
    node.is_disk_stuck = False
    node.fleet.settle()
    assert isinstance(answer.result, Settled)
    assert answer.result.expired == [LeaseRange(found[0].lease_id, 0, 1)]
    assert describe(node).acked_total == 3


def test_a_repeated_ack_is_answered_when_the_first_is_in_the_log(node: Node) -> None:
    store(node, b"a")
    found = polled(node)
    node.is_disk_stuck = True
    first = node.call(settle(found))
    again = node.call(settle(found))
    assert first.is_waiting
    assert again.is_waiting, "the first may still fail"
    node.is_disk_stuck = False
    node.fleet.settle()
    assert first.result == Settled([])
    assert again.result == Settled(held(found), held(found))


def test_a_refused_ack_says_what_is_settled(node: Node) -> None:
    store(node, b"a", b"b", b"c")
    found = polled(node)
    lease_id = found[0].lease_id
    assert node.call(Settle(TOPIC, 0, GROUP, RELEASE, held(found))).result == Settled([])
    theirs = polled(node, poll(member="b"))
    assert node.call(Settle(TOPIC, 0, GROUP, ACK, [LeaseRange(theirs[0].lease_id, 1, 2)])).result == Settled([])
    assert node.call(settle(found)).result == Settled(held(found), [LeaseRange(lease_id, 1, 2)])


@pytest.mark.parametrize(("theirs", "ours"), [(REJECT, ACK), (ACK, REJECT)])
def test_a_refused_end_is_not_settled_by_another_one(node: Node, theirs: int, ours: int) -> None:
    """A client that repeats it must not take it for done."""
    store(node, b"a", b"b", b"c")
    found = polled(node)
    lease_id = found[0].lease_id
    assert node.call(Settle(TOPIC, 0, GROUP, RELEASE, held(found))).result == Settled([])
    other = polled(node, poll(member="b"))
    assert node.call(Settle(TOPIC, 0, GROUP, theirs, [LeaseRange(other[0].lease_id, 0, 1)])).result == Settled([])
    assert node.call(Settle(TOPIC, 0, GROUP, ours, [LeaseRange(other[0].lease_id, 1, 2)])).result == Settled([])
    node.call(CancelRecords(TOPIC, 0, [2]))
    again = node.call(Settle(TOPIC, 0, GROUP, ours, held(found))).result
    assert again == Settled(held(found), [LeaseRange(lease_id, 1, 3)])


def test_a_settlement_that_is_refused_leaves_the_lease(node: Node) -> None:
    store(node, b"a")
    found = polled(node)
    node.driver.storage_error = DiskFullError("full")
    assert node.call(settle(found)).code == "DISK_FULL"
    node.driver.storage_error = None
    assert describe(node).leased == 1
    assert polled(node, poll(member="b")) == []
    ack(node, found)


@pytest.mark.parametrize(
    "request_",
    [
        Settle(TOPIC, 0, GROUP, 9, []),
        Settle(TOPIC, 0, GROUP, ACK, [LeaseRange(1, 5, 6)]),
        Settle(TOPIC, 0, GROUP, ACK, [LeaseRange(1, 0, 0)]),
        Settle(TOPIC, 0, GROUP, FAIL, [LeaseRange(1, 0, 1)], delay_ms=-7),
        Extend(TOPIC, 0, GROUP, "a", [LeaseRange(1, 0, 1)], 1),
    ],
)
def test_ends_that_make_no_sense_are_refused(node: Node, request_: Settle | Extend) -> None:
    store(node, b"a")
    polled(node)
    assert node.call(request_).code == "INVALID_ARGUMENT"


def test_an_unknown_group_holds_nothing(node: Node) -> None:
    assert node.call(settle([], ACK)).code == "NOT_FOUND"


# Members that are gone.


def test_a_member_whose_connection_is_gone_loses_its_leases_early(node: Node) -> None:
    store(node, b"a")
    polled(node)
    node.broker.lost(["a", "stranger"])
    node.fleet.advance(LOST_MS - 200)
    assert describe(node).leased == 1
    node.fleet.advance(400)
    assert describe(node).leased == 0
    # It comes at once, and no attempt was counted.
    assert polled(node, poll(member="b"))[0].attempt == 1


def test_a_member_that_stands_by_takes_over_when_the_active_one_is_lost(node: Node) -> None:
    node.call(AlterGroup(TOPIC, GROUP, {"single_active": "1"}))
    node.fleet.advance(200)
    assert deliveries(node.call(poll(member="a"))) == []
    waiting = node.ask(poll(member="b", wait_ms=60_000))
    store(node, b"a")
    assert waiting.is_waiting
    node.broker.lost(["a"])
    node.fleet.advance(LOST_MS + 200)
    assert values(deliveries(waiting)) == [b"a"]


def test_a_subscriber_that_waits_counts_as_one_that_polls(node: Node) -> None:
    subscribe(node, 10)
    node.fleet.advance(2 * MEMBER_LIVE_MS)
    assert [member.last_poll_ms_ago <= LAG_MS for member in describe(node).members] == [True]


def test_each_group_has_its_own_time_for_members_to_come_back(node: Node) -> None:
    store(node, b"a")
    for group, lost_ms in (("quick", "100ms"), ("slow", "5s")):
        node.call(AlterGroup(TOPIC, group, {"lost_ms": lost_ms}))
    node.fleet.advance(200)
    for group in ("quick", GROUP, "slow"):
        polled(node, poll(group=group))
    node.broker.lost(["a"])

    def leased() -> list[int]:
        return [describe(node, group).leased for group in ("quick", GROUP, "slow")]

    node.fleet.advance(200)
    assert leased() == [0, 1, 1]
    node.fleet.advance(1_000)
    assert leased() == [0, 0, 1]
    # Altered meanwhile: the last word counts.
    node.call(AlterGroup(TOPIC, "slow", {"lost_ms": "10s"}))
    node.fleet.advance(4_500)
    assert leased() == [0, 0, 1]
    node.fleet.advance(5_000)
    assert leased() == [0, 0, 0]


def test_a_member_that_reconnects_keeps_its_leases(node: Node) -> None:
    store(node, b"a")
    mine = polled(node)
    node.broker.lost(["a"])
    node.fleet.advance(LOST_MS - 200)
    node.call(Extend(TOPIC, 0, GROUP, "a", held(mine), 30_000))
    node.fleet.advance(LOST_MS)
    assert node.call(settle(mine)).result == Settled([])
    assert describe(node).failed_total == 0
