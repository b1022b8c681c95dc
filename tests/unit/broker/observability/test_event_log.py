"""The event log of a node: one line for each kind of change between two looks, however many changed."""

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from flotilla.broker.observability.event_log import EventLog
from flotilla.raft import reasons
from flotilla.raft.roles import FOLLOWER, LEADER
from flotilla.types.operations import CreateTopic
from tests.unit.broker.fleet import Fleet, Node, client_address, single_node, three

Lines = list[tuple[str, dict[str, Any]]]


class Reader:
    """What was written since the last look."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO, "flotilla.cluster")
        self._caplog = caplog

    def take(self) -> Lines:
        taken = [(record.message, record.fields) for record in self._caplog.records]  # type: ignore[attr-defined]
        self._caplog.clear()
        for _, fields in taken:
            del fields["node"]
        return taken


@pytest.fixture
def reader(caplog: pytest.LogCaptureFixture) -> Reader:
    return Reader(caplog)


def chronicle_of(box: Node) -> EventLog:
    return EventLog(box.node, box.catalog, box.driver.replicas, box.driver.repaired, box.stalled, box.clock)


def test_changes_of_leadership_are_logged_by_name(reader: Reader) -> None:
    node = single_node()
    chronicle = chronicle_of(node)
    chronicle.look()
    assert reader.take() == [
        ("leads", {"count": 1, "partitions": ["__metadata/0"], "reason": "started", "leading": 1}),
        ("the cluster is known", {"cluster": "test", "cluster_id": node.catalog.cluster_id, "members": [1]}),
    ]
    node.fleet.create("orders", 2)
    node.fleet.advance(1000)
    chronicle.look()
    chronicle.look()
    fields = {"count": 2, "partitions": ["orders/0", "orders/1"], "reason": "started", "leading": 3}
    assert reader.take() == [("leads", fields)]
    replica = node.partition("orders", 1).replica
    replica.raft.step_down(reasons.FAILING_DISK)
    chronicle.look()
    fields = {"count": 1, "partitions": ["orders/1"], "reason": "failing_disk", "leading": 2}
    assert reader.take() == [("leads no longer", fields)]


def test_a_replica_that_forgot_is_reported_once(reader: Reader) -> None:
    node = single_node()
    events = chronicle_of(node)
    events.look()
    reader.take()
    node.replica(1).raft.forgotten_counts[3] = 1  # type: ignore[union-attr]
    events.look()
    events.look()
    text = "a replica has lost entries that it had acknowledged; it learns them again as a learner"
    assert reader.take() == [(text, {"peer": 3, "count": 1, "partitions": ["__metadata/0"]})]


def test_a_disk_that_does_not_return_reads_is_named_with_its_files(reader: Reader) -> None:
    node = single_node()
    stalled = {1: "groups/1/a.seg"}
    events = EventLog(1, node.catalog, node.driver.replicas, {}, lambda: stalled, node.clock)
    events.look()
    events.look()
    fields = {"count": 1, "partitions": ["__metadata/0"]}
    hung = ("the disk does not return reads", {**fields, "paths": ["groups/1/a.seg"]})
    assert [line for line in reader.take() if "disk" in line[0]] == [hung]
    stalled.clear()
    events.look()
    assert reader.take() == [("the disk returns reads again", fields)]


def test_a_failover_of_many_partitions_writes_few_lines(reader: Reader) -> None:
    fleet = three()
    assert fleet.controller().call(CreateTopic("t", 60)).code == "TopicReply"
    fleet.leader("t", 59)
    fleet.advance(2000)
    chronicles = {node: chronicle_of(box) for node, box in fleet.nodes.items()}
    for chronicle in chronicles.values():
        chronicle.look()
    reader.take()
    fleet.kill(1)
    lines: Lines = []
    for _ in range(20):
        fleet.advance(500)
        for node in (2, 3):
            chronicles[node].look()
        lines += reader.take()
    taken = sum(fields["count"] for event, fields in lines if event == "leads")
    assert taken >= 20, "a third of the partitions has another leader now"
    assert len(lines) < 20
    assert all(len(fields["partitions"]) <= 10 for _, fields in lines)


def test_a_thousand_partitions_are_one_line_in_each_direction(reader: Reader) -> None:
    box = single_node()
    rafts = {
        group: SimpleNamespace(
            role=FOLLOWER, damaged=[], forgotten_counts={}, leadership=SimpleNamespace(latest=reasons.LOST_LINK)
        )
        for group in range(100, 1100)
    }
    replicas: Any = {group: SimpleNamespace(raft=raft) for group, raft in rafts.items()}
    chronicle = EventLog(1, box.catalog, replicas, {}, box.stalled, box.clock)
    chronicle.look()
    reader.take()
    for role in (LEADER, FOLLOWER):
        for raft in rafts.values():
            raft.role = role
        chronicle.look()
        [(event, fields)] = reader.take()
        assert (event, fields["count"]) == ("leads" if role == LEADER else "leads no longer", 1000)
        assert len(fields["partitions"]) == 10


def test_repairs_are_logged_when_they_begin_and_end(reader: Reader) -> None:
    node = single_node()
    node.fleet.create("orders")
    replica = node.partition("orders").replica
    chronicle = chronicle_of(node)
    chronicle.look()
    reader.take()
    replica.raft.damaged = [(3, 5)]
    chronicle.look()
    chronicle.look()
    assert reader.take() == [("repair begun", {"count": 1, "partitions": ["orders/0"]})]
    replica.raft.damaged = []
    node.driver.repaired[replica.group] = 2
    chronicle.look()
    chronicle.look()
    assert reader.take() == [("repair ended", {"count": 1, "partitions": ["orders/0"], "entries": 2})]


def test_a_repair_between_two_looks_is_logged(reader: Reader) -> None:
    node = single_node()
    node.fleet.create("orders")
    chronicle = chronicle_of(node)
    chronicle.look()
    reader.take()
    node.driver.repaired[node.partition("orders").group] = 7
    chronicle.look()
    begun, ended = reader.take()
    assert begun == ("repair begun", {"count": 1, "partitions": ["orders/0"]})
    assert ended == ("repair ended", {"count": 1, "partitions": ["orders/0"], "entries": 7})


def test_changes_of_members_are_logged(reader: Reader) -> None:
    fleet = Fleet(1).form()
    chronicle = chronicle_of(fleet.nodes[1])
    chronicle.look()
    reader.take()
    fleet.add(2)
    fleet.let_in(2)
    fleet.wait(lambda: 2 in fleet.nodes[1].catalog.brokers())
    chronicle.look()
    assert reader.take() == [("member added", {"member": 2, "address": client_address(2)})]
    fleet.nodes[1].catalog.machine.state.brokers.pop(2)
    chronicle.look()
    assert reader.take() == [("member removed", {"member": 2})]


def test_a_node_that_starts_again_does_not_log_old_members(reader: Reader) -> None:
    fleet = three()
    for node in fleet.nodes:
        fleet.kill(node)
    chronicles = [chronicle_of(fleet.restart(node)) for node in fleet.nodes]
    for _ in range(50):
        for chronicle in chronicles:
            chronicle.look()
        fleet.advance(100)
    lines = [(event, fields.get("members")) for event, fields in reader.take() if "lead" not in event]
    assert lines == [("the cluster is known", [1, 2, 3])] * 3


def test_a_jump_of_the_own_clock_is_logged_once_and_so_is_its_return(reader: Reader) -> None:
    fleet = three()
    box = fleet.nodes[1]
    chronicle = chronicle_of(box)
    chronicle.look()
    reader.take()
    box.wall_ahead_ms = 8 * 86_400_000
    fleet.advance(1_000)
    chronicle.look()
    chronicle.look()
    assert [event for event, _ in reader.take()] == ["this node's wall clock jumped; it is not followed"]
    box.wall_ahead_ms = 0
    fleet.advance(1_000)
    chronicle.look()
    assert [event for event, _ in reader.take()] == ["this node's wall clock agrees with the cluster again"]
