"""Groups that expire: deleted when nobody has used them for long, and never while they have members."""

import pytest

from flotilla.broker.cluster.group_expiry import Expiration
from flotilla.broker.queue.unused_groups import GRACE_MS_MAX, STEPS_PER_EXPIRY
from flotilla.types.errors import FlotillaError
from flotilla.types.operations import AlterTopic, CommitOffset, CreateTopic
from flotilla.types.operations.group_expiry import (
    STEP_DELETE,
    STEP_HOLD,
    STEP_LOOK,
    STEP_RELEASE,
    ExpireGroup,
    GroupUse,
)
from flotilla.types.operations.queue import AlterGroup, DescribeGroup, LeaveQueue, Poll
from flotilla.types.operations.stream import ClaimPartition, DescribeStreamGroup, JoinGroup, LeaveGroup
from tests.unit.broker.fleet import Fleet, Node, single_node, three
from tests.unit.broker.queue.test_partitions import fail_over
from tests.unit.broker.queue_driver import GROUP, TOPIC, ack, poll, polled, store, values

AFTER_MS = 16_000


def begin(fleet: Fleet) -> Fleet:
    fleet.create(TOPIC)
    controller(fleet).call(AlterGroup(TOPIC, GROUP, {"expires_after_ms": str(AFTER_MS)}))
    fleet.advance(1_000)
    return fleet


@pytest.fixture
def fleet() -> Fleet:
    return begin(single_node().fleet)


def visit(node: Node) -> None:
    """A member comes, and goes at once."""
    polled(node)
    assert node.call(LeaveQueue(TOPIC, GROUP, "a", 0)).code == "Done"


def controller(fleet: Fleet) -> Node:
    return fleet.controller()


def is_known(fleet: Fleet, partition: int = 0) -> bool:
    return fleet.leader(TOPIC, partition).call(DescribeGroup(TOPIC, partition, GROUP)).code == "GroupDescription"


def settings(fleet: Fleet) -> dict[str, str]:
    found = controller(fleet).call(AlterGroup(TOPIC, GROUP, {})).result
    assert not isinstance(found, FlotillaError), found
    return found.settings  # type: ignore[attr-defined,no-any-return]


def step(fleet: Fleet, number: int) -> GroupUse:
    found = fleet.leader(TOPIC).call(ExpireGroup(TOPIC, 0, GROUP, number)).result
    assert isinstance(found, GroupUse), found
    return found


def test_an_unused_group_is_deleted_with_its_state_and_its_settings(fleet: Fleet) -> None:
    node = fleet.leader(TOPIC)
    store(node, b"a")
    ack(node, polled(node))
    visit(node)
    fleet.advance(AFTER_MS - 2_000)
    assert is_known(fleet)
    fleet.wait(lambda: not is_known(fleet), AFTER_MS)
    fleet.wait(lambda: not settings(fleet))
    assert sum(box.catalog.expired_group_count for box in fleet.nodes.values()) == 1
    assert values(polled(fleet.leader(TOPIC))) == [b"a"], "it begins anew"


def test_a_member_that_waits_keeps_its_group_and_costs_an_entry_per_step(fleet: Fleet) -> None:
    node = fleet.leader(TOPIC)
    waiting = node.ask(poll(wait_ms=10 * AFTER_MS))
    fleet.settle()
    before = node.partition(TOPIC).replica.raft.log.last_index
    fleet.advance(3 * AFTER_MS)
    assert waiting.is_waiting
    assert is_known(fleet)
    written = node.partition(TOPIC).replica.raft.log.last_index - before
    # Beside stamps of time and the like.
    assert 3 * STEPS_PER_EXPIRY - 3 <= written <= 3 * STEPS_PER_EXPIRY + 12


def test_a_lease_keeps_its_group(fleet: Fleet) -> None:
    node = fleet.leader(TOPIC)
    store(node, b"a")
    found = polled(node, Poll(TOPIC, GROUP, "a", visibility_ms=3 * AFTER_MS))
    fleet.advance(2 * AFTER_MS)
    ack(node, found)
    assert is_known(fleet)


def test_a_group_without_the_setting_stays(fleet: Fleet) -> None:
    visit(fleet.leader(TOPIC))
    controller(fleet).call(AlterGroup(TOPIC, GROUP, {"expires_after_ms": ""}))
    fleet.advance(3 * AFTER_MS)
    assert is_known(fleet)


