"""A few deliberate bugs of the whole product are caught within a few seeds. `make mutants` tries all of them."""

import pytest

from flotilla.sim.whole.mutants.table import WHOLE_MUTANTS
from flotilla.sim.whole.swarm import find_catch, mutant_order, run_whole_seed

#: With the promise that breaks.
QUICK = {
    "fetch-unconfirmed": "a linearizable read shows what was acknowledged",
    "dial-once": "all replicas converge",
    "bury-unarrived": "dead-lettered once",
}
#: Those that a model notices soon after they have done harm, so that a run is short.
SOON = {
    "lease-again": "one live lease",
    "always-first": "attempts are counted",
    "come-early": "never early",
    "two-of-a-key": "order by key",
    "forget-keys": "stored once",
    "share-views": "equal states",
    "claim-in-vain": "equal states",
    "restore-no-fences": "snapshot equals replay",
    "give-at-once": "given up before given away",
    "share-an-epoch": "one owner per generation",
    "touch-everything": "what stays is not touched",
    "forget-the-leaver": "every partition has an owner",
    "to-the-first": "the spread is even",
    "deal-anew": "the fewest moves",
    "judge-at-once": "every member has a session",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_caught(name: str) -> None:
    caught = find_catch(name, range(1, 9), workers=1)
    assert caught is not None, f"{WHOLE_MUTANTS[name].mistake}, and no judge noticed"
    assert caught.promise == QUICK[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", SOON)
def test_caught_soon(name: str) -> None:
    runs = (run_whole_seed(seed, mutant_order(name)) for seed in range(1, 4))
    assert next((run.promise for run in runs if not run.is_good), "") == SOON[name]
