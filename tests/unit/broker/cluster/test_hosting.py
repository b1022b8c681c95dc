"""What a node hosts follows the metadata: new, altered, deleted, after restarts and from snapshots."""

from collections.abc import Callable
from typing import Any

import pytest

from flotilla.broker import slices
from flotilla.broker.catalog import METADATA_GROUP
from flotilla.broker.cluster.hosting import CONFIRM_MS
from flotilla.broker.partition.host import PartitionHost
from flotilla.types.errors import CorruptionError, UnavailableError
from flotilla.types.ids import GroupId
from flotilla.types.operations import (
    AlterTopic,
    CreateTopic,
    DeleteTopic,
    Fetch,
    Fetched,
    Produce,
    Produced,
)
from tests.unit.broker.fleet import Fleet, Node, batch, single_node, three


def groups(node: Node) -> list[GroupId]:
    """Partitions that the node holds on its disk."""
    return [group for group in node.store.groups if group != METADATA_GROUP]


def tombstones(node: Node) -> list[GroupId]:
    return list(node.machine.state.tombstones)


def test_every_replica_of_a_topic_is_hosted_and_more_partitions_follow() -> None:
    fleet = three()
    fleet.create("t", 2)
    for expected in (2, 5):
        fleet.controller().call(AlterTopic("t", partitions=expected))
        fleet.advance(1000)
        for box in fleet.nodes.values():
            assert len(box.membership.hosts) == len(groups(box)) == expected
            assert [host.number for host in box.membership.hosts.values()] == list(range(expected))
    leaders = [fleet.leader("t", number) for number in range(5)]
    assert [leader.call(Produce("t", number, batch())).code for number, leader in enumerate(leaders)] == [
        "Produced"
    ] * 5


