"""What people ask of queue groups: lists, descriptions, resets, cancellations, and why a message is where it is."""

import pytest

from flotilla.broker.queue.delivery import QueueReader
from flotilla.codec.batch.records import encode_batch
from flotilla.types.errors import CorruptionError, FlotillaError, StorageFailedError
from flotilla.types.operations import LATEST, CommitOffset, Produce, Produced, Request
from flotilla.types.operations.queue import (
    FAIL,
    FROM_OFFSET,
    AlterGroup,
    CancelRecords,
    DeleteGroup,
    DescribeGroup,
    ExplainMessage,
    Explanation,
    GroupDescription,
    GroupList,
    GroupReset,
    LeaveQueue,
    ListGroups,
    RecordsCancelled,
    ResetGroup,
    Start,
)
from flotilla.types.records import Record
from tests.unit.broker.fleet import Node, single_node, three
from tests.unit.broker.queue_driver import (
    GROUP,
    TOPIC,
    ack,
    deliveries,
    describe,
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


def test_groups_of_both_kinds_are_listed(node: Node) -> None:
    store(node, b"a")
    polled(node)
    node.call(CommitOffset("readers", TOPIC, 0, 1))
    assert node.call(ListGroups(TOPIC, 0)).result == GroupList({"readers": "offset", GROUP: "queue"})


def test_a_queue_group_is_described(node: Node) -> None:
    store(node, b"a", b"b", b"c", b"d")
    store(node, b"later", deliver_at_ms=node.now_ms() + 60_000)
    found = polled(node, poll(2))
    ack(node, polled(node, poll(1)))
    node.fleet.advance(5_000)
    described = describe(node)
    assert (described.kind, described.floor, described.next_offset) == ("queue", 0, 5)
    assert (described.lag, described.ready, described.leased, described.delayed) == (4, 1, 2, 1)
    assert described.oldest_age_ms == 5_000
    assert [(member.name, member.leased) for member in described.members] == [("a", 2)]
    ack(node, found)
    assert describe(node).floor == 3


def test_a_leader_measures_its_groups(node: Node) -> None:
    store(node, b"a", b"b")
    polled(node, poll(1))
    node.fleet.advance(2_000)
    host = node.partition(TOPIC)
    assert host.queue_groups() == [GROUP]
    measured = host.measure_queue(GROUP)
    assert measured is not None
    assert (measured.lag, measured.leased, measured.oldest_age_ms) == (2, 1, 2_000)
    assert host.measure_queue("absent") is None
    assert host.count_queue("absent") is None


@pytest.mark.parametrize("kind", [CorruptionError, StorageFailedError])
def test_a_group_whose_messages_cannot_be_read_is_counted_and_not_measured(
    node: Node, monkeypatch: pytest.MonkeyPatch, kind: type[FlotillaError]
) -> None:
    store(node, b"a")
    polled(node, poll(1))

    def fail(*_: object) -> int:
        raise kind("read failed")

    monkeypatch.setattr(QueueReader, "time_ms", fail)
    host = node.partition(TOPIC)
    assert host.measure_queue(GROUP) is None
    counted = host.count_queue(GROUP)
    assert counted is not None
    assert (counted.lag, counted.leased) == (1, 1)


def test_a_group_with_an_offset_is_described(node: Node) -> None:
    store(node, b"a", b"b")
    node.call(CommitOffset("readers", TOPIC, 0, 1))
    node.fleet.advance(1_000)
    found = node.call(DescribeGroup(TOPIC, 0, "readers")).result
    assert found == GroupDescription("offset", 1, 2, 0, 1, 1_000)


def test_a_reset_moves_a_group_and_a_dry_run_does_not(node: Node) -> None:
    store(node, b"a", b"b", b"c")
    ack(node, polled(node))
    back = ResetGroup(TOPIC, 0, GROUP, Start(FROM_OFFSET, 1), is_dry_run=True)
    assert node.call(back).result == GroupReset(3, 1)
    assert polled(node) == []
    back.is_dry_run = False
    waiting = node.ask(poll(wait_ms=10_000))
    assert node.call(back).result == GroupReset(3, 1)
    assert values(deliveries(waiting)) == [b"b", b"c"]
    assert node.call(ResetGroup(TOPIC, 0, GROUP, Start(LATEST))).result == GroupReset(1, 3)
    assert polled(node) == []
    # What was leased before the reset means nothing any more.
    assert node.call(settle(deliveries(waiting))).result.expired  # type: ignore[union-attr]


def test_a_deleted_group_begins_anew(node: Node) -> None:
    store(node, b"a")
    ack(node, polled(node))
    waiting = node.ask(poll(wait_ms=10_000))
    assert node.call(DeleteGroup(TOPIC, 0, GROUP, is_forced=True)).code == "Done"
    node.fleet.advance(1_000)
    assert waiting.code == "NOT_FOUND"
    assert values(polled(node)) == [b"a"]


def test_a_group_with_live_members_is_not_deleted(node: Node) -> None:
    store(node, b"a", b"b")
    held = polled(node, poll(1, member="holds"))
    waiting = node.ask(poll(group="others", member="waits", wait_ms=200_000))
    polled(node, poll(1, member="polls"))
    refused = node.call(DeleteGroup(TOPIC, 0, GROUP))
    assert refused.code == "GROUP_IN_USE"
    assert str(refused.result) == f"group {GROUP!r} has 2 live members, to leave first: holds, polls"
    ack(node, held)
    node.fleet.advance(29_000)
    assert node.call(DeleteGroup(TOPIC, 0, GROUP)).code == "GROUP_IN_USE"
    node.fleet.advance(11_000)
    # The lease of the one has ended, too.
    assert node.call(DeleteGroup(TOPIC, 0, GROUP)).code == "Done"
    ack(node, deliveries(waiting), "others")
    waiting = node.ask(poll(group="others", member="waits", wait_ms=200_000))
    node.fleet.advance(60_000)
    assert [(one.name, one.is_live) for one in describe(node, group="others").members] == [("waits", True)]
    assert node.call(DeleteGroup(TOPIC, 0, "others")).code == "GROUP_IN_USE"
    assert waiting.is_waiting


def test_a_consumer_that_leaves_is_no_member_and_holds_nothing(node: Node) -> None:
    store(node, b"a", b"b")
    polled(node, poll(1, member="leaves"))
    polled(node, poll(1, member="stays"))
    ended, waiting = node.ask(poll(member="leaves", wait_ms=60_000)), node.ask(poll(member="stays", wait_ms=60_000))
    assert node.call(LeaveQueue(TOPIC, GROUP, "leaves", 0)).code == "Done"
    assert deliveries(ended) == []
    # What it held comes to the other one at once, and no attempt was counted.
    (delivery,) = deliveries(waiting)
    assert (values([delivery]), delivery.attempt) == ([b"a"], 1)
    assert [member.name for member in describe(node).members] == ["stays"]
    for stranger in (LeaveQueue(TOPIC, "absent", "leaves", 0), LeaveQueue(TOPIC, GROUP, "nobody", 0)):
        assert node.call(stranger).code == "Done"
    assert node.call(LeaveQueue("absent", GROUP, "leaves", 0)).code == "NOT_FOUND"


def test_a_paused_group_gets_nothing_until_it_goes_on(node: Node) -> None:
    polled(node)
    node.call(AlterGroup(TOPIC, GROUP, {"paused": "1"}))
    node.fleet.advance(200)
    waiting = node.ask(poll(wait_ms=60_000))
    store(node, b"a")
    node.fleet.advance(2_000)
    assert waiting.is_waiting
    assert describe(node).is_paused
    assert values(polled(node, poll(group="others"))) == [b"a"]
    node.call(AlterGroup(TOPIC, GROUP, {"paused": "0"}))
    assert values(deliveries(waiting)) == [b"a"]


def test_settings_of_a_group_hold_for_its_next_poll(node: Node) -> None:
    store(node, b"a")
    polled(node)
    node.call(AlterGroup(TOPIC, GROUP, {"visibility_ms": "5s"}))
    store(node, b"b")
    assert node.call(poll()).result.visibility_ms == 5_000  # type: ignore[union-attr]


# Messages.


def test_cancelled_messages_are_not_delivered(node: Node) -> None:
    store(node, b"a", b"b", b"c")
    records = [Record(b"keyed", idempotency_key=b"order-42", timestamp_ms=1)]
    assert node.call(Produce(TOPIC, 0, encode_batch(records))).result == Produced(3)
    request = CancelRecords(TOPIC, 0, [1], [b"order-42", b"unknown"])
    assert node.call(request).result == RecordsCancelled([1, 3])
    assert values(polled(node)) == [b"a", b"c"]
    assert node.call(CancelRecords(TOPIC, 0, [], [b"unknown"])).result == RecordsCancelled([])


def test_a_message_with_a_known_key_is_not_stored_again(node: Node) -> None:
    def keyed(*names: bytes) -> Produce:
        records = [Record(name, idempotency_key=name, timestamp_ms=1) for name in names]
        return Produce(TOPIC, 0, encode_batch(records))

    assert node.call(keyed(b"a", b"b")).result == Produced(0)
    assert node.call(keyed(b"a", b"b")).result == Produced(0, duplicate=True)
    assert node.call(keyed(b"c", b"b")).result == Produced(1, known=[(1, 1)])
    node.is_disk_stuck = True
    first, second, third = node.ask(keyed(b"x", b"y")), node.ask(keyed(b"x", b"y")), node.ask(keyed(b"z", b"y"))
    node.fleet.settle()
    assert first.is_waiting
    assert second.is_waiting
    assert third.is_waiting
    node.is_disk_stuck = False
    node.fleet.settle()
    assert first.result == Produced(2)
    assert second.result == Produced(2, duplicate=True)
    assert third.result == Produced(3, known=[(1, 3)])


def test_a_message_is_explained(node: Node) -> None:
    store(node, b"a")

    def explained() -> Explanation:
        return explain(node)

    found = polled(node)
    assert (explained().state, explained().holder) == ("leased", "a")
    node.call(settle(found, FAIL, "why", delay_ms=5_000))
    assert (explained().state, explained().attempts, explained().reason) == ("retrying", 1, "why")
    assert explained().remaining_ms == 5_000


def test_an_explanation_knows_the_bound_of_a_message_that_an_earlier_leader_delivered() -> None:
    fleet = three()
    fleet.create(TOPIC)
    old = fleet.leader(TOPIC)
    store(old, b"a", max_deliveries=2)
    old.call(settle(polled(old), FAIL, "why", delay_ms=60_000))
    assert explain(old).history == ["attempt 1 of 2 failed: why"]
    fleet.isolate(old.node)
    fleet.wait(
        lambda: any(box is not old and box.partition(TOPIC).replica.is_serving() for box in fleet.nodes.values())
    )
    (new,) = [box for box in fleet.nodes.values() if box is not old and box.partition(TOPIC).replica.is_serving()]
    assert explain(new).history == ["attempt 1 of 2 failed: why"]


@pytest.mark.parametrize("partition", [0, 1])
def test_an_explanation_mentions_a_rate_limit_at_any_partition(partition: int) -> None:
    node = single_node()
    node.fleet.create(TOPIC, 2, rate_limit_per_minute="1")
    node.fleet.leader(TOPIC, 1)
    store(node, b"a", b"b", partition=partition)
    answer = node.ask(poll(1, partitions=[partition], wait_ms=5_000))
    node.fleet.advance(2_000)
    assert values(deliveries(answer)) == [b"a"]
    assert polled(node, poll(partitions=[partition])) == []
    node.fleet.advance(1_000)
    found = explain(node, partition, 1)
    assert found.state == "ready"
    assert "rate limit" in found.next
    assert 50_000 < found.remaining_ms < 60_000
    node.fleet.advance(found.remaining_ms)
    found = explain(node, partition, 1)
    assert (found.next, found.remaining_ms) == ("the next poll may have it", 0)


def explain(node: Node, partition: int = 0, offset: int = 0) -> Explanation:
    result = node.call(ExplainMessage(TOPIC, partition, offset, GROUP)).result
    assert isinstance(result, Explanation)
    return result


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (DescribeGroup(TOPIC, 0, "absent"), "NOT_FOUND"),
        (ResetGroup(TOPIC, 0, "absent", Start()), "NOT_FOUND"),
        (ResetGroup(TOPIC, 0, GROUP, Start(FROM_OFFSET, 99)), "OFFSET_OUT_OF_RANGE"),
        (DeleteGroup(TOPIC, 0, "absent"), "NOT_FOUND"),
        (ExplainMessage(TOPIC, 0, 0, "absent"), "NOT_FOUND"),
        (ExplainMessage(TOPIC, 0, 7, GROUP), "OFFSET_OUT_OF_RANGE"),
        (CancelRecords(TOPIC, 0, [7]), "OFFSET_OUT_OF_RANGE"),
        (CancelRecords(TOPIC, 0, [0] * 1_001), "INVALID_ARGUMENT"),
        (ListGroups(TOPIC, 9), "NOT_FOUND"),
    ],
)
def test_questions_that_make_no_sense_are_refused(node: Node, request_: Request, code: str) -> None:
    store(node, b"a")
    polled(node)
    assert node.call(request_).code == code


