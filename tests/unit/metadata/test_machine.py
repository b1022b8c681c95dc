"""The metadata of a cluster: every command, what it is answered with, and what it leaves alone."""

from dataclasses import replace

import pytest

from flotilla.metadata import rules
from flotilla.metadata.commands import (
    AlterGroup,
    AlterTopic,
    ConfirmRemoved,
    CreateTopic,
    DeleteTopic,
    InitCluster,
    RegisterBroker,
    RemoveBroker,
    SetBrokerState,
)
from flotilla.metadata.machine import MetadataMachine
from flotilla.metadata.move_commands import ConfirmLost, FinishMove, PlanMoves, ResizeTopic, SetIncarnation
from flotilla.metadata.queries import (
    AssignmentOf,
    AssignmentsTo,
    DescribeCluster,
    ListBrokers,
    ListTopics,
    StateHash,
    TombstonesFor,
    TopicById,
    TopicByName,
)
from flotilla.metadata.snapshot import encode, freeze
from flotilla.metadata.values import ACTIVE, DRAINING, Assignment, Broker, Cluster, Partition, Tombstone, Topic
from flotilla.raft.messages import DATA, Entry
from flotilla.replica.ports import StateMachine
from flotilla.types.errors import (
    AlreadyExistsError,
    ConfigurationChangeError,
    CorruptionError,
    FlotillaError,
    InvalidArgumentError,
    NotFoundError,
    OverloadedError,
    UnavailableError,
)
from flotilla.types.topics import NODE_REPLICA_COUNT_MAX, PARTITION_COUNT_MAX
from tests.unit.metadata.entries import CLUSTER, CLUSTER_NAME, Log, cluster, placed, register


def test_the_machine_has_the_interface_that_a_replica_needs():
    machine: StateMachine = MetadataMachine()
    assert machine.read(DescribeCluster()) == Cluster("", "", (), 0)


# The cluster and its brokers.


def test_a_cluster_is_initialised_once_and_repeating_is_fine():
    log = Log()
    first = log.command(InitCluster(CLUSTER, CLUSTER_NAME, (1, 2), 10))
    assert first == Cluster(CLUSTER, CLUSTER_NAME, (1, 2), 10)
    assert log.command(InitCluster(CLUSTER, CLUSTER_NAME, (1, 2), 99)) == first
    for other in (InitCluster("c-2", CLUSTER_NAME, (1, 2), 10), InitCluster(CLUSTER, CLUSTER_NAME, (1, 2, 3), 10)):
        assert isinstance(log.command(other), AlreadyExistsError)
    assert log.machine.read(DescribeCluster()) == first


def test_an_earlier_start_of_a_data_directory_cannot_register():
    log = cluster()
    row = replace(register(2), starts=7, process=70)
    for later in (row, row, replace(row, starts=8, process=80), replace(row, starts=0, process=81)):
        assert isinstance(log.command(later), Broker)
    assert (log.machine.state.brokers[2].starts, log.machine.state.brokers[2].process) == (8, 80)
    for earlier in (row, replace(row, starts=8, process=90)):
        assert isinstance(log.command(earlier), AlreadyExistsError)
    # A new disk counts from the beginning.
    log.command(SetIncarnation(2, 5, False, 60))
    log.command(SetIncarnation(2, 6, True, 61))
    assert isinstance(log.command(replace(row, starts=1, process=91)), Broker)


def test_a_broker_registers_at_every_start():
    log = Log()
    assert isinstance(log.command(register(1)), UnavailableError)
    log.command(InitCluster(CLUSTER, CLUSTER_NAME, (1,), 10))
    assert isinstance(log.command(register(1, cluster_name="other")), InvalidArgumentError)
    assert log.command(register(2)) == Broker(2, "host2:7600", "host2:7601", "", "", "0.1.0", ACTIVE, 50)
    log.command(register(1))
    again = log.command(register(2, now_ms=70, http_address="host2:7680"))
    assert again == Broker(2, "host2:7600", "host2:7601", "host2:7680", "", "0.1.0", ACTIVE, 70)
    assert [broker.node for broker in log.machine.read(ListBrokers())] == [1, 2]


