"""A few deliberate bugs are caught within a few seeds. `make mutants` tries all of them."""

import pytest

from flotilla.raft.node import RaftNode
from flotilla.sim.mutants import MUTANTS, applied
from flotilla.sim.swarm import Order, run_swarm

#: Which promises each of them may break first, among the quick ones.
QUICK = {
    "forget-vote": ("durable before send",),
    "half-votes": ("leader by majority",),
    "send-before-sync": ("durable before send",),
    "fewer-copies": ("durable before commit",),
    "two-changes": ("one change at a time",),
    "snapshot-behind": ("applied once, in order", "equal states"),
    "local-read": ("linearizable history",),
}


@pytest.mark.parametrize("name", QUICK)
def test_caught(name: str) -> None:
    totals = run_swarm(range(1, 21), Order(mutant=name, ticks=1000), workers=1, failures_max=1)
    assert totals.failures, f"{MUTANTS[name].mistake}, and nobody noticed"
    assert totals.failures[0].promise in QUICK[name]


def test_a_mutant_is_gone_afterwards() -> None:
    before = RaftNode.ready
    with applied("send-before-sync"):
        assert RaftNode.ready is not before
    assert RaftNode.ready is before


def test_there_are_enough_of_them() -> None:
    assert len(MUTANTS) >= 12
