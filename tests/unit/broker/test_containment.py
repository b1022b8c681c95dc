"""A failure in the broker's code of one partition stays there: other partitions, nodes and checks go on."""

from typing import Any

import pytest

from flotilla.broker.partition.host import PartitionHost
from flotilla.types.errors import NotLoadedError, StorageFailedError
from flotilla.types.ids import GroupId
from flotilla.types.operations import CreateTopic, Fetch, Fetched, Produce, Produced
from tests.unit.broker.fleet import Fleet, Node, batch, single_node, three


def group_of(node: Node, topic: str, partition: int = 0) -> GroupId:
    return node.catalog.topic(topic).partitions[partition].group


def contained(fleet: Fleet) -> Fleet:
    for box in fleet.nodes.values():
        box.is_containing = True
    return fleet


def plant(host: PartitionHost, name: str, failure: Exception) -> None:
    def fail(*args: object) -> None:
        raise failure

    setattr(host, name, fail)


@pytest.mark.parametrize("method", ["check", "_applied"])
def test_another_replica_leads_what_failed_here_and_the_rest_stays(method: str) -> None:
    fleet = contained(three())
    leader = fleet.create("bad")
    fleet.create("good", 3)
    group = group_of(leader, "bad")
    host = leader.membership.hosts[group]
    plant(host, method, ZeroDivisionError("a bug"))
    if method == "_applied":
        host.machine.on_applied = host._applied
        leader.ask(Produce("bad", 0, batch()))
    fleet.advance(5_000)
    assert list(leader.driver.failed) == [group]
    assert group not in leader.membership.hosts
    other = fleet.leader("bad")
    assert other is not leader
    assert other.call(Produce("bad", 0, batch())).code == "Produced"
    for number in range(3):
        assert fleet.leader("good", number).call(Produce("good", number, batch())).result == Produced(0)
    # The node takes part again after its next start, and has missed nothing.
    fleet.kill(leader.node)
    fleet.restart(leader.node).is_containing = True
    fleet.advance(5_000)
    behind, ahead = (box.replica(group) for box in (leader, fleet.leader("bad")))
    assert behind is not None
    assert ahead is not None
    assert behind.applied == ahead.applied
    fleet.check_answers()


def test_waiting_requests_of_a_group_that_fails_are_answered() -> None:
    node = single_node()
    contained(node.fleet)
    node.fleet.create("bad")
    poll = node.ask(Fetch("bad", 0, 0, 1_000, wait_ms=60_000))
    write = node.ask(Produce("bad", 0, batch()))
    node.fail(group_of(node, "bad"), ZeroDivisionError("a bug"))
    node.fleet.settle()
    assert (poll.code, write.code) == ("UNAVAILABLE", "OUTCOME_UNKNOWN")
    assert node.call(Produce("bad", 0, batch())).code == "UNAVAILABLE"


def test_a_timer_that_fails_cuts_off_its_partition() -> None:
    node = single_node()
    contained(node.fleet)
    node.fleet.create("bad")
    node.fleet.create("good")

    def fail() -> None:
        raise ZeroDivisionError("a bug")

    node.partition("bad")._outside.later(10, fail)
    node.fleet.advance(200)
    assert list(node.driver.failed) == [group_of(node, "bad")]
    assert node.call(Produce("good", 0, batch())).result == Produced(0)


def test_an_error_of_a_file_ends_one_leadership_and_the_next_begins_afresh() -> None:
    node = single_node()
    node.fleet.create("t")
    term = node.partition("t").replica.raft.term

    def fail() -> None:
        raise StorageFailedError("open groups/7/1.seg: Too many open files")

    node.partition("t")._outside.later(10, fail)
    node.fleet.advance(5_000)
    assert node.driver.failed == {}
    assert node.fleet.leader("t").partition("t").replica.raft.term > term
    assert node.call(Produce("t", 0, batch())).result == Produced(0)


def test_a_log_that_is_being_loaded_is_no_error() -> None:
    node = single_node()
    node.fleet.create("t")
    term = node.partition("t").replica.raft.term

    def fail() -> None:
        raise NotLoadedError(group_of(node, "t"))

    node.partition("t")._outside.later(10, fail)
    node.fleet.advance(2_000)
    assert node.partition("t").replica.raft.term == term


def test_a_partition_that_cannot_begin_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    node = single_node()
    contained(node.fleet)
    host = node.host

    def refuse_odd(group: GroupId, *args: Any) -> None:
        if group % 2:
            raise StorageFailedError("open: Permission denied")
        host(group, *args)

    monkeypatch.setattr(node, "host", refuse_odd)
    node.call(CreateTopic("t", 4))
    node.fleet.advance(2_000)
    assert (len(node.membership.hosts), len(node.driver.failed)) == (2, 2)
    for number in (number for number in range(4) if group_of(node, "t", number) in node.membership.hosts):
        assert node.call(Produce("t", number, batch())).result == Produced(0)
        assert isinstance(node.call(Fetch("t", number, 0, 1_000)).result, Fetched)


def test_a_check_that_fails_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    node = single_node()
    node.fleet.create("t")
    checked: list[str] = []

    def fail(*args: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(node.membership.moves, "check", fail)
    monkeypatch.setattr(node.membership.streams, "check", lambda: checked.append("streams"))
    node.fleet.advance(1_000)
    assert checked