def test_a_draining_broker_gets_nothing_new_and_stays_draining_over_a_restart():
    log = cluster(3)
    assert log.command(SetBrokerState(2, DRAINING, 60)).state == DRAINING
    assert log.command(register(2)).state == DRAINING
    topic = log.create("t", 4)
    assert all(2 not in partition.replicas for partition in topic.partitions)
    assert topic.replication_factor == 3, "what was asked for is kept, for when there are more brokers"
    log.command(SetBrokerState(2, ACTIVE, 60))
    assert log.create("u", 1, 1).partitions[0].replicas == (2,)


def test_a_broker_leaves_empty_and_for_good():
    log = cluster(3)
    topic = log.create("t", 1, 3)
    assert isinstance(log.command(RemoveBroker(3, 60)), ConfigurationChangeError)
    log.move(topic.partitions[0].group, (1, 2))
    assert log.machine.read(TombstonesFor(3)) != []
    assert log.command(RemoveBroker(3, 80)) is None
    assert log.machine.read(TombstonesFor(3)) == [], "a disk that is gone has nothing to confirm"
    assert [broker.node for broker in log.machine.read(ListBrokers())] == [1, 2]
    assert log.command(RemoveBroker(3, 90)) is None, "repeating is fine"
    assert isinstance(log.command(register(3)), ConfigurationChangeError)
    assert isinstance(log.command(RemoveBroker(9, 90)), NotFoundError)


# Topics.


def test_a_topic_is_created_whole():
    log = cluster(3)
    topic = log.create("orders", 3, 2, max_deliveries=9)
    assert topic == Topic(
        1,
        "orders",
        2,
        (("max_deliveries", 9),),
        (placed(0, 16, (1, 2)), placed(1, 17, (3, 1)), placed(2, 18, (2, 3))),
        100,
        3,
    )
    assert (topic.settings.max_deliveries, topic.settings.visibility_ms) == (9, 30_000)
    read = log.machine.read
    assert read(TopicByName("orders")) == read(TopicById(1)) == topic
    assert read(ListTopics()) == [topic]
    first, second = placed(0, 16, (1, 2)), placed(1, 17, (3, 1))
    assert read(AssignmentOf(17)) == Assignment(1, second)
    assert read(AssignmentsTo(1)) == {16: Assignment(1, first), 17: Assignment(1, second)}
    assert read(AssignmentsTo(9)) == {}


def test_ids_are_never_given_again():
    log = cluster(1)
    first = log.create("t", 2)
    log.command(DeleteTopic("t", 0, 200))
    log.command(ConfirmRemoved(1, (16, 17), 300))
    second = log.create("t", 2)
    assert (second.topic_id, [partition.group for partition in second.partitions]) == (2, [18, 19])
    assert log.machine.read(TopicById(first.topic_id)) is None
    # Nor by a replica that knows of the newest topic only by a snapshot, in which it is not.
    log.command(DeleteTopic("t", 0, 400))
    log.command(ConfirmRemoved(1, (18, 19), 500))
    restored = Log(index=log.index)
    restored.machine.restore(log.machine.snapshot())
    third = restored.create("t")
    assert (third.topic_id, third.partitions[0].group) == (3, 20)


def test_settings_are_altered_and_reset():
    log = cluster()
    log.create("t", max_deliveries=9, retention_bytes=5)
    altered = log.command(AlterTopic("t", (("visibility_ms", 500),), ("max_deliveries",), 0, 200))
    assert altered.chosen == (("visibility_ms", 500), ("retention_bytes", 5))
    assert log.machine.read(TopicByName("t")) == altered
    # Judged together with what was set before.
    assert log.command(AlterTopic("t", (("nack_backoff_max_ms", 2_000),), (), 0, 200)).partitions == altered.partitions
    assert isinstance(log.command(AlterTopic("t", (("nack_backoff_ms", 3_000),), (), 0, 200)), InvalidArgumentError)


def test_groups_are_set_up_for_all_partitions_and_follow_their_topic_again():
    log = cluster()
    log.create("t", visibility_ms=900)
    log.command(AlterGroup("t", "b", (("paused", 1),), (), 200))
    altered = log.command(AlterGroup("t", "a", (("max_deliveries", 2), ("visibility_ms", 500)), (), 200))
    assert altered.groups == (("a", (("max_deliveries", 2), ("visibility_ms", 500))), ("b", (("paused", 1),)))
    assert (altered.rules_of("a").visibility_ms, altered.rules_of("c").visibility_ms) == (500, 900)
    restored = Log()
    restored.machine.restore(log.machine.snapshot())
    assert restored.machine.read(TopicByName("t")) == altered
    after = log.command(AlterGroup("t", "a", (("max_deliveries", 3),), ("visibility_ms",), 200))
    assert after.chosen_for("a") == (("max_deliveries", 3),)
    # A group without settings leaves no entry.
    assert log.command(AlterGroup("t", "a", (), ("max_deliveries",), 200)).groups == (("b", (("paused", 1),)),)


