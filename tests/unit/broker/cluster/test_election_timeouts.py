"""Nodes with different election timeouts, as while the setting is changed node by node."""

from dataclasses import replace

import pytest

from flotilla.types.operations.cluster import TIMING_DIFFERS, DescribeNode, NodeDescribed
from flotilla.types.timing import Timing
from tests.unit.broker.fleet import Fleet, three

OWN_MS = Timing().election_timeout_ms
LONG_MS = 10_000


def warnings(fleet: Fleet) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    for box in fleet.nodes.values():
        reply = box.call(DescribeNode()).result
        assert isinstance(reply, NodeDescribed)
        found += [(each.node, each.message) for each in reply.warnings if each.code == TIMING_DIFFERS]
    return found


def test_the_leader_of_the_metadata_names_the_nodes_that_differ() -> None:
    fleet = three()
    assert warnings(fleet) == []
    fleet.election_timeouts = dict.fromkeys(fleet.nodes, OWN_MS)
    assert warnings(fleet) == []
    controller = fleet.controller().node
    other = next(node for node in fleet.nodes if node != controller)
    fleet.election_timeouts[other] = LONG_MS
    [(node, message)] = warnings(fleet)
    assert node == controller
    assert f"{LONG_MS} on node {other}" in message
    alike = ", ".join(str(each) for each in sorted(fleet.nodes) if each != other)
    assert f"{OWN_MS} on node {alike}" in message


def test_the_log_names_each_difference_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("WARNING", logger="flotilla.cluster")
    fleet = three()
    fleet.election_timeouts = {1: LONG_MS}
    fleet.advance(3_000)

    def lines() -> list[str]:
        return [record.fields["values"] for record in caplog.records if "election timeouts" in record.message]

    # One of each node that has heard of it.
    assert sorted(lines()) == [f"{LONG_MS} on node 1; {OWN_MS} on node {node}" for node in (2, 3)]
    fleet.election_timeouts = {}
    fleet.advance(3_000)
    fleet.election_timeouts = {1: LONG_MS}
    fleet.advance(3_000)
    assert len(lines()) == 4


def test_members_have_the_longest_election_timeout_to_present_their_leases() -> None:
    fleet = three()
    timeouts = fleet.nodes[1].membership.election_timeouts
    assert timeouts.grace_ms() == Timing().grace_ms
    fleet.election_timeouts = {2: LONG_MS, 3: 400}
    assert timeouts.grace_ms() == replace(Timing(), election_timeout_ms=LONG_MS).grace_ms
    # That of a leader which is cut off counts as well.
    fleet.isolate(2)
    assert timeouts.grace_ms() == 2 * LONG_MS
    fleet.election_timeouts = {3: 400}
    assert timeouts.grace_ms() == Timing().grace_ms