def test_a_new_leader_knows_the_last_use_and_waits_for_members_to_come_back() -> None:
    fleet = begin(three())
    visit(fleet.leader(TOPIC))
    fleet.advance(AFTER_MS // 2)
    node = fail_over(fleet)
    state = node.partition(TOPIC).machine.groups[GROUP]
    assert node.now_ms() - state.used_ms <= AFTER_MS
    began_ms = fleet.clock.now_ms
    fleet.wait(lambda: not is_known(fleet), 3 * AFTER_MS)
    assert fleet.clock.now_ms - began_ms >= min(AFTER_MS, GRACE_MS_MAX)


def test_all_partitions_count(fleet: Fleet) -> None:
    node = controller(fleet)
    node.call(CreateTopic("wide", partitions=3))
    fleet.advance(2_000)
    node.call(AlterGroup("wide", GROUP, {"expires_after_ms": str(AFTER_MS)}))
    for number in range(3):
        assert fleet.leader("wide", number).call(Poll("wide", GROUP, "a", partitions=[number])).code == "Polled"
    node.call(LeaveQueue("wide", GROUP, "a", 0))
    waiting = fleet.leader("wide", 1).ask(Poll("wide", GROUP, "a", partitions=[1], wait_ms=10 * AFTER_MS))

    def known() -> list[bool]:
        codes = [fleet.leader("wide", n).call(DescribeGroup("wide", n, GROUP)).code for n in range(3)]
        return [code == "GroupDescription" for code in codes]

    fleet.advance(2 * AFTER_MS)
    assert known() == [True] * 3
    assert waiting.cancel is not None
    waiting.cancel()
    node.call(LeaveQueue("wide", GROUP, "a", 0))
    fleet.wait(lambda: known() == [False] * 3, 3 * AFTER_MS)


def test_a_member_that_comes_back_while_it_is_held_waits_for_the_end(fleet: Fleet) -> None:
    node = fleet.leader(TOPIC)
    visit(node)
    for box in fleet.nodes.values():
        box.membership.group_expiry.check = lambda: None  # type: ignore[method-assign]
    assert not step(fleet, STEP_HOLD).is_held, "it was used a moment ago"
    fleet.advance(2 * AFTER_MS)
    looked = step(fleet, STEP_LOOK)
    assert (looked.is_known, looked.is_held) == (True, False)
    assert looked.unused_ms >= AFTER_MS
    assert step(fleet, STEP_HOLD).is_held
    refused = (
        poll(),
        poll(member="b"),
        CommitOffset(GROUP, TOPIC, 0, 0),
        ClaimPartition(GROUP, TOPIC, 0, 1),
    )
    for request in refused:
        assert node.call(request).code == "UNAVAILABLE"
    step(fleet, STEP_RELEASE)
    visit(node)
    assert step(fleet, STEP_DELETE).is_known, "it was used since"
    fleet.advance(2 * AFTER_MS)
    assert step(fleet, STEP_DELETE).is_known, "it is not held, so a member may come back while it is deleted"
    assert step(fleet, STEP_HOLD).is_held
    assert not step(fleet, STEP_DELETE).is_known
    assert node.call(poll()).code == "UNAVAILABLE", "until all partitions have deleted it"
    step(fleet, STEP_RELEASE)
    polled(node)


def test_a_partition_that_is_added_meanwhile_ends_the_attempt(fleet: Fleet) -> None:
    visit(fleet.leader(TOPIC))
    for box in fleet.nodes.values():
        box.membership.group_expiry.check = lambda: None  # type: ignore[method-assign]
    fleet.advance(2 * AFTER_MS)
    node = controller(fleet)
    expiry = node.membership.group_expiry
    before = node.catalog.find_topic(TOPIC)
    assert before is not None
    assert node.call(AlterTopic(TOPIC, partitions=2)).code == "TopicReply"
    for topic, is_deleted in ((before, False), (node.catalog.find_topic(TOPIC), True)):
        assert topic is not None
        Expiration(expiry, expiry._term, topic, GROUP, AFTER_MS).begin()
        fleet.advance(2_000)
        assert is_known(fleet) is not is_deleted


def test_the_hold_ends_by_itself(fleet: Fleet) -> None:
    node = fleet.leader(TOPIC)
    visit(node)
    for box in fleet.nodes.values():
        box.membership.group_expiry.check = lambda: None  # type: ignore[method-assign]
    fleet.advance(2 * AFTER_MS)
    assert step(fleet, STEP_HOLD).is_held
    assert node.call(poll()).code == "UNAVAILABLE"
    fleet.wait(lambda: node.call(poll()).code == "Polled", 60_000)


def test_a_stream_group_goes_with_its_positions_when_it_has_no_members(fleet: Fleet) -> None:
    node = controller(fleet)
    node.call(JoinGroup(TOPIC, GROUP, "m", "c"))
    fleet.leader(TOPIC).call(CommitOffset(GROUP, TOPIC, 0, 0))
    for _ in range(3 * AFTER_MS // 5_000):
        fleet.advance(5_000)
        controller(fleet).call(JoinGroup(TOPIC, GROUP, "m", "c"))
    assert controller(fleet).call(DescribeStreamGroup(TOPIC, GROUP)).code == "StreamGroupDescription"
    controller(fleet).call(LeaveGroup(TOPIC, GROUP, "m"))
    fleet.advance(AFTER_MS // 2)
    assert controller(fleet).call(DescribeStreamGroup(TOPIC, GROUP)).code == "StreamGroupDescription"
    fleet.wait(lambda: controller(fleet).call(DescribeStreamGroup(TOPIC, GROUP)).code == "NOT_FOUND", AFTER_MS)
    fleet.wait(lambda: not is_known(fleet))
    fleet.wait(lambda: not settings(fleet))


def test_a_request_without_a_known_step_is_refused(fleet: Fleet) -> None:
    assert fleet.leader(TOPIC).call(ExpireGroup(TOPIC, 0, GROUP, 9)).code == "INVALID_ARGUMENT"
