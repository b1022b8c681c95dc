"""Retention: what goes and what stays, and that the disk of every replica is freed."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from flotilla.broker.catalog import METADATA_GROUP
from flotilla.broker.retention import LOOK_MS, RELEASE_MS
from flotilla.broker.retention_holds import LASTING_MS
from flotilla.codec.batch.records import encode_batch
from flotilla.codec.batch.view import BatchView
from flotilla.partition.commands.partition_commands import StampTime, TrimTo, encode_command
from flotilla.raft.messages import Append, Message
from flotilla.types.errors import UnavailableError
from flotilla.types.ids import GroupId
from flotilla.types.operations import LATEST, AlterTopic, CommitOffset, Fetch, Fetched, Produce
from flotilla.types.operations.cluster import RETENTION_HELD, DescribeNode, NodeDescribed, NodeWarning
from flotilla.types.operations.queue import (
    ACK,
    FAIL,
    REJECT,
    AlterGroup,
    CancelRecords,
    ExplainMessage,
    Explanation,
    Start,
)
from flotilla.types.records import Record
from tests.unit.broker.fleet import Fleet, Node, single_node, three
from tests.unit.broker.queue_driver import GROUP, TOPIC, ack, deliveries, describe, poll, polled, settle, store, values

DAY_MS = 86_400_000


@pytest.fixture
def node() -> Node:
    return single_node()


def log_start(node: Node) -> int:
    return node.partition(TOPIC).machine.log_start


def fill(node: Node, count: int, size_bytes: int = 10) -> None:
    for number in range(count):
        store(node, b"%d" % number + b"x" * size_bytes)


def look(node: Node) -> None:
    """Long enough for a leader to look at everything."""
    node.fleet.advance(2 * LOOK_MS)


def test_messages_go_when_they_are_too_old_and_no_earlier(node: Node) -> None:
    node.fleet.create(TOPIC, retention_ms="60s")
    fill(node, 2)
    node.fleet.advance(30_000)
    fill(node, 1)
    node.fleet.advance(29_000)
    assert log_start(node) == 0
    node.fleet.advance(6_000)
    assert log_start(node) == 2
    assert node.call(Fetch(TOPIC, 0, 0, 1_000)).code == "OFFSET_OUT_OF_RANGE"
    node.fleet.advance(30_000)
    assert log_start(node) == 3
    last = node.partition(TOPIC).replica.raft.log.last_index
    node.fleet.advance(60_000)
    assert node.partition(TOPIC).replica.raft.log.last_index == last


@pytest.mark.parametrize("jump_ms", [8 * DAY_MS, 365 * DAY_MS, -8 * DAY_MS, -365 * DAY_MS])
def test_the_clock_of_a_leader_removes_nothing_and_stops_no_ageing(jump_ms: int) -> None:
    fleet = three()
    leader = fleet.create(TOPIC, retention_ms="7d")
    fill(leader, 5)
    fleet.advance(5_000)
    leader.wall_ahead_ms = jump_ms
    fleet.advance(120_000)
    assert fleet.leader(TOPIC) is leader
    assert log_start(leader) == 0
    machine = leader.partition(TOPIC).machine
    assert machine.clock_ms <= fleet.clock.now_ms
    assert leader.clock.jump_count == 1
    fleet.controller().call(AlterTopic(TOPIC, settings={"retention_ms": "60s"}))
    fleet.wait(lambda: log_start(fleet.leader(TOPIC)) == 5)


def test_what_a_long_stop_made_old_goes_in_steps() -> None:
    """So does what a wrong clock makes old at the start of a node alone."""
    fleet = Fleet(1).form()
    node = fleet.nodes[1]
    fleet.create(TOPIC, retention_ms="1h")
    for _ in range(6):
        fill(node, 1)
        fleet.advance(5 * 60_000)
    fleet.kill(1)
    fleet.wall_ahead_ms = 8 * DAY_MS
    node = fleet.restart(1)
    fleet.leader(TOPIC)
    fleet.advance(5_000)
    assert log_start(node) == 0
    assert node.partition(TOPIC).retention_behind_ms > 7 * DAY_MS
    fleet.wait(lambda: log_start(node) > 0, limit_ms=10 * 3_600_000)
    assert log_start(node) < 6
    fleet.wait(lambda: log_start(node) == 6, limit_ms=10 * 3_600_000)
    fleet.wait(lambda: node.partition(TOPIC).retention_behind_ms == 0, limit_ms=24 * 3_600_000)


def test_a_stamp_from_the_future_stops_no_ageing(node: Node) -> None:
    node.fleet.create(TOPIC, retention_ms="60s")
    fill(node, 2)
    group = node.partition(TOPIC).group
    node.propose(group, encode_command(StampTime(node.now_ms() + 30 * DAY_MS)), lambda _: None)
    node.fleet.advance(30_000)
    fill(node, 1)
    node.fleet.kill(1)
    node = node.fleet.restart(1)
    node.fleet.leader(TOPIC)
    node.fleet.advance(29_000)
    assert log_start(node) == 0
    node.fleet.wait(lambda: log_start(node) == 2, limit_ms=40_000)
    node.fleet.wait(lambda: log_start(node) == 3, limit_ms=40_000)


def test_a_message_with_a_wrong_time_stays_as_long_as_any_other(node: Node) -> None:
    node.fleet.create(TOPIC, retention_ms="60s")
    store(node, b"from 1970", timestamp_ms=1)
    node.fleet.advance(50_000)
    assert log_start(node) == 0
    node.fleet.advance(20_000)
    assert log_start(node) == 1


def test_a_delay_longer_than_the_retention_is_kept_and_ages_from_its_end(node: Node) -> None:
    node.fleet.create(TOPIC, retention_ms="60s")
    store(node, b"at once")
    store(node, b"later", deliver_at_ms=node.now_ms() + 600_000)
    node.fleet.advance(90_000)
    assert log_start(node) == 1
    node.fleet.advance(515_000)
    # It has come: it ages now, and nobody has settled it.
    node.fleet.advance(40_000)
    assert log_start(node) == 1
    node.fleet.advance(30_000)
    assert log_start(node) == 2


def test_a_delay_that_was_cancelled_or_settled_holds_nothing(node: Node) -> None:
    node.fleet.create(TOPIC, retention_ms="60s")
    far_ms = node.now_ms() + 86_400_000
    store(node, b"cancelled", deliver_at_ms=far_ms)
    node.call(CancelRecords(TOPIC, 0, [0]))
    store(node, b"at once")
    store(node, b"owed", deliver_at_ms=far_ms)
    store(node, b"behind it")
    node.fleet.advance(90_000)
    assert log_start(node) == 2
    # A group for which it is settled, like one that began behind it, is not owed it.
    polled(node, poll(start=Start(LATEST)))
    node.fleet.advance(10_000)
    assert log_start(node) == 4


def test_a_message_that_waits_for_its_next_attempt_ages_from_then(node: Node) -> None:
    node.fleet.create(TOPIC, retention_ms="60s")
    store(node, b"at once")
    store(node, b"failed")
    (one,) = polled(node, poll(1))
    (other,) = polled(node, poll(1))
    node.call(settle([one], ACK))
    node.call(replace(settle([other], FAIL), delay_ms=600_000))
    node.fleet.advance(300_000)
    assert log_start(node) == 1
    node.fleet.advance(305_000)
    found = polled(node, poll(1))
    assert values(found) == [b"failed"]
    node.call(settle(found, ACK))
    node.fleet.advance(90_000)
    assert log_start(node) == 2


@pytest.mark.parametrize("delay_ms", [3_600_001, 300 * 365 * 86_400_000])
def test_a_delay_beyond_its_bound_is_refused(node: Node, delay_ms: int) -> None:
    node.fleet.create(TOPIC, delay_max_ms="1h")
    late = encode_batch([Record(b"late", deliver_at_ms=node.now_ms() + delay_ms)])
    refused = node.call(Produce(TOPIC, 0, late))
    assert refused.code == "INVALID_ARGUMENT"
    assert "more than 1h ahead (topic setting delay_max_ms)" in str(refused.result)
    store(node, b"in time", deliver_at_ms=node.now_ms() + 3_600_000)
    store(node, b"failed")
    found = polled(node, poll(1))
    assert node.call(replace(settle(found, FAIL), delay_ms=delay_ms)).code == "INVALID_ARGUMENT"


def test_a_delay_stops_no_limit_of_messages(node: Node) -> None:
    node.fleet.create(TOPIC, retention_ms="60s", retention_messages="2")
    store(node, b"later", deliver_at_ms=node.now_ms() + 600_000)
    fill(node, 3)
    look(node)
    assert log_start(node) == 2


def test_messages_go_by_count_and_the_setting_may_change(node: Node) -> None:
    node.fleet.create(TOPIC)
    fill(node, 10)
    look(node)
    assert log_start(node) == 0
    node.call(AlterTopic(TOPIC, settings={"retention_messages": "4"}))
    look(node)
    assert log_start(node) == 6
    store(node, b"new")
    look(node)
    assert log_start(node) == 7


def test_messages_go_by_bytes(node: Node) -> None:
    node.fleet.create(TOPIC, retention_bytes="100KiB")
    fill(node, 300, 1_000)
    look(node)
    kept = 300 - log_start(node)
    assert 50 <= kept <= 100
    # What is kept is the newest, whole.
    assert len(values(polled(node, poll(1_000)))) == kept


def test_a_group_that_was_told_not_to_hold_loses_what_it_owes(node: Node) -> None:
    node.fleet.create(TOPIC, retention_messages="1")
    node.call(AlterGroup(TOPIC, GROUP, {"holds_retention": "0"}))
    fill(node, 5)
    polled(node, poll(2))
    look(node)
    assert log_start(node) == 4
    described = describe(node)
    assert (described.floor, described.lag, described.trimmed_total) == (4, 1, 4)


@pytest.mark.parametrize("limit", [{"retention_ms": "60s"}, {"retention_bytes": "100KiB"}, {"retention_messages": "1"}])
def test_a_group_without_settings_is_owed_everything_whatever_the_limit(node: Node, limit: dict[str, str]) -> None:
    node.fleet.create(TOPIC, **limit)
    polled(node)
    fill(node, 200, 1_000)
    # A setting of another kind changes nothing.
    node.call(AlterGroup(TOPIC, GROUP, {"visibility_ms": "1s"}))
    first = polled(node, poll(50))
    node.fleet.advance(90_000)
    assert log_start(node) == 0
    ack(node, first)
    again = polled(node, poll(1_000))
    look(node)
    assert log_start(node) == 50
    ack(node, again)
    look(node)
    assert log_start(node) > 50
    assert (describe(node).lag, describe(node).trimmed_total) == (0, 0)


def test_what_waits_for_its_next_attempt_is_held_however_long(node: Node) -> None:
    node.fleet.create(TOPIC, retention_ms="60s", retention_messages="2")
    fill(node, 1)
    node.call(replace(settle(polled(node), FAIL), delay_ms=600_000))
    fill(node, 10)
    node.fleet.advance(590_000)
    assert log_start(node) == 0
    node.fleet.advance(100_000)
    assert values(polled(node, poll(1))) == [b"0" + b"x" * 10]


def test_a_hard_limit_of_bytes_passes_over_every_group(node: Node) -> None:
    node.fleet.create(TOPIC, retention_bytes="50KiB", retention_bytes_hard="200KiB")
    node.call(AlterGroup(TOPIC, "archive", {"holds_retention": "1"}))
    node.call(CommitOffset("archive", TOPIC, 0, 0))
    polled(node)
    fill(node, 150, 1_000)
    look(node)
    assert log_start(node) == 0
    fill(node, 150, 1_000)
    look(node)
    assert 100 <= log_start(node) <= 200
    found = describe(node)
    assert (found.trimmed_total, found.lag, found.floor) == (log_start(node), 300 - log_start(node), log_start(node))
    assert len(values(polled(node, poll(1_000)))) == found.lag
    assert explained(node, 0).state == "trimmed"


def test_a_hard_limit_leaves_the_dying_where_they_are(node: Node) -> None:
    node.fleet.create(TOPIC, retention_bytes_hard="100KiB")
    fill(node, 1, 1_000)
    node.elsewhere.ask = lambda request, done: None  # type: ignore[method-assign]
    node.call(settle(polled(node), REJECT))
    fill(node, 300, 1_000)
    look(node)
    assert log_start(node) == 0


def test_what_a_group_keeps_beyond_the_limits_is_shown_and_warned_of(node: Node) -> None:
    node.fleet.create(TOPIC, retention_messages="2")
    fill(node, 10)
    first = polled(node, poll(1))
    look(node)
    held = node.partition(TOPIC)
    assert (describe(node).held_back, held.held_messages(), held.held_back()) == (8, {GROUP: 8}, {})
    reasons = [explained(node, offset).history for offset in (0, 7, 8)]
    assert ["because the group owes it" in "".join(lines) for lines in reasons] == [True, True, False]
    node.fleet.advance(LASTING_MS)
    (warning,) = warnings(node)
    assert warning.code == RETENTION_HELD
    assert f"{GROUP} of {TOPIC}/0 (8 messages)" in warning.message
    ack(node, first)
    ack(node, polled(node))
    look(node)
    assert (describe(node).held_back, held.held_messages(), warnings(node)) == (0, {}, [])
    assert log_start(node) == 8


def explained(node: Node, offset: int) -> Explanation:
    found = node.call(ExplainMessage(TOPIC, 0, offset, GROUP)).result
    assert isinstance(found, Explanation)
    return found


def warnings(node: Node) -> list[NodeWarning]:
    found = node.call(DescribeNode()).result
    assert isinstance(found, NodeDescribed)
    return found.warnings


def test_a_message_that_waits_for_its_next_attempt_holds_nothing_back(node: Node) -> None:
    node.fleet.create(TOPIC, retention_ms="60s")
    fill(node, 1)
    node.call(replace(settle(polled(node), FAIL), delay_ms=600_000))
    fill(node, 5)
    node.fleet.advance(300_000)
    assert (log_start(node), describe(node).held_back) == (0, 0)
    # It has been ready for a while, and nobody has come for it.
    node.fleet.advance(400_000)
    assert (log_start(node), describe(node).held_back) == (0, 6)


def test_stream_groups_and_readers_hold_nothing(node: Node) -> None:
    node.fleet.create(TOPIC, retention_messages="1")
    node.call(CommitOffset("reports", TOPIC, 0, 0))
    node.call(AlterGroup(TOPIC, "reports", {"visibility_ms": "1s"}))
    fill(node, 5)
    look(node)
    assert log_start(node) == 4


def test_a_redrive_leaves_the_letters_to_their_retention(node: Node) -> None:
    node.fleet.create(TOPIC, retention_messages="1", holds_dead_letters="1")
    fill(node, 5)
    assert polled(node, replace(poll(2), group="flotilla.redrive"))
    look(node)
    assert log_start(node) == 4


def test_a_group_that_holds_retention_gets_everything_first(node: Node) -> None:
    node.fleet.create(TOPIC, retention_messages="1")
    polled(node)
    fill(node, 5)
    first = polled(node, poll(2))
    look(node)
    assert log_start(node) == 0
    ack(node, first)
    look(node)
    assert log_start(node) == 2
    ack(node, polled(node))
    look(node)
    assert log_start(node) == 4


def test_a_group_that_commits_offsets_holds_retention_too(node: Node) -> None:
    node.fleet.create(TOPIC, retention_messages="1")
    node.call(AlterGroup(TOPIC, "archive", {"holds_retention": "1"}))
    node.call(CommitOffset("archive", TOPIC, 0, 0))
    node.call(CommitOffset("another", TOPIC, 0, 0))
    fill(node, 5)
    look(node)
    assert log_start(node) == 0
    node.call(CommitOffset("archive", TOPIC, 0, 3))
    look(node)
    assert log_start(node) == 3


def test_a_holder_that_has_never_polled_holds_everything(node: Node) -> None:
    node.fleet.create(TOPIC, retention_messages="10")
    node.call(AlterGroup(TOPIC, GROUP, {"holds_retention": "1"}))
    fill(node, 100)
    look(node)
    assert log_start(node) == 0
    first = polled(node, poll(1_000))
    assert len(values(first)) == 100
    ack(node, first)
    look(node)
    assert log_start(node) == 90


def test_a_holder_holds_partitions_too_to_which_it_has_not_come(node: Node) -> None:
    node.fleet.create(TOPIC, partitions=2, retention_messages="1")
    node.call(AlterGroup(TOPIC, GROUP, {"holds_retention": "1"}))
    node.call(AlterGroup(TOPIC, "archive", {"holds_retention": "1"}))
    node.call(CommitOffset("archive", TOPIC, 0, 0))
    for partition in (0, 1):
        for _ in range(5):
            store(node, b"x", partition=partition)
    ack(node, polled(node, poll(partitions=[0])))
    node.call(CommitOffset("archive", TOPIC, 0, 5))
    look(node)
    assert [node.partition(TOPIC, number).machine.log_start for number in (0, 1)] == [4, 0]
    ack(node, polled(node, poll(partitions=[1])))
    look(node)
    # The other holder has committed nothing there.
    assert node.partition(TOPIC, 1).machine.log_start == 0
    node.call(CommitOffset("archive", TOPIC, 1, 3))
    look(node)
    assert node.partition(TOPIC, 1).machine.log_start == 3


def test_a_group_that_is_no_holder_any_more_holds_nothing(node: Node) -> None:
    node.fleet.create(TOPIC, retention_messages="1")
    node.call(AlterGroup(TOPIC, GROUP, {"holds_retention": "1"}))
    fill(node, 5)
    look(node)
    assert log_start(node) == 0
    node.call(AlterGroup(TOPIC, GROUP, {"holds_retention": ""}))
    look(node)
    assert log_start(node) == 4


@pytest.mark.parametrize("nodes", [1, 3])
def test_a_new_leader_asks_for_holders_before_it_trims(nodes: int) -> None:
    """It begins with the metadata of its last snapshot, which may know of no holder."""
    fleet = Fleet(nodes).form()
    fleet.create(TOPIC, retention_messages="1")
    for box in fleet.nodes.values():
        box.snapshot(METADATA_GROUP)
    fleet.controller().call(AlterGroup(TOPIC, GROUP, {"holds_retention": "1"}))
    leader = fleet.leader(TOPIC)
    fleet.wait(lambda: bool(leader.partition(TOPIC)._topic.groups))
    fill(leader, 5)
    look(leader)
    assert log_start(leader) == 0
    numbers = list(fleet.nodes)
    for number in numbers:
        fleet.kill(number)
    for number in numbers:
        fleet.restart(number)
    leader = fleet.leader(TOPIC)
    fleet.wait(lambda: bool(leader.partition(TOPIC)._topic.groups))
    look(leader)
    assert log_start(leader) == 0
    fleet.controller().call(AlterGroup(TOPIC, GROUP, {"holds_retention": ""}))
    fleet.wait(lambda: log_start(fleet.leader(TOPIC)) == 4)


def test_a_leader_that_cannot_learn_the_holders_trims_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    node = single_node()
    node.fleet.create(TOPIC, retention_messages="1")
    asked: list[object] = []

    def read(group: GroupId, query: object, reply: Callable[[object], None]) -> None:
        asked.append(query)
        node.later(100, lambda: reply(UnavailableError("no leader")))

    monkeypatch.setattr(node, "read", read)
    fill(node, 5)
    look(node)
    assert log_start(node) == 0
    assert len(asked) > 1
    monkeypatch.undo()
    look(node)
    assert log_start(node) == 4


def test_the_dying_stay_until_they_are_buried(node: Node) -> None:
    node.fleet.create(TOPIC, retention_messages="1")
    fill(node, 3)
    elsewhere = node.elsewhere
    ask = elsewhere.ask
    elsewhere.ask = lambda request, done: None  # type: ignore[method-assign]
    first, *rest = polled(node)
    node.call(settle([first], REJECT))
    ack(node, rest)
    look(node)
    assert log_start(node) == 0
    assert describe(node).dying == 1
    elsewhere.ask = ask  # type: ignore[method-assign]
    node.partition(TOPIC).queue().dead_letters._send(GROUP)
    look(node)
    assert describe(node).dying == 0
    assert log_start(node) == 2


def test_every_replica_frees_its_disk_and_keeps_the_rest() -> None:
    fleet = three()
    leader = fleet.create(TOPIC)
    for _ in range(8):
        fill(leader, 40, 4_000)
        fleet.advance(200)
    sizes = [box.partition(TOPIC).replica.log.size_bytes() for box in fleet.nodes.values()]
    fleet.controller().call(AlterTopic(TOPIC, settings={"retention_messages": "20"}))
    fleet.advance(RELEASE_MS + 10_000)
    for box, before in zip(fleet.nodes.values(), sizes, strict=True):
        replica = box.partition(TOPIC).replica
        assert box.partition(TOPIC).machine.log_start == 300
        assert replica.log.first_index() > 1
        assert replica.log.size_bytes() < before // 2
    assert len(values(polled(fleet.leader(TOPIC), poll(1_000)))) == 20


def test_a_follower_that_was_away_gets_the_snapshot_and_the_rest_of_the_log() -> None:
    fleet = three()
    leader = fleet.create(TOPIC)
    away = next(box for box in fleet.nodes.values() if box is not leader and box is not fleet.controller())
    fill(leader, 5)
    fleet.isolate(away.node)
    fill(leader, 200, 2_000)
    fleet.controller().call(AlterTopic(TOPIC, settings={"retention_messages": "20"}))
    fleet.advance(RELEASE_MS + 10_000)
    fleet.heal(away.node)
    fleet.wait(lambda: away.partition(TOPIC).machine.log_start == 185)
    replica = away.partition(TOPIC).replica
    fleet.wait(lambda: replica.applied == leader.partition(TOPIC).replica.applied)
    entries = replica.log.read_from_offset(185, 1 << 20, replica.applied + 1)
    assert len(entries) == 20


def test_a_follower_whose_log_lags_its_state_releases_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot arrives at once with the start of the log; the messages after that come one by one."""
    fleet = three()
    leader = fleet.create(TOPIC)
    group = leader.partition(TOPIC).group
    away = next(box for box in fleet.nodes.values() if box is not leader and box is not fleet.controller())
    fill(leader, 5)
    fleet.isolate(away.node)
    fill(leader, 200, 2_000)
    fleet.controller().call(AlterTopic(TOPIC, settings={"retention_messages": "20"}))
    fleet.advance(RELEASE_MS + 10_000)
    receive = away.driver.receive

    def receive_no_entries(messages: list[tuple[GroupId, Message]]) -> None:
        receive([one for one in messages if one[0] != group or not (isinstance(one[1], Append) and one[1].entries)])

    monkeypatch.setattr(away.driver, "receive", receive_no_entries)
    fleet.heal(away.node)
    fleet.wait(lambda: away.partition(TOPIC).machine.log_start == 185)
    replica = away.partition(TOPIC).replica
    assert replica.log.last_index() < replica.applied
    fleet.advance(2 * LOOK_MS)
    monkeypatch.undo()
    fill(fleet.leader(TOPIC), 1)
    fleet.wait(lambda: away.partition(TOPIC).machine.next_offset == 206)
    away.snapshot(group)
    fleet.advance(2 * LOOK_MS)
    log_start = away.partition(TOPIC).machine.log_start
    assert len(replica.log.read_from_offset(log_start, 1 << 20, replica.applied + 1)) == 206 - log_start


