"""A leader of the metadata whom a member does not know: the member hears of it from another leader."""

from collections.abc import Callable

import pytest

from flotilla.broker.catalog import METADATA_GROUP
from flotilla.raft import reasons
from flotilla.raft.roles import LEADER
from tests.unit.broker.cluster.test_moves import lose
from tests.unit.broker.cluster.test_registration import grow, voters
from tests.unit.broker.fleet import Fleet, Node


def came_back_on_an_empty_disk(fleet: Fleet) -> Node:
    box = lose(fleet, 3)
    fleet.wait(lambda: 3 in voters(fleet.controller()) and not box.membership.is_replaced)
    return box


def joined(fleet: Fleet) -> Node:
    return grow(fleet, 5)


@pytest.mark.parametrize(("nodes", "arrive"), [(5, came_back_on_an_empty_disk), (4, joined)])
def test_a_member_that_was_away_hears_of_the_leader_from_another_one(
    nodes: int, arrive: Callable[[Fleet], Node]
) -> None:
    fleet = Fleet(nodes).form()
    away = fleet.nodes[1]
    fleet.isolate(away.node)
    fleet.wait(lambda: fleet.controller() is not away)
    unknown = arrive(fleet)
    if fleet.controller() is not unknown:
        fleet.controller().transfer(METADATA_GROUP, unknown.node, reasons.OPERATOR)
        fleet.wait(lambda: fleet.controller() is unknown)
    fleet.heal(away.node)
    assert unknown.is_unknown_to(away.node)
    fleet.wait(lambda: not unknown.is_unknown_to(away.node))
    replica = unknown.replica(METADATA_GROUP)
    assert replica is not None
    assert replica.raft.role != LEADER
    assert replica.raft.leadership.counts[False, reasons.NOT_KNOWN] == 1
    # It stays so: nobody has a reason to hand over once more.
    leader = fleet.controller()
    fleet.advance(10_000)
    assert fleet.controller() is leader
