"""Moves in the metadata: planned, given up, ended once; and what a lost disk changes."""

import pytest

from flotilla.metadata import move_rules
from flotilla.metadata.commands import ConfirmRemoved, RemoveBroker, SetClusterVersion
from flotilla.metadata.move_commands import ConfirmLost, FinishMove, PlanMoves, ResizeTopic, SetIncarnation
from flotilla.metadata.queries import AssignmentsTo, TombstonesFor
from flotilla.metadata.values import Partition
from flotilla.types.errors import ConfigurationChangeError, OverloadedError, UnavailableError
from flotilla.types.version import RESIZE_BOUNDED
from tests.unit.metadata.entries import Log, cluster, register

GROUP = 16


def placed(brokers: int = 5) -> Log:
    """A partition at nodes 1, 2 and 3."""
    log = cluster(brokers)
    log.create("t", 1, 3)
    return log


def plan(log: Log, *target: int) -> Partition:
    planned = log.command(PlanMoves(((GROUP, target),), 100))
    assert isinstance(planned, list), planned
    return planned[0]


def place(log: Log) -> Partition:
    return log.machine.state.assignments[GROUP].place


def test_target_nodes_host_a_partition_before_they_are_members():
    log = placed()
    plan(log, 1, 2, 4)
    assert place(log).replicas == (1, 2, 3)
    assert place(log).wanted == (1, 2, 4)
    assert GROUP in log.machine.read(AssignmentsTo(4))
    assert log.machine.read(TombstonesFor(3)) == []
    assert not place(log).may_found(4)
    assert place(log).may_found(3)


def test_a_broker_with_replicas_is_not_removed():
    log = placed()
    plan(log, 1, 2, 4)
    for node in (3, 4):
        assert isinstance(log.command(RemoveBroker(node, 5)), ConfigurationChangeError)


def test_the_same_plan_again_is_the_same_move():
    log = placed()
    assert plan(log, 1, 2, 4) == plan(log, 1, 2, 4)
    assert plan(log, 4, 2, 1).move.number > 1


def test_a_plan_that_is_given_up_leaves_its_nodes_their_data_until_it_is_known_that_they_are_no_members():
    log = placed()
    plan(log, 1, 2, 4)
    plan(log, 1, 2, 5)
    assert place(log).hosts == (1, 2, 3, 5, 4)
    back = plan(log, 1, 2, 3)
    assert back.move is not None
    assert set(back.hosts) == {1, 2, 3, 4, 5}
    assert [log.machine.read(TombstonesFor(node)) for node in (4, 5)] == [[], []]
    done = log.command(FinishMove(GROUP, back.move.number, 100))
    assert done == Partition(0, GROUP, (1, 2, 3), founders=(1, 2, 3))
    assert log.machine.state.tombstones[GROUP].waiting == (4, 5)


def test_the_end_of_an_earlier_move_ends_no_later_one():
    log = placed()
    first = plan(log, 1, 2, 4).move.number
    plan(log, 1, 2, 5)
    plan(log, 1, 2, 4)
    assert isinstance(log.command(FinishMove(GROUP, first, 100)), ConfigurationChangeError)
    assert place(log).replicas == (1, 2, 3)


def test_a_founder_that_left_a_partition_never_founds_it_again():
    log = placed()
    log.move(GROUP, (1, 2, 4))
    log.command(ConfirmRemoved(3, (GROUP,), 100))
    log.move(GROUP, (1, 2, 3))
    assert place(log).replicas == (1, 2, 3)
    assert [place(log).may_found(node) for node in (1, 2, 3)] == [True, True, False]