def test_a_node_that_restarts_goes_on_where_its_log_begins() -> None:
    fleet = Fleet(1).form()
    node = fleet.nodes[1]
    fleet.create(TOPIC, retention_messages="5")
    fill(node, 50, 1_000)
    fleet.advance(RELEASE_MS + 10_000)
    first_index = node.partition(TOPIC).replica.log.first_index()
    assert first_index > 1
    fleet.kill(1)
    node = fleet.restart(1)
    fleet.leader(TOPIC)
    fleet.advance(2_000)
    assert node.partition(TOPIC).replica.log.first_index() == first_index
    assert len(values(polled(node, poll(100)))) == 5


def test_a_message_that_died_just_before_it_was_trimmed_is_buried_all_the_same(node: Node) -> None:
    node.fleet.create(TOPIC)
    fill(node, 30)
    elsewhere = node.elsewhere
    ask = elsewhere.ask
    elsewhere.ask = lambda request, done: None  # type: ignore[method-assign]
    node.call(settle(polled(node, poll(1)), REJECT))
    group = node.partition(TOPIC).group
    node.propose(group, encode_command(TrimTo(25, node.now_ms())), lambda _: None)
    node.fleet.advance(2 * RELEASE_MS)
    assert log_start(node) == 25
    assert node.partition(TOPIC).replica.log.first_index() == 1
    elsewhere.ask = ask  # type: ignore[method-assign]
    node.partition(TOPIC).queue().dead_letters._send(GROUP)
    node.fleet.advance(2 * RELEASE_MS)
    assert describe(node).dying == 0
    replica = node.partition(TOPIC).replica
    assert replica.log.first_index() > 25
    dead = node.call(Fetch(f"dlq.{GROUP}.{TOPIC}", 0, 0, 1_000)).result
    assert isinstance(dead, Fetched)
    assert BatchView(dead.batches[0]).payload(0) == b"0" + b"x" * 10


def test_a_group_that_is_on_its_way_into_the_log_holds_it_already(node: Node) -> None:
    """The leader decides on a trim while an entry in flight opens a holder that it does not know yet."""
    node.fleet.create(TOPIC)
    node.call(AlterGroup(TOPIC, GROUP, {"holds_retention": "1"}))
    fill(node, 5)
    look(node)
    node.call(AlterTopic(TOPIC, settings={"retention_messages": "1"}))
    node.is_disk_stuck = True
    opening = node.ask(poll())
    look(node)
    node.is_disk_stuck = False
    node.fleet.settle()
    assert len(values(deliveries(opening))) == 5
    look(node)
    assert (describe(node).floor, log_start(node)) == (0, 0)
