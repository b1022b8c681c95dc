"""A few deliberate bugs are caught within a few seeds. `make mutants` tries all of them."""

import pytest

from flotilla.raft.node import RaftNode
from flotilla.sim.mutants.mutants import MUTANTS, applied
from flotilla.sim.swarm import Order, run_swarm

#: Which promises each of them may break first, among the quick ones.
QUICK = {
    "forget-vote": ("durable before send",),
    "vote-twice": ("one vote per term",),
    "drop-vote": ("durable before send", "one vote per term"),
    "half-votes": ("leader by majority",),
    "send-before-sync": ("durable before send",),
    "drop-doubtful": ("durable after crash", "one bad sector costs no node"),
    "one-directory": ("one bad sector costs no node",),
    "fewer-copies": ("durable before commit",),
    "forget-truncation": ("durable after crash",),
    "two-changes": ("one change at a time",),
    "half-joint": ("durable before commit", "leader by majority"),
    "snapshot-behind": ("applied once, in order", "equal states"),
    "local-read": ("linearizable history",),
    "apply-again": ("applied once, in order", "equal states"),
    "count-forgotten": ("progress after healing", "replicas converge"),
    "read-error-ends": ("StorageFailedError",),
    "step-down-unnoticed": ("progress after healing", "replicas converge"),
}
#: Faults that bring about what a mutant takes, where the drawn ones seldom do.
AIMED = {
    "drop-doubtful": ("rot", "crash"),
    "one-directory": ("rot", "crash"),
    "count-forgotten": ("put-back",),
    "forget-truncation": ("one-way", "isolate", "blackout"),
    "half-joint": ("membership", "isolate"),
}


@pytest.mark.parametrize("name", QUICK)
def test_caught(name: str) -> None:
    order = Order(mutant=name, ticks=1000, faults=AIMED.get(name))
    totals = run_swarm(range(1, 21), order, workers=1, failures_max=1)
    assert totals.failures, f"{MUTANTS[name].mistake}, and no checker noticed"
    assert totals.failures[0].promise in QUICK[name]


def test_a_mutant_is_gone_afterwards() -> None:
    before = RaftNode.ready
    with applied("send-before-sync"):
        assert RaftNode.ready is not before
    assert RaftNode.ready is before


def test_there_are_enough_mutants() -> None:
    assert len(MUTANTS) >= 12
