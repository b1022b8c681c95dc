"""Warnings about clocks, as `cluster status` gets them."""

from dataclasses import dataclass

import pytest

from flotilla.broker.clock_warnings import BEHIND_MS_MIN, about, clock_warnings
from flotilla.types.operations.cluster import (
    CLOCK_OFF,
    CLOCKS_DISAGREE,
    RETENTION_BEHIND,
    DescribeNode,
    NodeDescribed,
)
from tests.unit.broker.fleet import Node, three

DAY_MS = 86_400_000


@dataclass
class Partition:
    retention_behind_ms: int


def codes(box: Node) -> list[str]:
    described = box.call(DescribeNode()).result
    assert isinstance(described, NodeDescribed)
    return [warning.code for warning in described.warnings]


@pytest.mark.parametrize("jump_ms", [8 * DAY_MS, -8 * DAY_MS])
def test_a_node_warns_of_its_own_clock_and_the_others_do_not(jump_ms: int) -> None:
    fleet = three()
    fleet.advance(1_000)
    fleet.nodes[2].wall_ahead_ms = jump_ms
    fleet.advance(1_000)
    assert [codes(box) for box in fleet.nodes.values()] == [[], [CLOCK_OFF], []]
    described = fleet.nodes[2].call(DescribeNode()).result
    assert isinstance(described, NodeDescribed)
    side = "ahead of" if jump_ms > 0 else "behind"
    assert f"the clock of node 2 is 8d {side} the time of the cluster" in described.warnings[0].message
    fleet.nodes[2].wall_ahead_ms = 0
    fleet.advance(1_000)
    assert codes(fleet.nodes[2]) == []


def test_all_nodes_warn_when_no_majority_agrees() -> None:
    fleet = three()
    fleet.nodes[2].wall_ahead_ms = DAY_MS
    fleet.nodes[3].wall_ahead_ms = -DAY_MS
    fleet.advance(5_000)
    for box in fleet.nodes.values():
        assert CLOCKS_DISAGREE in codes(box)


def test_retention_that_follows_a_step_is_warned_of() -> None:
    box = three().nodes[1]
    assert clock_warnings(1, box.clock, [Partition(0), Partition(BEHIND_MS_MIN - 1)]) == []
    (found,) = clock_warnings(1, box.clock, [Partition(0), Partition(3 * DAY_MS)])
    assert found.code == RETENTION_BEHIND
    assert "3d of overdue messages" in found.message


@pytest.mark.parametrize(
    ("duration_ms", "text"), [(0, "0ms"), (1_999, "1999ms"), (8_500, "8s"), (DAY_MS, "24h"), (2 * DAY_MS, "2d")]
)
def test_durations_are_told_in_the_largest_unit_of_which_there_are_two(duration_ms: int, text: str) -> None:
    assert about(duration_ms) == text