def test_a_topic_gets_more_partitions_where_there_is_room():
    log = cluster(2)
    before = log.create("t", 2, 1)
    log.command(register(3))
    after = log.command(AlterTopic("t", (), (), 4, 200))
    assert after.partitions[:2] == before.partitions
    assert after.partitions[2:] == (placed(2, 18, (3,)), placed(3, 19, (1,)))
    assert log.command(AlterTopic("t", (), (), 4, 200)) == after
    assert log.machine.read(AssignmentOf(18)) == Assignment(1, placed(2, 18, (3,)))


# Removal.


def test_only_a_tombstone_removes_data_and_it_stays_until_all_have_confirmed():
    log = cluster(3)
    topic = log.create("t", 2, 2)
    assert topic.partitions == (placed(0, 16, (1, 2)), placed(1, 17, (3, 1)))
    assert log.command(DeleteTopic("t", 0, 200)) == topic
    read = log.machine.read
    assert read(AssignmentsTo(1)) == {}
    assert read(TombstonesFor(1)) == [Tombstone(16, 1, 0, (1, 2), 200), Tombstone(17, 1, 1, (1, 3), 200)]
    log.command(ConfirmRemoved(1, (16, 17), 300))
    assert read(TombstonesFor(1)) == []
    assert read(TombstonesFor(2)) == [Tombstone(16, 1, 0, (2,), 200)]
    log.command(ConfirmRemoved(1, (16, 17), 300))
    log.command(ConfirmRemoved(2, (16,), 300))
    log.command(ConfirmRemoved(3, (17, 999), 300))
    assert log.machine.state.tombstones == {}


def test_a_live_replica_cannot_be_confirmed_away():
    log = cluster(1)
    log.create("old")
    log.create("new")
    log.command(DeleteTopic("old", 0, 200))
    assert isinstance(log.command(ConfirmRemoved(1, (16, 17), 300)), InvalidArgumentError)
    assert len(log.machine.read(TombstonesFor(1))) == 1, "one bad group spoils the command"


def test_a_delete_can_name_the_very_topic():
    log = cluster(1)
    log.create("t")
    log.command(DeleteTopic("t", 0, 200))
    log.create("t")
    assert isinstance(log.command(DeleteTopic("t", 1, 300)), NotFoundError)
    assert log.command(DeleteTopic("t", 2, 300)).topic_id == 2


def test_a_moved_replica_leaves_a_tombstone_and_cannot_come_back_before_it_is_gone():
    log = cluster(4)
    log.create("t", 1, 3)
    after = Partition(0, 16, (4, 1, 2), founders=(1, 2, 3), latecomers=(3,))
    assert log.move(16, (4, 1, 2), now_ms=200) == after
    assert log.machine.read(TopicByName("t")).partitions == (after,)
    assert log.machine.read(AssignmentsTo(3)) == {}
    assert log.machine.read(TombstonesFor(3)) == [Tombstone(16, 1, 0, (3,), 200)]
    assert isinstance(log.command(PlanMoves(((16, (1, 2, 3)),), 300)), ConfigurationChangeError)
    # A second move and the end of the topic add to the tombstone.
    log.move(16, (4, 1))
    log.command(DeleteTopic("t", 0, 400))
    assert log.machine.state.tombstones == {16: Tombstone(16, 1, 0, (1, 2, 3, 4), 400)}


# Totality.