def test_a_lost_disk_is_lost_in_every_group_and_each_says_when_it_is_over():
    log = placed()
    log.create("u", 2, 3)
    assert log.command(SetIncarnation(1, 7, False, 50)).incarnation == 7
    held = log.machine.read(AssignmentsTo(1))
    assert not any(found.place.lost for found in held.values()), "the first word about a disk is no loss"
    log.command(SetIncarnation(1, 8, True, 50))
    held = log.machine.read(AssignmentsTo(1))
    assert held
    for group, found in held.items():
        assert found.place.lost == (1,)
        assert not found.place.may_found(1)
        assert isinstance(log.command(ConfirmLost(group, 1, 7, 60)), ConfigurationChangeError), "an earlier loss"
        assert log.command(ConfirmLost(group, 1, 8, 60)) is None
        assert isinstance(log.command(ConfirmLost(group, 1, 8, 60)), ConfigurationChangeError), "once is enough"
        assert log.machine.state.assignments[group].place.lost == ()


def test_the_same_disk_is_not_lost_twice():
    log = placed()
    log.command(SetIncarnation(1, 8, True, 50))
    log.command(ConfirmLost(GROUP, 1, 8, 60))
    log.command(SetIncarnation(1, 8, True, 70))
    assert place(log).lost == ()


def test_other_data_under_a_known_id_is_refused_unless_it_says_that_it_is_new():
    log = placed()
    log.command(SetIncarnation(1, 7, False, 50))
    assert isinstance(log.command(SetIncarnation(1, 8, False, 50)), ConfigurationChangeError)
    assert log.machine.state.brokers[1].incarnation == 7


def test_a_lost_node_that_is_moved_away_is_not_lost_any_more():
    log = placed()
    log.command(SetIncarnation(3, 8, True, 50))
    assert log.move(GROUP, (1, 2, 4)).lost == ()
    assert log.machine.state.tombstones[GROUP].waiting == (3,)


@pytest.mark.parametrize(
    ("factor", "expected"), [(1, (1,)), (2, (1, 2)), (3, (1, 2, 3)), (4, (1, 2, 3, 4)), (5, (1, 2, 3, 4, 5))]
)
def test_another_replication_factor_plans_the_moves(factor, expected):
    log = placed()
    topic = log.command(ResizeTopic("t", factor, 100))
    assert topic.replication_factor == factor
    assert topic.partitions[0].wanted == expected
    assert topic.partitions[0].replicas == (1, 2, 3)


def test_a_larger_factor_whose_replicas_would_be_too_many_is_refused(monkeypatch):
    monkeypatch.setattr(move_rules, "NODE_REPLICA_COUNT_MAX", 4)
    log = cluster(3)
    log.create("t", 5, 1)
    # As nodes of an earlier program do, which know no better.
    assert log.machine.state.cluster_version < RESIZE_BOUNDED
    assert log.command(ResizeTopic("t", 3, 100)).replication_factor == 3
    log = cluster(3)
    log.command(SetClusterVersion(RESIZE_BOUNDED, (1, 2, 3), 1))
    log.create("t", 5, 1)
    refused = log.command(ResizeTopic("t", 3, 100))
    assert isinstance(refused, OverloadedError)
    assert "3 brokers hold 5 replicas; with 10 more" in str(refused)
    assert log.command(ResizeTopic("t", 2, 100)).replication_factor == 2
    # Nothing is added, although there would be no room for it.
    assert log.command(ResizeTopic("t", 1, 100)).replication_factor == 1


def test_replicas_that_are_still_being_removed_come_back_later():
    log = placed(3)
    log.command(ResizeTopic("t", 1, 100))
    log.command(FinishMove(GROUP, place(log).move.number, 100))
    assert isinstance(log.command(ResizeTopic("t", 3, 100)), UnavailableError)
    log.command(ConfirmRemoved(2, (GROUP,), 100))
    log.command(ConfirmRemoved(3, (GROUP,), 100))
    assert log.command(ResizeTopic("t", 3, 100)).partitions[0].wanted == (1, 2, 3)


def test_a_narrow_partition_is_widened_by_the_factor_that_it_should_have_had():
    log = cluster(1)
    log.create("t", 2, 3)
    for node in (2, 3):
        log.command(register(node))
    topic = log.command(ResizeTopic("t", 3, 100))
    assert [partition.wanted for partition in topic.partitions] == [(1, 2, 3), (1, 2, 3)]
