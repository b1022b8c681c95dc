"""The way in: what is offered, where a request belongs, and the end."""

from inspect import signature
from typing import get_type_hints

import pytest

from flotilla.broker.broker import Broker
from flotilla.broker.cluster.controller import ClusterMembers
from flotilla.broker.cluster.log_copies import LogCopies
from flotilla.broker.cluster.move_plans import MovePlans
from flotilla.broker.cluster.topics import Topics
from flotilla.broker.cluster.transaction_decisions import TransactionDecisions
from flotilla.broker.cluster.upgrades import ClusterUpgrades
from flotilla.broker.observability.pipelines import Pipelines
from flotilla.broker.partition.host import PartitionHost
from flotilla.broker.queue.polls import QueuePolls
from flotilla.broker.queue.requests import QueueRequests
from flotilla.broker.schedules.requests import Schedules
from flotilla.broker.security.requests import Users
from flotilla.broker.stream.coordinator import StreamCoordinator
from flotilla.types.access import ANYBODY
from flotilla.types.errors import NotLeaderError
from flotilla.types.operations import (
    ANY,
    OPERATIONS,
    READ,
    Done,
    Extend,
    Fetch,
    GetMetadata,
    LeaveQueue,
    ListOffsets,
    Metadata,
    Produce,
    Produced,
    Request,
    Stage,
    StageSettlement,
    TransferLeadership,
)
from flotilla.types.operations.cluster import CountPartitions, PartitionCounts
from tests.unit.broker.fleet import Fleet, batch, client_address, single_node, three


class Unheard(Request[Done], to=ANY, effect=READ, needs=ANYBODY):
    """Of a newer version."""


def test_an_unknown_request_is_refused() -> None:
    assert single_node().call(Unheard()).code == "INVALID_ARGUMENT"


def test_every_operation_has_the_method_of_its_name() -> None:
    """The method is found by its name; that it takes this very request is written in its annotation."""
    owners = [Broker, Topics, TransactionDecisions, ClusterMembers, ClusterUpgrades, MovePlans, QueuePolls]
    owners += [StreamCoordinator, Schedules, Users, LogCopies, Pipelines]
    for name, kind in OPERATIONS.items():
        found = [getattr(owner, name) for owner in [*owners, PartitionHost, QueueRequests] if hasattr(owner, name)]
        if kind.is_for_endpoint:
            assert found == []
        else:
            assert [kind] == [get_type_hints(method)[list(signature(method).parameters)[1]] for method in found[:1]]
            assert len(found) == (2 if kind in (Extend, LeaveQueue, Stage, StageSettlement) else 1), name


def test_a_stopping_node_answers_waiting_requests_and_takes_no_more() -> None:
    node = single_node()
    node.fleet.create("t")
    polls = [node.ask(Fetch("t", 0, 0, 1000, wait_ms=60_000)) for _ in range(3)]
    node.is_disk_stuck = True
    stored = node.ask(Produce("t", 0, batch()))
    node.broker.close()
    assert [poll.code for poll in polls] == ["UNAVAILABLE"] * 3
    assert node.ask(Produce("t", 0, batch())).code == "UNAVAILABLE"
    assert node.ask(Unheard()).code == "UNAVAILABLE"
    node.is_disk_stuck = False
    node.fleet.advance(5000)
    assert stored.result == Produced(0), "what was taken is finished"
    assert node.fleet.clock.armed_count == 0
    node.fleet.check_answers()


def test_a_node_without_the_partition_names_one_that_has_it_and_is_up() -> None:
    fleet = Fleet(4).form()
    leader = fleet.create("t")
    replicas = leader.catalog.topic("t").partitions[0].replicas
    stranger = next(box for box in fleet.nodes.values() if box.node not in replicas)
    request = Produce("t", 0, batch())
    assert getattr(stranger.call(request).result, "address", None) == client_address(replicas[0])
    fleet.kill(replicas[0])
    assert getattr(stranger.call(request).result, "address", None) == client_address(replicas[1])
    described = stranger.call(GetMetadata()).result
    assert isinstance(described, Metadata)
    assert described.topics[0].partitions[0].leader == replicas[1]
    assert [broker.node for broker in described.brokers if not broker.is_alive] == [replicas[0]]
    counts = stranger.call(CountPartitions()).result
    assert counts == PartitionCounts(1, 1, 0, {replicas[1]: 1}, dict.fromkeys(replicas, 1))


def test_every_answer_that_another_leads_has_an_address() -> None:
    fleet = three()
    leader = fleet.create("t")
    fleet.advance(1000)
    for box in fleet.nodes.values():
        for request in (Produce("t", 0, batch()), Fetch("t", 0, 0, 1), ListOffsets("t", 0, 0)):
            result = box.call(request).result
            if box is not leader:
                assert isinstance(result, NotLeaderError)
                assert (result.leader, result.address) == (leader.node, client_address(leader.node))


@pytest.mark.parametrize("is_named", [True, False])
def test_leadership_is_handed_over_on_request(is_named: bool) -> None:
    fleet = three()
    old = fleet.create("t")
    heir = next(node for node in fleet.nodes if node != old.node)
    assert old.call(TransferLeadership("t", 0, heir if is_named else 0)).code == "Done"
    fleet.advance(500)
    new = fleet.leader("t")
    assert new is not old
    assert new.node == heir or not is_named
    assert old.call(TransferLeadership("t", 0, old.node)).code == "NOT_LEADER"
    assert new.call(TransferLeadership("t", 0, 99)).code == "INVALID_ARGUMENT"
    assert new.call(TransferLeadership("t", 5)).code == "NOT_FOUND"


def test_leadership_stays_when_no_other_replica_is_up() -> None:
    node = single_node()
    node.fleet.create("t")
    assert node.call(TransferLeadership("t", 0)).code == "UNAVAILABLE"


def test_errors_do_not_collect_traceback_frames() -> None:
    node = single_node()
    node.broker.close()
    results = [node.ask(GetMetadata()).result for _ in range(3)]
    assert [getattr(result, "__traceback__", "none") for result in results] == [None] * 3