def test_a_wide_topic_begins_a_few_partitions_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other requests get their turn in between."""
    monkeypatch.setattr(slices, "_SLICE_COUNT_MAX", 8)
    counts: list[int] = []
    slice_of = slices._slice
    node = single_node()

    def counted(*work: Any) -> None:
        before = len(node.membership.hosts)
        slice_of(*work)
        counts.append(len(node.membership.hosts) - before)

    monkeypatch.setattr(slices, "_slice", counted)
    node.call(CreateTopic("wide", 25))
    node.fleet.advance(1000)
    assert len(node.membership.hosts) == 25
    assert [count for count in counts if count] == [8, 8, 8, 1]


def test_many_partitions_are_checked_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "_SLICE_COUNT_MAX", 3)
    checked: list[int] = []
    check = PartitionHost.check

    def counted(host: PartitionHost, now_ms: int) -> None:
        checked.append(host.number)
        check(host, now_ms)

    monkeypatch.setattr(PartitionHost, "check", counted)
    node = single_node()
    node.fleet.create("t", 7)
    hosting = node.membership._hosting
    node.fleet.advance(1000)
    checked.clear()
    hosting._check_all()
    assert checked == [0, 1, 2]
    # A second round does not begin before the first has ended.
    hosting._check_all()
    assert checked == [0, 1, 2]
    node.fleet.settle()
    assert checked[:7] == [*range(7)]


def test_leaders_are_spread_without_waiting_for_an_election_timeout() -> None:
    fleet = three()
    fleet.create("t", 3)
    fleet.advance(500)
    assert sorted(fleet.leader("t", number).node for number in range(3)) == [1, 2, 3]


def test_a_deleted_topic_is_really_removed_and_confirmed_and_its_name_is_free() -> None:
    fleet = three()
    leader = fleet.create("t")
    assert leader.call(Produce("t", 0, batch())).result == Produced(0)
    before = groups(leader)
    fleet.controller().call(DeleteTopic("t"))
    fleet.advance(300)
    assert [groups(box) for box in fleet.nodes.values()] == [[]] * 3
    fleet.advance(1500)
    assert [tombstones(box) for box in fleet.nodes.values()] == [[]] * 3
    leader = fleet.create("t")
    assert groups(leader) != before
    assert leader.call(Fetch("t", 0, 0, 1000)).result == Fetched([], 0, 0)
    assert leader.call(Produce("t", 0, batch())).result == Produced(0)


def test_a_removal_is_confirmed_when_it_has_had_time_to_be_durable() -> None:
    node = single_node()
    node.fleet.create("t")
    node.call(DeleteTopic("t"))
    assert (groups(node), len(tombstones(node))) == ([], 1)
    for confirmed in (False, True):
        node.membership._check()
        node.fleet.settle()
        assert (tombstones(node) == []) is confirmed


def test_a_node_that_was_away_removes_topics_deleted_meanwhile() -> None:
    fleet = three()
    fleet.create("t")
    fleet.kill(3)
    fleet.controller().call(DeleteTopic("t"))
    fleet.advance(5000)
    waiting = fleet.controller().machine.state.tombstones
    assert [tombstone.waiting for tombstone in waiting.values()] == [(3,)]
    node = fleet.restart(3)
    assert len(groups(node)) == 1
    fleet.advance(5000)
    assert (groups(node), tombstones(node)) == ([], [])


def test_a_removal_that_a_crash_undid_is_done_again() -> None:
    """The metadata have the tombstone already; after the restart the group is never hosted again."""
    node = single_node()
    node.fleet.create("t")
    node.call(DeleteTopic("t"))
    kept = node.store.groups.keys()
    assert list(kept) == [METADATA_GROUP]
    node.fleet.kill(1)
    assert tombstones(node) != []
    restarted = node.fleet.restart(1)
    restarted.fleet.advance(5000)
    assert (groups(restarted), tombstones(restarted)) == ([], [])


def test_data_of_a_tombstone_is_removed_although_no_host_has_it() -> None:
    node = single_node()
    node.fleet.create("t")
    group = groups(node)[0]
    # As after a restart from a snapshot in which the topic is gone: on the disk, but not hosted.
    node.membership.hosts.clear()
    node.driver.replicas.pop(group)
    node.call(DeleteTopic("t"))
    assert groups(node) == []
    node.fleet.advance(1500)
    assert tombstones(node) == []


def test_after_a_restart_everything_is_hosted_again_with_its_data() -> None:
    fleet = three()
    leader = fleet.create("t", 2, payload_bytes_max="1KiB")
    leader.call(Produce("t", 0, batch(b"kept")))
    for node in fleet.nodes:
        fleet.kill(node)
    for node in fleet.nodes:
        fleet.restart(node)
    leader = fleet.leader("t")
    fetched = leader.call(Fetch("t", 0, 0, 1000)).result
    assert isinstance(fetched, Fetched)
    assert fetched.next_offset == 1
    assert leader.partition("t").limits.payload_bytes_max == 1024


def test_groups_on_disk_are_hosted_without_asking() -> None:
    fleet = three()
    fleet.create("t")
    # The commit index is stored beside the next entry.
    fleet.create("newest")
    for node in fleet.nodes:
        fleet.kill(node)
    node = fleet.restart(1)
    fleet.settle()
    assert node.partition("t").replica.raft.leader == 0


def test_no_log_is_begun_for_an_assignment_that_has_ended() -> None:
    """A node that catches up sees the topic come and go; it must not begin an empty log in between."""
    fleet = three()
    late = next(box for box in fleet.nodes.values() if box is not fleet.controller())
    asked: list[Callable[[object], None]] = []
    late.read = lambda group, query, reply: asked.append(reply)  # type: ignore[method-assign]
    fleet.controller().call(CreateTopic("t"))
    assert (len(asked), groups(late)) == (1, [])
    fleet.controller().call(DeleteTopic("t"))
    fleet.advance(300)
    asked.pop()(late.machine.state.cluster)
    assert groups(late) == []
    fleet.advance(2000)
    assert tombstones(late) == []


def test_an_assignment_after_the_read_is_asked_for_again() -> None:
    """An answer says nothing of assignments that the node learned of only after it had asked."""
    fleet = three()
    late = next(box for box in fleet.nodes.values() if box is not fleet.controller())
    asked: list[Callable[[object], None]] = []
    late.read = lambda group, query, reply: asked.append(reply)  # type: ignore[method-assign]
    for name in ("first", "second"):
        fleet.controller().call(CreateTopic(name))
        fleet.advance(300)
    assert len(asked) == 1
    for hosted in (1, 2):
        asked.pop()(late.machine.state.cluster)
        fleet.settle()
        assert len(groups(late)) == hosted
    assert asked == []


def test_a_question_that_fails_is_asked_again() -> None:
    fleet = three()
    late = next(box for box in fleet.nodes.values() if box is not fleet.controller())
    late.read = lambda group, query, reply: reply(UnavailableError("no quorum"))  # type: ignore[method-assign]
    fleet.create("t")
    assert groups(late) == []
    del late.read
    fleet.advance(600)
    assert len(late.membership.hosts) == 1


def test_a_state_that_is_replaced_is_followed() -> None:
    other = single_node()
    other.fleet.create("t", 3)
    node = single_node()
    node.machine.restore(other.machine.snapshot())
    node.fleet.settle()
    assert [host.number for host in node.membership.hosts.values()] == [0, 1, 2]


def test_a_node_that_gets_the_metadata_by_snapshot_follows_it() -> None:
    fleet = three()
    fleet.create("gone")
    fleet.create("kept", payload_bytes_max="1KiB")
    fleet.kill(3)
    controller = fleet.controller()
    for request in (
        DeleteTopic("gone"),
        CreateTopic("new"),
        AlterTopic("kept", settings={"payload_bytes_max": "2KiB"}),
        CreateTopic("newer"),
    ):
        assert controller.call(request).code == "TopicReply"
    for box in fleet.nodes.values():
        if box.is_running:
            box.driver.snapshot(METADATA_GROUP)
    fleet.settle()
    replica = controller.replica(METADATA_GROUP)
    assert replica is not None
    assert replica.raft.log.base > 5, "the log alone cannot bring the node up to date"
    node = fleet.restart(3)
    fleet.advance(5000)
    assert sorted(host._topic.name for host in node.membership.hosts.values()) == ["kept", "new", "newer"]
    assert node.partition("kept").limits.payload_bytes_max == 2048
    assert tombstones(controller) == []


@pytest.mark.parametrize("count", [1, 3])
def test_many_topics_at_once(count: int) -> None:
    fleet = Fleet(count).form()
    for number in range(20):
        fleet.controller().ask(CreateTopic(f"t{number}", 2))
    fleet.advance(1000)
    assert [len(box.membership.hosts) for box in fleet.nodes.values()] == [40] * count
    for number in range(20):
        fleet.controller().ask(DeleteTopic(f"t{number}"))
    fleet.advance(3000)
    assert [len(groups(box)) for box in fleet.nodes.values()] == [0] * count
    fleet.check_answers()


def test_a_node_that_starts_with_its_clock_ahead_goes_on_with_its_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = three()
    box = fleet.nodes[3]
    fleet.kill(3)
    box.wall_ahead_ms = 365 * 86_400_000
    fleet.restart(3)
    fleet.advance(1_000)
    confirmed: list[int] = []
    monkeypatch.setattr(box.membership._hosting, "_confirm_transactions", lambda: confirmed.append(fleet.clock.now_ms))
    fleet.advance(2 * CONFIRM_MS)
    assert confirmed


def _restarted_with_slow_state() -> Node:
    """A node whose disk does not return the state of topic "large", and which has a small topic beside it."""
    node = single_node()
    node.fleet.create("large")
    node.call(Produce("large", 0, batch()))
    node.driver.snapshot(node.partition("large").group)
    node.fleet.settle()
    node.fleet.create("small")
    assert node.call(Produce("small", 0, batch())).result == Produced(0)
    node.fleet.kill(node.node)
    node.fleet.restart(node.node)
    node.is_reading_stuck = True
    node.fleet.advance(3_000)
    return node


def test_a_state_is_read_and_decoded_while_other_partitions_serve() -> None:
    node = _restarted_with_slow_state()
    group = node.catalog.topic("large").partitions[0].group
    assert group not in node.membership.hosts
    assert [load.group for load in node.loads] == [group], "it is read once, however often the node looks"
    assert node.call(Produce("small", 0, batch())).code == "Produced"
    assert node.call(Produce("large", 0, batch())).code == "UNAVAILABLE"
    node.is_reading_stuck = False
    node.fleet.advance(3_000)
    before = node.partition("large").machine.next_offset
    assert before > 0
    assert node.call(Produce("large", 0, batch())).result == Produced(before)


def test_a_topic_that_is_deleted_while_its_state_is_read_is_not_hosted() -> None:
    node = _restarted_with_slow_state()
    group = node.catalog.topic("large").partitions[0].group
    node.call(DeleteTopic("large"))
    node.is_reading_stuck = False
    node.fleet.advance(3_000)
    assert group not in node.membership.hosts
    assert group not in groups(node)


def test_a_state_that_cannot_be_decoded_cuts_off_its_partition_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    node = _restarted_with_slow_state()
    group = node.catalog.topic("large").partitions[0].group
    node.is_containing = True
    monkeypatch.setattr("flotilla.partition.state.snapshot.FIRST_LAYOUT", 200)
    load = node.loads.pop()
    with pytest.raises(CorruptionError) as failure:
        load.run()
    node.driver.load_done(load, failure.value)
    assert node.has_failed(group)
    node.fleet.advance(3_000)
    assert node.call(Produce("small", 0, batch())).code == "Produced"


def snapshotted(fleet: Fleet, *topics: str) -> None:
    """Every partition has messages and a snapshot of its state."""
    for topic in topics:
        assert fleet.create(topic).call(Produce(topic, 0, batch())).result == Produced(0)
    fleet.advance(500)
    for box in fleet.nodes.values():
        for group in groups(box):
            box.driver.snapshot(group)
    fleet.settle()


def test_a_start_whose_disk_does_not_return_a_snapshot_holds_up_one_partition() -> None:
    fleet = three()
    snapshotted(fleet, "hung", "well")
    fleet.kill(3)
    node = fleet.restart(3)
    node.is_reading_stuck = True
    fleet.advance(500)
    assert node.membership.hosts == {}, "both wait for their snapshots"
    well = node.catalog.topic("well").partitions[0].group
    hung = [load for load in node.loads if load.group != well]
    node.loads = [load for load in node.loads if load.group == well]
    node.is_reading_stuck = False
    fleet.advance(5000)
    assert [host._topic.name for host in node.membership.hosts.values()] == ["well"]
    [stalled] = node.driver.stalled.values()
    assert "snapshot" in stalled
    assert len(hung) == 1, "the disk is asked once"
    node.loads += hung
    fleet.advance(2000)
    assert sorted(host._topic.name for host in node.membership.hosts.values()) == ["hung", "well"]
    assert node.driver.stalled == {}
    assert node.partition("hung").replica.applied == fleet.leader("hung").partition("hung").replica.applied


def test_a_partition_that_is_deleted_while_its_snapshot_is_read_is_gone() -> None:
    fleet = three()
    snapshotted(fleet, "t")
    fleet.kill(3)
    node = fleet.restart(3)
    node.is_reading_stuck = True
    fleet.advance(500)
    [load] = node.loads
    fleet.controller().call(DeleteTopic("t"))
    fleet.advance(1000)
    node.is_reading_stuck = False
    fleet.advance(CONFIRM_MS + 1000)
    assert node.membership.hosts == {}
    assert load.group not in groups(node)
    assert tombstones(fleet.controller()) == []


def test_a_damaged_snapshot_is_replaced_by_the_leaders() -> None:
    fleet = three()
    snapshotted(fleet, "t")
    fleet.kill(3)
    box = fleet.nodes[3]
    [path] = [
        f"groups/{folder}/{name}"
        for folder in box.disk.list("groups")
        for name in box.disk.list(f"groups/{folder}")
        if name.endswith(".snap") and int(folder) != METADATA_GROUP
    ]
    file = box.disk.open(path)
    file.write(0, [bytes(16)])
    file.sync()
    node = fleet.restart(3)
    fleet.advance(3000)
    assert [host._topic.name for host in node.membership.hosts.values()] == ["t"]
    assert node.partition("t").replica.applied == fleet.leader("t").partition("t").replica.applied