def test_due_messages_are_ready_for_the_next_request() -> None:
    node = single_node()
    node.fleet.create(TOPIC)
    polled(node, poll(1))
    store(node, b"later", deliver_at_ms=node.now_ms() + 5_000)
    assert (describe(node).ready, describe(node).delayed) == (0, 1)
    # The clock alone: no timer has fired.
    node.fleet.clock.now_ms += 6_000
    assert (describe(node).ready, describe(node).delayed) == (1, 0)
    assert values(polled(node, poll(1))) == [b"later"]


def test_a_delayed_message_ages_from_its_delivery_time() -> None:
    node = single_node()
    node.fleet.create(TOPIC)
    polled(node, poll(1))
    store(node, b"later", deliver_at_ms=node.now_ms() + 100_000)
    node.fleet.advance(72_000)
    assert (describe(node).lag, describe(node).ready, describe(node).oldest_age_ms) == (1, 0, 0)
    node.fleet.advance(30_000)
    described = describe(node)
    assert (described.ready, described.oldest_age_ms) == (1, 2_000)


def test_the_age_is_of_the_oldest_message_that_is_due() -> None:
    node = single_node()
    node.fleet.create(TOPIC)
    polled(node, poll(1))
    store(node, b"much later", deliver_at_ms=node.now_ms() + 1_000_000)
    store(node, b"later", deliver_at_ms=node.now_ms() + 20_000)
    node.fleet.advance(1_000)
    store(node, b"now", priority=3)
    node.fleet.advance(29_000)
    # The one behind it waits for longer than the one that came due before it.
    assert describe(node).oldest_age_ms == 29_000
    now = polled(node, poll(1))
    assert values(now) == [b"now"]
    node.fleet.advance(1_000)
    assert describe(node).oldest_age_ms == 30_000
    ack(node, now)
    assert describe(node).oldest_age_ms == 11_000
    ack(node, polled(node, poll(1)))
    assert (describe(node).lag, describe(node).oldest_age_ms) == (1, 0)


def test_a_message_that_is_tried_again_later_ages_on() -> None:
    node = single_node()
    node.fleet.create(TOPIC)
    store(node, b"a")
    node.call(settle(polled(node), FAIL, delay_ms=600_000))
    node.fleet.advance(60_000)
    described = describe(node)
    assert (described.ready, described.delayed, described.oldest_age_ms) == (0, 1, 60_000)