TOO_LONG = "x" * 256
BAD_COMMANDS = [
    (InitCluster("", CLUSTER_NAME, (1,), 1), InvalidArgumentError),
    (InitCluster(CLUSTER, CLUSTER_NAME, (), 1), InvalidArgumentError),
    (InitCluster(CLUSTER, CLUSTER_NAME, (1, 1), 1), InvalidArgumentError),
    (InitCluster(CLUSTER, CLUSTER_NAME, (0,), 1), InvalidArgumentError),
    (InitCluster("a b", CLUSTER_NAME, (1,), 1), InvalidArgumentError),
    (InitCluster("x" * 65, CLUSTER_NAME, (1,), 1), InvalidArgumentError),
    (RegisterBroker(CLUSTER, 0, "a:1", "a:2", "", "", "1", 0, 0, 1), InvalidArgumentError),
    (RegisterBroker(CLUSTER, 2**32, "a:1", "a:2", "", "", "1", 0, 0, 1), InvalidArgumentError),
    (RegisterBroker(CLUSTER, 5, "", "a:2", "", "", "1", 0, 0, 1), InvalidArgumentError),
    (RegisterBroker(CLUSTER, 5, "a:1", TOO_LONG, "", "", "1", 0, 0, 1), InvalidArgumentError),
    (RegisterBroker(CLUSTER, 5, "a:1", "a:2", "a\n", "", "1", 0, 0, 1), InvalidArgumentError),
    (RegisterBroker(CLUSTER, 5, "a:1", "a:2", "", "ä", "1", 0, 0, 1), InvalidArgumentError),
    (RegisterBroker(CLUSTER, 5, "a:1", "a:2", "", "", "", 0, 0, 1), InvalidArgumentError),
    (SetBrokerState(9, DRAINING, 1), NotFoundError),
    (SetBrokerState(1, 9, 1), InvalidArgumentError),
    (RemoveBroker(1, 1), ConfigurationChangeError),
    (CreateTopic("t", 1, 1, (), 1), AlreadyExistsError),
    (CreateTopic("a b", 1, 1, (), 1), InvalidArgumentError),
    (CreateTopic("__x", 1, 1, (), 1), InvalidArgumentError),
    (CreateTopic("u", 0, 1, (), 1), InvalidArgumentError),
    (CreateTopic("u", PARTITION_COUNT_MAX + 1, 1, (), 1), InvalidArgumentError),
    (CreateTopic("u", 1, 0, (), 1), InvalidArgumentError),
    (CreateTopic("u", 1, 8, (), 1), InvalidArgumentError),
    (CreateTopic("u", 1, 1, (("colour", 1),), 1), InvalidArgumentError),
    (CreateTopic("u", 1, 1, (("max_deliveries", 0),), 1), InvalidArgumentError),
    (CreateTopic("u", 1, 1, (("max_deliveries", 1), ("max_deliveries", 1)), 1), InvalidArgumentError),
    (CreateTopic("u", 1, 1, (), 2**63), InvalidArgumentError),
    (AlterTopic("u", (), (), 0, 1), NotFoundError),
    (AlterTopic("t", (("colour", 1),), (), 0, 1), InvalidArgumentError),
    (AlterTopic("t", (), ("colour",), 0, 1), InvalidArgumentError),
    (AlterTopic("t", (("max_deliveries", 1),), ("max_deliveries",), 0, 1), InvalidArgumentError),
    (AlterTopic("t", (), (), 1, 1), InvalidArgumentError),
    (AlterTopic("t", (), (), PARTITION_COUNT_MAX + 1, 1), InvalidArgumentError),
    (AlterGroup("u", "g", (), (), 1), NotFoundError),
    (AlterGroup("t", "a/b", (), (), 1), InvalidArgumentError),
    (AlterGroup("t", "g", (("retention_ms", 1),), (), 1), InvalidArgumentError),
    (AlterGroup("t", "g", (), ("colour",), 1), InvalidArgumentError),
    (AlterGroup("t", "g", (("paused", 1),), ("paused",), 1), InvalidArgumentError),
    (AlterGroup("t", "g", (("nack_backoff_ms", 400_000),), (), 1), InvalidArgumentError),
    (DeleteTopic("u", 0, 1), NotFoundError),
    (DeleteTopic("t", 7, 1), NotFoundError),
    (ConfirmRemoved(1, (16,), 1), InvalidArgumentError),
    (PlanMoves(((99, (1,)),), 1), NotFoundError),
    (PlanMoves(((16, ()),), 1), InvalidArgumentError),
    (PlanMoves(((16, (1, 1)),), 1), InvalidArgumentError),
    (PlanMoves(((16, (1,)), (16, (2,))), 1), InvalidArgumentError),
    (PlanMoves(((16, (1, 9)),), 1), ConfigurationChangeError),
    (PlanMoves(((16, (1, 0)),), 1), ConfigurationChangeError),
    (FinishMove(99, 1, 1), NotFoundError),
    (FinishMove(16, 1, 1), ConfigurationChangeError),
    (FinishMove(16, 0, 1), ConfigurationChangeError),
    (SetIncarnation(1, 0, False, 1), InvalidArgumentError),
    (SetIncarnation(9, 7, False, 1), NotFoundError),
    (ConfirmLost(99, 1, 7, 1), NotFoundError),
    (ConfirmLost(16, 1, 7, 1), ConfigurationChangeError),
    (ResizeTopic("u", 1, 1), NotFoundError),
    (ResizeTopic("t", 0, 1), InvalidArgumentError),
    (ResizeTopic("t", 8, 1), InvalidArgumentError),
    (ResizeTopic("t", 4, 1), ConfigurationChangeError),
]


