"""Everything that grows in replicated state stands in the reference of limits, with its bound."""

import re
from dataclasses import fields

import pytest

from flotilla.metadata import applications, ended_transactions
from flotilla.metadata import transactions as decisions
from flotilla.metadata.snapshot import Snapshot
from flotilla.metadata.state import ClusterState
from flotilla.partition.state import endings, transactions
from flotilla.partition.state.group import GroupState
from flotilla.partition.state.snapshot import Contents
from flotilla.types import limits, topics
from flotilla.types.operations import stream
from tests.tidy.test_docs import MARKDOWN, shown

PAGE = "docs/reference/limits.md"
PARTITION, CLUSTER = "State of a partition", "State of the cluster"


def items(title: str) -> list[str]:
    """The items of the list under a title."""
    section = MARKDOWN[PAGE].split(f"## {title}\n", 1)[1].split("\n## ", 1)[0]
    return [line for line in section.splitlines() if line.startswith("- ")]


def growing(state: object, names: tuple[str, ...]) -> set[str]:
    """Attributes that are no plain numbers or small records."""
    simple = ("Totals", "Cluster", "int")
    return {name for name in names if type(getattr(state, name)).__name__ not in simple}


EXPECTED = {
    PARTITION: {field.name for field in fields(Contents)} - {"counters"}
    | growing(GroupState(0, 1), GroupState.__slots__),
    # Everything else of the state is an index of these.
    CLUSTER: growing(ClusterState(), ClusterState.__slots__) & {*Snapshot._fields, "streams"},
}


@pytest.mark.parametrize("title", EXPECTED)
def test_everything_that_grows_has_a_bound(title: str) -> None:
    named = {name for item in items(title) for name in re.findall(r"`([a-z_]+)`", item.split(":", 1)[0])}
    assert named == EXPECTED[title]


def test_the_bounds_are_those_of_the_code() -> None:
    values: dict[str, int] = {}
    for module in (limits, topics, endings, transactions, decisions, ended_transactions, applications, stream):
        values |= {name: value for name, value in vars(module).items() if name.endswith("_MAX")}
    for item in [*items(PARTITION), *items(CLUSTER)]:
        for name in re.findall(r"`([A-Z_]+_MAX)`", item):
            assert shown(name, values[name]) in item, f"{name} is {values[name]}"
