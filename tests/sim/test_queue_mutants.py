"""A few deliberate bugs of the queue code are caught within a few seeds. `make mutants` tries all of them."""

import pytest

from flotilla.sim.mutants.mutants import MUTANTS
from flotilla.sim.plans.run import QUEUE
from flotilla.sim.swarm import Order, run_swarm

#: Which promises each of them may break first, among the quick ones.
QUICK = {
    "lease-again": ("one live lease",),
    "always-first": ("attempts are counted",),
    "one-more-attempt": ("attempts are counted",),
    "come-early": ("never early",),
    "fresh-tokens": ("rate is kept",),
    "two-of-a-key": ("order by key",),
    "forget-keys": ("stored once",),
    "ack-or-fail": ("nothing is forgotten",),
    "show-at-once": ("equal states",),
    "share-views": ("equal states",),
    "drop-by-age": ("whole or not at all",),
    "commit-again": ("stored once",),
    "last-decision": ("whole or not at all",),
    "forget-staged-acks": ("staged is held back",),
    "no-grace": ("leases outlive their leader", "one leader leases"),
    "answer-cut-off": ("cut off is silent",),
    "own-clock": ("never early",),
    "own-retention": ("acknowledged and young is there", "sequences are remembered"),
}


@pytest.mark.parametrize("name", QUICK)
def test_caught(name: str) -> None:
    order = Order(mutant=name, ticks=500, workload=QUEUE)
    totals = run_swarm(range(1, 21), order, workers=1, failures_max=1)
    assert totals.failures, f"{MUTANTS[name].mistake}, and no checker noticed"
    assert totals.failures[0].promise in QUICK[name]


def test_there_are_enough_mutants() -> None:
    assert sum(1 for mutant in MUTANTS.values() if mutant.workload == QUEUE) >= 8