@pytest.mark.parametrize(("command", "error"), BAD_COMMANDS)
def test_invalid_commands_are_refused_and_change_nothing(command, error):
    log = cluster(3)
    log.create("t", 2)
    before = encode(freeze(0, log.machine.state))
    assert type(log.machine.check(command)) is error
    reply = log.command(command)
    assert type(reply) is error
    assert reply.__traceback__ is None
    assert encode(freeze(0, log.machine.state)) == before


@pytest.mark.parametrize("data", [b"", b"\x01", b"\xff" * 100, bytes(40)])
def test_garbage_is_refused_and_changes_nothing(data):
    log = cluster(1)
    before = encode(freeze(0, log.machine.state))
    assert isinstance(log.apply(data), FlotillaError)
    assert encode(freeze(0, log.machine.state)) == before


def test_a_topic_needs_a_broker():
    log = Log()
    assert isinstance(log.command(CreateTopic("t", 1, 1, (), 1)), UnavailableError)


def test_brokers_hold_a_bounded_number_of_replicas():
    log = cluster(1)
    for number in range(NODE_REPLICA_COUNT_MAX // PARTITION_COUNT_MAX - 1):
        assert isinstance(log.create(f"t{number}", PARTITION_COUNT_MAX, 1), Topic)
    assert isinstance(log.create("small", 1, 1), Topic)
    refused = log.command(CreateTopic("large", PARTITION_COUNT_MAX, 1, (), 200))
    assert isinstance(refused, OverloadedError)
    assert "1 brokers hold 7169 replicas" in str(refused)
    assert isinstance(log.command(AlterTopic("small", (), (), PARTITION_COUNT_MAX, 200)), Topic)
    assert isinstance(log.command(CreateTopic("one", 1, 1, (), 200)), OverloadedError)


def test_no_index_is_applied_twice():
    log = cluster(1)
    with pytest.raises(AssertionError):
        log.machine.apply(Entry(log.index, 1, DATA, b""))
    restored = MetadataMachine()
    restored.restore(log.machine.snapshot())
    with pytest.raises(AssertionError):
        restored.apply(Entry(log.index, 1, DATA, b""))


def test_an_unknown_question_is_refused():
    assert isinstance(MetadataMachine().read("?"), InvalidArgumentError)


# Snapshots.


def test_nothing_restores_the_beginning():
    log = cluster(2)
    log.machine.restore(b"")
    assert log.machine.read(StateHash()) == MetadataMachine().read(StateHash())


def test_a_damaged_snapshot_is_refused_and_changes_nothing():
    log = cluster(2)
    log.create("t", 2, max_deliveries=2)
    data = log.machine.snapshot()
    for damaged in (*(data[:cut] for cut in range(1, len(data))), data + b"x", b"\x63" + data[1:]):
        with pytest.raises(CorruptionError):
            log.machine.restore(damaged)
        assert log.machine.snapshot() == data


def test_partitions_of_deleted_topics_that_nobody_removes_are_bounded(monkeypatch):
    log = cluster(3)
    monkeypatch.setattr(rules, "TOMBSTONE_COUNT_MAX", 2)
    assert isinstance(log.command(CreateTopic("one", 2, 1, (), 1)), Topic)
    assert isinstance(log.command(DeleteTopic("one", 0, 2)), Topic)
    assert isinstance(log.command(CreateTopic("two", 1, 1, (), 3)), OverloadedError)
